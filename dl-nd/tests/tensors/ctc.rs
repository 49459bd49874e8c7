//! The CTC loss: edge cases, errors and bits. Values and derivatives are compared with PyTorch in
//! `tests/operations`.

use crate::gradient_check::{check, check_twice, mixed, numbers};
use dl_core::{Differentiable, Layer, Result, Weight};
use dl_nd::{BatchMean, Ctc, Each, Element, LossReduction, Nd, Sum, init, ops::*};
use ndarray::{Ix3, IxDyn, s};

fn logits<A: Element>(shape: [usize; 3], seed: u64) -> Nd<A, Ix3> {
    init::uniform(shape, -2.0, 2.0, &mut init::rng(seed))
}

/// Labels from 1 to `classes - 1`.
fn labels(length: usize, classes: usize, seed: usize) -> Vec<usize> {
    (0..length).map(|i| 1 + (i * i * 7 + i * seed + seed) % (classes - 1)).collect()
}

#[test]
fn ctc_of_any_list_of_lists_is_same() -> Result<()> {
    let x = logits::<f64>([2, 5, 4], 1).log_softmax(-1);
    let loss = x.ctc([[1, 2], [3, 3]]).predict().wait()?;
    let vectors = vec![vec![1, 2], vec![3, 3]];
    assert_eq!(x.ctc(&vectors).predict().wait()?, loss);
    assert_eq!(x.ctc(vectors).predict().wait()?, loss);
    assert_eq!(x.ctc([&[1, 2][..], &[3, 3]]).predict().wait()?, loss);
    assert_eq!(x.ctc(&[[1, 2], [3, 3]]).predict().wait()?, loss);
    assert_eq!(x.to_dyn().ctc([[1, 2], [3, 3]]).predict().wait()?, loss);
    Ok(())
}

#[test]
fn ctc_reductions_are_those_of_each_loss() -> Result<()> {
    let x = logits::<f64>([3, 5, 4], 2).log_softmax(-1);
    let targets = [vec![1, 2, 1], vec![], vec![3]];
    let each = x.ctc_with(&targets, &Ctc::new().reduction(Each)).predict().wait()?;
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
    let sum = each[0] + each[1] + each[2];
    near(x.ctc_with(&targets, &Ctc::new().reduction(Sum)).predict().wait()?, sum);
    near(x.ctc_with(&targets, &Ctc::new().reduction(BatchMean)).predict().wait()?, sum / 3.0);
    for (name, expected) in
        [("sum", sum), ("batchmean", sum / 3.0), ("mean", (each[0] / 3.0 + each[1] + each[2]) / 3.0)]
    {
        let reduction: LossReduction = name.parse()?;
        let loss = x.ctc_with(&targets, &Ctc::new().reduction(reduction));
        near(loss.predict().wait()?, expected);
        if name == "mean" {
            near(x.ctc(&targets).predict().wait()?, expected);
        }
    }
    Ok(())
}

#[test]
fn padded_time_steps_of_ctc_do_not_count() -> Result<()> {
    let short = Weight::new(logits::<f64>([1, 4, 3], 3));
    let mut padded = Nd::<f64, Ix3>::full([1, 6, 3], f64::NAN).into_array();
    padded.slice_mut(s![.., ..4, ..]).assign(&short.value().view());
    let padded = Weight::new(Nd::from(padded));
    let (loss, of_padded) = (short.ctc([[1, 2]]), padded.ctc_with([[1, 2]], &Ctc::new().input_lengths([4])));
    assert_eq!(of_padded.predict().wait()?, loss.predict().wait()?);
    let (gradient, of_padded) = (loss.gradient(&short), of_padded.gradient(&padded));
    assert_eq!(of_padded.slice_axis(1, ..4).predict().wait()?, gradient.predict().wait()?);
    assert_eq!(of_padded.slice_axis(1, 4..).predict().wait()?, Nd::full([1, 2, 3], 0.0));
    Ok(())
}

