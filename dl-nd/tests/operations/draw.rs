//! Random operands and arguments of operations.

use crate::case::{Args, Numbers};
use dl_nd::init;
use rand::{Rng, RngCore};
use serde_json::Value;
use std::ops::RangeInclusive;

/// Random operands and arguments for one call of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) args: Args,
    pub(crate) inputs: Vec<Numbers>,
}

/// Draws a sample. The shape is given, so that proptest can shrink it; all else is random.
pub(crate) struct Draw {
    shape: Vec<usize>,
    rng: Box<dyn RngCore>,
    operands: usize,
}

impl Draw {
    pub(crate) fn new(shape: Vec<usize>, seed: u64) -> Self {
        Draw { shape, rng: Box::new(init::rng(seed)), operands: 0 }
    }

    pub(crate) fn between(&mut self, range: RangeInclusive<usize>) -> usize {
        self.rng.random_range(range)
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.rng.random()
    }

    pub(crate) fn one_of<T, const N: usize>(&mut self, choice: [T; N]) -> T {
        let place = self.between(0..=N - 1);
        choice.into_iter().nth(place).expect("a choice")
    }

    /// The given shape.
    pub(crate) fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    /// The given shape, extended to at least `axes` axes.
    pub(crate) fn shape_with_axes(&self, axes: usize) -> Vec<usize> {
        let mut shape = self.shape();
        shape.resize(axes.max(shape.len()), 2);
        shape
    }

    /// The given shape, with lengths of 0 replaced by 1.
    pub(crate) fn full_shape(&self) -> Vec<usize> {
        self.shape.iter().map(|&length| length.max(1)).collect()
    }

    /// `N` lengths from the given shape, none of them 0.
    pub(crate) fn lengths<const N: usize>(&self) -> [usize; N] {
        std::array::from_fn(|axis| self.shape.get(axis).map_or(2, |&length| length.max(1)))
    }

    /// An axis of a shape, counted from either end.
    pub(crate) fn axis(&mut self, shape: &[usize]) -> isize {
        let axis = self.between(0..=shape.len() - 1) as isize;
        if self.flip() { axis } else { axis - shape.len() as isize }
    }

    /// Some of the axes of a shape, or null for all of them.
    pub(crate) fn axes(&mut self, shape: &[usize]) -> Value {
        if shape.is_empty() || self.flip() {
            return Value::Null;
        }
        let (count, rank) = (self.between(1..=shape.len()), shape.len());
        self.permutation(rank)[..count]
            .iter()
            .map(|&axis| if axis % 2 == 0 { axis } else { axis - rank as isize })
            .collect()
    }

    pub(crate) fn permutation(&mut self, rank: usize) -> Vec<isize> {
        let mut axes: Vec<isize> = (0..rank as isize).collect();
        for last in (1..rank).rev() {
            let other = self.between(0..=last);
            axes.swap(last, other);
        }
        axes
    }

    /// Two shapes that broadcast together: some lengths are 1, some leading axes are missing.
    pub(crate) fn pair(&mut self) -> [Vec<usize>; 2] {
        let shape = self.shape();
        [(); 2].map(|()| {
            let missing = if self.flip() { self.between(0..=shape.len()) } else { 0 };
            shape[missing..].iter().map(|&length| if self.between(0..=3) == 0 { 1 } else { length }).collect()
        })
    }

    /// A tensor of indices below `below`, as an argument.
    pub(crate) fn places(&mut self, shape: &[usize], below: usize) -> Value {
        let data: Vec<usize> = (0..shape.iter().product()).map(|_| self.between(0..=below - 1)).collect();
        serde_json::json!({ "shape": shape, "data": data })
    }

    /// Random numbers from a range of at least 1. Their distances from each other, from the numbers
    /// of other operands and from multiples of 1/64 are much larger than the step of a difference.
    pub(crate) fn numbers(&mut self, shape: &[usize], low: f64, high: f64) -> Numbers {
        self.operands += 1;
        let offset = 0.2 * self.operands as f64 % 1.0 + 0.1;
        let mut free: Vec<f64> =
            (0..((high - low) * 64.0) as usize).map(|k| low + (k as f64 + offset) / 64.0).collect();
        let data = (0..shape.iter().product()).map(|_| {
            let place = self.between(0..=free.len() - 1);
            free.swap_remove(place)
        });
        let data = data.collect();
        let layout = self.layout(shape.len());
        Numbers { shape: shape.to_vec(), data, layout }
    }

    fn layout(&mut self, rank: usize) -> (Vec<usize>, Vec<isize>) {
        if self.flip() {
            return (Vec::new(), Vec::new());
        }
        let axes = self.permutation(rank).into_iter().map(|axis| axis as usize).collect();
        (axes, (0..rank).map(|_| self.one_of([1, 1, 2, -1, -2])).collect())
    }

    /// A sample with these arguments and operands.
    pub(crate) fn sample(args: Value, inputs: impl Into<Vec<Numbers>>) -> Sample {
        Sample { args: Args(args), inputs: inputs.into() }
    }
}
