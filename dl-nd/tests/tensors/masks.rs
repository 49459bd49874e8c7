//! Elements that a mask, a weight of 0 or −∞ in log space has switched off have a gradient of 0,
//! however steep the functions are there.

use dl_core::{Binary, Differentiable, Do, Layer, Pointwise, Unary, Weight};
use dl_nd::{Attention, Bce, CrossEntropy, Each, Element, Nd, Rank, ops::*, scaled_dot_product_attention_with};
use ndarray::{Ix1, Ix2, Ix4};

const INF: f64 = f64::INFINITY;

/// Points where functions are steep, undefined, or overflow.
const POINTS: [f64; 11] = [-INF, -1e300, -4.0, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1e300, INF, f64::NAN];

fn zeros<D: Rank>(what: &str, slope: &Layer<Nd<f64, D>>) {
    let slope = slope.predict().wait().expect("it succeeds");
    assert!(slope.view().iter().all(|&slope| slope == 0.0), "{what}: {slope:?}");
}

/// The points, as often as given: 1 is computed at once, 1,000 by fused kernels.
fn points(times: usize) -> Weight<Nd<f64, Ix1>> {
    Weight::new(POINTS.iter().copied().cycle().take(POINTS.len() * times).collect())
}

/// Checks a function of elements that are switched off.
fn is_switched_off(name: &str, w: &Weight<Nd<f64, Ix1>>, y: &Layer<Nd<f64, Ix1>>) {
    let off = Nd::full(w.value().len(), false);
    let ways = [
        ("where_", where_(&off, y, 1.0).sum()),
        ("where_ before another function", where_(&off, y.square().exp(), w).relu().sum() - w.relu().sum()),
        ("weight of 0", (y * 0.0).sum()),
    ];
    for (way, loss) in ways {
        let what = format!("{name}, {way}, {} elements", w.value().len());
        let slope = loss.gradient(w);
        zeros(&what, &slope);
        zeros(&format!("{what}, twice"), &slope.sum().gradient(w));
        let ones = Layer::constant(Nd::full(w.value().len(), 1.0));
        if way != "weight of 0" {
            zeros(&format!("{what}, forward over reverse"), &slope.jvp(w, &ones));
        }
    }
    // in a training step
    let before = w.value();
    where_(&off, y, 1.0).train(&dl_optim::Sgd::new(1.0)).wait().expect("it succeeds");
    let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    assert!(w.value().view().iter().zip(before.view()).all(same), "{name}, trained: {:?}", w.value());
}

#[test]
fn unary_operation_that_is_switched_off_has_no_gradient() {
    for op in Unary::ALL {
        for times in [1, 1000] {
            let w = points(times);
            is_switched_off(op.name(), &w, &Nd::unary(*op, &w.layer()));
        }
    }
}

#[test]
fn binary_operation_that_is_switched_off_has_no_gradient() {
    for op in Binary::ALL {
        let (w, moved) = (points(1), points(1));
        moved.freeze();
        for turn in 0..POINTS.len() {
            let other =
                Layer::constant(Nd::from((0..POINTS.len()).map(|i| POINTS[(i + turn) % 11]).collect::<Vec<_>>()));
            is_switched_off(op.name(), &w, &Nd::binary(*op, &w.layer(), &other));
            is_switched_off(op.name(), &w, &Nd::binary(*op, &other, &w.layer()));
        }
        for number in [-INF, -2.0, 0.0, 0.5, INF] {
            is_switched_off(op.name(), &w, &Nd::with_number(*op, &w.layer(), number, false));
            is_switched_off(op.name(), &w, &Nd::with_number(*op, &w.layer(), number, true));
        }
    }
}

/// As PyTorch does not.
#[test]
fn branch_of_where_that_is_not_taken_has_no_gradient() {
    let w = Weight::new(Nd::from([-1.0, -4.0, 4.0, 0.0]));
    let root = where_(w.greater(0.0), w.sqrt(), &w);
    let entropy = where_(w.greater(0.0), &w * w.ln(), 0.0);
    let (root, entropy) = (root.sum().gradient(&w), entropy.sum().gradient(&w));
    let (root, entropy) = Do::predict((root, entropy)).wait().expect("it succeeds");
    assert_eq!(root, Nd::from([1.0, 1.0, 0.25, 1.0]));
    assert_eq!(entropy, Nd::from([0.0, 0.0, 4_f64.ln() + 1.0, 0.0]));
}

