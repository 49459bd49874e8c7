//! Powers. Integral and half-integral exponents near 0 need no elementary function: the power is a
//! product, a quotient or a root. It is computed with about twice the precision of the result, so
//! it is rounded correctly but for rare cases.
//!
//! Other powers of `f32` are `exp(b ln a)` in `f64`, with an error of at most 0.51 units in the last
//! place; those of `f64` are computed by the math library of the platform.

use crate::elementary::arithmetic::Elementary;
use crate::number::Number;
use crate::pointwise::{Binary, BinaryLoop, UnaryLoop};
use std::ops::Mul;

/// A number with about twice the precision of `A`.
pub trait Wide<A>: Copy + Mul<Output = Self> {
    fn of(number: A) -> Self;
    #[must_use]
    fn recip(self) -> Self;
    #[must_use]
    fn sqrt(self) -> Self;
    fn rounded(self) -> A;
}

impl Wide<f32> for f64 {
    #[inline(always)]
    fn of(number: f32) -> f64 {
        f64::from(number)
    }

    #[inline(always)]
    fn recip(self) -> f64 {
        1.0 / self
    }

    #[inline(always)]
    fn sqrt(self) -> f64 {
        self.sqrt()
    }

    #[inline(always)]
    fn rounded(self) -> f32 {
        self as f32
    }
}

/// The sum of a rounded number and its rounding error. The error may be NaN if the number is 0 or
/// infinite, and does not count then.
#[derive(Clone, Copy)]
pub struct Pair(f64, f64);

impl Pair {
    /// A product and its rounding error (Dekker, *Numerische Mathematik* 18, 1971).
    #[inline(always)]
    fn product(a: f64, b: f64) -> Pair {
        let product = a * b;
        let [(a, a_low), (b, b_low)] = [a, b].map(|x| {
            let high = crate::elementary::format::Format::truncate_significand(x);
            (high, x - high)
        });
        Pair(product, (((a * b - product) + a * b_low) + a_low * b) + a_low * b_low)
    }
}

impl Mul for Pair {
    type Output = Pair;

    #[inline(always)]
    fn mul(self, other: Pair) -> Pair {
        let Pair(product, error) = Pair::product(self.0, other.0);
        Pair(product, error + (self.0 * other.1 + self.1 * other.0))
    }
}

impl Wide<f64> for Pair {
    #[inline(always)]
    fn of(number: f64) -> Pair {
        Pair(number, 0.0)
    }

    #[inline(always)]
    fn recip(self) -> Pair {
        let y = 1.0 / self.0;
        let Pair(product, error) = Pair::product(y, self.0);
        Pair(y, y * (((1.0 - product) - error) - y * self.1))
    }

    #[inline(always)]
    fn sqrt(self) -> Pair {
        let y = self.0.sqrt();
        let Pair(square, error) = Pair::product(y, y);
        Pair(y, (((self.0 - square) - error) + self.1) / (y + y))
    }

    #[inline(always)]
    fn rounded(self) -> f64 {
        if self.1.abs() > 0.0 { self.0 + self.1 } else { self.0 }
    }
}

#[inline(always)]
fn square<W: Copy + Mul<Output = W>>(x: W) -> W {
    x * x
}

#[inline(always)]
fn cube<W: Copy + Mul<Output = W>>(x: W) -> W {
    x * x * x
}

/// The square root; that of −0 is 0 and that of −∞ is ∞, as for the power ½.
#[inline(always)]
fn root<A: Number>(x: A) -> A::Wide {
    A::Wide::of(if x == A::neg_infinity() { A::infinity() } else { x + A::zero() }).sqrt()
}

/// Evaluates an expression with the power of an exponent `$b` that has a simple form, or another
/// expression if it has none.
macro_rules! simple {
    ($A:ident, $b:expr, $value:ident => $then:expr, else $other:expr) => {
        simple!(@each $A, $b, $value => $then, else $other;
            -3.0 => |a| cube($A::Wide::of(a).recip()).rounded();
            -2.0 => |a| square($A::Wide::of(a).recip()).rounded();
            -1.5 => |a| cube(root(a).recip()).rounded();
            -1.0 => |a| a.recip();
            -0.5 => |a| root(a).recip().rounded();
            0.0 => |_| $A::one();
            0.5 => |a| root(a).rounded();
            1.0 => |a| a;
            1.5 => |a| cube(root(a)).rounded();
            2.0 => |a| a * a;
            3.0 => |a| cube($A::Wide::of(a)).rounded();
            4.0 => |a| square(square($A::Wide::of(a))).rounded()
        )
    };
    (@each $A:ident, $b:expr, $name:ident => $then:expr, else $other:expr; $($b_is:literal => |$a:pat_param| $value:expr);*) => {
        match $b.to_f64() {
            $(Some($b_is) => {
                #[inline(always)]
                #[allow(dead_code, reason = "an expression may ask only whether there is a simple form")]
                fn $name<$A: Number>($a: $A) -> $A {
                    $value
                }
                $then
            })*
            _ => $other,
        }
    };
}

