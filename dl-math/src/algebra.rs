//! [`Algebra`]: the domains in which a rule can be evaluated, and the arithmetic notation of rules.

use crate::dual::Dual;
use crate::number::Number;
use crate::pointwise::{Binary, Unary};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// A domain in which a rule, or a function written over [`Term`], can be evaluated: numbers,
/// [dual numbers](Dual) or layers.
///
/// ```
/// use dl_core::{Algebra, Differentiable, Dual, Term, Weight};
/// fn f<A: Algebra>(x: &Term<A>) -> Term<A> {
///     x * x + 3.0 * x.exp()
/// }
/// assert_eq!(f(&Term(0.0_f64)).0, 3.0);
/// assert_eq!(f(&Term(Dual::variable(0.0_f64))).0.tangent(), 3.0);
/// let w = Weight::new(0.0_f64);
/// assert_eq!(f(&Term(w.layer())).0.gradient(&w).predict().wait()?, 3.0);
/// # dl_core::Result::Ok(())
/// ```
pub trait Algebra: Clone {
    /// Applies an operation of one operand.
    fn unary(op: Unary, x: &Self) -> Self;
    /// Applies an operation of two operands.
    fn binary(op: Binary, a: &Self, b: &Self) -> Self;
    /// Applies an operation to a number and an operand; the number stands on the left when `left`.
    fn with_number(op: Binary, x: &Self, number: f64, left: bool) -> Self;

    /// A number in the shape of `like`.
    ///
    /// ```
    /// use dl_math::{Algebra, Dual};
    /// assert_eq!(Algebra::number_like(2.0, &Dual::variable(5.0_f32)), Dual::constant(2.0));
    /// ```
    #[must_use]
    fn number_like(number: f64, like: &Self) -> Self {
        // 0 even where `like` is infinite or NaN
        let zero = Self::with_number(Binary::StrongMul, like, 0.0, true);
        Self::with_number(Binary::Add, &zero, number, false)
    }
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

    #[inline(always)]
    fn number_like(number: f64, _: &Self) -> Self {
        A::of(number)
    }
}

/// An operand of a rule, or of a function that is generic over [`Algebra`], with the arithmetic
/// operators.
///
/// ```
/// use dl_math::{Algebra, Term};
/// fn logistic<A: Algebra>(x: &Term<A>) -> Term<A> {
///     1.0 / (1.0 + (-x).exp())
/// }
/// assert_eq!(logistic(&Term(0.0_f64)).0, 0.5);
/// ```
#[derive(Clone)]
pub struct Term<A>(pub A);