#[test]
fn values_and_used_branches_still_show_nan() {
    let w = Weight::new(Nd::from([-1.0_f64, 0.0]));
    let (value, slopes) = Do::predict(w.sqrt().sum().value_and_gradient(&w)).wait().expect("it succeeds");
    assert!(value.is_nan() && slopes[0].is_nan() && slopes[1] == INF);
    let nothing = (w.ln() * 0.0).predict().wait().expect("it succeeds");
    assert!(nothing.view().iter().all(|x| x.is_nan()), "{nothing:?}");
}

#[test]
fn minus_infinity_in_log_space_has_no_gradient() {
    let x = Weight::new(Nd::from([[-INF, 0.0, 1.0], [-INF, -INF, 3.0]]));
    let finite = |what: &str, loss: &Layer<f64>| {
        let (value, slope) = Do::predict(loss.value_and_gradient(&x)).wait().expect("it succeeds");
        assert!(value.is_finite(), "{what}: {value}");
        assert!(slope.view().iter().all(|slope| slope.is_finite()), "{what}: {slope:?}");
        assert!(slope[(0, 0)] == 0.0 && slope[(1, 0)] == 0.0 && slope[(1, 1)] == 0.0, "{what}: {slope:?}");
        let second = loss.gradient(&x).at([0, 1]).gradient(&x).predict().wait().expect("it succeeds");
        assert!(second.view().iter().all(|slope| slope.is_finite()), "{what}, twice: {second:?}");
    };
    finite("softmax", &x.softmax(1).square().sum());
    finite("log_softmax", &x.log_softmax(1).slice_axis(1, 2..).square().sum());
    finite("logsumexp", &x.logsumexp_axis(1).square().sum());
    finite("cross_entropy", &x.cross_entropy([2, 2]).square());
    let weighted = CrossEntropy::new().weights(Nd::from([0.0, 0.0, 2.0]));
    finite("weights of 0", &x.cross_entropy_with([2, 2], &weighted).square());
    finite(
        "weights of 0 and smoothing",
        &x.cross_entropy_with([2, 2], &weighted.clone().label_smoothing(0.5)).square(),
    );
    let each = x.cross_entropy_with([0, 2], &weighted.reduction(Each));
    finite("label of weight 0", &each.square().sum());
    let ignored = CrossEntropy::new().ignore_index(0);
    finite("ignored label", &x.cross_entropy_with([0, 2], &ignored).square());
    finite("nll", &x.log_softmax(1).nll_with([0, 2], &ignored).square());
    let targets = Nd::from([[0.0, 0.25, 0.75], [0.0, 0.0, 1.0]]);
    finite("probabilities", &x.cross_entropy(&targets).square());
    finite("kl_div", &x.log_softmax(1).kl_div(&targets).square());
    // a lane of −∞ only
    let empty = Weight::new(Nd::from([[-INF, -INF], [0.0, 1.0]]));
    for y in [empty.softmax(1), empty.log_softmax(1), &empty - empty.logsumexp_keepdim(1)] {
        let used = where_(Nd::from([[false], [true]]), &y, 0.0).square().sum();
        let slope = used.gradient(&empty).predict().wait().expect("it succeeds");
        assert!(slope.view().row(0).iter().all(|&slope| slope == 0.0) && slope[(1, 0)].is_finite(), "{slope:?}");
    }
}

