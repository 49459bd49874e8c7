//! The constants and bit operations by which the elementary functions differ in `f32` and `f64`.

use crate::elementary::arithmetic::{Elementary, MulAdd};
use crate::elementary::coefficients;
use crate::power::{Pair, Wide, power_of_f32, power_of_f64};
use num_traits::Float;

/// Constants, bit operations and polynomials of a floating-point format, for the elementary
/// functions.
pub trait Format: Float {
    /// Numbers with about twice the precision.
    type Wide: Wide<Self>;
    /// Adding this rounds a number to an integer. The lowest bits of the sum hold that integer plus
    /// twice the exponent bias.
    const ROUND: Self;
    /// As [`ROUND`](Format::ROUND), but the integer plus the exponent bias less one.
    const ROUND_HALF: Self;
    /// `1 / ln 2`
    const LOG2_E: Self;
    /// `ln 2` in two parts; the product of the first with an exponent is exact.
    const LN_2: [Self; 2];
    /// `ln 2`
    const LN_2_NEAREST: Self;
    /// Outside of this range `eˣ` rounds to 0 or infinity.
    const EXP_RANGE: [Self; 2];
    /// From here on `erfc x` rounds to 0.
    const ERFC_END: Self;
    /// The first coefficient of `erfc_scaled`, in two parts.
    const ERFC_SCALED: [Self; 2];
    /// Below this magnitude, a function with value 0 and slope 1 at 0 rounds to its argument.
    const TINY: Self;
    /// A power of two. Its product with a subnormal number is normal.
    const SUBNORMAL_SCALE: Self;
    /// The exponent of `SUBNORMAL_SCALE`.
    const SUBNORMAL_SCALE_EXPONENT: Self;

    /// `2ᵏ` as a product of two factors, if `exponent` is `k + ROUND`. `2ᵏ` itself need not be a
    /// normal number. A number times the first factor, times the second, is rounded at most once,
    /// even if the result is subnormal.
    #[must_use]
    fn factors(exponent: Self) -> [Self; 2];
    /// `2ᵏ⁻¹`, if `exponent` is `k + ROUND_HALF`.
    #[must_use]
    fn power_of_two(exponent: Self) -> Self;
    /// `k` and `m` with `self = 2ᵏ m` and `m` between `√½` and `√2`, if `self` is positive and
    /// normal.
    fn split(self) -> (Self, Self);
    /// `self` with the sign of `other`, if `self` is not negative: one operation less than
    /// `copysign`. If `self` is NaN, the sign of the result is unspecified.
    #[must_use]
    fn with_sign_of(self, other: Self) -> Self;
    /// `self` with the lower half of its significand cleared, so that its square is exact.
    #[must_use]
    fn truncate_significand(self) -> Self;

    /// A power, if the exponent has no simple form.
    #[must_use]
    fn power<E: Elementary>(a: Self, b: Self) -> Self;

    /// The value of the function for this format.
    #[must_use]
    fn by(self, single: impl FnOnce(f32) -> f32, double: impl FnOnce(f64) -> f64) -> Self;

    /// The polynomial of that name in `coefficients`.
    #[must_use]
    fn exp_tail<M: MulAdd>(r: Self) -> Self;
    /// The polynomial of that name in `coefficients`.
    #[must_use]
    fn ln_tail<M: MulAdd>(z: Self) -> Self;
    /// The polynomial of that name in `coefficients`.
    #[must_use]
    fn erf_tail<M: MulAdd>(z: Self) -> Self;
    /// The polynomial of that name in `coefficients`.
    #[must_use]
    fn erfc_scaled<M: MulAdd>(t: Self) -> Self;
}

