//! An optimizer for the tests of this crate, which cannot depend on `dl-optim`.

use crate::error::Result;
use crate::graph::chunk::Chunk;
use crate::in_numbers;
use crate::step::optimizer::Optimizer;
use dl_math::Number;

/// Gradient descent at a constant rate.
#[derive(Clone, Debug)]
pub(crate) struct Sgd(f64);

impl Sgd {
    pub(crate) fn new(rate: f64) -> Self {
        Sgd(rate)
    }

    fn rate(&self) -> Result<f64> {
        if self.0.is_finite() { Ok(self.0) } else { Err(crate::Error::invalid("the learning rate is not finite")) }
    }
}

impl Optimizer for Sgd {
    fn step(&self, chunk: Chunk<'_>, _: u64) -> Result<()> {
        let rate = self.rate()?;
        in_numbers!(chunk, |values, deltas, _| descend(rate, values, deltas));
        Ok(())
    }

    fn descent(&self) -> Option<Result<f64>> {
        Some(self.rate())
    }
}

fn descend<A: Number>(rate: f64, values: &mut [A], deltas: &[A]) {
    for (w, &d) in values.iter_mut().zip(deltas) {
        *w = *w - A::of(rate) * d;
    }
}
