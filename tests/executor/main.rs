//! Laws of the executor, under circumstances that are as bad as can be had: schedules that are
//! shaken, faults at every place in turn, passes inside passes, leaves that wait for the outside.
//!
//! `DL_SWEEP=1` tries far more of them.

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

// the main example's network and its data, as they are
#[path = "../../examples/common/digits.rs"]
mod digits;
#[path = "../../examples/gated_net/network.rs"]
mod network;
