//! Normalisation, dropout and attention: values from PyTorch, first and second derivatives, and the
//! dependence on the mode and the seed of a pass.

use crate::gradient_check::{check, check_twice, mixed, numbers};
use dl_core::{Differentiable, Layer, Mode, Weight};
use dl_nd::{Attention, Nd, RunningStats, ops::*};
use dl_optim::Sgd;
use ndarray::{Dimension, Ix1, Ix3, IxDyn};

fn assert_close<D: Dimension + 'static>(what: &str, found: &Nd<f64, D>, expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.view().iter().zip(expected) {
        assert!((found - expected).abs() < 1e-12, "{what}: {found} instead of {expected}");
    }
}

fn value<D: dl_nd::Rank>(layer: &Layer<Nd<f64, D>>) -> Nd<f64, D> {
    layer.predict().wait().unwrap()
}

/// `v = torch.arange(12., dtype=torch.float64).reshape(3, 2, 2).sin().mul(2)`
fn v() -> Nd<f64, Ix3> {
    Nd::from_vec([3, 2, 2], (0..12).map(|i| f64::from(i).sin() * 2.0).collect()).unwrap()
}

#[test]
fn normalisations_match_pytorch() {
    // F.batch_norm(v, None, None, torch.tensor([1.5, -0.5]), torch.tensor([0.25, 1.]), True, 0.1,
    // 1e-3)
    let expected = [
        0.07238694243792979,
        1.7732628510650887,
        0.3015530223067844,
        0.8793165702273342,
        -1.4573474810871319,
        -1.8658987815132726,
        1.1956108014649702,
        0.4913216820781429,
        2.0721892375431925,
        0.9054072315541936,
        1.3946266457908087,
        1.7375712781319599,
    ];
    let (gamma, beta) = (Nd::from([1.5, -0.5]), Nd::from([0.25, 1.0]));
    assert_close("batch_norm", &value(&v().batch_norm(1e-3).affine(&gamma, &beta)), &expected);
    assert_close("dynamic rank", &value(&v().to_dyn().batch_norm(1e-3).affine(&gamma, &beta)), &expected);
    // F.layer_norm(v, (2, 2), eps=1e-3)
    let expected = [
        -1.1634960484673904,
        0.9064953009856443,
        1.0733461500057633,
        -0.8163454025240172,
        -0.6771783055559395,
        -1.001318229547914,
        0.08840067089729779,
        1.5900958642065555,
        1.3122246627349248,
        0.5732254020026809,
        -0.6508525322797943,
        -1.2345975324578116,
    ];
    assert_close("layer_norm", &value(&v().layer_norm(2, 1e-3)), &expected);
    // F.group_norm(torch.arange(16., dtype=torch.float64).reshape(2, 4, 2).sin(), 2, eps=1e-3)
    let expected = [
        -1.160864691872693,
        0.9044451759409974,
        1.0709186759512266,
        -0.8144991600195308,
        -0.6765261586832465,
        -1.000353924361802,
        0.0883155378967326,
        1.5885645451483157,
        1.3114188858018405,
        0.5728734105948765,
        -0.6504528736144424,
        -1.2338394227822749,
        -1.6149630463328308,
        0.06871100297987101,
        1.072573710619893,
        0.473678332733067,
    ];
    let x = Nd::from_vec([2, 4, 2], (0..16).map(|i| f64::from(i).sin()).collect()).unwrap();
    assert_close("group_norm", &value(&x.group_norm(2, 1e-3)), &expected);
    // F.rms_norm(v, (2,), eps=1e-3)
    let expected = [
        0.0,
        1.413714509241657,
        1.397071355768535,
        0.21682093797903282,
        -0.8759893138326137,
        -1.1099427163461144,
        -0.5532142830724899,
        1.3007666809508627,
        1.305197322210323,
        0.5436816696143391,
        -0.675701126796813,
        -1.2420372956620336,
    ];
    assert_close("rms_norm", &value(&v().rms_norm(1, 1e-3)), &expected);
}