#[test]
fn infinite_ctc_has_nan_gradient_or_none() -> Result<()> {
    // too short, without time, and with a label that is impossible; the last one is finite
    let mut x = logits::<f64>([4, 3, 3], 4).into_array();
    x.slice_mut(s![2, .., 1]).fill(f64::NEG_INFINITY);
    let x = Weight::new(Nd::from(x));
    let targets = [vec![1, 1, 2], vec![1], vec![1], vec![2, 1]];
    let settings = Ctc::new().input_lengths([3, 0, 3, 3]).reduction(Each);
    let strict = x.ctc_with(&targets, &settings);
    let losses = strict.predict().wait()?;
    assert_eq!((losses[0], losses[1], losses[2]), (f64::INFINITY, f64::INFINITY, f64::INFINITY));
    assert!(losses[3].is_finite());
    let gradient = strict.gradient(&x).predict().wait()?;
    let all =
        |input: usize, is: fn(f64) -> bool| gradient.view().index_axis(ndarray::Axis(0), input).iter().all(|&x| is(x));
    assert!(
        all(0, f64::is_nan) && all(1, |x| x == 0.0) && all(2, f64::is_nan) && all(3, f64::is_finite),
        "{gradient:?}"
    );

    let lenient = x.ctc_with(&targets, &settings.zero_infinity(true));
    assert_eq!(lenient.predict().wait()?, Nd::from([0.0, 0.0, 0.0, losses[3]]));
    let other = x.row(3).unsqueeze(0).ctc_with([[2, 1]], &Ctc::new().reduction(Sum));
    let direction = Layer::constant(numbers([4, 3, 3], -1.0, 1.0, 5));
    for (found, expected) in
        [(lenient.gradient(&x), other.gradient(&x)), (lenient.sum().hvp(&x, &direction), other.hvp(&x, &direction))]
    {
        let (found, expected) = (found.predict().wait()?, expected.predict().wait()?);
        assert_eq!(found.view().slice(s![..3, .., ..]), Nd::full([3, 3, 3], 0.0).view());
        for (found, expected) in found.view().iter().zip(expected.view()) {
            assert!((found - expected).abs() < 1e-12, "{found:?} instead of {expected:?}");
        }
    }
    Ok(())
}

/// Alignments with a log-probability of −∞ do not count, if there are others.
#[test]
fn impossible_class_of_ctc_gets_no_gradient() -> Result<()> {
    let mut x = logits::<f64>([1, 4, 3], 6).into_array();
    x[[0, 1, 0]] = f64::NEG_INFINITY;
    x[[0, 2, 1]] = f64::NEG_INFINITY;
    let x = Weight::new(Nd::from(x));
    let loss = x.ctc([[1, 2]]);
    assert!(loss.predict().wait()?.is_finite());
    let gradient = loss.gradient(&x);
    let second = mixed(&gradient).gradient(&x).predict().wait()?;
    let gradient = gradient.predict().wait()?;
    assert_eq!((gradient[[0, 1, 0]], gradient[[0, 2, 1]]), (0.0, 0.0));
    assert_eq!((second[[0, 1, 0]], second[[0, 2, 1]]), (0.0, 0.0));
    assert!(gradient.view().iter().chain(second.view()).all(|x| x.is_finite()));
    Ok(())
}

#[test]
fn third_derivative_of_ctc_matches_differences() {
    let x = Weight::new(numbers([2, 4, 3], -2.0, 2.0, 7));
    let loss = x.ctc_with([vec![1, 2], vec![1, 1]], &Ctc::new().reduction(Sum));
    check_twice("ctc", &loss, &x);
    let slope = mixed(&loss.gradient(&x));
    check("third derivative of ctc", &mixed(&slope.gradient(&x)), &x);
}

