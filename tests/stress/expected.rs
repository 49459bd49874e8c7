//! The results of the reference for a graph, and their bitwise comparison with those of the
//! library.

use super::backward::Trained;
use super::build::Built;
use super::graph::Graph;
use super::kernels::planned;
use super::numbers::{Failure, Value};
use super::reference::Pass;
use dl::{Chunk, Error, Optimizer, Result};
use std::sync::{Arc, Mutex};

/// The outcome of a test. An error describes the difference.
pub(crate) type Verdict = std::result::Result<(), String>;

/// The results of the passes from one root, and the number of kernels that they evaluate.
pub(crate) struct Expected {
    pub(crate) predicted: std::result::Result<Value, Failure>,
    pub(crate) trained: std::result::Result<Trained, Failure>,
    pub(crate) kernels_of_predict: usize,
    pub(crate) kernels_of_train: usize,
}

impl Expected {
    pub(crate) fn of(graph: &Graph, weights: &[Value], root: usize) -> Expected {
        let (mut predict, seen) = Pass::new(graph, weights, true);
        let predicted = predict.value(seen[root]);
        let (mut train, seen) = Pass::new(graph, weights, false);
        let trained = train.train(seen[root]);
        let (kernels_of_predict, kernels_of_train) = (predict.kernels(), train.kernels());
        Expected { predicted, trained, kernels_of_predict, kernels_of_train }
    }

    pub(crate) fn judge_predicted(&self, built: &Built, found: Result<f64>) -> Verdict {
        match (&self.predicted, found) {
            (Ok(value), Ok(found)) => same("value", &value.elements(), &[found]),
            (Err(failure), Err(error)) => same_failure(built, failure, &error),
            (expected, found) => Err(format!("predicted {found:?} instead of {expected:?}")),
        }
    }

    /// `deltas` are those that a [`Recorder`] has recorded.
    pub(crate) fn judge_trained(&self, built: &Built, found: Result<f64>, deltas: &[f64]) -> Verdict {
        match (&self.trained, found) {
            (Ok(trained), Ok(found)) => {
                same("value", &trained.value.elements(), &[found])?;
                self.judge_deltas(deltas)
            }
            (Err(failure), Err(error)) => {
                same_failure(built, failure, &error)?;
                same("deltas of a failing step", &[], deltas)
            }
            (expected, found) => Err(format!("trained to {found:?} instead of {expected:?}")),
        }
    }

    pub(crate) fn judge_deltas(&self, found: &[f64]) -> Verdict {
        let mut deltas = self.trained.as_ref().map_or(Vec::new(), |trained| trained.deltas.clone());
        deltas.sort_by_key(|(weight, _)| *weight);
        let deltas: Vec<f64> = deltas.iter().flat_map(|(_, delta)| delta.elements()).collect();
        same("deltas", &deltas, found)
    }
}

/// Compares bits. All NaNs are equal: the compiler chooses their bits.
pub(crate) fn same(what: &str, expected: &[f64], found: &[f64]) -> Verdict {
    let equal = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    if expected.len() == found.len() && expected.iter().zip(found).all(equal) {
        return Ok(());
    }
    Err(format!("{what}: {found:?} instead of {expected:?}"))
}

pub(crate) fn same_failure(built: &Built, failure: &Failure, error: &Error) -> Verdict {
    let place = error.place().copied();
    let place_is_right = if failure.delta {
        place.is_some_and(|place| place.file().ends_with("kernels.rs"))
    } else {
        place.as_ref() == built.places.lock().unwrap().get(&failure.number).copied()
    };
    let right = error.to_string().contains(&planned(failure.number))
        && error.is_panic() == failure.panics
        && error.op() == Some(failure.op)
        && place_is_right;
    if right { Ok(()) } else { Err(format!("failed with {error:?} instead of {failure:?}")) }
}

/// An optimizer that changes nothing and records all deltas, in the order of the weights.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<f64>>>);

impl Recorder {
    pub(crate) fn deltas(&self) -> Vec<f64> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Optimizer for Recorder {
    fn step(&self, chunk: Chunk<'_>, _: u64) -> Result<()> {
        let mut seen = self.0.lock().unwrap();
        match chunk {
            Chunk::F32 { deltas, .. } => seen.extend(deltas.iter().copied().map(f64::from)),
            Chunk::F64 { deltas, .. } => seen.extend(deltas),
        }
        Ok(())
    }
}
