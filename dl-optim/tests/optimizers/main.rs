//! Optimizers, their parts and their schedules: against PyTorch's (`reference/optimizers.py`), and
//! for what they promise.

mod parts;
mod problem;
mod schedules;
mod state;
mod trajectories;

use serde_json::Value;

/// A section of what PyTorch has computed.
fn reference(section: &str) -> Value {
    let mut all: Value = serde_json::from_str(include_str!("../reference/optimizers.json")).expect("JSON");
    all[section].take()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}
