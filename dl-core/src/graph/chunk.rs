//! Chunks of a weight, as optimizers update them.

use crate::in_numbers;
use dl_math::Number;

/// A contiguous range of elements of one weight, with deltas and optimizer state.
///
/// All slices have the same length.
///
/// ```
/// use dl_core::{Chunk, Optimizer};
/// use dl_optim::Sgd;
/// let (mut values, deltas) = ([1.0, 2.0], [10.0, 20.0]);
/// Sgd::new(0.1).step(Chunk::F64 { values: &mut values, deltas: &deltas, slots: &mut [] }, 1)?;
/// assert_eq!(values, [0.0, 0.0]);
/// # dl_core::Result::Ok(())
/// ```
pub enum Chunk<'a> {
    /// Single precision.
    F32 {
        /// The elements to update.
        values: &'a mut [f32],
        /// Their derivatives.
        deltas: &'a [f32],
        /// The state buffers, as many as there are [`slots`](crate::Optimizer::slots).
        slots: &'a mut [&'a mut [f32]],
    },
    /// Double precision.
    F64 {
        /// The elements to update.
        values: &'a mut [f64],
        /// Their derivatives.
        deltas: &'a [f64],
        /// The state buffers, as many as there are [`slots`](crate::Optimizer::slots).
        slots: &'a mut [&'a mut [f64]],
    },
}

#[doc(hidden)]
impl Chunk<'_> {
    /// The Euclidean norm of the deltas, in `f64`. There the square of an `f32` neither overflows
    /// nor underflows; `f64` are divided by the largest one first. The norm of one number is
    /// exactly its absolute value.
    pub fn norm(&self) -> f64 {
        match self {
            Chunk::F32 { deltas, .. } => pairwise_sum(deltas.len(), |i| f64::from(deltas[i]).powi(2)).sqrt(),
            Chunk::F64 { deltas, .. } => {
                let larger = |largest: f64, d: f64| if d > largest || d.is_nan() { d } else { largest };
                let largest = deltas.iter().fold(0.0, |largest, d| larger(largest, d.abs()));
                scaled_norm(largest, || pairwise_sum(deltas.len(), |i| (deltas[i] / largest).powi(2)))
            }
        }
    }

    /// The norm of a chunk of a weight elsewhere, as a chunk of one delta without a value.
    pub fn with_norm<R>(norm: f64, then: impl FnOnce(Chunk<'_>) -> R) -> R {
        then(Chunk::F64 { values: &mut [], deltas: &[norm], slots: &mut [] })
    }

    /// Whether it has the norm of numbers elsewhere instead of these numbers.
    pub fn is_norm(&self) -> bool {
        in_numbers!(self, |values, deltas, _| values.len() < deltas.len())
    }
}

/// The norm of numbers, given the largest absolute value and the sum of the squares of the numbers
/// divided by it.
#[doc(hidden)]
pub fn scaled_norm(largest: f64, squares: impl FnOnce() -> f64) -> f64 {
    if largest == 0.0 || !largest.is_finite() { largest } else { largest * squares().sqrt() }
}

/// The sum of so many terms, in the order of a device: runs of 128 are summed in 32 lanes, and the
/// sums of the runs are the leaves of a binary tree.
fn pairwise_sum(len: usize, term: impl Fn(usize) -> f64) -> f64 {
    const RUN_LEN: usize = 128;
    let sum_of_run = |run: usize, len: usize| {
        let mut lanes = [0.0; 32];
        (0..len).for_each(|at| lanes[at % 32] += term(run * RUN_LEN + at));
        for half in [16, 8, 4] {
            (0..half).for_each(|lane| lanes[lane] += lanes[lane + half]);
        }
        (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
    };
    // the sums of whole subtrees, by height
    let (mut sums, runs) = ([0.0; usize::BITS as usize], len / RUN_LEN);
    for run in 0..runs {
        let height = run.trailing_ones() as usize;
        sums[height] = sums[..height].iter().fold(sum_of_run(run, RUN_LEN), |right, left| left + right);
    }
    let rest = sum_of_run(runs, len % RUN_LEN);
    let subtrees = (0..sums.len()).filter(|height| (runs >> height) & 1 == 1);
    subtrees.fold(rest, |right, height| sums[height] + right)
}

/// `in_numbers!(chunk, |values, deltas, slots| …)`: evaluates an expression for a chunk, in either
/// precision.
#[doc(hidden)]
#[macro_export]
macro_rules! in_numbers {
    ($chunk:expr, |$values:pat_param, $deltas:pat_param, $slots:pat_param| $body:expr) => {
        match $chunk {
            $crate::Chunk::F32 { values: $values, deltas: $deltas, slots: $slots } => $body,
            $crate::Chunk::F64 { values: $values, deltas: $deltas, slots: $slots } => $body,
        }
    };
}

/// The element types of a [`Chunk`]: `f32` and `f64`.
#[doc(hidden)]
pub trait ChunkElement: Number {
    /// The chunk of these slices.
    fn chunk<'a>(values: &'a mut [Self], deltas: &'a [Self], slots: &'a mut [&'a mut [Self]]) -> Chunk<'a>;
}

macro_rules! chunk_elements {
    ($($T:ident $Variant:ident),*) => {$(
        impl ChunkElement for $T {
            fn chunk<'a>(values: &'a mut [$T], deltas: &'a [$T], slots: &'a mut [&'a mut [$T]]) -> Chunk<'a> {
                Chunk::$Variant { values, deltas, slots }
            }
        }
    )*};
}

chunk_elements!(f32 F32, f64 F64);
