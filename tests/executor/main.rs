//! Tests of the executor under adverse conditions: randomized schedules, fault injection at every
//! site, nested passes, futures that wait for external events.
//!
//! `DL_SWEEP=1` runs more cases.

mod atomicity;
mod chains;
mod concurrent_passes;
mod deadlock;
mod destructors;
mod determinism;
mod external_events;
mod fault_injection;
mod jitter;
mod nested_steps;
mod nets;
mod panicking;
mod panics;
mod parallel_regions;
mod regressions;
mod state;
mod support;
mod wake_ups;

// the network and the data of the main example
#[path = "../../examples/common/digits.rs"]
mod digits;
#[path = "../../examples/gated_net/network.rs"]
mod network;