/// `aᵇ`
#[inline(always)]
pub(super) fn pow<E: Elementary, A: Number>(a: A, b: A) -> A {
    simple!(A, b, value => value(a), else A::power::<E>(a, b))
}

/// `b · aᵇ⁻¹`, and 0 where `b` is 0.
#[inline(always)]
pub(super) fn slope<E: Elementary, A: Number>(a: A, b: A) -> A {
    if b == A::zero() { b } else { b * pow::<E, A>(a, b - A::one()) }
}

/// A power of `f32` by elementary functions.
#[inline(always)]
pub(super) fn power_of_f32<E: Elementary>(a: f32, b: f32) -> f32 {
    let (x, y) = (f64::from(a.abs()), f64::from(b));
    let size = E::exp(y * E::ln(x)) as f32;
    let half = 0.5 * y;
    let is_integer = y.floor() == y;
    let is_odd = is_integer & (half.floor() != half);
    let result = if is_odd & a.is_sign_negative() { -size } else { size };
    let result = if (a < 0.0) & (a > f32::NEG_INFINITY) & !is_integer { f32::NAN } else { result };
    let is_one = (a == 1.0) | (b == 0.0) | ((a == -1.0) & b.is_infinite());
    if is_one { 1.0 } else { result }
}

/// A power of `f64` by the math library, with signaling NaNs made quiet. The library gives 1 for
/// `1ᵇ` and `a⁰` if the other operand is a quiet NaN, but NaN if it is a signaling one. Most
/// operations, but not all, return quiet NaNs, so the result would depend on the origin of the NaN.
#[inline(always)]
pub(super) fn power_of_f64(a: f64, b: f64) -> f64 {
    let quiet = |x: f64| if x.is_nan() { f64::NAN } else { x };
    quiet(a).powf(quiet(b))
}

/// For loops over many powers.
impl Binary {
    #[doc(hidden)]
    /// Whether this is a power, or the slope of one.
    pub fn is_power(self) -> bool {
        matches!(self, Binary::Pow | Binary::PowSlope)
    }

    #[doc(hidden)]
    /// Runs a loop for the powers with this exponent. `None` if it has no simple form.
    pub fn each_with_exponent<A: Number, L: UnaryLoop<A>>(self, b: A, over: L) -> Option<L::Output> {
        match self {
            Binary::Pow => simple!(A, b, value => Some(over.run(value)), else None),
            Binary::PowSlope if b != A::zero() => simple!(
                A, (b - A::one()), value => Some(over.run(#[inline(always)] move |a| b * value(a))), else None
            ),
            _ => None,
        }
    }

    #[doc(hidden)]
    /// Whether the power with this exponent has a simple form.
    #[inline(always)]
    pub fn has_simple_form<A: Number>(self, b: A) -> bool {
        let power = if self == Binary::PowSlope { b - A::one() } else { b };
        self.may_have_simple_form(b) && simple!(A, power, value => true, else false)
    }

    #[doc(hidden)]
    /// Whether the exponent is integral or half-integral and near 0: a test without branches.
    #[inline(always)]
    pub fn may_have_simple_form<A: Number>(self, b: A) -> bool {
        let b = if self == Binary::PowSlope { b - A::one() } else { b };
        (b + b == (b + b).floor()) & (b.abs() <= A::of(4.0))
    }

    #[doc(hidden)]
    /// Runs a loop for powers with any exponents that have no simple form.
    pub fn each_without_simple_form<A: Number, L: BinaryLoop<A>>(self, over: L) -> L::Output {
        match self {
            Binary::PowSlope => over.run(
                #[inline(always)]
                |a, b| if b == A::zero() { b } else { b * A::power::<L::Functions>(a, b - A::one()) },
            ),
            _ => over.run(
                #[inline(always)]
                |a, b| A::power::<L::Functions>(a, b),
            ),
        }
    }
}