/// `bn = torch.nn.BatchNorm1d(2, eps=1e-3, momentum=0.3, dtype=torch.float64)`
fn stats() -> RunningStats<f64> {
    RunningStats::new(2).momentum(0.3)
}

#[test]
fn running_statistics_match_pytorch() {
    let (stats, w) = (stats(), Weight::new(v()));
    let y = w.batch_norm_with(&stats, 1e-3);
    let step = |y: &Layer<Nd<f64, Ix3>>| y.train(&Sgd::new(0.0)).wait().unwrap();
    // bn(v): normalised with the statistics of the batch
    assert_close("in training", &step(&y), value(&v().batch_norm(1e-3)).view().as_slice().unwrap());
    assert_close("mean", &stats.mean.value(), &[0.05272209467019682, -0.011602278203466121]);
    assert_close("variance", &stats.variance.value(), &[1.4926488635157287, 1.3360328591844572]);
    // bn(v * 0.5 + 1)
    step(&(&w * 0.5 + 1.0).batch_norm_with(&stats, 1e-3));
    assert_close("mean", &stats.mean.value(), &[0.3632665136042362, 0.2860772661558406]);
    assert_close("variance", &stats.variance.value(), &[1.2430164203399423, 1.0942312162252343]);
    // bn.eval()(v)
    let expected = [
        -0.32569591344120224,
        1.1831888902368868,
        1.464375858345541,
        -0.0036666308831681763,
        -1.6827573037593573,
        -2.045192238376951,
        -0.8073403348161691,
        0.9821916557058639,
        1.4483731283623302,
        0.4132948906660624,
        -1.3130207581512763,
        -2.184410608794744,
    ];
    assert_close("in evaluation", &value(&y), &expected);
    // neither evaluation nor a prediction in training mode updates the statistics
    y.predict().mode(Mode::Train).wait().unwrap();
    assert_close("mean", &stats.mean.value(), &[0.3632665136042362, 0.2860772661558406]);
}

#[test]
fn failed_step_leaves_running_statistics_unchanged() {
    let (stats, w) = (stats(), Weight::new(v()));
    let y = w.batch_norm_with(&stats, 1e-3).sum() + w.reshape([4, 3]).matmul(w.reshape([4, 3])).sum();
    assert!(y.train(&Sgd::new(0.1)).wait().unwrap_err().is_shape());
    assert_eq!((stats.mean.value(), stats.variance.value()), (Nd::from([0.0; 2]), Nd::from([1.0; 2])));
    let once = w.batch_norm_with(&stats, 1e-3);
    let twice = once.batch_norm_with(&stats, 1e-3);
    assert!(twice.train(&Sgd::new(0.1)).wait().is_err());
    assert_eq!((stats.mean.value(), stats.variance.value()), (Nd::from([0.0; 2]), Nd::from([1.0; 2])));
    once.train(&Sgd::new(0.1)).wait().unwrap();
    assert_ne!(stats.mean.value(), Nd::from([0.0; 2]));
}

#[test]
fn normalisation_gradients_match_differences() {
    let x = Weight::new(numbers([3, 4, 2], -2.0, 2.0, 1));
    let (gamma, beta) = (Weight::new(numbers(4, 0.5, 2.0, 2)), Weight::new(numbers(4, -1.0, 1.0, 3)));
    let scale = Weight::new(numbers([4, 2], 0.5, 2.0, 4));
    let open = x.to_dyn();
    for (what, loss) in [
        ("batch_norm", mixed(&x.batch_norm(1e-2).affine(&gamma, &beta))),
        ("batch_norm_with, evaluated", mixed(&x.batch_norm_with(&RunningStats::new(4), 1e-2).affine(&gamma, &beta))),
        ("layer_norm", mixed(&(x.layer_norm(2, 1e-2) * &scale))),
        ("group_norm", mixed(&x.group_norm(2, 1e-2).affine(&gamma, &beta))),
        ("rms_norm", mixed(&(x.rms_norm(2, 1e-2) * &scale))),
        ("group_norm, transposed", mixed(&x.permute([2, 1, 0]).group_norm(4, 1e-2))),
        ("batch_norm, dynamic rank", mixed(&open.batch_norm(1e-2).affine(&gamma, &beta))),
        ("group_norm, dynamic rank", mixed(&open.group_norm(2, 1e-2))),
        ("layer_norm, dynamic rank", mixed(&open.layer_norm(1, 1e-2))),
        ("batch_norm of a matrix", mixed(&x.reshape([6, 4]).batch_norm(1e-2).affine(&gamma, &beta))),
    ] {
        check_twice(what, &loss, &x);
        check_twice(what, &loss, &gamma);
        check_twice(what, &loss, &scale);
        check(what, &loss, &beta);
    }
}

