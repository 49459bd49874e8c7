//! The circular functions of `f32` and their inverses, in `f64`: without a branch, so that loops
//! over them are vectorised, for numbers of any size. The errors are at most 0.51 units in the last
//! place.
//!
//! The series of sine and cosine are Taylor's; the rational function of the arc sine and the
//! polynomial of the arc tangent are those of fdlibm.

use super::arithmetic::MulAdd;
use super::polynomial::polynomial;
use super::select;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, TAU};

/// `1 / 2π` in parts of 28 bits. The product of a part with an `f32` is exact, and so is its
/// distance from the next integer.
const TURNS: [f64; 7] = {
    const fn part(bits: u32, place: u64) -> f64 {
        bits as f64 * f64::from_bits((1023 - 28 * place) << 52)
    }
    [
        part(42_722_829, 1),
        part(194_220_293, 2),
        part(78_114_973, 3),
        part(99_908_941, 4),
        part(58_131_309, 5),
        part(145_057_359, 6),
        part(17_711_367, 7),
    ]
};

/// Below this magnitude sine and tangent round to their argument.
const TINY: f32 = 1.0 / 4096.0;

/// The number of quarter turns, from 0 to 3, and the sine and the cosine of the rest.
#[inline(always)]
fn reduced<M: MulAdd>(x: f32) -> (f64, f64, f64) {
    let x = f64::from(x);
    let (mut rests, mut sum) = ([0.0; TURNS.len()], 0.0);
    for i in 0..TURNS.len() {
        let turns = x * TURNS[i];
        rests[i] = turns - turns.round_ties_even();
        sum += rests[i];
    }
    let quarters = (4.0 * sum).round_ties_even();
    // the first sums are exact, also if the angle is close to a multiple of π/2
    let mut rest = -0.25 * quarters;
    for part in rests {
        rest += part;
    }
    let angle = rest * TAU;
    let z = angle * angle;
    let sine = polynomial!(M z; -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5_040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0);
    let cosine =
        polynomial!(M z; -0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0, -1.0 / 3_628_800.0, 1.0 / 479_001_600.0);
    let quarter = quarters - 4.0 * (0.25 * quarters).floor();
    (quarter, M::mul_add(angle * z, sine, angle), M::mul_add(z, cosine, 1.0))
}

#[inline(always)]
fn is_odd(quarter: f64) -> bool {
    (quarter == 1.0) | (quarter == 3.0)
}

#[inline(always)]
pub(super) fn sine<M: MulAdd>(x: f32) -> f32 {
    let (quarter, sine, cosine) = reduced::<M>(x);
    let size = select(is_odd(quarter), cosine, sine);
    select(x.abs() < TINY, x, select(quarter >= 2.0, -size, size) as f32)
}

#[inline(always)]
pub(super) fn cosine<M: MulAdd>(x: f32) -> f32 {
    let (quarter, sine, cosine) = reduced::<M>(x);
    let size = select(is_odd(quarter), sine, cosine);
    select((quarter == 1.0) | (quarter == 2.0), -size, size) as f32
}

#[inline(always)]
pub(super) fn tangent<M: MulAdd>(x: f32) -> f32 {
    let (quarter, sine, cosine) = reduced::<M>(x);
    let odd = is_odd(quarter);
    let tangent = select(odd, -cosine, sine) / select(odd, sine, cosine);
    select(x.abs() < TINY, x, tangent as f32)
}

/// `asin x`; beyond ½ it is `π/2 − 2 asin √((1 − x) / 2)`.
#[inline(always)]
fn arc<M: MulAdd>(x: f32) -> f64 {
    let x = f64::from(x);
    let size = x.abs();
    let far = size > 0.5;
    let z = select(far, 0.5 - 0.5 * size, size * size);
    let root = select(far, z.sqrt(), size);
    let over = polynomial!(M z; 1.666_666_666_666_666_6e-1, -3.255_658_186_224_009e-1, 2.012_125_321_348_629_3e-1,
        -4.005_553_450_067_941e-2, 7.915_349_942_898_145e-4, 3.479_331_075_960_212e-5);
    let under = polynomial!(M z; 1.0, -2.403_394_911_734_414, 2.020_945_760_233_505_7, -6.882_839_716_054_533e-1,
        7.703_815_055_590_194e-2);
    let near = M::mul_add(root, z * over / under, root);
    select(far, FRAC_PI_2 - (near + near), near).copysign(x)
}

#[inline(always)]
pub(super) fn arcsine<M: MulAdd>(x: f32) -> f32 {
    arc::<M>(x) as f32
}

#[inline(always)]
pub(super) fn arccosine<M: MulAdd>(x: f32) -> f32 {
    (FRAC_PI_2 - arc::<M>(x)) as f32
}

/// `atan x`; beyond `tan(π/8)` it is `π/4 + atan((x − 1) / (x + 1))`, and beyond `tan(3π/8)`
/// `π/2 − atan(1 / x)`.
#[inline(always)]
pub(super) fn arctangent<M: MulAdd>(x: f32) -> f32 {
    let (x, size) = (f64::from(x), f64::from(x.abs()));
    let (middle, far) = (size > 0.414_213_562_373_095_05, size > 2.414_213_562_373_095);
    let over = select(far, -1.0, select(middle, size - 1.0, size));
    let t = over / select(far, size, select(middle, size + 1.0, 1.0));
    let z = t * t;
    let tail = polynomial!(M z; -3.333_333_333_333_293e-1, 1.999_999_999_987_648_3e-1, -1.428_571_427_250_346_6e-1,
        1.111_111_040_546_235_6e-1, -9.090_887_133_436_507e-2, 7.691_876_205_044_83e-2, -6.661_073_137_387_531e-2,
        5.833_570_133_790_573_5e-2, -4.976_877_994_615_932e-2, 3.653_157_274_421_691_6e-2, -1.628_582_011_536_578_2e-2);
    let start = select(far, FRAC_PI_2, select(middle, FRAC_PI_4, 0.0));
    (start + M::mul_add(t * z, tail, t)).copysign(x) as f32
}
