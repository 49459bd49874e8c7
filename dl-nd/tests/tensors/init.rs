//! Weight initialisers: distributions, and reproducibility of seeds.

use dl_nd::init::{self, Fan};
use dl_nd::{Nd, Rank};
use ndarray::{Array2, Ix1, Ix2};

/// Mean, variance and largest magnitude.
fn moments<D: Rank>(x: &Nd<f64, D>) -> [f64; 3] {
    let mean = x.view().mean().unwrap();
    let variance = x.view().iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    [mean, variance, x.view().iter().fold(0.0, |most: f64, x| most.max(x.abs()))]
}

/// Asserts that the mean is within five standard errors, and the variance within 3 %.
#[track_caller]
fn assert_moments<D: Rank>(x: &Nd<f64, D>, mean: f64, variance: f64) {
    let [found_mean, found_variance, _] = moments(x);
    let error = (variance / x.len() as f64).sqrt();
    assert!((found_mean - mean).abs() < 5.0 * error, "mean {found_mean} instead of {mean}");
    assert!((found_variance / variance - 1.0).abs() < 0.03, "variance {found_variance} instead of {variance}");
}

const MANY: usize = 50_000;

#[test]
fn normal_has_moments_of_distribution() {
    let x = init::normal::<f64, _>([MANY], 1.0, 2.0, &mut init::rng(1));
    assert_moments(&x, 1.0, 4.0);
    let fourth = x.view().iter().map(|x| ((x - 1.0) / 2.0).powi(4)).sum::<f64>() / MANY as f64;
    assert!((fourth - 3.0).abs() < 0.2, "{fourth}");
    // 31.73 % lie beyond one standard deviation, 4.55 % beyond two, 0.27 % beyond three
    for (deviations, share) in [(1.0, 0.3173), (2.0, 0.0455), (3.0, 0.0027)] {
        let beyond = x.view().iter().filter(|x| (**x - 1.0).abs() > 2.0 * deviations).count() as f64 / MANY as f64;
        assert!((beyond - share).abs() < 4.0 * (share / MANY as f64).sqrt(), "{deviations}: {beyond}");
    }
}

#[test]
fn uniform_fills_range() {
    let x = init::uniform::<f64, _>([MANY], -1.0, 3.0, &mut init::rng(1));
    assert_moments(&x, 1.0, 16.0 / 12.0);
    assert!(x.view().iter().all(|x| (-1.0..3.0).contains(x)));
}