#[test]
fn batch_norm_gradient_includes_batch_statistics() {
    // in training, the gradient is the same with and without running statistics
    let (x, stats) = (Weight::new(v()), stats());
    let gradient = |y: &Layer<Nd<f64, Ix3>>| {
        let gradient = mixed(&(y * y * y)).gradient(&x);
        gradient.predict().mode(Mode::Train).wait().unwrap()
    };
    assert_eq!(gradient(&x.batch_norm_with(&stats, 1e-3)), gradient(&x.batch_norm(1e-3)));
}

fn ones(count: usize) -> Nd<f64, Ix1> {
    Nd::full(count, 1.0)
}

#[test]
fn dropout_in_evaluation_is_identity() {
    let x = numbers([4, 5], -1.0, 1.0, 1);
    let y = x.dropout(0.5);
    assert_eq!(y.predict().wait().unwrap(), x);
    assert_eq!(y.predict().seed(1).wait().unwrap(), x);
    let error = y.predict().mode(Mode::Train).wait().unwrap_err();
    assert!(error.to_string().contains(".seed("), "{error}");
    assert_eq!(x.dropout(0.0).predict().mode(Mode::Train).seed(3).wait().unwrap(), x);
}

#[test]
fn dropout_preserves_mean() {
    for p in [0.1, 0.5, 0.9] {
        let y = ones(100_000).dropout(p).predict().mode(Mode::Train).seed(5).wait().unwrap();
        let kept = 1.0 / (1.0 - p);
        assert!(y.view().iter().all(|&y| y == 0.0 || (y - kept).abs() < 1e-12));
        // 5 standard deviations
        let deviation = (p / (1.0 - p) / 1e5).sqrt();
        assert!((y.view().mean().unwrap() - 1.0).abs() < 5.0 * deviation, "{p}");
    }
}

#[test]
fn dropout_mask_depends_on_seed_and_location() {
    let (a, b) = (ones(64).dropout(0.5), ones(64).dropout(0.5));
    let both = concat(0, [a.clone(), b]);
    let run = |seed| both.predict().mode(Mode::Train).seed(seed).wait().unwrap();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let value = run(1);
    assert_ne!(value.view().slice(ndarray::s![..64]), value.view().slice(ndarray::s![64..]));
}

#[test]
fn dropout_mask_on_any_threads_and_strides_is_same() {
    let x = numbers([32, 40], -1.0, 1.0, 1);
    let run = |threads: usize| {
        let layers: Vec<_> = (0..8).map(|_| x.dropout(0.3).exp()).collect();
        let sum: Layer<Nd<f64>> = layers.iter().sum();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| sum.predict().mode(Mode::Train).seed(9).wait().unwrap())
    };
    let one = run(1);
    for threads in [2, 4, 8] {
        assert_eq!(run(threads), one, "{threads} threads");
    }
    let transposed = value(&value(&x.t()).t());
    let (a, b) = (x.dropout(0.5), transposed.dropout(0.5));
    let run = |y: &Layer<Nd<f64>>| y.predict().mode(Mode::Train).seed(9).wait().unwrap();
    assert_eq!(run(&a), run(&b));
}

