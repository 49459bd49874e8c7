//! The elementary functions of [`Number`]: errors in units in the last place, special values,
//! bounds.
//!
//! The reference for `f64` is mpmath (`reference/elementary.py`) and, for many random numbers,
//! `libm`; for `f32` it is the function of the standard library or of `libm` in `f64`. All
//! functions are checked with the instruction set of the processor and without fused multiply-add.
//! `cargo test --release --test elementary -- --ignored` tests every `f32`.

use dl_math::{Elementary, Native, Number, Unfused};
use proptest::prelude::*;

/// A function in both formats, its reference, and the largest allowed errors, in units in the last
/// place.
struct Function {
    name: &'static str,
    by: &'static str,
    double: fn(f64) -> f64,
    single: fn(f32) -> f32,
    truth: fn(f64) -> f64,
    errors: (f64, f64),
}

macro_rules! functions {
    ($($name:ident $truth:expr, $double:literal $single:literal;)*) => {
        fn by<E: Elementary>(by: &'static str) -> Vec<Function> {
            vec![$(Function {
                name: stringify!($name),
                by,
                double: E::$name::<f64>,
                single: E::$name::<f32>,
                truth: $truth,
                errors: ($double, $single),
            }),*]
        }
    };
}

functions! {
    exp f64::exp, 0.85 0.85;
    exp_m1 f64::exp_m1, 1.05 1.2;
    ln f64::ln, 0.85 0.85;
    ln_1p f64::ln_1p, 0.9 0.9;
    tanh f64::tanh, 2.2 2.0;
    logistic |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }, 2.5 2.5;
    erf libm::erf, 1.4 1.4;
    erfc libm::erfc, 3.2 3.6;
}

fn functions() -> impl Iterator<Item = Function> {
    by::<Native>("native").into_iter().chain(by::<Unfused>("unfused"))
}

/// The largest error of the reference functions of `libm` and the standard library.
const TRUTH: f64 = 2.6;

fn unit(x: f64) -> f64 {
    let x = x.abs().max(f64::MIN_POSITIVE);
    f64::from_bits(x.to_bits() & f64::INFINITY.to_bits()) * f64::EPSILON
}

fn single_unit(x: f64) -> f64 {
    let x = (x.abs() as f32).max(f32::MIN_POSITIVE);
    f64::from(f32::from_bits(x.to_bits() & f32::INFINITY.to_bits())) * f64::from(f32::EPSILON)
}

#[test]
fn double_precision_errors_against_mpmath_are_bounded() {
    let functions: Vec<Function> = functions().collect();
    let mut worst = vec![0.0_f64; functions.len()];
    for line in include_str!("reference/elementary.csv").lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |field: usize| f64::from_bits(u64::from_str_radix(fields[field], 16).expect("bits"));
        let (x, nearest, rest) = (number(1), number(2), fields[3].parse::<f64>().expect("a number"));
        for (function, worst) in functions.iter().zip(&mut worst).filter(|(it, _)| it.name == fields[0]) {
            let ours = (function.double)(x);
            let error = ((ours - nearest) / unit(nearest) - rest).abs();
            assert!(error <= function.errors.0, "{}, {}, of {x:e} is {ours:e}: {error}", fields[0], function.by);
            *worst = worst.max(error);
        }
    }
    for (function, worst) in functions.iter().zip(worst) {
        println!("{}, {}: {worst:.2}", function.name, function.by);
        assert!(worst > 0.4, "{} was not checked", function.name);
    }
}

/// Checks every `step`-th bit pattern of `f32`, and prints the largest errors.
fn single_precision(step: u32) {
    for function in functions() {
        let mut worst = (0.0, 0.0);
        for bits in (0..u32::MAX - step).step_by(step as usize) {
            let x = f32::from_bits(bits);
            let (ours, truth) = ((function.single)(x), (function.truth)(f64::from(x)));
            let what = || format!("{}, {}, of {x:e} is {ours:e}, not {truth:e}", function.name, function.by);
            if truth.is_nan() {
                assert!(ours.is_nan(), "{}", what());
            } else if (truth as f32).is_infinite() || ours.is_infinite() {
                // near the largest finite number
                let end = (f64::from(ours).clamp(-3.5e38, 3.5e38) - truth.clamp(-3.5e38, 3.5e38)).abs();
                assert!(
                    ours == truth as f32 || end < 1e-6 * 3.5e38 && ours.is_finite() != truth.is_infinite(),
                    "{}",
                    what()
                );
            } else {
                let error = (f64::from(ours) - truth).abs() / single_unit(truth);
                assert!(error <= function.errors.1, "{}: {error}", what());
                assert_eq!(ours.is_sign_negative(), truth.is_sign_negative(), "{}", what());
                worst = if error > worst.0 { (error, x) } else { worst };
            }
        }
        println!("{}, {}: {:.2} at {:e}", function.name, function.by, worst.0, worst.1);
    }
}

#[test]
fn single_precision_errors_against_double_are_bounded() {
    single_precision(30_011);
}

#[test]
#[ignore = "minutes in a release build"]
fn single_precision_errors_of_every_number_are_bounded() {
    single_precision(1);
}

