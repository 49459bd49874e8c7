//! Conversions, printing, inferred lengths, and cases of scans, sorting and padding that PyTorch
//! does not compute or computes as NaN.

use dl_core::{Differentiable, Error, Layer, Mode, Weight};
use dl_nd::{BatchMean, CrossEntropy, Each, INFER, LossReduction, Mean, Nd, PadMode, Sum, ops::*};
use ndarray::{Ix0, Ix1, s};

fn vector(layer: &Layer<Nd<f64, Ix1>>) -> Vec<f64> {
    layer.predict().wait().unwrap().into_vec()
}

fn message<T: dl_core::Data>(layer: &Layer<T>) -> String {
    let error: Error = layer.predict().wait().err().expect("an error");
    error.to_string()
}

#[test]
fn number_and_tensor_without_axes_convert_with_derivatives() {
    let w = Weight::new(3.0);
    let cube = |w: &Layer<f64>| (w.to_tensor() * w.to_tensor()).item() * w;
    let y = cube(&w.layer());
    assert_eq!(y.predict().wait().unwrap(), 27.0);
    let slope = y.gradient(&w);
    assert_eq!(slope.predict().wait().unwrap(), 27.0);
    assert_eq!(slope.gradient(&w).predict().wait().unwrap(), 18.0);
    assert_eq!(y.jvp(&w, &Layer::constant(2.0)).predict().wait().unwrap(), 54.0);

    let x = Weight::new(Nd::from([[5.0_f32]]));
    let back: Layer<Nd<f32, Ix0>> = x.item().to_tensor();
    assert_eq!(back.predict().wait().unwrap(), Nd::from(5.0));
    assert_eq!(back.gradient(&x).predict().wait().unwrap(), Nd::from([[1.0]]));
    let error = message(&Nd::from([1.0, 2.0]).item());
    assert!(error.contains("[2] has 2 elements, but [] has 1"), "{error}");
}

#[test]
fn reshape_infers_one_length() {
    let x = Weight::new(Nd::from_vec([2, 6], (0..12).map(f64::from).collect()).unwrap());
    let shape = |y: &Layer<Nd<f64>>| y.predict().wait().unwrap().shape().to_vec();
    let y = x.reshape([INFER, 4]);
    assert_eq!((shape(&y), shape(&x.reshape([4, INFER]))), (vec![3, 4], vec![4, 3]));
    assert_eq!(y.square().sum().gradient(&x).predict().wait().unwrap()[[1, 5]], 22.0);
    let tangent = y.jvp(&x, &Layer::constant(Nd::full([2, 6], 1.0)));
    assert_eq!(tangent.predict().wait().unwrap(), Nd::full([3, 4], 1.0));
    for (shape, text) in [([INFER, 5], "[INFER, 5]"), ([INFER, 0], "[INFER, 0]"), ([INFER, INFER], "INFER]")] {
        let error = message(&x.reshape(shape));
        assert!(error.contains("12 elements") && error.contains(text), "{error}");
    }
    assert_eq!(shape(&Nd::<f64, _>::full([0, 2], 0.0).reshape([INFER, 2])), [0, 2]);
}

#[test]
#[allow(clippy::reversed_empty_ranges, reason = "the error is tested")]
fn range_that_ends_before_its_start_is_error() {
    let x = Nd::from([1.0, 2.0, 3.0, 4.0]);
    assert_eq!(vector(&x.slice(s![0..3;-1])), [3.0, 2.0, 1.0]);
    assert_eq!(vector(&x.slice(s![2..2])), [0.0; 0]);
    for error in [message(&x.slice(s![3..0;-1])), message(&x.slice(s![-1..-3])), message(&x.slice_axis(0, 2..1))] {
        assert!(error.contains("ends before its start"), "{error}");
    }
}

