//! Powers against the math library: special values, errors in units in the last place, and the
//! derivative.

use dl_math::{Binary, Number, Term};

const EXPONENTS: [f64; 18] =
    [-4.0, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 0.3, 7.25];

const SPECIAL: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.5,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e-40,
    -1e-40,
    1e-320,
    3e38,
    -3e38,
    1.5e-160,
    1e160,
];

fn same<A: Number>(found: A, wanted: A) -> bool {
    found.is_nan() && wanted.is_nan() || found == wanted && found.is_sign_negative() == wanted.is_sign_negative()
}

#[test]
fn special_values_of_powers_are_those_of_math_library() {
    let exponents = EXPONENTS.into_iter().chain(SPECIAL).chain([f64::MAX, -f64::MAX]);
    for (b, a) in exponents.flat_map(|b| SPECIAL.into_iter().map(move |a| (b, a))) {
        let wanted = a.powf(b);
        let found = Binary::Pow.value(a, b);
        let near = (found - wanted).abs() <= 2e-16 * wanted.abs().max(f64::MIN_POSITIVE);
        assert!(same(found, wanted) || near, "{a:e} to the power {b:e} is {found:e}, not {wanted:e}");
        let (a, b) = (a as f32, b as f32);
        let (found, wanted) = (Binary::Pow.value(a, b), a.powf(b));
        let near = (found - wanted).abs() <= 1.2e-7 * wanted.abs().max(f32::MIN_POSITIVE);
        assert!(same(found, wanted) || near, "{a:e} to the power {b:e} is {found:e}, not {wanted:e}");
    }
}

/// Numbers of all magnitudes, in no order.
fn numbers() -> impl Iterator<Item = f64> {
    (0..20_000_u64).map(|i| {
        let random = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (i << 17);
        let fraction = 1.0 + (random >> 12) as f64 / (1_u64 << 52) as f64;
        fraction * 2_f64.powi((random % 61) as i32 - 30)
    })
}

#[test]
fn powers_of_f32_are_nearest_numbers() {
    for (i, a) in numbers().enumerate() {
        let (a, b) = (a as f32, (EXPONENTS[i % EXPONENTS.len()]) as f32);
        let (found, exact) = (Binary::Pow.value(a, b), f64::from(a).powf(f64::from(b)));
        if (1e-37..1e38).contains(&exact) {
            let unit = f64::from((exact as f32).next_up() - exact as f32);
            let error = (f64::from(found) - exact).abs() / unit;
            assert!(error <= 0.5001, "{a:e} to the power {b} is {found:e}: {error}");
        }
    }
}

/// The library has an error of at most 0.52 units, so two nearest numbers differ seldom, and by one
/// unit.
#[test]
fn powers_of_f64_are_nearest_numbers() {
    let mut differ = 0;
    for (i, a) in numbers().enumerate() {
        let b = EXPONENTS[i % EXPONENTS.len()];
        let (found, wanted) = (Binary::Pow.value(a, b), a.powf(b));
        differ += usize::from(found != wanted);
        assert!(found.to_bits().abs_diff(wanted.to_bits()) <= 1, "{a:e} to the power {b} is {found:e}, not {wanted:e}");
    }
    assert!(differ < 100, "{differ} of 20,000");
    for a in (1..=100_000_u64).step_by(37) {
        let x = a as f64;
        let [square, cube, third] = [2.0, 3.0, -3.0].map(|b| Binary::Pow.value(x, b));
        assert_eq!((square, cube), ((a * a) as f64, (a * a * a) as f64));
        assert_eq!(third, 1.0 / (a * a * a) as f64);
    }
}

#[test]
fn slope_of_power_matches_its_formula() {
    for (b, a) in EXPONENTS.into_iter().flat_map(|b| [0.7_f64, 1.3, 2.0, 40.0].map(|a| (b, a))) {
        let [x, y, d] = [a, a.powf(b), 3.0].map(Term);
        let found = Binary::Pow.pullback_left(&x, &Term(b), &y, &d).expect("a slope").0;
        let wanted = 3.0 * b * a.powf(b - 1.0);
        assert!((found - wanted).abs() <= 1e-15 * wanted.abs(), "{a} to the power {b}: {found} instead of {wanted}");
    }
}