/// The probabilities of a time step sum to 1, so the gradient of the logits sums to 0. A loss of
/// some hundreds has few digits after the point in single precision; the gradient has all.
#[test]
fn long_ctc_in_single_precision_is_accurate() -> Result<()> {
    let shape = [2, 500, 12];
    let targets = [labels(130, 12, 3), labels(230, 12, 5)];
    let double: Weight<Nd<f64, Ix3>> = Weight::new(logits::<f32>(shape, 8).cast::<f64>().predict().wait()?);
    let single = Weight::new(double.cast::<f32>().predict().wait()?);
    let (of_double, of_single) = (double.log_softmax(-1).ctc(&targets), single.log_softmax(-1).ctc(&targets));
    let (loss, found) = (of_double.predict().wait()?, f64::from(of_single.predict().wait()?));
    assert!((found / loss - 1.0).abs() < 1e-6, "{found} instead of {loss}");
    let gradient = of_double.gradient(&double).predict().wait()?;
    let largest = gradient.view().iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    for (found, expected) in of_single.gradient(&single).predict().wait()?.view().iter().zip(gradient.view()) {
        assert!((f64::from(*found) - expected).abs() < 2e-5 * largest, "{found} instead of {expected}");
    }
    Ok(())
}

#[test]
fn ctc_on_any_thread_count_has_same_bits() {
    let bits = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let x = Weight::new(logits::<f32>([12, 60, 20], 9));
            let targets: Vec<_> = (0..12).map(|input| labels(5 + 2 * input, 20, input)).collect();
            let loss = x.log_softmax(-1).ctc(&targets);
            let gradient = loss.gradient(&x).predict().wait().unwrap().into_array();
            let bits = gradient.into_iter().map(f32::to_bits);
            bits.chain([loss.predict().wait().unwrap().to_bits()]).collect::<Vec<_>>()
        })
    };
    let one = bits(1);
    for threads in [1, 2, 4, 8] {
        assert!(bits(threads) == one, "{threads} threads");
    }
}

#[test]
fn ctc_of_no_time_is_of_empty_targets_only() -> Result<()> {
    let x = Weight::new(Nd::<f64, Ix3>::full([2, 0, 3], 0.0));
    let losses = x.ctc_with([vec![], vec![1]], &Ctc::new().reduction(Each));
    assert_eq!(losses.predict().wait()?, Nd::from([0.0, f64::INFINITY]));
    assert_eq!(losses.gradient(&x).predict().wait()?.shape(), [2, 0, 3]);
    assert_eq!(losses.sum().hvp(&x, &Layer::constant(Nd::full([2, 0, 3], 1.0))).predict().wait()?.shape(), [2, 0, 3]);
    Ok(())
}

#[test]
fn wrong_operands_of_ctc_are_errors() {
    let x = logits::<f32>([2, 3, 4], 10);
    let settings = Ctc::new;
    let fails = |loss: Layer<f32>, message: &str| {
        let error = loss.predict().wait().expect_err(message);
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.place().is_some_and(|place| place.file().ends_with("ctc.rs")), "{error}");
    };
    fails(x.ctc([[1]]), "1 targets for a batch of 2 inputs");
    fails(x.ctc([[1], [4]]), "label 4 at index 0 of target 1 is not below the number of classes, 4");
    fails(x.ctc([vec![1, 2, 0], vec![]]), "label 0 at index 2 of target 0 is the blank");
    fails(x.ctc_with([[1], [2]], &settings().blank(4)), "the blank, 4, is not below the number of classes, 4");
    fails(x.ctc_with([[1], [2]], &settings().input_lengths([3])), "1 input lengths for a batch of 2 inputs");
    fails(x.ctc_with([[1], [2]], &settings().input_lengths([3, 4])), "the length of input 1 is 4, of 3 time steps");
    fails(x.reshape(IxDyn(&[6, 4])).ctc([[1]]), "log-probabilities of shape [6, 4]; it must be [batch, time, classes]");
    let empty: [[usize; 1]; 0] = [];
    fails(logits::<f32>([0, 3, 4], 1).ctc(empty), "the mean over an empty batch");
    assert_eq!(logits::<f32>([0, 3, 4], 1).ctc_with(empty, &settings().reduction(Sum)).predict().wait().unwrap(), 0.0);
}