#[test]
fn masked_attention_and_bce_with_infinite_logits_have_finite_gradients() {
    let [q, k, v] = [0.3, -0.7, 0.2].map(|x| Weight::new(Nd::from([[x, 1.0], [2.0, x]])));
    let bias = Weight::new(Nd::from([[0.0, -INF], [-INF, -INF]]));
    let y = scaled_dot_product_attention_with(&q, &k, &v, &Attention::new().bias(&bias));
    let slopes = y.square().sum().gradients(&(&q, &k, &v));
    let (a, b, c) = Do::predict(slopes).wait().expect("it succeeds");
    for slope in [a, b, c] {
        assert!(slope.view().iter().all(|slope| slope.is_finite()), "{slope:?}");
    }
    let x: Weight<Nd<f64, Ix2>> = Weight::new(Nd::from([[INF, -INF, -INF]]));
    let settings = Bce::new().pos_weight(Nd::from([1.0, 1.0, 0.0])).reduction(Each);
    let losses = x.bce_with_logits_with(Nd::from([[1.0, 0.0, 0.5]]), &settings);
    let (losses, slope) = Do::predict((losses.clone(), losses.sum().gradient(&x))).wait().expect("it succeeds");
    assert_eq!((losses, slope), (Nd::from([[0.0, 0.0, 0.0]]), Nd::from([[0.0, 0.0, 0.0]])));
}

/// The last keys are padding, and so are the last queries, whose results are not used. Values and
/// derivatives have the bits of padding with zeros.
fn check_attention_over_padding<A: Element>([length, keys, padding]: [usize; 3], causal: bool) {
    let results = |hard: f64| {
        let fill = |rows: usize, width: usize, rate: f64| -> Weight<Nd<A, Ix4>> {
            let element = |i: usize| if i / width % rows + padding >= rows { hard } else { (rate * i as f64).sin() };
            let elements = (0..2 * rows * width).map(|i| A::of(element(i))).collect();
            Weight::new(Nd::from_vec([1, 2, rows, width], elements).expect("the elements"))
        };
        let (q, k, v) = (fill(length, 8, 0.37), fill(keys, 8, 0.61), fill(keys, 5, 0.83));
        let seen = Nd::from((0..keys).map(|key| key + padding < keys).collect::<Vec<_>>());
        let used = (0..length).map(|row| row + padding < length).collect();
        let used = Nd::from_vec([1, 1, length, 1], used).expect("a column");
        let settings = if causal { Attention::new().causal() } else { Attention::new().mask(seen) };
        let y = where_(&used, scaled_dot_product_attention_with(&q, &k, &v, &settings), Layer::constant(A::zero()));
        let loss = y.square().sum();
        let slopes = (loss.gradient(&q), loss.gradient(&k), loss.gradient(&v));
        let (y, (a, b, c)) = Do::predict((y, slopes)).wait().expect("it succeeds");
        [y, a, b, c].map(|x| x.into_vec())
    };
    let zeros = results(0.0);
    for hard in [f64::NAN, INF, -INF] {
        for (what, (found, wanted)) in
            ["value", "queries", "keys", "values"].iter().zip(results(hard).iter().zip(&zeros))
        {
            assert!(found == wanted, "{what}, {length} queries, {keys} keys, causal: {causal}, {hard}");
        }
    }
}

/// With few keys, and with several blocks of keys.
#[test]
fn attention_over_padding_that_is_not_finite_equals_that_over_zeros() {
    for (lengths, causal) in [
        ([3, 5, 2], false),
        ([100, 130, 70], false),
        ([70, 600, 60], false),
        ([5, 5, 2], true),
        ([130, 130, 70], true),
        ([600, 600, 300], true),
    ] {
        check_attention_over_padding::<f32>(lengths, causal);
        if lengths[1] < 200 {
            check_attention_over_padding::<f64>(lengths, causal);
        }
    }
}

