//! Losses: values from PyTorch, first and second derivatives, and logits so large that the naive
//! formulas overflow.

use crate::gradient_check::{check, check_twice, mixed, numbers};
use dl_core::{Differentiable, Layer, Weight};
use dl_nd::{BatchMean, Bce, CrossEntropy, Each, Element, Mean, Nd, Rank, Reduction, Sum, ops::*};
use ndarray::{Ix1, Ix2, IxDyn};

/// `x = torch.tensor([[1., -2, 0.5], [0, 3, -1]], dtype=torch.float64, requires_grad=True)`
fn logits() -> Weight<Nd<f64, Ix2>> {
    Weight::new(Nd::from([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]]))
}

/// `y = torch.tensor([2, 0])`
const LABELS: [usize; 2] = [2, 0];

/// `p = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.0, 0.9]], dtype=torch.float64)`
fn probabilities() -> Nd<f64> {
    Nd::from([[0.2, 0.3, 0.5], [0.1, 0.0, 0.9]])
}

/// `w = torch.tensor([1., 2, 0.5], dtype=torch.float64)`
fn class_weights() -> Nd<f64, Ix1> {
    Nd::from([1.0, 2.0, 0.5])
}

fn assert_close(what: &str, found: impl IntoIterator<Item = f64>, expected: impl IntoIterator<Item = f64>) {
    let (found, expected) = (Vec::from_iter(found), Vec::from_iter(expected));
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-12, "{what}: {found} instead of {expected}");
    }
}

/// Checks a loss and its gradient by `x`. Expected values:
/// `loss.backward(); print(loss.item(), x.grad.tolist())`.
fn assert_loss(what: &str, x: &Weight<Nd<f64, Ix2>>, loss: &Layer<f64>, value: f64, gradient: [[f64; 3]; 2]) {
    assert_close(what, [loss.predict().wait().unwrap()], [value]);
    let found = loss.gradient(x).predict().wait().unwrap();
    assert_close(&format!("gradient of {what}"), found.into_array(), gradient.into_iter().flatten());
}

#[test]
fn cross_entropy_of_labels_matches_pytorch() {
    let (x, plain) = (&logits(), CrossEntropy::new);
    // F.cross_entropy(x, y)
    let gradient = [
        [0.3018744480743129, 0.015029443784787011, -0.3169038918590999],
        [-0.47669368871101303, 0.4681197759382529, 0.008573912772760194],
    ];
    assert_loss("labels", x, &x.cross_entropy(LABELS), 2.0352404030498565, gradient);
    assert_loss("dynamic rank", x, &x.to_dyn().cross_entropy(LABELS), 2.0352404030498565, gradient);
    let labels = Nd::<usize, IxDyn>::full(IxDyn(&[2]), 2);
    assert_eq!(x.cross_entropy(labels).predict().wait().unwrap(), x.cross_entropy([2, 2]).predict().wait().unwrap());
    // F.cross_entropy(x, y, label_smoothing=0.1)
    let gradient = [
        [0.28520778140764624, -0.001637222881879655, -0.28357055852576657],
        [-0.4433603553776797, 0.4514531092715862, -0.008092753893906473],
    ];
    let smooth = plain().label_smoothing(0.1);
    assert_loss("smoothing", x, &x.cross_entropy_with(LABELS, &smooth), 2.0352404030498565, gradient);
    // F.cross_entropy(x, y, weight=w)
    let gradient = [
        [0.20124963204954194, 0.010019629189858006, -0.21126926123939993],
        [-0.6355915849480174, 0.6241597012510038, 0.011431883697013591],
    ];
    let weighted = plain().weights(class_weights());
    assert_loss("weights", x, &x.cross_entropy_with(LABELS, &weighted), 2.3787882366190476, gradient);
    // F.cross_entropy(x, y, weight=w, reduction='sum')
    let sum = x.cross_entropy_with(LABELS, &weighted.clone().reduction(Sum));
    assert_close("sum", [sum.predict().wait().unwrap()], [3.568182354928571]);
    // F.cross_entropy(x, y, weight=w, label_smoothing=0.1)
    let gradient = [
        [0.20586069410059196, -0.033088864695938705, -0.17277182940465327],
        [-0.5906292224749288, 0.590117918494076, 0.0005113039808527055],
    ];
    let both = weighted.label_smoothing(0.1);
    assert_loss("weights and smoothing", x, &x.cross_entropy_with(LABELS, &both), 2.4352801423204538, gradient);
    // F.cross_entropy(x, y, weight=w, label_smoothing=0.1, ignore_index=0)
    let gradient = [[0.6175820823017759, -0.0992665940878161, -0.5183154882139598], [0.0; 3]];
    let all = both.clone().ignore_index(0);
    assert_loss("everything", x, &x.cross_entropy_with(LABELS, &all), 1.4385431559879214, gradient);
    // … reduction='none'
    let each = x.cross_entropy_with(LABELS, &all.reduction(Each)).predict().wait().unwrap();
    assert_close("each", each.into_array(), [0.7192715779939607, 0.0]);
    // F.cross_entropy(x, y, ignore_index=0), and an ignored label that is not a class
    let gradient = [[0.6037488961486258, 0.030058887569574023, -0.6338077837181998], [0.0; 3]];
    for ignored in [0, 255] {
        let loss = x.cross_entropy_with([2, ignored], &plain().ignore_index(ignored));
        assert_loss("ignored", x, &loss, 1.0045969023422834, gradient);
    }
}

