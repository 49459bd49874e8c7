//! Multiply-add with and without fusion, and the elementary functions with each of them.

use crate::number::Number;
use crate::simd::{arch, fuses};
use num_traits::Float;
use pulp::{Simd, WithSimd};

/// How `a · b + c` is computed.
pub trait MulAdd: 'static {
    fn mul_add<A: Float>(a: A, b: A, c: A) -> A;
}

/// Elementary functions with fused multiply-add (rounded once), for loops that are compiled for an
/// instruction set that has it. Without one, each multiply-add is a call into the math library.
///
/// ```
/// use dl_math::{Elementary, Fused};
/// assert_eq!(Fused::exp(0.0_f64), 1.0);
/// ```
pub struct Fused;

/// Elementary functions without fused multiply-add: products are rounded before they are added.
/// Every processor supports this.
///
/// ```
/// use dl_math::{Elementary, Unfused};
/// assert_eq!(Unfused::exp(0.0_f64), 1.0);
/// ```
pub struct Unfused;

/// Elementary functions for single numbers: each call looks up the [instruction
/// set](crate::instructions), which takes about 3 ns, and uses [`Fused`] or [`Unfused`]. A loop
/// over them is not vectorised; use [`Unfused`] for that, or [`Fused`] in a loop that is compiled
/// for an instruction set with fused multiply-add.
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
        /// The elementary functions with one kind of multiply-add: [`Fused`], [`Unfused`], or
        /// [`Native`], which selects one by the instruction set. See [`Number`].
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
    /// The sine
    sin
    /// The cosine
    cos
    /// The tangent
    tan
    /// The arc sine
    asin
    /// The arc cosine
    acos
    /// The arc tangent
    atan
}
