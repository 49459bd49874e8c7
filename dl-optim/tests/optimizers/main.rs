//! Optimizers, gradient transformations and schedules: comparison with PyTorch
//! (`reference/optimizers.py`), and their guarantees.

mod lbfgs;
mod parts;
mod problem;
mod schedules;
mod state;
mod trajectories;

use serde_json::Value;

/// A section of the results of PyTorch.
fn reference(section: &str) -> Value {
    let mut all: Value = serde_json::from_str(include_str!("../reference/optimizers.json")).expect("JSON");
    all[section].take()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}
