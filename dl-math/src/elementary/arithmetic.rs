//! The ways to compute `a · b + c`, and the elementary functions by each of them.

use crate::number::Number;
use crate::simd::{arch, fuses};
use num_traits::Float;
use pulp::{Simd, WithSimd};

/// How `a · b + c` is computed.
pub trait MulAdd: 'static {
    fn mul_add<A: Float>(a: A, b: A, c: A) -> A;
}

/// Elementary functions whose products and sums are rounded once, for loops that are compiled for a
/// processor that does so: elsewhere each is a call.
///
/// ```
/// use dl_math::{Elementary, Fused};
/// assert_eq!(Fused::exp(0.0_f64), 1.0);
/// ```
pub struct Fused;

/// Elementary functions whose products are rounded before they are added, as every processor can.
///
/// ```
/// use dl_math::{Elementary, Unfused};
/// assert_eq!(Unfused::exp(0.0_f64), 1.0);
/// ```
pub struct Unfused;

/// Elementary functions by the [instruction set](crate::instructions), which each call looks up,
/// for some 3 ns: those of single numbers. A loop over them is not vectorised, as one over
/// [`Unfused`], or over [`Fused`] where it is compiled for such a processor, is.
///
/// ```
/// use dl_math::{Elementary, Native, Number};
/// assert_eq!(Native::exp(1.0_f64), Number::exp(1.0_f64));
/// ```
pub struct Native;

impl MulAdd for Fused {
    #[inline(always)]
    fn mul_add<A: Float>(a: A, b: A, c: A) -> A {
        a.mul_add(b, c)
    }
}

impl MulAdd for Unfused {
    #[inline(always)]
    fn mul_add<A: Float>(a: A, b: A, c: A) -> A {
        a * b + c
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// The elementary functions, by one way to compute products and sums: [`Fused`],
        /// [`Unfused`], or whichever is [`Native`] to the processor. See [`Number`].
        ///
        /// ```
        /// use dl_math::{Elementary, Native, Unfused};
        /// fn cosh<E: Elementary>(x: f64) -> f64 {
        ///     0.5 * (E::exp(x) + E::exp(-x))
        /// }
        /// assert!((cosh::<Native>(1.0) - cosh::<Unfused>(1.0)).abs() < 1e-15);
        /// ```
        pub trait Elementary: 'static {
            $($(#[$doc])* fn $name<A: Number>(x: A) -> A;)*
        }

        impl<M: MulAdd> Elementary for M {
            $(#[inline(always)]
            fn $name<A: Number>(x: A) -> A {
                super::$name::<M, A>(x)
            })*
        }

        impl Elementary for Native {
            $(fn $name<A: Number>(x: A) -> A {
                struct Of<A>(A);

                impl<A: Number> WithSimd for Of<A> {
                    type Output = A;

                    #[inline(always)]
                    fn with_simd<S: Simd>(self, _: S) -> A {
                        if fuses::<S>() { Fused::$name(self.0) } else { Unfused::$name(self.0) }
                    }
                }

                arch().dispatch(Of(x))
            })*
        }
    };
}

functions! {
    /// `eˣ`
    exp
    /// `eˣ − 1`
    exp_m1
    /// `ln x`
    ln
    /// `ln(1 + x)`
    ln_1p
    /// The hyperbolic tangent
    tanh
    /// `1 / (1 + e⁻ˣ)`
    logistic
    /// The error function
    erf
    /// `1 − erf x`
    erfc
}
