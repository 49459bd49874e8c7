//! Derivatives with respect to inputs, intermediate layers and marked layers, in reverse and
//! forward mode, are the same with and without checkpoint boundaries.

use dl::prelude::*;

type Weights = Vec<NdWeight<Ix1, f64>>;
type Layers = Vec<NdLayer<Ix1, f64>>;

/// A chain of tensors with activations that can be discarded, and a boundary at every third layer.
fn net(marked: bool) -> (Weights, Layers, Layer<f64>) {
    let weights: Weights =
        (0..12).map(|i| Weight::new(Nd::from([0.1 * f64::from(i) + 0.3, 1.0 - 0.05 * f64::from(i)]))).collect();
    let mut layers = vec![Layer::constant(Nd::from([0.5, -0.25]))];
    for (i, w) in weights.iter().enumerate() {
        let h = (layers[i].clone() * w).tanh() + 0.1;
        layers.push(if marked && i % 3 == 2 { h.checkpoint() } else { h });
    }
    let loss = (&layers[12] * &layers[12]).sum();
    // a handle to an intermediate layer would retain its value
    let kept = [0, 3, 6].map(|i| layers[i].clone()).to_vec();
    (weights, kept, loss)
}

fn assert_same(marked: &[Nd<f64, Ix1>], plain: &[Nd<f64, Ix1>], what: &str) {
    assert_eq!(marked.len(), plain.len());
    for (found, expected) in marked.iter().zip(plain) {
        for (found, expected) in found.view().iter().zip(expected.view()) {
            assert!((found - expected).abs() <= 1e-14 * expected.abs().max(1e-3), "{what}: {found} {expected}");
        }
    }
}

type Of = fn(&Weights, &Layers, &Layer<f64>) -> Layers;

#[test]
fn derivatives_of_all_targets_are_same_with_checkpoints() {
    let cases: [(&str, Of); 6] = [
        ("weights", |w, _, y| y.gradients(w)),
        ("input", |_, l, y| vec![y.gradient(&l[0])]),
        ("marked layers", |_, l, y| y.gradients(&[&l[1], &l[2]]).to_vec()),
        ("all at once", |w, l, y| {
            let (by_w, by_l) = y.gradients(&(w, l));
            by_w.into_iter().chain(by_l).collect()
        }),
        ("along a direction", |w, l, y| {
            let v = Layer::constant(Nd::from([1.0, -2.0]));
            vec![y.jvp(&(&w[0], &l[2]), &(v.clone(), v.clone())) * &v]
        }),
        ("hessian times a direction", |w, _, y| {
            let v = vec![Layer::constant(Nd::from([1.0, -2.0])); w.len()];
            y.hvp(w, &v)
        }),
    ];
    for (what, of) in cases {
        let values = |marked: bool| {
            let (weights, layers, loss) = net(marked);
            let derivatives = of(&weights, &layers, &loss);
            let predicted = Do::predict(derivatives.clone()).wait().unwrap();
            // in a training pass, which discards activations
            let trained: Vec<Nd<f64, Ix1>> =
                derivatives.iter().map(|slope| (slope + 0.0 * &loss).train(&Sgd::new(0.0)).wait().unwrap()).collect();
            // training on the derivatives
            let penalty = derivatives.iter().map(|slope| slope.square().sum()).sum::<Layer<f64>>();
            penalty.train(&Sgd::new(0.01)).wait().unwrap();
            let stepped: Vec<Nd<f64, Ix1>> = weights.iter().map(Weight::value).collect();
            (predicted, trained, stepped)
        };
        let (marked, plain) = (values(true), values(false));
        assert_same(&marked.0, &plain.0, what);
        assert_same(&marked.1, &plain.1, what);
        assert_same(&marked.2, &plain.2, what);
    }
}

#[test]
fn delta_of_unreached_weight_is_none_after_scaling() {
    for marked in [true, false] {
        let (w, v) = (Weight::new(Nd::from([1.25, 0.5])), Weight::new(Nd::from([1.0, 1.0])));
        let h = (w.layer() * 2.0).floor() * &v;
        let h = if marked { h.checkpoint() } else { h };
        let effects = h.sum().backward().wait().unwrap();
        let twice = 0.5 * effects.clone() + 3.0 * effects;
        assert_eq!(twice.delta(&w).wait().unwrap(), None);
        twice.clip_norm(0.1).wait().unwrap().step(&dl::AdamW::new(0.1)).wait().unwrap();
        assert_eq!(w.value(), Nd::from([1.25, 0.5]));
        assert_ne!(v.value(), Nd::from([1.0, 1.0]));
    }
}