/// Arithmetic operators of `$T`, where `$inner` is in an algebra.
macro_rules! arithmetic_operators {
    ($T:ident, |$x:ident: $In:ty| $inner:expr, $wrap:expr, [$($trait:ident $method:ident $op:ident),*]) => {
        $(
            impl<A: Algebra> $trait<&$T<A>> for &$T<A> {
                type Output = $T<A>;
                #[inline(always)]
                fn $method(self, right: &$T<A>) -> $T<A> {
                    let (left, right) = ({ let $x = self; $inner }, { let $x = right; $inner });
                    $wrap(<$In>::binary(Binary::$op, left, right))
                }
            }
            impl<A: Algebra> $trait<$T<A>> for &$T<A> {
                type Output = $T<A>;
                #[inline(always)]
                fn $method(self, right: $T<A>) -> $T<A> { self.$method(&right) }
            }
            impl<A: Algebra> $trait<&$T<A>> for $T<A> {
                type Output = $T<A>;
                #[inline(always)]
                fn $method(self, right: &$T<A>) -> $T<A> { (&self).$method(right) }
            }
            impl<A: Algebra> $trait for $T<A> {
                type Output = $T<A>;
                #[inline(always)]
                fn $method(self, right: $T<A>) -> $T<A> { (&self).$method(&right) }
            }
            impl<A: Algebra> $trait<&$T<A>> for f64 {
                type Output = $T<A>;
                #[inline(always)]
                fn $method(self, right: &$T<A>) -> $T<A> {
                    let $x = right;
                    $wrap(<$In>::with_number(Binary::$op, $inner, self, true))
                }
            }
            impl<A: Algebra> $trait<$T<A>> for f64 {
                type Output = $T<A>;
                #[inline(always)]
                fn $method(self, right: $T<A>) -> $T<A> { self.$method(&right) }
            }
            impl<A: Algebra> $trait<f64> for &$T<A> {
                type Output = $T<A>;
                #[inline(always)]
                fn $method(self, right: f64) -> $T<A> {
                    let $x = self;
                    $wrap(<$In>::with_number(Binary::$op, $inner, right, false))
                }
            }
            impl<A: Algebra> $trait<f64> for $T<A> {
                type Output = $T<A>;
                #[inline(always)]
                fn $method(self, right: f64) -> $T<A> { (&self).$method(right) }
            }
        )*

        impl<A: Algebra> Neg for &$T<A> {
            type Output = $T<A>;
            #[inline(always)]
            fn neg(self) -> $T<A> {
                let $x = self;
                $wrap(<$In>::unary(Unary::Neg, $inner))
            }
        }

        impl<A: Algebra> Neg for $T<A> {
            type Output = $T<A>;
            #[inline(always)]
            fn neg(self) -> $T<A> {
                -&self
            }
        }
    };
    ($T:ident, |$x:ident: $In:ty| $inner:expr, $wrap:expr) => {
        arithmetic_operators! { $T, |$x: $In| $inner, $wrap, [Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem] }
    };
}

arithmetic_operators!(Term, |term: A| &term.0, Term);
arithmetic_operators!(Dual, |dual: Dual<A>| dual, std::convert::identity);

impl<A: Algebra> Term<A> {
    /// `min(x, 0)`; its derivative at 0 is 0.
    #[must_use]
    #[inline(always)]
    pub(super) fn negative_part(&self) -> Term<A> {
        -(-self).relu()
    }
}

macro_rules! binary_methods {
    (@doc $name:ident $Op:ident $new:literal $value:literal) => {
        concat!(
            "See [`Binary::",
            stringify!($Op),
            "`].\n\n```\nuse dl_math::{Binary, Dual, Term};\nlet (a, b) = (",
            $new,
            "(2.0_f64), ",
            $new,
            "(3.0));\nassert_eq!(a.",
            stringify!($name),
            "(&b)",
            $value,
            ", Binary::",
            stringify!($Op),
            ".value(2.0, 3.0));\n```"
        )
    };
    ($($name:ident $Op:ident),*) => {
        impl<A: Algebra> Term<A> {$(
            #[doc = binary_methods!(@doc $name $Op "Term" ".0")]
            #[must_use]
            #[inline(always)]
            pub fn $name(&self, right: &Term<A>) -> Term<A> {
                Term(A::binary(Binary::$Op, &self.0, &right.0))
            }
        )*}

        impl<A: Algebra> Dual<A> {$(
            #[doc = binary_methods!(@doc $name $Op "Dual::variable" ".value()")]
            #[must_use]
            #[inline(always)]
            pub fn $name(&self, right: &Dual<A>) -> Dual<A> {
                Dual::binary(Binary::$Op, self, right)
            }
        )*}
    };
}

binary_methods!(pow Pow, min Min, max Max, above Above, xlogy Xlogy, logaddexp LogAddExp, gate Gate, kink Kink, at_least AtLeast, at_most AtMost, strong_mul StrongMul, strong_div StrongDiv, both_strong_mul BothStrongMul, pow_slope PowSlope, pow_log PowLog);

/// Stands in the place of a delta: no gradient flows to this operand.
pub(super) struct NoGradient;

/// The result of a rule: a delta, or [`NoGradient`].
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

impl<A> IntoDelta<A> for NoGradient {
    #[inline(always)]
    fn into_delta(self) -> Option<Term<A>> {
        None
    }
}
