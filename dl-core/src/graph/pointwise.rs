//! Data with pointwise operations, and layers of them as an algebra.

use crate::graph::data::Data;
use crate::graph::layer::Layer;
use dl_math::{Algebra, Binary, Unary};

/// A pointwise operation on one or two operands.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PointwiseOp {
    Unary(Unary),
    Binary(Binary),
    /// The number stands on the left when `left`.
    WithNumber {
        op: Binary,
        number: f64,
        left: bool,
    },
}

/// Data on which the pointwise operations work, element by element: scalars and tensors.
///
/// ```
/// use dl_core::{Differentiable, Layer, Pointwise, Unary, Binary};
/// fn halved<T: Pointwise>(x: &Layer<T>) -> Layer<T> {
///     T::with_number(Binary::Mul, &T::unary(Unary::Abs, x), 0.5, false)
/// }
/// assert_eq!(halved(&Layer::constant(-4.0_f64)).predict().wait()?, 2.0);
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` has no pointwise operations: they work on `f32`, `f64` and tensors")]
pub trait Pointwise: Data {
    /// The layer of an operation on one operand.
    #[track_caller]
    fn unary(op: Unary, x: &Layer<Self>) -> Layer<Self>;
    /// The layer of an operation on two operands of the same type.
    #[track_caller]
    fn binary(op: Binary, a: &Layer<Self>, b: &Layer<Self>) -> Layer<Self>;
    /// The layer of an operation on a number and an operand; the number stands on the left when
    /// `left`.
    #[track_caller]
    fn with_number(op: Binary, x: &Layer<Self>, number: f64, left: bool) -> Layer<Self>;
}

impl<T: Pointwise> Algebra for Layer<T> {
    fn unary(op: Unary, x: &Self) -> Self {
        T::unary(op, x)
    }

    fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        T::binary(op, a, b)
    }

    fn with_number(op: Binary, x: &Self, number: f64, left: bool) -> Self {
        T::with_number(op, x, number, left)
    }
}