#[test]
fn dropout_of_nothing_needs_no_seed_and_dropout_of_all_is_zero() {
    let x = Weight::new(Nd::from([1.0, 2.0]));
    assert_eq!(x.dropout(0.0).predict().mode(Mode::Train).wait().unwrap(), Nd::from([1.0, 2.0]));
    let gone = x.dropout(1.0);
    assert_eq!(gone.predict().wait().unwrap(), Nd::from([1.0, 2.0]));
    assert_eq!(gone.predict().mode(Mode::Train).seed(1).wait().unwrap(), Nd::from([0.0, 0.0]));
    let slope = gone.sum().gradient(&x);
    assert_eq!(slope.predict().mode(Mode::Train).seed(1).wait().unwrap(), Nd::from([0.0, 0.0]));
}

#[test]
fn tensors_print_as_in_numpy() {
    let x = Nd::from([[1.0, -2.5], [30.0, 4.0]]);
    assert_eq!(x.to_string(), "[[ 1.0, -2.5],\n [30.0,  4.0]]");
    assert_eq!(format!("{x:.2}"), "[[ 1.00, -2.50],\n [30.00,  4.00]]");
    assert_eq!(format!("{:?}", x.t().predict().wait().unwrap()), "[[ 1.0, 30.0],\n [-2.5,  4.0]]");
    assert_eq!(
        format!("{:?}", Nd::from([[[true, false]], [[false, true]]])),
        "[[[ true, false]],\n\n [[false,  true]]]"
    );
    assert_eq!(format!("{:?} {:?}", Nd::from(2.0), Nd::<f64, _>::full([0, 3], 0.0)), "2.0 [], shape=[0, 3]");
    assert_eq!(Nd::<f64, _>::full([0], 0.0).to_string(), "[]");
    let long: Nd<usize, Ix1> = (0..2000).collect();
    assert_eq!(long.to_string(), "[   0,    1,    2, ..., 1997, 1998, 1999]");
    assert_eq!(format!("{long:#?}").matches(',').count(), 1999);
    let lines = format!("{:?}", Nd::<f64, _>::full([40], 0.5));
    assert!(lines.lines().count() == 3 && lines.lines().all(|line| line.len() <= 75), "{lines}");
    let wide = Nd::<f64, _>::full([1000, 1000], 0.5).to_string();
    assert_eq!(wide.lines().count(), 7, "{wide}");
}

#[test]
fn reduction_chosen_at_run_time_matches_reduction_types() {
    let x = Weight::new(Nd::from([[0.5, 1.0, -2.0], [1.5, 0.0, 3.0]]));
    let y = Nd::from([[1.0, 0.0, 2.0], [0.5, 1.0, 0.0]]);
    let weights = CrossEntropy::new().weights(Nd::from([1.0, 2.0, 4.0]));
    let check = |name: &str, losses: [Layer<f64>; 3]| {
        let reduction: LossReduction = name.parse().unwrap();
        let chosen = [
            x.mse_with(&y, reduction),
            x.cross_entropy_with([2, 0], &CrossEntropy::new().reduction(reduction)),
            x.cross_entropy_with([2, 0], &weights.clone().reduction(reduction)),
        ];
        for (chosen, expected) in chosen.iter().zip(losses) {
            assert_eq!(chosen.predict().wait().unwrap(), expected.predict().wait().unwrap(), "{name}");
            let [a, b] = [chosen, &expected].map(|loss| loss.gradient(&x).predict().wait().unwrap());
            assert_eq!(a, b, "{name}");
        }
    };
    macro_rules! losses {
        ($R:ident) => {
            [
                x.mse_with(&y, $R),
                x.cross_entropy_with([2, 0], &CrossEntropy::new().reduction($R)),
                x.cross_entropy_with([2, 0], &weights.clone().reduction($R)),
            ]
        };
    }
    check("mean", losses!(Mean));
    check("sum", losses!(Sum));
    check("batchmean", losses!(BatchMean));
    assert!("none".parse::<LossReduction>().unwrap_err().to_string().contains("`none`"));
}

