//! Elementary functions in plain arithmetic, so that the compiler can vectorise loops over them.
//!
//! A function is a sequence of additions, multiplications, divisions, selections and operations on
//! bits: no branch, no table, no call. Every formula is written once, for both formats and for
//! processors with and without fused multiply-add; [`Format`] holds the differences between the
//! formats, [`MulAdd`] those between the processors. The last digits of a result therefore depend
//! only on whether the [instruction set](crate::instructions) has fused multiply-add, and not on
//! whether a number is computed as a scalar or as an element of a vector, nor on the vector width.
//!
//! The largest errors observed, with and without fused multiply-add, in units in the last place of
//! the exact value:
//!
//! | | `f32`, every number | `f64`, millions of random numbers |
//! |---|---|---|
//! | `exp` | 0.77 | 0.71 |
//! | `exp_m1` | 1.09 | 1.20 |
//! | `ln` | 0.83 | 0.86 |
//! | `ln_1p` | 0.84 | 0.85 |
//! | `tanh` | 1.94 | 2.13 |
//! | `logistic` | 2.40 | 2.38 |
//! | `erf` | 1.28 | 1.55 |
//! | `erfc` | 3.45 | 3.15 |
//!
//! The circular functions of `f32` and their inverses are computed in `f64` ([`circular`]), with
//! errors of at most 0.51; those of `f64` are the standard library's.
//!
//! For subnormal results, the unit is the smallest positive number. At 0 and at the infinities the
//! values are those of the standard library, with their signs; for NaN they are NaN, with either
//! sign.
//!
//! Sources: the argument reduction of the exponential function is that of Cody and Waite (*Software
//! Manual for the Elementary Functions*, 1980); that of the logarithm, and its reconstruction, are
//! those of fdlibm (Sun Microsystems, 1993). The polynomials are near-minimax, interpolated at
//! Chebyshev points by `tests/reference/elementary_fit.py`.

pub(crate) mod arithmetic;
mod circular;
mod coefficients;
pub(crate) mod format;
mod polynomial;

use crate::number::Number;
use arithmetic::MulAdd;

macro_rules! of_format {
    ($($name:ident $single:ident)*) => {$(
        #[inline(always)]
        fn $name<M: MulAdd, A: Number>(x: A) -> A {
            x.by(circular::$single::<M>, f64::$name)
        }
    )*};
}

of_format!(sin sine cos cosine tan tangent asin arcsine acos arccosine atan arctangent);

/// `eˣ`
#[inline(always)]
pub(super) fn exp<M: MulAdd, A: Number>(x: A) -> A {
    let [lowest, highest] = A::EXP_RANGE;
    let x = select(x > highest, highest, x);
    let x = select(x < lowest, lowest, x);
    let power = ReducedExp::of::<M>([x, A::zero()], x, A::ROUND);
    let sum = A::one() + power.high;
    let rounded_off = (A::one() - sum) + power.high;
    let low = power.low::<M>(rounded_off - power.correction);
    // bitwise `2ᵏ (sum + low)`: products with powers of two are exact, and `sum * first` does not
    // depend on `low`, so both are computed in parallel
    let [first, second] = A::factors(power.exponent);
    M::mul_add(low, first, sum * first) * second
}

/// `eˣ − 1`
#[inline(always)]
pub(super) fn exp_m1<M: MulAdd, A: Number>(x: A) -> A {
    let power = ReducedExp::of::<M>([x, A::zero()], x, A::ROUND_HALF);
    let y = power.half_exp_m1::<M>(A::power_of_two(power.exponent));
    let y = select(x < A::of(-64.0), -A::one(), select(x > A::EXP_RANGE[1], A::infinity(), y + y));
    select(x.abs() < A::TINY, x, y)
}

/// `ln x`
#[inline(always)]
pub(super) fn ln<M: MulAdd, A: Number>(x: A) -> A {
    let small = x < A::min_positive_value();
    let (exponent, fraction) = select(small, x * A::SUBNORMAL_SCALE, x).split();
    let exponent = select(small, exponent - A::SUBNORMAL_SCALE_EXPONENT, exponent);
    ln_with_special_cases(x, ln_reduced::<M, A>(exponent, fraction - A::one(), A::zero()))
}

/// `ln(1 + x)`
#[inline(always)]
pub(super) fn ln_1p<M: MulAdd, A: Number>(x: A) -> A {
    let sum = A::one() + x;
    let (exponent, fraction) = sum.split();
    let large = x > A::one();
    let rounded_off = select(large, A::one(), x) - (sum - select(large, x, A::one()));
    let near = exponent == A::zero();
    let fraction = select(near, x, fraction - A::one());
    let y = ln_reduced::<M, A>(exponent, fraction, select(near, A::zero(), rounded_off / sum));
    select(x.abs() < A::TINY, x, ln_with_special_cases(sum, y))
}

/// `ln(2ᵏ (1 + f)) + rest`, where `f` is between `√½ − 1` and `√2 − 1`.
///
/// With `s = f / (2 + f)` the logarithm of `1 + f = (1 + s) / (1 − s)` is `2 s + s³ (…)` of `s²`,
/// and `2 s = f − f s`.
#[inline(always)]
fn ln_reduced<M: MulAdd, A: Number>(k: A, f: A, rest: A) -> A {
    let s = f / (A::of(2.0) + f);
    let z = s * s;
    let half_square = A::of(0.5) * f * f;
    let tail = M::mul_add(s, M::mul_add(z, A::ln_tail::<M>(z), half_square), M::mul_add(k, A::LN_2[1], rest));
    M::mul_add(k, A::LN_2[0], f - (half_square - tail))
}

