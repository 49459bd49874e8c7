//! Plain numbers, and the values of those operations that take more than a word.

use super::term::{Algebra, Term};
use crate::buffers::Free;
use crate::optimizer::Chunk;
use num_traits::Float;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// Plain numbers: `f32` and `f64`.
///
/// ```
/// use dl_core::Number;
/// fn half<A: Number>(x: A) -> A {
///     x * A::of(0.5)
/// }
/// assert_eq!((half(3.0_f32), half(3.0_f64)), (1.5, 1.5));
/// ```
pub trait Number: Float + Send + Sync + std::fmt::Debug + std::fmt::Display + 'static {
    /// The nearest number of this type.
    fn of(number: f64) -> Self;

    /// The error function.
    ///
    /// ```
    /// use dl_core::Number;
    /// assert_eq!(Number::erf(1.0_f64), 0.842700792949714869);
    /// ```
    #[must_use]
    fn erf(self) -> Self;

    /// `1 − erf(x)`, without cancellation.
    ///
    /// ```
    /// use dl_core::Number;
    /// assert_eq!(Number::erfc(10.0_f64), 2.088487583762545e-45);
    /// ```
    #[must_use]
    fn erfc(self) -> Self;

    /// A run of numbers, as optimizers see it.
    #[doc(hidden)]
    fn chunk<'a>(values: &'a mut [Self], deltas: &'a [Self], slots: &'a mut [&'a mut [Self]]) -> Chunk<'a>;

    #[doc(hidden)]
    fn free_buffers(free: &mut Free) -> &mut Vec<Vec<Self>>;
}

macro_rules! number {
    ($T:ident $Chunk:ident: $erf:path, $erfc:path) => {
        impl Number for $T {
            #[inline(always)]
            fn of(number: f64) -> Self {
                number as $T
            }

            fn erf(self) -> Self {
                $erf(self)
            }

            fn erfc(self) -> Self {
                $erfc(self)
            }

            fn chunk<'a>(values: &'a mut [$T], deltas: &'a [$T], slots: &'a mut [&'a mut [$T]]) -> Chunk<'a> {
                Chunk::$Chunk { values, deltas, slots }
            }

            fn free_buffers(free: &mut Free) -> &mut Vec<Vec<$T>> {
                &mut free.$T
            }
        }
    };
}

number!(f32 F32: libm::erff, libm::erfcf);
number!(f64 F64: libm::erf, libm::erfc);

/// `1 / (1 + e⁻ˣ)`, without overflow.
pub(super) fn logistic<A: Number>(x: A) -> A {
    let e = (-x.abs()).exp();
    if x >= A::zero() { (A::one() + e).recip() } else { e / (A::one() + e) }
}

/// The distribution function of the standard normal distribution, without cancellation.
pub(super) fn normal<A: Number>(x: A) -> A {
    A::of(0.5) * (x * A::of(-FRAC_1_SQRT_2)).erfc()
}

/// The density of the standard normal distribution.
pub(super) fn normal_density<A: Algebra>(x: &Term<A>) -> Term<A> {
    0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (-0.5 * x.square()).exp()
}

/// `share · x`, and 0 where the share has vanished, even at −∞.
pub(super) fn share<A: Number>(share: A, x: A) -> A {
    if share == A::zero() { share } else { share * x }
}

/// `x` in the approximation of the normal distribution by the logistic function (Hendrycks and Gimpel, 2016).
pub(super) fn near_normal<A: Algebra>(x: &Term<A>) -> Term<A> {
    x * (LINEAR + CUBIC * (x * x))
}

/// The derivative of [`near_normal`].
pub(super) fn near_normal_slope<A: Algebra>(x: &Term<A>) -> Term<A> {
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