/// Mean and variance of a standard normal number between two bounds, by Simpson's rule.
fn truncated(low: f64, high: f64) -> (f64, f64) {
    const STEPS: usize = 20_000;
    let h = (high - low) / STEPS as f64;
    let mut sums = [0.0; 3];
    for i in 0..=STEPS {
        let x = low + h * i as f64;
        let weight = if i == 0 || i == STEPS { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
        // the density relative to that at the lower bound, so that it does not underflow
        let density = weight * ((low * low - x * x) / 2.0).exp();
        sums = [sums[0] + density, sums[1] + density * x, sums[2] + density * x * x];
    }
    let mean = sums[1] / sums[0];
    (mean, sums[2] / sums[0] - mean * mean)
}

#[test]
fn truncated_normal_stays_within_bounds() {
    let ranges =
        [(-2.0, 2.0), (-1.0, 5.0), (0.5, 0.7), (-0.5, 1.0), (-4.0, -2.0), (3.0, 12.0), (30.0, 31.0), (-1.3, 1.3)];
    for (low, high) in ranges {
        let (mean, std) = (10.0, 0.5);
        let [from, to] = [low, high].map(|bound| mean + std * bound);
        let x: Nd<f64, _> = init::truncated_normal([MANY], mean, std, from, to, &mut init::rng(1)).unwrap();
        assert!(x.view().iter().all(|x| (from..=to).contains(x)), "{low} {high}");
        let (expected, variance) = truncated(low, high);
        assert_moments(&x, mean + std * expected, std * std * variance);
    }
    let beyond: Nd<f64, _> = init::truncated_normal([100], 0.0, 1.0, 5.0, f64::INFINITY, &mut init::rng(1)).unwrap();
    assert!(beyond.view().iter().all(|&x| (5.0..9.0).contains(&x)));
    for (std, low, high) in
        [(1.0, 2.0, 2.0), (1.0, 2.0, -2.0), (0.0, -2.0, 2.0), (f64::NAN, -2.0, 2.0), (1.0, f64::NAN, 2.0)]
    {
        assert!(
            init::truncated_normal::<f64, _>([1], 0.0, std, low, high, &mut init::rng(1)).unwrap_err().is_invalid()
        );
    }
}

#[test]
fn fans_match_pytorch() {
    // a matrix [in, out], and a kernel [out, in, height, width]
    let (matrix, kernel) = ([400, 100], [50, 40, 5, 4]);
    let rng = || init::rng(7);
    let uniform = |x: &dyn Fn() -> [f64; 3], variance: f64| {
        let [_, found, most] = x();
        let bound = (3.0 * variance).sqrt();
        assert!((found / variance - 1.0).abs() < 0.03, "{found} instead of {variance}");
        assert!(most <= bound && most > 0.999 * bound, "{most} instead of {bound}");
    };
    for gain in [1.0, 5.0 / 3.0] {
        assert_moments(&init::xavier_normal_with(matrix, gain, &mut rng()), 0.0, gain * gain * 2.0 / 500.0);
        assert_moments(&init::xavier_normal_with(kernel, gain, &mut rng()), 0.0, gain * gain * 2.0 / (90.0 * 20.0));
        uniform(&|| moments(&init::xavier_uniform_with(matrix, gain, &mut rng())), gain * gain * 2.0 / 500.0);
        uniform(&|| moments(&init::xavier_uniform_with(kernel, gain, &mut rng())), gain * gain * 2.0 / 1800.0);
        for (fan, of_matrix, of_kernel) in [(Fan::In, 400.0, 800.0), (Fan::Out, 100.0, 1000.0)] {
            assert_moments(&init::he_normal_with(matrix, fan, gain, &mut rng()), 0.0, gain * gain / of_matrix);
            assert_moments(&init::he_normal_with(kernel, fan, gain, &mut rng()), 0.0, gain * gain / of_kernel);
            uniform(&|| moments(&init::he_uniform_with(matrix, fan, gain, &mut rng())), gain * gain / of_matrix);
            uniform(&|| moments(&init::he_uniform_with(kernel, fan, gain, &mut rng())), gain * gain / of_kernel);
        }
    }
    assert_moments(&init::he_normal(matrix, &mut rng()), 0.0, 2.0 / 400.0);
    uniform(&|| moments(&init::he_uniform(matrix, &mut rng())), 2.0 / 400.0);
    assert_moments(&init::xavier_normal(matrix, &mut rng()), 0.0, 2.0 / 500.0);
    uniform(&|| moments(&init::xavier_uniform(matrix, &mut rng())), 2.0 / 500.0);
}

/// The largest deviation of `x · xᵀ` (`xᵀ · x` if `x` has more rows than columns) from a multiple
/// of the identity.
fn deviation(x: Array2<f64>, of: f64) -> f64 {
    let x = if x.nrows() > x.ncols() { x.reversed_axes() } else { x };
    let product = x.dot(&x.t());
    let unit = Array2::<f64>::eye(x.nrows()) * of;
    (product - unit).iter().fold(0.0, |most: f64, x| most.max(x.abs()))
}

#[test]
fn orthogonal_rows_or_columns_are_orthonormal() {
    for shape in [[1, 1], [5, 5], [3, 40], [40, 3], [64, 64]] {
        let x: Nd<f64> = init::orthogonal(shape, 1.0, &mut init::rng(1)).unwrap();
        assert!(deviation(x.into_array(), 1.0) < 1e-12, "{shape:?}");
        let x: Nd<f32> = init::orthogonal(shape, 2.0, &mut init::rng(1)).unwrap();
        assert!(deviation(x.view().mapv(f64::from), 4.0) < 1e-6, "{shape:?}");
    }
    let kernel: Nd<f64, _> = init::orthogonal([8, 3, 2, 2], 1.0, &mut init::rng(1)).unwrap();
    let rows = kernel.into_array().into_shape_with_order((8, 12)).unwrap();
    assert!(deviation(rows, 1.0) < 1e-12);
    // uniformly distributed: an entry of a random 3 × 3 orthogonal matrix has mean 0 and variance
    // 1/3
    let mut rng = init::rng(2);
    let corners: Nd<f64, Ix1> =
        (0..10_000).map(|_| init::orthogonal::<f64, _>([3, 3], 1.0, &mut rng).unwrap()[[0, 0]]).collect();
    assert_moments(&corners, 0.0, 1.0 / 3.0);
    assert!(init::orthogonal::<f64, _>([3], 1.0, &mut rng).unwrap_err().is_shape());
    assert!(init::orthogonal::<f64, _>([3, 3], f64::NAN, &mut rng).unwrap_err().is_invalid());
    assert!(init::orthogonal::<f64, _>([0, 3], 1.0, &mut rng).unwrap().is_empty());
}

/// A seed must give the same numbers in every version, on every platform and for any number of
/// threads. A change of these values changes the initial weights of existing programs.
#[test]
fn seeded_initialisers_have_pinned_values() {
    let first = |x: Nd<f64, Ix1>| x.into_vec();
    assert_eq!(first(init::uniform([3], 0.0, 1.0, &mut init::rng(42))), UNIFORM);
    assert_eq!(first(init::normal([4], 0.0, 1.0, &mut init::rng(42))), NORMAL);
    assert_eq!(first(init::truncated_normal([3], 0.0, 1.0, 2.0, 3.0, &mut init::rng(42)).unwrap()), TRUNCATED);
    assert_eq!(init::orthogonal::<f64, _>([1, 3], 1.0, &mut init::rng(42)).unwrap().into_vec(), ORTHOGONAL);
    assert_eq!(init::he_normal::<f32, _>([2, 2], &mut init::rng(42)).into_vec(), HE);
    assert_eq!(first(init::uniform([2], 0.0, 1.0, &mut init::rng_for(42, "encoder.0"))), NAMED);
    // a million numbers, enough to reach the rare branches of the ziggurat algorithm
    let all = init::normal::<f64, _>([1_000_000], 0.0, 1.0, &mut init::rng(42)).into_vec();
    let mixed = all.iter().fold(0_u64, |hash, x| (hash ^ x.to_bits()).wrapping_mul(0x100_0000_01b3));
    assert_eq!(mixed, MIXED, "{mixed:#x}");
}

#[test]
fn named_generators_are_independent_of_added_weights() {
    let layer = |name: &str| init::he_normal::<f32, Ix2>(Ix2(3, 3), &mut init::rng_for(1, name));
    let small = [layer("a"), layer("c")];
    let grown = [layer("a"), layer("b"), layer("c")];
    assert_eq!((&small[0], &small[1]), (&grown[0], &grown[2]));
    assert_ne!(layer("a"), init::he_normal([3, 3], &mut init::rng_for(2, "a")));
}

const UNIFORM: [f64; 3] = [0.6818961923066714, 0.950275407672484, 0.4275164028565197];
const NORMAL: [f64; 4] = [0.47798123835102174, 1.3340706102318074, -0.21086668327103028, 0.4763469238088212];
const TRUNCATED: [f64; 3] = [2.2885938791411826, 2.575393146600707, 2.444052334920976];
const ORTHOGONAL: [f64; 3] = [0.3336189650854519, 0.9311479627775677, -0.14717967777684954];
const HE: [f32; 4] = [0.47798124, 1.3340706, -0.21086669, 0.4763469];
const NAMED: [f64; 2] = [0.1460534770908637, 0.4122816632035471];
const MIXED: u64 = 13025730010630944863;

/// The interval is so far from the mean that squares overflow. The truncated distribution is then
/// concentrated at the near bound.
#[test]
fn truncated_normal_far_from_mean_stays_near_bound() {
    for std in [1e-10, 1e-160, 1e-300] {
        let x: Nd<f64, _> = init::truncated_normal([10], 0.0, std, 0.5, 1.0, &mut init::rng(1)).unwrap();
        assert!(x.view().iter().all(|x| (0.5..=0.500_001).contains(x)), "{std}: {x:?}");
    }
}
