//! What a rule may be read in, and the notation of rules.

use super::{Binary, Number, Pointwise, Unary};
use crate::layer::Layer;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// What a rule may be read in: numbers, or layers.
pub trait Algebra: Clone {
    /// Applies an operation of one operand.
    fn unary(op: Unary, x: &Self) -> Self;
    /// Applies an operation of two operands.
    fn binary(op: Binary, a: &Self, b: &Self) -> Self;
    /// Applies an operation to a number and an operand; the number stands on the left when `left`.
    fn with_number(op: Binary, x: &Self, number: f64, left: bool) -> Self;
}

impl<A: Number> Algebra for A {
    #[inline(always)]
    fn unary(op: Unary, x: &Self) -> Self {
        op.value(*x)
    }

    #[inline(always)]
    fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        op.value(*a, *b)
    }

    #[inline(always)]
    fn with_number(op: Binary, x: &Self, number: f64, left: bool) -> Self {
        if left { op.value(A::of(number), *x) } else { op.value(*x, A::of(number)) }
    }
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

/// An operand inside a rule: gives it the notation of arithmetic.
pub struct Term<A>(pub A);

macro_rules! arithmetic {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        impl<A: Algebra> $trait<&Term<A>> for &Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: &Term<A>) -> Term<A> { Term(A::binary(Binary::$op, &self.0, &right.0)) }
        }
        impl<A: Algebra> $trait<Term<A>> for &Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: Term<A>) -> Term<A> { self.$method(&right) }
        }
        impl<A: Algebra> $trait<&Term<A>> for Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: &Term<A>) -> Term<A> { (&self).$method(right) }
        }
        impl<A: Algebra> $trait for Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: Term<A>) -> Term<A> { (&self).$method(&right) }
        }
        impl<A: Algebra> $trait<&Term<A>> for f64 {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: &Term<A>) -> Term<A> { Term(A::with_number(Binary::$op, &right.0, self, true)) }
        }
        impl<A: Algebra> $trait<Term<A>> for f64 {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: Term<A>) -> Term<A> { self.$method(&right) }
        }
        impl<A: Algebra> $trait<f64> for &Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: f64) -> Term<A> { Term(A::with_number(Binary::$op, &self.0, right, false)) }
        }
        impl<A: Algebra> $trait<f64> for Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: f64) -> Term<A> { (&self).$method(right) }
        }
    )*};
}

arithmetic!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem);

impl<A: Algebra> Neg for &Term<A> {
    type Output = Term<A>;
    #[inline(always)]
    fn neg(self) -> Term<A> {
        Term(A::unary(Unary::Neg, &self.0))
    }
}

impl<A: Algebra> Neg for Term<A> {
    type Output = Term<A>;
    #[inline(always)]
    fn neg(self) -> Term<A> {
        -&self
    }
}

impl<A: Algebra> Term<A> {
    /// `min(x, 0)`; its derivative at 0 is 0.
    #[must_use]
    #[inline(always)]
    pub(super) fn negative_part(&self) -> Term<A> {
        -(-self).relu()
    }
}

macro_rules! in_rules {
    ($($name:ident $Op:ident),*) => {
        impl<A: Algebra> Term<A> {$(
            #[doc = concat!("See [`Binary::", stringify!($Op), "`].")]
            #[must_use]
            #[inline(always)]
            pub fn $name(&self, right: &Term<A>) -> Term<A> {
                Term(A::binary(Binary::$Op, &self.0, &right.0))
            }
        )*}
    };
}

in_rules!(pow Pow, above Above, xlogy Xlogy, kink Kink, strong_mul StrongMul, pow_slope PowSlope, pow_log PowLog);

/// In the place of a delta: no gradient flows this way.
pub(super) struct Flat;

pub(super) trait IntoDelta<A> {
    fn into_delta(self) -> Option<Term<A>>;
}

impl<A> IntoDelta<A> for Term<A> {
    #[inline(always)]
    fn into_delta(self) -> Option<Term<A>> {
        Some(self)
    }
}

impl<A: Clone> IntoDelta<A> for &Term<A> {
    #[inline(always)]
    fn into_delta(self) -> Option<Term<A>> {
        Some(Term(self.0.clone()))
    }
}

impl<A> IntoDelta<A> for Flat {
    #[inline(always)]
    fn into_delta(self) -> Option<Term<A>> {
        None
    }
}
