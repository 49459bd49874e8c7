//! Plain numbers, and helper functions of the table of pointwise operations.

use crate::algebra::{Algebra, Term};
use crate::elementary::arithmetic::{Elementary, Native};
use crate::elementary::format::Format;
use crate::pointwise::Binary;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// Plain numbers: `f32` and `f64`.
///
/// ```
/// use dl_math::Number;
/// fn half<A: Number>(x: A) -> A {
///     x * A::of(0.5)
/// }
/// assert_eq!((half(3.0_f32), half(3.0_f64)), (1.5, 1.5));
/// ```
///
/// Its elementary functions are called as `Number::exp(x)`; `x.exp()` calls that of the platform.
/// Their results are bitwise those of an element of a tensor. All processors with fused
/// multiply-add (x86 with AVX2, 64-bit ARM) give the same bits, and so do all others among
/// themselves: see [`Native`].
pub trait Number: Format + Send + Sync + std::fmt::Debug + std::fmt::Display + 'static {
    /// The number of this type nearest to `number`.
    fn of(number: f64) -> Self;

    /// `eˣ`.
    ///
    /// ```
    /// use dl_math::Number;
    /// assert!((Number::exp(1.0_f64) - std::f64::consts::E).abs() < 1e-15);
    /// ```
    #[must_use]
    #[inline(always)]
    fn exp(x: Self) -> Self {
        Native::exp(x)
    }

    /// `eˣ − 1`, without cancellation.
    ///
    /// ```
    /// use dl_math::Number;
    /// assert_eq!(Number::exp_m1(1e-20_f64), 1e-20);
    /// ```
    #[must_use]
    #[inline(always)]
    fn exp_m1(x: Self) -> Self {
        Native::exp_m1(x)
    }

    /// The natural logarithm.
    ///
    /// ```
    /// use dl_math::Number;
    /// assert_eq!(Number::ln(2.0_f64), std::f64::consts::LN_2);
    /// ```
    #[must_use]
    #[inline(always)]
    fn ln(x: Self) -> Self {
        Native::ln(x)
    }

    /// `ln(1 + x)`, without cancellation.
    ///
    /// ```
    /// use dl_math::Number;
    /// assert_eq!(Number::ln_1p(1e-20_f64), 1e-20);
    /// ```
    #[must_use]
    #[inline(always)]
    fn ln_1p(x: Self) -> Self {
        Native::ln_1p(x)
    }

    /// The hyperbolic tangent.
    ///
    /// ```
    /// use dl_math::Number;
    /// assert_eq!(Number::tanh(0.5_f64), 0.46211715726000975);
    /// ```
    #[must_use]
    #[inline(always)]
    fn tanh(x: Self) -> Self {
        Native::tanh(x)
    }

    /// The logistic function `1 / (1 + e⁻ˣ)`, without overflow.
    ///
    /// ```
    /// use dl_math::Number;
    /// assert_eq!(Number::logistic(-800.0_f32), 0.0);
    /// ```
    #[must_use]
    #[inline(always)]
    fn logistic(x: Self) -> Self {
        Native::logistic(x)
    }

    /// The error function.
    ///
    /// ```
    /// use dl_math::Number;
    /// assert_eq!(Number::erf(1.0_f64), 0.842700792949714869);
    /// ```
    #[must_use]
    #[inline(always)]
    fn erf(x: Self) -> Self {
        Native::erf(x)
    }

    /// `1 − erf(x)`, without cancellation.
    ///
    /// ```
    /// use dl_math::Number;
    /// assert_eq!(Number::erfc(10.0_f64), 2.088487583762545e-45);
    /// ```
    #[must_use]
    #[inline(always)]
    fn erfc(x: Self) -> Self {
        Native::erfc(x)
    }
}

macro_rules! number {
    ($T:ident) => {
        impl Number for $T {
            #[inline(always)]
            fn of(number: f64) -> Self {
                number as $T
            }
        }
    };
}

number!(f32);
number!(f64);

/// The distribution function of the standard normal distribution, without cancellation.
#[inline(always)]
pub(super) fn normal_cdf<E: Elementary, A: Number>(x: A) -> A {
    A::of(0.5) * E::erfc(x * A::of(-FRAC_1_SQRT_2))
}

/// The density of the standard normal distribution.
pub(super) fn normal_pdf<A: Algebra>(x: &Term<A>) -> Term<A> {
    0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (-0.5 * x.square()).exp()
}

/// `weight · x`, and 0 where `weight` is 0 (by underflow), even if `x` is −∞.
#[inline(always)]
pub(super) fn weighted<A: Number>(weight: A, x: A) -> A {
    if weight == A::zero() { weight } else { weight * x }
}

/// `x`, limited to a range outside of which the slopes of `erf`, `silu` and `gelu` are 0 or 1 to the
/// last digit, and all further derivatives are 0. An infinite `x` would give `∞ · 0`.
pub(super) fn saturated<A: Algebra>(x: &Term<A>) -> Term<A> {
    const END: f64 = 1000.0;
    let above = A::with_number(Binary::AtLeast, &x.0, -END, false);
    Term(A::with_number(Binary::AtMost, &above, END, false))
}

/// The argument of the logistic function in the approximation `Φ(x) ≈ logistic(2 √(2/π) (x +
/// 0.044715 x³))` of the normal distribution function (Hendrycks and Gimpel, 2016).
pub(super) fn gelu_tanh_argument<A: Algebra>(x: &Term<A>) -> Term<A> {
    x * (LINEAR + CUBIC * (x * x))
}

/// The derivative of [`gelu_tanh_argument`].
pub(super) fn gelu_tanh_argument_slope<A: Algebra>(x: &Term<A>) -> Term<A> {
    LINEAR + 3.0 * CUBIC * (x * x)
}

/// `2 √(2/π)`.
const LINEAR: f64 = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
const CUBIC: f64 = 0.044715 * LINEAR;

/// The remainder with the sign of `b`.
pub(super) fn remainder<A: Number>(a: A, b: A) -> A {
    let rest = a % b;
    if rest == A::zero() {
        rest.copysign(b)
    } else if (rest < A::zero()) != (b < A::zero()) {
        rest + b
    } else {
        rest
    }
}

/// The nearest integer, the even one of two.
#[inline(always)]
pub(super) fn round_half_even<A: Number>(x: A) -> A {
    let two = A::of(2.0);
    if (x - x.trunc()).abs() == A::of(0.5) { two * (x / two).round() } else { x.round() }
}

/// The inverse of the hyperbolic cosine, without cancellation near 1.
#[inline(always)]
pub(super) fn acosh<E: Elementary, A: Number>(x: A) -> A {
    let above = x - A::one();
    E::ln_1p(above + above.sqrt() * (x + A::one()).sqrt())
}

/// The inverse of the hyperbolic tangent, without cancellation.
#[inline(always)]
pub(super) fn atanh<E: Elementary, A: Number>(x: A) -> A {
    let size = x.abs();
    (A::of(0.5) * E::ln_1p((size + size) / (A::one() - size))).copysign(x)
}

/// `ln(eᵃ + eᵇ)`. The difference of equal infinities is not computed.
#[inline(always)]
pub(super) fn logaddexp<E: Elementary, A: Number>(a: A, b: A) -> A {
    let (size, larger) = ((a - b).abs(), if a > b || a.is_nan() { a } else { b });
    larger + E::ln_1p(E::exp(if a == b { A::zero() } else { -size }))
}
