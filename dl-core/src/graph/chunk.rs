//! Chunks of a weight, as optimizers update them.

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