#[test]
fn cross_entropy_of_probabilities_matches_pytorch() {
    let x = &logits();
    // F.cross_entropy(x, p)
    let gradient = [
        [0.2018744480743129, -0.13497055621521298, -0.0669038918590999],
        [-0.026693688711013058, 0.4681197759382529, -0.4414260872272398],
    ];
    assert_loss("probabilities", x, &x.cross_entropy(probabilities()), 2.810240403049856, gradient);
    // F.cross_entropy(x, p, weight=w, label_smoothing=0.1)
    let gradient = [
        [0.2138233723722289, -0.2873770738484845, 0.07355370147625563],
        [-0.047410972928236324, 0.25299992961556467, -0.20558895668732835],
    ];
    let settings = CrossEntropy::new().weights(class_weights()).label_smoothing(0.1);
    let loss = x.cross_entropy_with(probabilities(), &settings);
    assert_loss("weights and smoothing", x, &loss, 2.286756349559176, gradient);
    let each = x.cross_entropy_with(probabilities(), &settings.reduction(Each)).predict().wait().unwrap();
    assert_close("each", each.into_array(), [2.476547044653391, 2.096965654464961]);
}

#[test]
fn cross_entropy_of_positions_matches_pytorch() {
    // z = torch.arange(12.).reshape(1, 3, 2, 2).sin(); y = torch.tensor([[[0, 2], [1, 2]]])
    let z = Nd::from_vec([1, 3, 2, 2], (0..12).map(|i| f64::from(i).sin()).collect()).unwrap();
    let labels = Nd::from([[[0_usize, 2], [1, 2]]]);
    // F.cross_entropy(z, y, reduction='none')
    let expected = [1.4251958174228057, 1.0260790847095265, 1.6194598832593856, 2.2379054003461603];
    let each = z.cross_entropy_with(&labels, &CrossEntropy::new().reduction(Each)).predict().wait().unwrap();
    assert_eq!(each.shape(), [1, 2, 2]);
    assert_close("each", each.into_array(), expected);
    let each = z.log_softmax(1).nll_with(&labels, &CrossEntropy::new().reduction(Each)).predict().wait().unwrap();
    assert_close("each nll", each.into_array(), expected);
    let each = z.to_dyn().cross_entropy_with(&labels, &CrossEntropy::new().reduction(Each)).predict().wait().unwrap();
    assert_close("each, dynamic rank", each.into_array(), expected);
    // F.cross_entropy(z, y, label_smoothing=.2, weight=w)
    let settings = CrossEntropy::new().label_smoothing(0.2).weights(class_weights());
    let loss = z.cross_entropy_with(&labels, &settings).predict().wait().unwrap();
    assert_close("weights and smoothing", [loss], [1.5908953251905749]);
}