#[test]
fn dropout_gradient_uses_mask_of_value() {
    let w = Weight::new(Nd::from(vec![2.0_f64; 50]));
    let y = w.dropout(0.4);
    let loss = (y.square() * &y).sum();
    let slope = loss.gradient(&w);
    let all = stack(0, [y, slope.clone(), slope.sum().gradient(&w)]);
    let all = all.predict().mode(Mode::Train).seed(3).wait().unwrap();
    let [y, slope, second] = [0, 1, 2].map(|row| Nd::from(all.view().row(row)));
    let mask = y.view().mapv(|y| y / 2.0);
    assert!(mask.iter().any(|&m| m == 0.0) && mask.iter().any(|&m| m != 0.0));
    // y = m·w: Σ y³ has the derivatives 3·m³·w² and 6·m³·w
    let expected = mask.mapv(|m| 12.0 * m.powi(3)).to_vec();
    assert_close("gradient", &slope, &expected);
    assert_close("second derivative", &second, &expected);
    let (before, value) = (w.value(), loss.train(&Sgd::new(1.0)).seed(3).wait().unwrap());
    let delta = &before.view() - &w.value().view();
    assert!((delta.sum() / 12.0 - value / 8.0).abs() < 1e-9);
}

/// `torch.arange(6.).reshape(2, 3).sin()`, `torch.arange(9.).reshape(3, 3).cos()`,
/// `torch.arange(6.).reshape(3, 2)`
fn queries_keys_values() -> [Nd<f64>; 3] {
    let of = |shape, f: fn(f64) -> f64| {
        let [rows, columns]: [usize; 2] = shape;
        Nd::from_vec(shape, (0..rows * columns).map(|i| f(i as f64)).collect()).unwrap()
    };
    [of([2, 3], f64::sin), of([3, 3], f64::cos), of([3, 2], |x| x)]
}

#[test]
fn attention_matches_pytorch() {
    let [q, k, v] = queries_keys_values();
    let rows = |first: f64, second: f64| [first, first + 1.0, second, second + 1.0];
    // F.scaled_dot_product_attention(q, k, v)
    let y = value(&scaled_dot_product_attention(&q, &k, &v));
    assert_close("plain", &y, &rows(2.1805657015203597, 1.8413979029162095));
    let y = value(&scaled_dot_product_attention(q.to_dyn(), k.to_dyn(), v.to_dyn()));
    assert_close("dynamic rank", &y, &rows(2.1805657015203597, 1.8413979029162095));
    let with = |settings: Attention<f64>| value(&scaled_dot_product_attention_with(&q, &k, &v, &settings));
    // … is_causal=True
    assert_close("causal", &with(Attention::new().causal()), &rows(0.0, 0.9860549045566581));
    // … attn_mask=torch.tensor([[True, False, True], [False, True, True]])
    let mask = Nd::from([[true, false, true], [false, true, true]]);
    assert_close("mask", &with(Attention::new().mask(mask)), &rows(2.2446259020444512, 2.8911711575473484));
    // … attn_mask=torch.tensor([[0., -1, -torch.inf], [1, 2, 3]]), scale=0.5
    let bias = Nd::from([[0.0, -1.0, f64::NEG_INFINITY], [1.0, 2.0, 3.0]]);
    let y = with(Attention::new().bias(bias).scale(0.5));
    assert_close("bias", &y, &rows(0.46860715705745776, 3.0328089147573936));
}

#[test]
fn attention_gradients_match_differences() {
    let [q, k, v] = [(2, 3, 1), (4, 3, 2), (4, 2, 3)].map(|(m, n, seed)| Weight::new(numbers([m, n], -1.0, 1.0, seed)));
    let bias = Weight::new(numbers([2, 4], -1.0, 1.0, 4));
    let mask = Nd::from([[true, false, true, true], [false, false, false, false]]);
    for (what, settings) in [
        ("plain", Attention::new()),
        ("causal", Attention::new().causal()),
        ("masked", Attention::new().mask(mask)),
        ("biased", Attention::new().bias(&bias).scale(0.7)),
        ("a masked key", Attention::new().mask(Nd::from([true, true, false, true])).causal()),
    ] {
        let loss = mixed(&scaled_dot_product_attention_with(&q, &k, &v, &settings));
        for w in [&q, &k, &v, &bias] {
            check_twice(what, &loss, w);
        }
        check(what, &mixed(&loss.gradient(&q)), &k);
    }
    let loss = mixed(&scaled_dot_product_attention(q.to_dyn(), k.to_dyn(), v.to_dyn()));
    check_twice("dynamic rank", &loss, &q);
}