macro_rules! format {
    ($T:ident $Bits:ident $($item:item)*) => {
        impl Format for $T {
            $($item)*
            const ROUND: $T = 1.5 / $T::EPSILON + 2.0 * ($T::MAX_EXP - 1) as $T;
            const ROUND_HALF: $T = 1.5 / $T::EPSILON + ($T::MAX_EXP - 2) as $T;
            const LOG2_E: $T = std::$T::consts::LOG2_E;
            const LN_2_NEAREST: $T = std::$T::consts::LN_2;
            const ERFC_SCALED: [$T; 2] = coefficients::$T::ERFC_SCALED;
            const TINY: $T = $T::EPSILON / 4.0;
            const SUBNORMAL_SCALE: $T = 2.0 / $T::EPSILON;
            const SUBNORMAL_SCALE_EXPONENT: $T = $T::MANTISSA_DIGITS as $T;

            #[inline(always)]
            fn factors(exponent: $T) -> [$T; 2] {
                let exponent = exponent.to_bits();
                let half = exponent >> 1;
                [half, exponent - half].map(|k| $T::from_bits(k << ($T::MANTISSA_DIGITS - 1)))
            }

            #[inline(always)]
            fn power_of_two(exponent: $T) -> $T {
                $T::from_bits(exponent.to_bits() << ($T::MANTISSA_DIGITS - 1))
            }

            #[inline(always)]
            fn split(self) -> ($T, $T) {
                const ROOT: $Bits = std::$T::consts::FRAC_1_SQRT_2.to_bits();
                const ONE: $Bits = (1.0 as $T).to_bits();
                // the lowest bits of `INTEGER + n` are those of `n`, for an integer `n` below it
                const INTEGER: $T = 1.0 / $T::EPSILON;
                let bits = self.to_bits().wrapping_add(ONE - ROOT);
                let exponent = $T::from_bits(bits >> ($T::MANTISSA_DIGITS - 1) | INTEGER.to_bits()) - (INTEGER + ($T::MAX_EXP - 1) as $T);
                (exponent, $T::from_bits((bits & ((1 << ($T::MANTISSA_DIGITS - 1)) - 1)) + ROOT))
            }

            #[inline(always)]
            fn with_sign_of(self, other: $T) -> $T {
                $T::from_bits(self.to_bits() ^ (other.to_bits() & (-0.0 as $T).to_bits()))
            }

            #[inline(always)]
            fn truncate_significand(self) -> $T {
                $T::from_bits(self.to_bits() & ($Bits::MAX << ($T::MANTISSA_DIGITS / 2 + 1)))
            }

            #[inline(always)]
            fn exp_tail<M: MulAdd>(r: $T) -> $T {
                coefficients::$T::exp_tail::<M>(r)
            }

            #[inline(always)]
            fn ln_tail<M: MulAdd>(z: $T) -> $T {
                coefficients::$T::ln_tail::<M>(z)
            }

            #[inline(always)]
            fn erf_tail<M: MulAdd>(z: $T) -> $T {
                coefficients::$T::erf_tail::<M>(z)
            }

            #[inline(always)]
            fn erfc_scaled<M: MulAdd>(t: $T) -> $T {
                coefficients::$T::erfc_scaled::<M>(t)
            }
        }
    };
}

format! { f32 u32
    type Wide = f64;
    const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];
    const EXP_RANGE: [f32; 2] = [-104.5, 89.0];
    const ERFC_END: f32 = 11.0;

    #[inline(always)]
    fn power<E: Elementary>(a: f32, b: f32) -> f32 {
        power_of_f32::<E>(a, b)
    }

    #[inline(always)]
    fn by(self, single: impl FnOnce(f32) -> f32, _: impl FnOnce(f64) -> f64) -> f32 {
        single(self)
    }
}

format! { f64 u64
    type Wide = Pair;
    const LN_2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];
    const EXP_RANGE: [f64; 2] = [-746.0, 710.0];
    const ERFC_END: f64 = 28.0;

    #[inline(always)]
    fn power<E: Elementary>(a: f64, b: f64) -> f64 {
        power_of_f64(a, b)
    }

    #[inline(always)]
    fn by(self, _: impl FnOnce(f32) -> f32, double: impl FnOnce(f64) -> f64) -> f64 {
        double(self)
    }
}