/// The functions of `f32` that are computed in `f64`.
fn circular_functions(step: u32) {
    macro_rules! check {
        ($($name:ident)*) => {$(
            let mut worst = (0.0, 0.0);
            for bits in (0..u32::MAX - step).step_by(step as usize) {
                let x = f32::from_bits(bits);
                let truth = f64::from(x).$name();
                for ours in [Native::$name(x), Unfused::$name(x)] {
                    let error = (f64::from(ours) - truth).abs() / single_unit(truth);
                    let fits = if truth.is_nan() { ours.is_nan() } else { error <= 0.51 };
                    assert!(fits, "{} of {x:e} is {ours:e}, not {truth:e}: {error}", stringify!($name));
                    let same_sign = ours.is_sign_negative() == truth.is_sign_negative();
                    assert!(same_sign || truth.is_nan(), "{} of {x:e} is {ours:e}", stringify!($name));
                    worst = if error > worst.0 { (error, x) } else { worst };
                }
            }
            println!("{}: {:.3} at {:e}", stringify!($name), worst.0, worst.1);
        )*};
    }
    check!(sin cos tan asin acos atan);
}

#[test]
fn circular_functions_against_double_are_rounded_correctly() {
    circular_functions(30_011);
}

#[test]
#[ignore = "minutes in a release build"]
fn circular_functions_of_every_number_are_rounded_correctly() {
    circular_functions(1);
}

#[test]
fn special_values_are_those_of_the_standard_library() {
    macro_rules! check {
        ($T:ident) => {
            let same = |ours: $T, theirs: $T| ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan();
            let places = [0.0, $T::from_bits(1), $T::MIN_POSITIVE, $T::MAX, $T::INFINITY, $T::NAN];
            for x in places.into_iter().flat_map(|x| [x, -x]).chain([1.0, -1.0, 5e3, -5e3]) {
                let pairs = [
                    (Number::exp_m1(x), x.exp_m1()),
                    (Number::ln_1p(x), x.ln_1p()),
                    (Number::tanh(x), x.tanh()),
                    (Number::logistic(x), 1.0 / (1.0 + (-x).exp())),
                ];
                for (index, (ours, theirs)) in pairs.into_iter().enumerate() {
                    let nearly = (ours - theirs).abs() <= 3.0 * $T::EPSILON * theirs.abs() && ours.is_finite();
                    assert!(same(ours, theirs) || nearly && x.abs() >= 1.0, "{index} of {x:e}: {ours:e}, {theirs:e}");
                }
                if x.abs() != 1.0 {
                    assert!(same(Number::exp(x), x.exp()), "{x:e}");
                }
                if x <= 1.0 || !x.is_finite() {
                    let nearly = (Number::ln(x) - x.ln()).abs() <= $T::EPSILON * x.ln().abs();
                    assert!(same(Number::ln(x), x.ln()) || nearly, "{x:e}");
                }
            }
            let [zero, one, two, none, all] = [0.0, 1.0, 2.0, $T::NAN, $T::INFINITY];
            for (ours, right) in [
                (Number::erf(zero), zero),
                (Number::erf(-zero), -zero),
                (Number::erf(all), one),
                (Number::erf(-all), -one),
                (Number::erf(none), none),
                (Number::erfc(zero), one),
                (Number::erfc(-zero), one),
                (Number::erfc(all), zero),
                (Number::erfc(-all), two),
                (Number::erfc(none), none),
                (Number::exp(one * 1e4), all),
                (Number::exp(-one * 1e4), zero),
            ] {
                assert!(same(ours, right), "{ours:e} instead of {right:e}");
            }
        };
    }
    check!(f32);
    check!(f64);
}

#[test]
fn exp_at_overflow_and_underflow_limits_is_exact() {
    // the largest finite value, and all subnormal powers of two
    assert!(Number::exp(709.782712893384_f64).is_finite() && Number::exp(709.7827128933841_f64).is_infinite());
    assert!(Number::exp(88.72283_f32).is_finite() && Number::exp(88.72284_f32).is_infinite());
    for k in 12..=52 {
        let x = f64::from(-1022 - k) * std::f64::consts::LN_2;
        assert_eq!(Number::exp(x), f64::from_bits(1 << (52 - k)), "2^{}", -1022 - k);
    }
    assert_eq!((Number::exp(-745.13_f64), Number::exp(-745.14_f64)), (f64::from_bits(1), 0.0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn double_precision_errors_against_libm_are_bounded(x in -30.0..30.0_f64, scale in -30..10) {
        let x = x * 2.0_f64.powi(scale);
        for function in functions() {
            let (ours, truth) = ((function.double)(x), (function.truth)(x));
            let error = (ours - truth).abs() / unit(truth);
            prop_assert!(error <= function.errors.0 + TRUTH || ours == truth || ours.is_nan() && truth.is_nan(),
                "{}, {}, of {x:e} is {ours:e}, not {truth:e}", function.name, function.by);
        }
    }

    #[test]
    fn functions_are_bounded_and_nearly_monotonic(x in -40.0..40.0_f64, step in 0.0..1e-2_f64) {
        let tanh = Number::tanh(x);
        prop_assert!(tanh.abs() <= 1.0 && Number::tanh(-x) == -tanh);
        prop_assert!((0.0..=1.0).contains(&Number::logistic(x)));
        prop_assert!(Number::erf(x).abs() <= 1.0 && Number::erf(-x) == -Number::erf(x));
        prop_assert!((0.0..=2.0).contains(&Number::erfc(x)));
        // monotonic, except for rounding errors
        for function in functions() {
            let (low, high) = ((function.double)(x), (function.double)(x + step));
            prop_assert!(low.is_nan() || high >= low - 8.0 * unit(low) || function.name == "erfc" && high <= low + 8.0 * unit(low));
        }
    }
}