#[test]
fn attention_with_heads_matches_single_heads() {
    // [batch, heads, L or S, E]; the mask is shared by all heads, each head has its own bias
    let [q, k, v] =
        [(3, 2), (4, 2), (4, 3)].map(|(m, n)| Weight::new(numbers([2, 2, m, n], -1.0, 1.0, (m * n) as u64)));
    let bias = Weight::new(numbers([2, 3, 4], -1.0, 1.0, 1));
    let mask = Nd::from_vec([2, 1, 3, 4], (0..24).map(|i| i % 5 != 0).collect()).unwrap();
    let settings = Attention::new().mask(mask.clone()).bias(&bias);
    let y = scaled_dot_product_attention_with(&q, &k, &v, &settings);
    let all = value(&y);
    for (batch, head) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let part = |w: &Weight<Nd<f64, ndarray::Ix4>>| w.row(batch).row(head);
        let mask = Nd::from(mask.view().slice(ndarray::s![batch as usize, 0, .., ..]));
        let settings = Attention::new().mask(mask).bias(bias.row(head));
        let one = value(&scaled_dot_product_attention_with(part(&q), part(&k), part(&v), &settings));
        let here = all.view().slice_move(ndarray::s![batch as usize, head as usize, .., ..]).to_owned();
        assert_close("a head", &one, &here.iter().copied().collect::<Vec<_>>());
    }
    for w in [&q, &k, &v] {
        check_twice("many heads", &mixed(&y), w);
    }
    check_twice("many heads", &mixed(&y), &bias);
}

#[test]
fn attention_of_fully_masked_query_is_zero() {
    let [q, k, v] = queries_keys_values().map(Weight::new);
    let nothing = f64::NEG_INFINITY;
    for settings in
        [Attention::new().mask(Nd::from([[false], [true]])), Attention::new().bias(Nd::from([[nothing; 3], [0.0; 3]]))]
    {
        let y = scaled_dot_product_attention_with(&q, &k, &v, &settings);
        assert_eq!(value(&y.row(0)), Nd::from([0.0, 0.0]));
        let gradient = value(&y.sum().gradient(&q));
        assert_eq!(gradient.view().row(0).to_vec(), [0.0; 3]);
        assert!(gradient.view().iter().all(|x| x.is_finite()));
        assert!(value(&y.square().sum().gradient(&q).square().sum().gradient(&k)).view().iter().all(|x| x.is_finite()));
    }
}

#[test]
fn attention_dropout_is_seeded_and_training_only() {
    let [q, k, v] = queries_keys_values();
    let y = scaled_dot_product_attention_with(&q, &k, &v, &Attention::new().dropout(0.5));
    assert_eq!(value(&y), value(&scaled_dot_product_attention(&q, &k, &v)));
    let run = |seed| y.predict().mode(Mode::Train).seed(seed).wait().unwrap();
    assert_eq!(run(1), run(1));
    assert!((2..9).any(|seed| run(seed) != run(1)));
}

#[test]
fn normalisations_of_constant_f32_tensor_are_zero() {
    let x = Nd::<f32, _>::full(IxDyn(&[2, 4, 3]), 0.5);
    let stats = RunningStats::new(4);
    for y in [
        x.batch_norm(1e-5),
        x.group_norm(2, 1e-5),
        x.layer_norm(2, 1e-5),
        x.batch_norm_with(&stats, 1e-5) - 0.5 * Nd::<f32, _>::full((), (1.0_f32 + 1e-5).sqrt().recip()),
    ] {
        assert!(y.predict().wait().unwrap().view().iter().all(|y| y.abs() < 1e-6));
    }
}