#[test]
fn negative_labels_are_ignored() {
    let logits = Weight::new(Nd::from([[0.5, 1.0], [3.0, -1.0], [0.0, 2.0]]));
    let labels = Nd::from([1_i64, -100, 0]);
    assert!(labels.to_indices().is_err());
    let settings = CrossEntropy::new().ignore_index(usize::MAX);
    let loss = logits.cross_entropy_with(labels.to_indices_or(usize::MAX), &settings);
    let others = logits.index_select(0, [0, 2]).cross_entropy([1, 0]);
    assert_eq!(loss.predict().wait().unwrap(), others.predict().wait().unwrap());
    assert_eq!(loss.gradient(&logits).predict().wait().unwrap().view().row(1).to_vec(), [0.0, 0.0]);
    let each = logits.cross_entropy_with(labels.to_indices_or(usize::MAX), &settings.reduction(Each));
    assert_eq!(vector(&each)[1], 0.0);
}

#[test]
fn logcumsumexp_of_infinities_has_gradient() {
    let inf = f64::INFINITY;
    for (x, slope) in [([-inf, -inf, 0.0], [1.0, 1.0, 1.0]), ([-inf, 0.0, -inf], [1.0, 2.0, 0.0])] {
        let w = Weight::new(Nd::from(x));
        let y = w.logcumsumexp(0);
        assert!(vector(&y).iter().all(|y| !y.is_nan()), "{x:?}");
        let gradient = vector(&y.sum().gradient(&w));
        assert!(gradient.iter().all(|slope| slope.is_finite()), "{x:?}: {gradient:?}");
        assert_eq!(gradient[1..], slope[1..], "{x:?}");
    }
}

#[test]
fn nan_is_largest_when_sorted() {
    let x = Nd::from([2.0, f64::NAN, 1.0, f64::INFINITY]);
    let indices = |layer: Layer<Nd<usize, Ix1>>| layer.predict().wait().unwrap().into_vec();
    assert_eq!(indices(x.argsort(0, false)), [2, 0, 3, 1]);
    assert_eq!(indices(x.argsort(0, true)), [1, 3, 0, 2]);
    assert_eq!(indices(x.topk(0, 2).1), [1, 3]);
    assert_eq!(indices(x.cummin(0).1), [0, 1, 1, 1]);
    assert!(message(&x.topk(0, 5).0).contains("5 largest"));
    assert!(message(&x.sort(1, false).0).contains("axis 1"));
    let many: Nd<i64, Ix1> = (0..1000).map(|i| (i * 7919) % 1000).collect();
    let sorted: Vec<i64> = indices(many.argsort(0, false)).into_iter().map(|i| many[i]).collect();
    assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
}

#[test]
fn padding_beyond_the_axis_is_error() {
    let x = Nd::from([1.0, 2.0, 3.0]);
    for (mode, most) in [(PadMode::Reflect, 2), (PadMode::Circular, 3)] {
        assert_eq!(vector(&x.pad_with(&[(most, most)], mode)).len(), 3 + 2 * most);
        assert!(message(&x.pad_with(&[(0, most + 1)], mode)).contains(&format!("at most {most}")));
    }
    assert!(message(&Nd::<f64, _>::full([0], 1.0).pad_with(&[(1, 0)], PadMode::Replicate)).contains("at most 0"));
    assert!(message(&x.pad_with(&[(1, 0), (0, 0)], PadMode::Replicate)).contains("2 pairs"));
    assert!(message(&x.pad_with(&[(usize::MAX, 1)], PadMode::Replicate)).contains("too large"));
}

#[test]
fn padding_row_gets_no_gradient() {
    let w = Weight::new(Nd::from([[1.0, 2.0], [3.0, 4.0]]));
    let y = w.embedding_padded([0, 1, 0], 0);
    assert_eq!(y.predict().wait().unwrap(), Nd::from([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]));
    let slope = y.square().sum().gradient(&w);
    assert_eq!(slope.predict().wait().unwrap(), Nd::from([[0.0, 0.0], [6.0, 8.0]]));
}

#[test]
fn masked_select_needs_mask_that_fits() {
    let x = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(vector(&x.t().masked_select(Nd::from([true, false]))), [1.0, 2.0]);
    assert!(message(&x.masked_select(Nd::from([true, false, true]))).contains("[3] does not broadcast to [2, 2]"));
}