#[test]
fn hidden_keys_that_are_not_finite_leave_whole_matrix_and_second_derivatives_finite() {
    let matrix = |x: [[f64; 2]; 3]| Weight::new(Nd::from(x));
    let q = matrix([[0.3, 1.0], [-0.7, 0.2], [0.1, 2.0]]);
    let seen = Nd::from([true, false, true]);
    let settings = [
        Attention::new().mask(&seen),
        Attention::new().mask(&seen).bias(Nd::from([[0.5], [1.0], [0.0]])),
        Attention::new().mask(&seen).dropout(0.5),
        Attention::new().bias(Nd::from([0.25, -INF, 0.0])),
        Attention::new().mask(&seen).causal().dropout(0.25),
    ];
    for (i, settings) in settings.iter().enumerate() {
        let results = |bad: f64| {
            let (k, v) =
                (matrix([[0.5, 1.0], [bad, bad], [2.0, -1.0]]), matrix([[1.0, 0.5], [bad, -bad], [0.25, -1.0]]));
            let y = scaled_dot_product_attention_with(&q, &k, &v, settings);
            let gradients = |loss: &Layer<f64>| [loss.gradient(&q), loss.gradient(&k), loss.gradient(&v)];
            let first = gradients(&y.square().sum());
            let [a, b, c] = first.each_ref().map(|slope| slope.square().sum());
            let all = [vec![y], first.to_vec(), gradients(&(a + b + c)).to_vec()].concat();
            all.iter().map(|y| y.predict().seed(3).wait().expect("it succeeds").into_vec()).collect::<Vec<_>>()
        };
        let zeros = results(0.0);
        for bad in [f64::NAN, INF, -INF] {
            for (at, (found, wanted)) in results(bad).iter().zip(&zeros).enumerate() {
                let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
                assert!(
                    found.iter().zip(wanted).all(near),
                    "settings {i}, result {at}, {bad}: {found:?}, not {wanted:?}"
                );
            }
        }
    }
    // a key that is seen shows
    let (k, v) = (matrix([[0.5, 1.0], [f64::NAN, 0.0], [2.0, -1.0]]), matrix([[1.0, 0.5], [0.0, 1.0], [0.25, -1.0]]));
    let y = scaled_dot_product_attention_with(&q, &k, &v, &Attention::new().causal());
    let y = y.predict().wait().expect("it succeeds");
    assert!(y.view().row(0).iter().all(|x| x.is_finite()) && y.view().row(1).iter().all(|x| x.is_nan()), "{y}");
}

/// A product with −∞ weights and a mask of the result.
#[test]
fn reductions_of_lanes_that_are_switched_off_have_no_gradient() {
    let x = Weight::new(Nd::from([[INF, INF], [f64::NAN, 1.0], [-INF, -INF], [0.0, 0.0]]));
    let reduced = [
        ("sum", x.sum_axis(1)),
        ("prod", x.prod_axis(1)),
        ("amax", x.amax_axis(1)),
        ("amin", x.amin_axis(1)),
        ("logsumexp", x.logsumexp_axis(1)),
        ("norm", x.norm_axis(1)),
        ("norm_p", x.norm_p_axis(1, 3.0)),
        ("var", x.var_axis(1, 0)),
        ("std", x.std_axis(1, 0)),
    ];
    for (name, y) in reduced {
        zeros(name, &where_(Nd::full(4, false), &y, 0.0).sum().gradient(&x));
    }
}

#[test]
fn scans_of_lanes_that_are_switched_off_have_no_gradient() {
    for bad in [INF, -INF, f64::NAN, 0.0] {
        let x = Weight::new(Nd::from([[0.5, 2.0, -1.0], [1.0, bad, 2.0]]));
        let ones = Layer::constant(Nd::full([2, 3], 1.0));
        let scans = [
            ("cumsum", x.cumsum(1)),
            ("cumprod", x.cumprod(1)),
            ("logcumsumexp", x.logcumsumexp(1)),
            ("cummax", x.cummax(1).0),
            ("cummin", x.cummin(1).0),
        ];
        for (name, y) in scans {
            let loss = where_(Nd::from([[true], [false]]), &y, 0.0).square().sum();
            let slope = loss.gradient(&x);
            for slope in [slope.clone(), slope.square().sum().gradient(&x), loss.hvp(&x, &ones)] {
                let slope = slope.predict().wait().expect("it succeeds");
                let [used, off] = [0, 1].map(|row| slope.view().row(row).to_vec());
                assert!(off == [0.0; 3] && used.iter().all(|slope| slope.is_finite()), "{name}, {bad}: {slope}");
            }
        }
        // a value is NaN, or infinite, as before
        assert!(bad == 0.0 || !x.cumprod(1).predict().wait().expect("it succeeds")[(1, 2)].is_finite());
    }
}
