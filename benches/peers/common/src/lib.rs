//! What the programs of the comparison have in common: the numbers that they compute with, how they
//! are timed, and what they print.
//!
//! The peers use it as a crate, the benchmark `figures` as a module. `python/common.py` says the
//! same in Python.

mod bench;
mod numbers;
mod timing;

pub use bench::{Bench, Row};
pub use numbers::{Node, Numbers, PRODUCTS, SAMPLES, WEIGHTS, coarse_labels, fine_labels, labels, tree};
pub use timing::Pace;
