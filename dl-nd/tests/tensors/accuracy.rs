//! Accuracy with many terms and with extreme numbers, which tests of small random tensors do not
//! cover. Expected values are exact, or come from PyTorch 2.8 in double precision.

use crate::gradient_check::{check, check_twice, mixed, numbers};
use dl_core::{Differentiable, Do, Layer, Weight};
use dl_nd::{CrossEntropy, Each, Nd, Rank, ops::*};
use ndarray::{Ix2, s};

fn near(found: f32, right: f64) {
    assert!((f64::from(found) - right).abs() <= 1e-6 * right.abs(), "{found} instead of {right}");
}

#[test]
fn f32_sum_of_many_terms_matches_exact_sum() {
    let tenth = f64::from(0.1_f32);
    let x = Nd::full([200_000, 2], 0.1_f32);
    near(x.sum_axis(0).predict().wait().unwrap()[0], 200_000.0 * tenth);
    near(x.sum().predict().wait().unwrap(), 400_000.0 * tenth);
    near(x.mean().predict().wait().unwrap(), tenth);
    near(x.t().layer().square().mean().predict().wait().unwrap(), tenth * tenth);
    let column = Nd::full([200_000], 0.1_f32);
    near(column.cumsum(0).predict().wait().unwrap()[199_999], 200_000.0 * tenth);
    near(column.softmax(0).sum().predict().wait().unwrap(), 1.0);
    near(column.logsumexp().predict().wait().unwrap(), 200_000_f64.ln() + tenth);
    near(column.log_softmax(0).at(0).predict().wait().unwrap(), -200_000_f64.ln());
    // the delta of a broadcast operand is a sum over all rows
    let bias = Weight::new(Nd::from([0.0_f32, 0.0]));
    near((&x * (&bias + &x)).sum().gradient(&bias).predict().wait().unwrap()[1], 200_000.0 * tenth);
}

#[test]
fn prod_with_zeros_has_correct_derivatives() {
    for zeros in [vec![3], vec![0, 4], vec![1, 2, 5]] {
        let mut start = numbers([2, 3], 0.5, 2.0, 7).into_array();
        start.iter_mut().enumerate().filter(|(i, _)| zeros.contains(i)).for_each(|(_, x)| *x = 0.0);
        let w = Weight::new(Nd::from(start));
        for loss in [w.prod(), w.prod_axis(0).sum(), mixed(&w.prod_keepdim(1))] {
            check_twice("prod", &loss, &w);
        }
    }
    // needs memory for n numbers, not n²
    let w = Weight::new(Nd::full([300_000], 1.0_f32));
    w.set((0..300_000).map(|i| if i == 7 { 0.0 } else { 1.0 }).collect());
    let gradient = w.prod().gradient(&w).predict().wait().unwrap();
    assert_eq!((gradient[7], gradient[8]), (1.0, 0.0));
}

#[test]
fn std_and_norm_p_gradients_near_zero_are_finite() {
    let gradient = |loss: Layer<f64>, w: &Weight<Nd<f64, ndarray::Ix1>>| loss.gradient(w).predict().wait().unwrap();
    let w = Weight::new(Nd::from([2.0, 2.0]));
    assert_eq!(gradient(w.std(0), &w), Nd::from([0.0, 0.0]));
    let w = Weight::new(Nd::from([0.0, 1.0]));
    assert_eq!(gradient(w.norm_p(0.5), &w), Nd::from([0.0, 1.0]));
    let w = Weight::new(Nd::from([0.0, 0.0]));
    for p in [0.5, 1.0, 2.0, 3.0, f64::INFINITY] {
        assert_eq!(gradient(w.norm_p(p), &w), Nd::from([0.0, 0.0]), "{p}");
    }
    let w = Weight::new(Nd::from([1e-20]));
    let close = |x: f64, y: f64| assert!((x - y).abs() < 1e-12 * y.abs(), "{x} instead of {y}");
    close(w.norm_p(3.0).predict().wait().unwrap(), 1e-20);
    close(gradient(w.norm_p(3.0), &w)[0], 1.0);
    w.set(Nd::from([1e-40]));
    close(gradient(w.norm(), &w)[0], 1.0);
}

