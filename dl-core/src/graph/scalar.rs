//! Plain numbers as values of layers.

use crate::graph::value::{Repr, Value};
use dl_math::Binary;

/// A plain number.
#[derive(Clone, Copy)]
pub(crate) enum Scalar {
    F32(f32),
    F64(f64),
}

impl Scalar {
    /// The number 1 of the same type: the delta that a backward begins with.
    #[inline]
    pub(crate) fn one(self) -> Scalar {
        match self {
            Scalar::F32(_) => Scalar::F32(1.0),
            Scalar::F64(_) => Scalar::F64(1.0),
        }
    }

    /// The number, which is beside a single one in scalar arithmetic.
    #[inline(always)]
    pub(crate) fn single(self) -> f32 {
        let Scalar::F32(number) = self else { unreachable!("scalar arithmetic works on scalars of one type") };
        number
    }

    /// The same beside a double one.
    #[inline(always)]
    pub(crate) fn double(self) -> f64 {
        let Scalar::F64(number) = self else { unreachable!("scalar arithmetic works on scalars of one type") };
        number
    }

    #[inline(always)]
    pub(crate) fn of(value: &Value) -> Option<Scalar> {
        match value.0 {
            Repr::F32(number) => Some(Scalar::F32(number)),
            Repr::F64(number) => Some(Scalar::F64(number)),
            Repr::Any(_) => None,
        }
    }
}

/// Evaluates a rule of this operation: that of a sum or a product inline, any other out of line. A
/// loop over scalar arithmetic with all rules inlined needs more registers than there are. The rule
/// must be inlined and capture nothing: captured variables would be stored in each evaluation.
#[inline(always)]
pub(crate) fn inline_if_basic<A, R>(op: Binary, args: A, rule: impl FnOnce(Binary, A) -> R) -> R {
    match op {
        Binary::Add | Binary::Sub | Binary::Mul | Binary::Div => rule(op, args),
        _ => out_of_line(op, args, rule),
    }
}

/// Evaluates a rule out of line.
#[inline(never)]
pub(crate) fn out_of_line<O, A, R>(op: O, args: A, rule: impl FnOnce(O, A) -> R) -> R {
    rule(op, args)
}

impl From<Scalar> for Value {
    #[inline(always)]
    fn from(number: Scalar) -> Value {
        match number {
            Scalar::F32(number) => Value(Repr::F32(number)),
            Scalar::F64(number) => Value(Repr::F64(number)),
        }
    }
}
