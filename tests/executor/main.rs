//! Tests of the executor under adverse conditions: randomized schedules, fault injection at every
//! site, nested passes, futures that wait for external events.
//!
//! `DL_SWEEP=1` runs more cases.

mod atomicity;
mod chains;
mod corners;
mod crews;
mod crowd;
mod deadlock;
mod destructors;
mod determinism;
mod fragile;
mod fuse;
mod nested_steps;
mod nets;
mod outside;
mod panics;
mod shake;
mod state;
mod support;
mod wakes;

// the network and the data of the main example
#[path = "../../examples/common/digits.rs"]
mod digits;
#[path = "../../examples/gated_net/network.rs"]
mod network;