#[test]
fn roll_by_extreme_shift_has_correct_gradient() {
    let w = Weight::new(Nd::from([1.0, 2.0, 3.0]));
    for shift in [isize::MIN, -4, 0, 2, isize::MAX] {
        check("roll", &mixed(&w.roll(0, shift)), &w);
    }
}

/// The gradient of a sequence that is read row by row needs memory for one sequence, not for one
/// per step.
#[test]
fn gradient_of_row_by_row_reads_uses_memory_of_one_sequence() {
    const STEPS: isize = 300;
    let w = Weight::new(numbers([STEPS as usize, 20], -1.0, 1.0, 3));
    let whole = w.square().sum() + mixed(&w.layer());
    let steps: Layer<f64> = (0..STEPS).map(|i| w.row(i).square().sum()).sum();
    let steps = steps + mixed(&w.layer());
    let (gradient, counters) = steps.gradient(&w).predict().counted().wait().unwrap();
    assert_eq!(gradient, whole.gradient(&w).predict().wait().unwrap());
    let sequence = STEPS as usize * 20 * size_of::<f64>();
    assert!(counters.bytes_peak < 20 * sequence, "{} bytes", counters.bytes_peak);

    let small = Weight::new(numbers([4, 3], -1.0, 1.0, 4));
    let parts = small.split(0, &[1, 3]);
    let mixture = mixed(&(&parts[0] * &parts[1])) + small.at([2, 1]) * small.at([2, 1]) * small.row(-1).sum();
    check_twice("parts", &mixture, &small);
    check_twice("parts and a whole", &(&mixture * small.sum()), &small);
}

/// The powers are subnormal, underflow or overflow, but the roots of their sums are normal. Expected
/// values, if the powers are not 0 or infinite: `torch.linalg.vector_norm` and `torch.std` of PyTorch
/// 2.15.
#[test]
fn norm_p_and_std_with_powers_out_of_range_are_accurate() {
    let norm = |x: f32, p: f64| {
        let x = Weight::new(Nd::from([x, x]));
        let (norm, slopes) = x.norm_p(p).value_and_gradient(&x);
        let (norm, slopes) = Do::predict((norm, slopes)).wait().expect("it succeeds");
        assert_eq!(slopes[0], slopes[1]);
        (norm, slopes[0])
    };
    let close = |found: f32, right: f64| assert!((f64::from(found) / right - 1.0).abs() < 1e-3, "{found} and {right}");
    for (x, p, right, slope) in
        [(0.01_f32, 20.0, 0.010_352_6, 0.517_6), (1e-4, 10.0, 1.071_8e-4, 0.535_9), (1e-14, 3.0, 1.259_9e-14, 0.63)]
    {
        let (norm, found) = norm(x, p);
        close(norm, right);
        close(found, slope);
    }
    // powers that overflow or vanish: PyTorch's norm is infinite or 0
    for (x, slope) in [(1e-30_f32, 0.63), (1e-39, 0.63), (1e30, 0.63), (1e38, 0.63)] {
        let (norm, found) = norm(x, 3.0);
        close(norm, 1.259_921 * f64::from(x));
        close(found, slope);
    }
    let lanes = Weight::new(Nd::from([[1e-30_f32, 1e-30], [0.0, 0.0], [1.0, 1.0], [1e30, 1e30]]));
    let slopes = lanes.norm_p_axis(1, 3.0).sum().gradient(&lanes).predict().wait().expect("it succeeds");
    slopes.view().rows().into_iter().zip([0.63, 0.0, 0.63, 0.63]).for_each(|(slopes, right)| {
        assert!(slopes.iter().all(|slope| (slope - right).abs() < 1e-3), "{slopes} instead of {right}");
    });
    let nothing = Nd::<f32, ndarray::Ix2>::full([2, 0], 1.0).norm_p_axis(1, 3.0);
    assert_eq!(nothing.predict().wait().expect("it succeeds"), Nd::from([0.0, 0.0]));
    let x = Weight::new(Nd::from([1e-20_f32, 3e-20]));
    let (std, slopes) = Do::predict(x.std(0).value_and_gradient(&x)).wait().expect("it succeeds");
    close(std, 1e-20);
    close(slopes[0], -0.5);
    close(slopes[1], 0.5);
    let flat = Weight::new(Nd::from([2.0_f32, 2.0]));
    let (std, slopes) = Do::predict(flat.std(0).value_and_gradient(&flat)).wait().expect("it succeeds");
    assert_eq!((std, slopes), (0.0, Nd::from([0.0, 0.0])));
}