/// `ln x`: `y` if `x` is positive and finite, else the value of a special case.
#[inline(always)]
fn ln_with_special_cases<A: Number>(x: A, y: A) -> A {
    let positive = x > A::zero();
    let end = select(positive, x, select(x == A::zero(), A::neg_infinity(), A::nan()));
    select(positive & (x <= A::max_value()), y, end)
}

/// The hyperbolic tangent: `(1 − e) / (1 + e)`, where `e = e⁻²ᵃ` and `a = |x|`.
///
/// With `e = 2ᵏ (1 + m)`, half of the numerator and half of the denominator are
/// `½ ∓ 2ᵏ⁻¹ (1 + m)`. The error of `k ln 2` is multiplied by `2ᵏ`, so one part of `ln 2` is
/// enough here.
#[inline(always)]
pub(super) fn tanh<M: MulAdd, A: Number>(x: A) -> A {
    let half = A::of(0.5);
    // from far below 32 on, the result rounds to 1
    let a = select(x.abs() > A::of(32.0), A::of(32.0), x.abs());
    let twice = a + a;
    let exponent = M::mul_add(a, -(A::LOG2_E + A::LOG2_E), A::ROUND_HALF);
    let r = M::mul_add(A::ROUND_HALF - exponent, A::LN_2_NEAREST, -twice);
    let scale = A::power_of_two(exponent);
    let m = M::mul_add(r * r, A::exp_tail::<M>(r), r);
    (M::mul_add(-scale, m, half - scale) / M::mul_add(scale, m, half + scale)).with_sign_of(x)
}

/// `1 / (1 + e⁻ˣ)`
#[inline(always)]
pub(super) fn logistic<M: MulAdd, A: Number>(x: A) -> A {
    let e = exp::<M, A>(-x.abs());
    select(x >= A::zero(), A::one(), e) / (A::one() + e)
}

/// The error function
#[inline(always)]
pub(super) fn erf<M: MulAdd, A: Number>(x: A) -> A {
    let a = x.abs();
    let far = (A::one() - erfc_far::<M, A>(a)).with_sign_of(x);
    select(a < A::one(), erf_near::<M, A>(x), far)
}

/// `1 − erf x`
#[inline(always)]
pub(super) fn erfc<M: MulAdd, A: Number>(x: A) -> A {
    let a = x.abs();
    let far = erfc_far::<M, A>(a);
    let far = select(x < A::zero(), A::of(2.0) - far, far);
    select(a < A::of(0.8), A::one() - erf_near::<M, A>(x), far)
}

/// The error function between −1 and 1.
#[inline(always)]
fn erf_near<M: MulAdd, A: Number>(x: A) -> A {
    M::mul_add(x, A::erf_tail::<M>(x * x), x)
}

/// The complementary error function of `x ≥ 0.75`: a polynomial of `t = (x − 3) / (x + 3)` for
/// `exp(x²) erfc(x) (x + ½)`, which is nearly constant. The form is that of Shepherd and
/// Laframboise (*Mathematics of Computation* 36, 1981), with other constants.
#[inline(always)]
fn erfc_far<M: MulAdd, A: Number>(x: A) -> A {
    let x = select(x > A::ERFC_END, A::ERFC_END, x);
    // x² = short² + (x − short) (x + short), where short² is exact
    let short = x.truncate_significand();
    let parts = [-(short * short), (short - x) * (short + x)];
    let power = ReducedExp::of::<M>(parts, -(x * x), A::ROUND);
    let three = A::of(3.0);
    let t = (x - three) / (x + three);
    let tail = t * A::erfc_scaled::<M>(t);
    let [first, first_low] = A::ERFC_SCALED;
    let scaled = first + tail;
    let rounded_off = ((first - scaled) + tail) + first_low;
    let low = power.low::<M>(-power.correction);
    let [first, second] = A::factors(power.exponent);
    (scaled + M::mul_add(scaled, power.high + low, rounded_off)) / (x + A::of(0.5)) * first * second
}

/// `eˣ = 2ᵏ e^(high − correction)`, where `high` is exact and at most `ln(2) / 2`, and `correction`
/// is much smaller.
struct ReducedExp<A> {
    /// `k` plus the rounding constant
    exponent: A,
    high: A,
    correction: A,
}

impl<A: Number> ReducedExp<A> {
    /// `e^(x + rest)`, where `sum` is `x + rest`, rounded. The rounding constant `round` is
    /// `A::ROUND` or `A::ROUND_HALF`.
    #[inline(always)]
    fn of<M: MulAdd>([x, rest]: [A; 2], sum: A, round: A) -> Self {
        let exponent = M::mul_add(sum, A::LOG2_E, round);
        let k = exponent - round;
        let high = M::mul_add(-k, A::LN_2[0], x);
        ReducedExp { exponent, high, correction: M::mul_add(k, A::LN_2[1], -rest) }
    }

    /// `e^(high − correction) − (1 + high)`, if `rest` is `−correction`. A caller may add a further
    /// small term to `rest`; this adds no latency, because `rest` is known before the polynomial
    /// is.
    #[inline(always)]
    fn low<M: MulAdd>(&self, rest: A) -> A {
        let r = self.high - self.correction;
        M::mul_add(r * r, A::exp_tail::<M>(r), rest)
    }

    /// `(eˣ − 1) / 2`, if `scale` is `2ᵏ⁻¹`.
    #[inline(always)]
    fn half_exp_m1<M: MulAdd>(&self, scale: A) -> A {
        let (power, high) = (scale - A::of(0.5), scale * self.high);
        let sum = power + high;
        let rounded_off = high - (sum - power);
        sum + M::mul_add(scale, self.low::<M>(-self.correction), rounded_off)
    }
}

/// `yes` or `no`, both of which are computed: no branch.
#[inline(always)]
fn select<A>(condition: bool, yes: A, no: A) -> A {
    if condition { yes } else { no }
}
