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
    /// The Euclidean norm of the deltas. They are divided by the largest one, so that no square
    /// overflows or underflows. The norm of one number is exactly its absolute value.
    pub fn norm(&self) -> f64 {
        fn norm<A: Number>(deltas: &[A]) -> f64 {
            let numbers = || deltas.iter().map(|d| d.to_f64().unwrap_or(f64::NAN).abs());
            let largest = numbers().fold(0.0, |largest: f64, d| if d > largest || d.is_nan() { d } else { largest });
            if largest == 0.0 || !largest.is_finite() {
                return largest;
            }
            largest * numbers().map(|d| (d / largest) * (d / largest)).sum::<f64>().sqrt()
        }
        in_numbers!(self, |_, deltas, _| norm(deltas))
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