/// A cumulative sum stays infinite after an overflow. A result is finite if only an intermediate
/// value overflows or underflows.
#[test]
fn overflowing_intermediates_give_correct_results() {
    let inf = f32::INFINITY;
    let sums = Nd::from([3e38_f32, 3e38, 0.0, -1.0]).cumsum(0).predict().wait().expect("it succeeds");
    assert_eq!(sums, Nd::from([3e38, inf, inf, inf]));
    let x = Weight::new(Nd::from([1e20_f32, -1e20, 0.0]));
    let slopes = x.gelu_tanh().sum().gradient(&x).predict().wait().expect("it succeeds");
    assert_eq!(slopes, Nd::from([1.0, 0.0, 0.5]));
    for number in [1e-25_f32, 1e30] {
        let x = Weight::new(Nd::from([number, number]));
        assert_eq!(x.prod().gradient(&x).predict().wait().expect("it succeeds"), x.value());
    }
}

/// Axes that shrink must be resampled before axes that grow; the other order would need 40 GB.
#[test]
fn upsample_with_growing_and_shrinking_axis_keeps_memory_small() {
    let line = Nd::<f32, _>::full([1, 1, 1, 100_000], 1.0);
    let column = line.upsample_bilinear([100_000, 1], false).predict().wait().expect("it succeeds");
    assert_eq!(column.shape(), [1, 1, 100_000, 1]);
    assert!(column.view().iter().all(|&x| x == 1.0));
}

/// A row longer than a SIMD group of lanes, with distinct elements.
#[test]
fn softmax_of_long_row_matches_definition() {
    let x: Vec<f64> = (0..45).map(|i| 3.0 * (f64::from(i) * 0.7).sin()).collect();
    let sum: f64 = x.iter().map(|x| x.exp()).sum();
    let row = Nd::from(x.clone());
    let close = |found: f64, right: f64| assert!((found - right).abs() < 1e-12, "{found} instead of {right}");
    close(row.logsumexp().predict().wait().expect("it succeeds"), sum.ln());
    let (y, ln) = Do::predict((row.softmax(0), row.log_softmax(0))).wait().expect("it succeeds");
    for (i, x) in x.iter().enumerate() {
        close(y[i], x.exp() / sum);
        close(ln[i], x - sum.ln());
    }
}

/// Several short lanes are stored as columns, long or single lanes as rows. Both layouts must give
/// the same bits.
#[test]
fn softmax_of_lane_alone_and_in_batch_has_same_bits() {
    for (lanes, len) in [(2, 1), (3, 7), (16, 10), (17, 10), (70, 32), (128, 10), (5, 33), (3, 700)] {
        let mut x = numbers([lanes, len], -9.0, 9.0, 5).into_array();
        x[(0, 0)] = f64::NEG_INFINITY;
        x[(lanes - 1, len / 2)] = f64::NAN;
        let labels: Vec<usize> = (0..lanes).map(|lane| lane * 5 % len).collect();
        let all = softmaxes(x.clone().into(), &labels);
        // the same lanes, with elements that are not contiguous
        let turned = x.t().as_standard_layout().reversed_axes().to_owned();
        assert!(len == 1 || turned.as_slice().is_none());
        assert_eq!(softmaxes(turned.into(), &labels), all);
        for lane in 0..lanes {
            let alone = softmaxes(x.slice(s![lane..=lane, ..]).to_owned().into(), &labels[lane..=lane]);
            for (alone, all) in alone.iter().zip(&all) {
                let width = alone.len();
                assert_eq!(alone, &all[lane * width..][..width], "lane {lane} of {lanes}, {len} elements");
            }
        }
    }
}