#[test]
fn elementwise_losses_match_pytorch() {
    let (x, p) = (&logits(), &probabilities());
    // F.nll_loss(x, y, weight=w)
    let gradient = [[0.0, 0.0, -1.0 / 3.0], [-2.0 / 3.0, 0.0, 0.0]];
    let weighted = CrossEntropy::new().weights(class_weights());
    assert_loss("nll", x, &x.nll_with(LABELS, &weighted), -1.0 / 6.0, gradient);
    // F.mse_loss(x, p)
    let gradient = [[0.8 / 3.0, -2.3 / 3.0, 0.0], [-0.1 / 3.0, 1.0, -1.9 / 3.0]];
    assert_loss("mse", x, &x.mse(p), 3.091666666666667, gradient);
    // F.l1_loss(x, p)
    let sixth = 1.0 / 6.0;
    assert_loss("l1", x, &x.l1(p), 1.35, [[sixth, -sixth, 0.0], [-sixth, sixth, -sixth]]);
    // F.huber_loss(x, p, delta=0.7)
    let edge = 0.7 / 6.0;
    assert_loss("huber", x, &x.huber(p, 0.7), 0.7708333333333331, [[edge, -edge, 0.0], [-0.1 / 6.0, edge, -edge]]);
    // F.binary_cross_entropy_with_logits(x, p)
    let gradient = [
        [0.0885097631050008, -0.030132846329647075, 0.020409888533642433],
        [0.06666666666666667, 0.15876235447040557, -0.10517642977166748],
    ];
    assert_loss("bce", x, &x.bce_with_logits(p), 1.2532104837322022, gradient);
    // F.binary_cross_entropy_with_logits(x, p, pos_weight=w, reduction='sum')
    let gradient = [
        [0.5310585786300048, -0.44503620137124716, 0.21684449840139097],
        [0.4, 0.9525741268224334, -0.3020822182465027],
    ];
    let loss = x.bce_with_logits_with(p, &Bce::new().pos_weight(class_weights()).reduction(Sum));
    assert_loss("weighted bce", x, &loss, 7.447854300277878, gradient);
    // F.kl_div(x, p)
    let gradient = [[-0.2 / 6.0, -0.05, -0.5 / 6.0], [-0.1 / 6.0, 0.0, -0.15]];
    assert_loss("kl_div", x, &x.kl_div(p), -0.050789331242670314, gradient);
    // F.kl_div(x, p, reduction='batchmean')
    let gradient = [[-0.1, -0.15, -0.25], [-0.05, 0.0, -0.45]];
    assert_loss("batchmean", x, &x.kl_div_with(p, BatchMean), -0.15236799372801094, gradient);
}

fn every_reduction<R: Reduction>(reduction: R, number: impl Fn(Layer<R::Of<f64, Ix1>>) -> Layer<f64>) {
    let x = Weight::new(numbers([3, 4], -2.0, 2.0, 1));
    let p = Weight::new(numbers([3, 4], 0.1, 0.9, 2));
    let w = Weight::new(numbers(4, 0.5, 2.0, 3));
    let settings = CrossEntropy::new().reduction(reduction);
    let full = settings.clone().weights(&w).label_smoothing(0.2);
    let labels = [3, 0, 3];
    for (what, loss) in [
        ("plain", number(x.cross_entropy_with(labels, &settings))),
        ("full", number(x.cross_entropy_with(labels, &full))),
        ("ignored", number(x.cross_entropy_with([3, 9, 0], &full.clone().ignore_index(9)))),
        ("probabilities", number(x.cross_entropy_with(&p, &settings))),
        ("weighted probabilities", number(x.cross_entropy_with(&p, &full))),
        ("nll", number(x.nll_with(labels, &settings))),
        ("weighted nll", number(x.nll_with(labels, &full))),
    ] {
        check_twice(what, &loss, &x);
        check_twice(what, &loss, &p);
        check_twice(what, &loss, &w);
        check(what, &mixed(&loss.gradient(&x)), &p);
        check(what, &mixed(&loss.gradient(&x)), &w);
    }
}

#[test]
fn classification_loss_gradients_match_differences() {
    every_reduction(Mean, |loss| loss);
    every_reduction(Sum, |loss| loss);
    every_reduction(BatchMean, |loss| loss);
    every_reduction(Each, |loss| mixed(&loss));
}

#[test]
fn position_loss_gradients_match_differences() {
    let x = Weight::new(numbers([2, 3, 2, 2], -2.0, 2.0, 1));
    let labels = Nd::from_vec([2, 2, 2], vec![0_usize, 1, 2, 2, 1, 0, 0, 2]).unwrap();
    let full = CrossEntropy::new().ignore_index(2).label_smoothing(0.1).weights(Nd::from([1.0, 2.0, 0.5]));
    check_twice("plain", &x.cross_entropy(&labels), &x);
    check_twice("full", &x.cross_entropy_with(&labels, &full), &x);
    check_twice("each", &mixed(&x.cross_entropy_with(&labels, &full.reduction(Each))), &x);
    check_twice("dynamic rank", &x.to_dyn().cross_entropy(labels.to_dyn()), &x);
    check_twice("transposed", &x.permute([0, 1, 3, 2]).cross_entropy(&labels), &x);
}

fn elementwise<D: Rank>(x: Weight<Nd<f64, D>>, y: Weight<Nd<f64, D>>) {
    let each = |number: Layer<f64>, losses: Layer<Nd<f64, D>>| number + mixed(&losses);
    for (what, loss) in [
        ("mse", each(x.mse(&y), x.mse_with(&y, Each))),
        ("l1", each(x.l1(&y), x.l1_with(&y, Each))),
        ("huber", each(x.huber(&y, 0.8), x.huber_with(&y, 0.8, Each))),
        ("bce", each(x.bce_with_logits(&y), x.bce_with_logits_with(&y, &Bce::new().reduction(Each)))),
        ("kl_div", each(x.kl_div(&y), x.kl_div_with(&y, Each)) + x.kl_div_with(&y, BatchMean) + x.kl_div_with(&y, Sum)),
    ] {
        check_twice(what, &loss, &x);
        check_twice(what, &loss, &y);
        check(what, &mixed(&loss.gradient(&x)), &y);
    }
}

