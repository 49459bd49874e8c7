//! The coefficients of the polynomials: `tests/reference/elementary_fit.py` writes this file.

use crate::elementary::arithmetic::MulAdd;
use crate::elementary::polynomial::polynomial;

pub(super) mod f32 {
    use super::{MulAdd, polynomial};

    /// `(eʳ − 1 − r) / r²`, with an error below 1.5e-9.
    #[inline(always)]
    pub(in super::super) fn exp_tail<M: MulAdd>(x: f32) -> f32 {
        polynomial!(M x; 0.5, 0.16666667, 0.041666467, 0.0083333105, 0.001393365, 0.00019890991)
    }

    /// `(ln((1 + s) / (1 − s)) − 2 s) / (s z)`, where `z = s²`, with an error below 1.2e-9.
    #[inline(always)]
    pub(in super::super) fn ln_tail<M: MulAdd>(x: f32) -> f32 {
        polynomial!(M x; 0.6666667, 0.40000123, 0.28550822, 0.23330468)
    }

    /// `erf(x) / x − 1`, where `z = x²`, with an error below 1.3e-9.
    #[inline(always)]
    pub(in super::super) fn erf_tail<M: MulAdd>(x: f32) -> f32 {
        polynomial!(M x; 0.12837917, -0.37612626, 0.11283594, -0.026854211, 0.0051890872, -0.00080168643, 7.875875e-05)
    }

    /// The first coefficient of `erfc_scaled`, in two parts.
    pub(in super::super) const ERFC_SCALED: [f32; 2] = [0.626504, 2.871926e-08];

    /// `exp(x²) erfc(x) (x + ½)`, where `t = (x − 3) / (x + 3)`, less its first coefficient, over
    /// t, with an error below 7.1e-10.
    #[inline(always)]
    pub(in super::super) fn erfc_scaled<M: MulAdd>(x: f32) -> f32 {
        polynomial!(M x; -0.06781055, -0.023781087, 0.06482232, -0.05963827, 0.034157947, -0.011873182, 0.0012404519, 0.0009023422, -0.0003259631)
    }
}

pub(super) mod f64 {
    use super::{MulAdd, polynomial};

    /// `(eʳ − 1 − r) / r²`, with an error below 1.5e-18.
    #[inline(always)]
    pub(in super::super) fn exp_tail<M: MulAdd>(x: f64) -> f64 {
        polynomial!(M x; 0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326136, 0.0013888888888883748, 0.00019841269874820627, 2.4801587325547743e-05, 2.7557255400206422e-06, 2.75572736431103e-07, 2.5105217004720745e-08, 2.0914686968086876e-09)
    }

    /// `(ln((1 + s) / (1 − s)) − 2 s) / (s z)`, where `z = s²`, with an error below 3.3e-16.
    #[inline(always)]
    pub(in super::super) fn ln_tail<M: MulAdd>(x: f64) -> f64 {
        polynomial!(M x; 0.666666666666667, 0.39999999999899505, 0.28571428625975487, 0.2222221113479508, 0.18182889125261723, 0.15331721600556042, 0.14616449685043406)
    }

    /// `erf(x) / x − 1`, where `z = x²`, with an error below 7.7e-18.
    #[inline(always)]
    pub(in super::super) fn erf_tail<M: MulAdd>(x: f64) -> f64 {
        polynomial!(M x; 0.12837916709551256, -0.37612638903183543, 0.11283791670945006, -0.02686617064323777, 0.0052239776071164225, -0.0008548325975389692, 0.00012055294904839707, -1.492473690741966e-05, 1.6447424703317362e-06, -1.6208483801871705e-07, 1.3720064546777686e-08, -7.795898827002142e-10)
    }

    /// The first coefficient of `erfc_scaled`, in two parts.
    pub(in super::super) const ERFC_SCALED: [f64; 2] = [0.6265040291348648, 2.5874467169908176e-17];

    /// `exp(x²) erfc(x) (x + ½)`, where `t = (x − 3) / (x + 3)`, less its first coefficient, over
    /// t, with an error below 6.0e-18.
    #[inline(always)]
    pub(in super::super) fn erfc_scaled<M: MulAdd>(x: f64) -> f64 {
        polynomial!(M x; -0.06781055306229077, -0.02378114717672532, 0.06482257935140713, -0.059636831707663415, 0.03415401367080576, -0.011885257458724915, 0.0012646959319310561, 0.0009443451627409075, -0.0003899163986886115, -5.2579660285681924e-05, 6.255137192468334e-05, 2.4728363506851995e-06, -1.0056841606062654e-05, -3.5684856128319175e-07, 1.7508076330952807e-06, 1.5395364367182392e-07, -3.242018934777423e-07, -3.3569622813402775e-08, 5.351235948815972e-08, -5.2477233793210914e-09)
    }
}
