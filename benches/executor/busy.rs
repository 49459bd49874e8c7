//! A kernel that computes for a given time and accesses no memory.

use dl::prelude::*;
use dl::{At, Primitive, Result};
use std::hint::black_box;
use std::time::Instant;

/// Computes for a given time and returns its operand, plus an offset that cancels out. The
/// derivative is 1 and has the same cost.
#[derive(Clone, Copy)]
pub(crate) struct Busy {
    turns: usize,
    nanoseconds: f64,
    offset: f32,
}

impl Busy {
    /// Calibrates the number of iterations on this machine, by the fastest of 100 runs.
    pub(crate) fn for_nanoseconds(nanoseconds: f64) -> Self {
        const TRIAL: usize = 100_000;
        let trial = Busy { turns: TRIAL, nanoseconds, offset: 0.001 };
        let fastest = (0..100).map(|_| {
            let start = Instant::now();
            black_box(trial.compute(black_box(1.0)));
            start.elapsed().as_nanos() as f64
        });
        let turn = fastest.fold(f64::INFINITY, f64::min) / TRIAL as f64;
        Busy { turns: (nanoseconds / turn) as usize, ..trial }
    }

    pub(crate) fn compute(&self, x: f32) -> f32 {
        let (sign, offset) = (black_box(-1.0_f32), black_box(self.offset));
        (0..self.turns).fold(x, |x, _| (x * sign + offset) * sign + offset)
    }
}

impl Primitive for Busy {
    type Operands = (Layer<f32>,);
    type Output = f32;

    fn name(&self) -> &'static str {
        "busy"
    }

    fn value(&self, (x,): (&f32,)) -> Result<f32> {
        Ok(self.compute(*x))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f32>>,) {
        (Some(Layer::apply(Busy { offset: 0.0, ..*self }, (at.delta.clone(),))),)
    }

    fn cost(&self, _: (&f32,)) -> f64 {
        self.nanoseconds
    }
}