#[test]
fn elementwise_loss_gradients_match_differences() {
    elementwise(Weight::new(numbers([2, 3], -2.0, 2.0, 1)), Weight::new(numbers([2, 3], 0.1, 0.9, 2)));
    elementwise(Weight::new(numbers(5, -2.0, 2.0, 3)), Weight::new(numbers(5, 0.1, 0.9, 4)));
    elementwise(Weight::new(numbers((), -2.0, 2.0, 5)), Weight::new(numbers((), 0.1, 0.9, 6)));
    let open = IxDyn(&[2, 1, 2]);
    elementwise(Weight::new(numbers(open.clone(), -2.0, 2.0, 7)), Weight::new(numbers(open, 0.1, 0.9, 8)));
    let (x, w) = (Weight::new(numbers([2, 3], -2.0, 2.0, 1)), Weight::new(numbers(3, 0.5, 2.0, 9)));
    let loss = x.bce_with_logits_with(Nd::full([2, 3], 0.3), &Bce::new().pos_weight(&w));
    check_twice("pos_weight", &loss, &x);
    check_twice("pos_weight", &loss, &w);
}

#[test]
fn huber_second_derivative_at_zero_is_one() {
    let x = Weight::new(Nd::from([1.0, 2.0]));
    let loss = x.huber_with(Nd::from([1.0, 2.0]), 0.5, Sum);
    let second = loss.gradient(&x).sum().gradient(&x);
    assert_eq!(second.predict().wait().unwrap(), Nd::from([1.0, 1.0]));
}

fn finite_at_large_logits<A: Element>() {
    let of = |number: f64| A::of(number);
    let x = Weight::new(Nd::<A, _>::from_vec([2, 3], [1e4, -1e4, 0.0, -1e4, 1e4, 1e4].map(of).to_vec()).unwrap());
    let p = Nd::<A, _>::from_vec([2, 3], [0.0, 1.0, 0.0, 0.5, 0.5, 0.0].map(of).to_vec()).unwrap();
    let smooth = CrossEntropy::new().label_smoothing(0.1);
    for (what, loss) in [
        ("cross_entropy", x.cross_entropy([1, 0])),
        ("smoothing", x.cross_entropy_with([1, 0], &smooth)),
        ("probabilities", x.cross_entropy(&p)),
        ("bce", x.bce_with_logits(&p)),
        ("kl_div", x.log_softmax(1).kl_div(&p)),
        ("softmax", total(&x.softmax(1).square())),
    ] {
        assert!(loss.predict().wait().unwrap().is_finite(), "{what}");
        let gradient = loss.gradient(&x);
        assert!(gradient.predict().wait().unwrap().view().iter().all(|x| x.is_finite()), "gradient of {what}");
        let second = total(&gradient.square()).gradient(&x).predict().wait().unwrap();
        assert!(second.view().iter().all(|x| x.is_finite()), "second derivative of {what}");
    }
}

fn total<A: Element>(x: &Layer<Nd<A, Ix2>>) -> Layer<A> {
    x.sum()
}

#[test]
fn losses_of_large_logits_are_finite() {
    finite_at_large_logits::<f32>();
    finite_at_large_logits::<f64>();
    // without cancellation: ln(1 + e⁻³⁰)
    let tiny = Nd::from([-30.0_f64]).bce_with_logits(Nd::from([0.0])).predict().wait().unwrap();
    assert_eq!(tiny, (-30.0_f64).exp().ln_1p());
    let tiny = Nd::from([[1e4_f32, 1e4 - 1.0]]).cross_entropy([0]).predict().wait().unwrap();
    assert_eq!(tiny, (1.0 + (-1.0_f32).exp()).ln());
}

#[test]
fn cross_entropy_ignored_positions_do_not_affect_loss() {
    let x = Nd::from([[f64::NAN, 0.0], [0.0, 0.0]]);
    let loss = x.cross_entropy_with([7, 1], &CrossEntropy::new().ignore_index(7));
    assert_eq!(loss.predict().wait().unwrap(), 2.0_f64.ln());
    // a class with logit −∞ and target probability 0
    let x = Nd::from([[f64::NEG_INFINITY, 0.0, 0.0]]);
    assert_eq!(x.cross_entropy(Nd::from([[0.0, 0.5, 0.5]])).predict().wait().unwrap(), 2.0_f64.ln());
}