/// The bits of softmax, log-softmax, cross entropy of each lane, and its gradient. Each list has
/// the same number of elements for every lane.
fn softmaxes(x: Nd<f64, Ix2>, labels: &[usize]) -> [Vec<u64>; 4] {
    fn bits<D: Rank>(x: &Nd<f64, D>) -> Vec<u64> {
        x.view().iter().map(|x| x.to_bits()).collect()
    }
    let x = Weight::new(x);
    let losses = x.cross_entropy_with(labels, &CrossEntropy::new().reduction(Each));
    let all = (x.softmax(1), x.log_softmax(1), losses.clone(), losses.sum().gradient(&x));
    let (y, ln, losses, slopes) = Do::predict(all).wait().expect("it succeeds");
    [bits(&y), bits(&ln), bits(&losses), bits(&slopes)]
}

/// The squares overflow or underflow, but the norm does not.
#[test]
fn norm_with_overflowing_or_underflowing_squares_is_correct() {
    for number in [1e-40_f32, 1e-25, 1e25, 2e38] {
        let x = Weight::new(Nd::from([[number, 0.0], [0.0, 1.0], [0.0, 0.0]]));
        let (length, slopes) = Do::predict(x.norm_axis(1).sum().value_and_gradient(&x)).wait().expect("it succeeds");
        assert_eq!(length, number + 1.0);
        let steep = slopes[(0, 0)];
        assert!(if number < 1e-38 { (0.0..=1.0).contains(&steep) } else { steep == 1.0 }, "{number}: {steep}");
        assert_eq!((slopes[(1, 1)], slopes[(2, 0)], slopes[(2, 1)]), (1.0, 0.0, 0.0));
    }
    let inf = f64::INFINITY;
    for (x, length) in [([inf, 1.0], inf), ([f64::NAN, 1.0], f64::NAN), ([1e200, 0.0], 1e200)] {
        let seen = Nd::from(x).norm().predict().wait().expect("it succeeds");
        assert!(seen == length || seen.is_nan() && length.is_nan(), "{x:?}: {seen}");
    }
    // the second derivative at 0 is 0, as in PyTorch
    let x = Weight::new(Nd::from([0.0, 0.0]));
    let second = x.norm().gradient(&x).sum().gradient(&x).predict().wait().expect("it succeeds");
    assert_eq!(second, Nd::from([0.0, 0.0]));
}

/// An element that does not contribute to the result has gradient 0, even if the derivative of a
/// later function is infinite.
#[test]
fn gradient_of_unused_element_before_steep_function_is_zero() {
    let w = Weight::new(Nd::from([-1e-7_f32, 4.0]));
    let slopes = |y: &Layer<Nd<f32, ndarray::Ix1>>| y.sum().gradient(&w).predict().wait().expect("it succeeds");
    assert_eq!(slopes(&w.clamp(0.0, 1e9).sqrt()), Nd::from([0.0, 0.25]));
    let zeros = Layer::constant(Nd::from([0.0_f32, 0.0]));
    assert_eq!(slopes(&dl_core::max(&w, &zeros).sqrt()), Nd::from([0.0, 0.25]));
    assert_eq!(slopes(&(dl_core::min(&w, &zeros) * -1.0).ln()), Nd::from([-1e7, 0.0]));
    let far = Nd::from([f32::INFINITY, -f32::INFINITY]);
    assert_eq!(slopes(&w.huber_with(far, 1.0, dl_nd::Each)), Nd::from([-1.0, 1.0]));
    // NaN does contribute
    let unknown = Weight::new(Nd::from([-1.0_f32]));
    let slope = dl_core::max(&unknown.ln(), Nd::from([0.0_f32])).sum().gradient(&unknown);
    assert!(slope.predict().wait().expect("it succeeds")[0].is_nan());
    // the first element is masked: both operations have gradient 0 there, as in PyTorch
    let a = Weight::new(Nd::from([0.0, 0.5]));
    let masked = dl_core::xlogy(&a, Nd::from([0.0, 0.5])) * Nd::from([0.0, 1.0]);
    assert_eq!(masked.sum().gradient(&a).predict().wait().expect("it succeeds"), Nd::from([0.0, 0.5_f64.ln()]));
}
