//! Common code of the programs of the comparison: input numbers, timing, output.
//!
//! The peers use it as a crate, the benchmark `figures` as a module. `python/common.py` is the
//! equivalent in Python.

mod bench;
mod numbers;
mod timing;

pub use bench::{Bench, Row};
pub use numbers::{Node, Numbers, PRODUCTS, SAMPLES, WEIGHTS, coarse_labels, fine_labels, labels, tree};
pub use timing::Pace;
