//! Known values, computed by hand or by other libraries.

use dl_core::{Differentiable, Layer, Weight, max, min, pow};
use dl_nd::{Nd, NdLayer, NdWeight, init, ops::*};
use dl_optim::Sgd;
use ndarray::{Ix1, Ix2, arr2};

#[test]
fn matmul_of_two_matrices_has_known_value() {
    let a = Nd::from([[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let b = Nd::from([[7.0, 8.0, 9.0, 10.0], [11.0, 12.0, 13.0, 14.0], [15.0, 16.0, 17.0, 18.0]]);
    let product = Nd::from([[74.0, 80.0, 86.0, 92.0], [173.0, 188.0, 203.0, 218.0]]);
    assert_eq!(a.matmul(&b).predict().wait().unwrap(), product);
    assert_eq!(b.t().matmul(a.t()).t().predict().wait().unwrap(), product);
}

#[test]
fn matmul_with_inner_length_zero_is_zero() {
    let (a, b) = (Nd::<f32>::full([2, 0], 1.0), Nd::<f32>::full([0, 3], 1.0));
    assert_eq!(a.matmul(b).predict().wait().unwrap(), Nd::full([2, 3], 0.0));
}

#[test]
fn cross_entropy_of_large_logits_is_finite() {
    let w: NdWeight = Weight::new([[1e4, -1e4, 0.0], [-1e4, -1e4, 1e4]].into());
    assert_eq!(w.softmax(1).predict().wait().unwrap(), Nd::from([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]));
    assert_eq!(w.log_softmax(1).predict().wait().unwrap(), Nd::from([[0.0, -2e4, -1e4], [-2e4, -2e4, 0.0]]));
    let loss = w.cross_entropy([1, 2]);
    assert_eq!(loss.train(&Sgd::new(1.0)).wait().unwrap(), 1e4);
    // (softmax − one_hot) / batch
    assert_eq!(w.value(), Nd::from([[1e4 - 0.5, -1e4 + 0.5, 0.0], [-1e4, -1e4, 1e4]]));
}

#[test]
fn softmax_of_empty_tensor_is_empty() {
    for shape in [[3, 0], [0, 3]] {
        let x = Nd::<f32, Ix2>::full(shape, 1.0);
        assert_eq!(x.softmax(1).predict().wait().unwrap(), x);
        assert_eq!(x.log_softmax(1).predict().wait().unwrap(), x);
    }
}

#[test]
fn gradient_of_sqrt_at_4_is_quarter() {
    let w = Weight::new(Nd::from([4.0_f64]));
    w.sqrt().train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!(w.value(), Nd::from([4.0 - 0.25]));
}

#[test]
fn amax_ties_share_gradient() {
    let w = Weight::new(Nd::from([[1.0_f64, 3.0, 3.0], [5.0, 5.0, 5.0]]));
    w.amax_axis(1).train(&Sgd::new(1.0)).wait().unwrap();
    let third = 1.0 / 3.0;
    assert_eq!(w.value(), Nd::from([[1.0, 2.5, 2.5], [5.0 - third, 5.0 - third, 5.0 - third]]));
    let w = Weight::new(Nd::from([1.0_f64, 2.0, 3.0]));
    max(&w, 2.0).train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!(w.value(), Nd::from([1.0, 1.5, 2.0]));
}

#[test]
fn gradient_through_views_leaves_values_unchanged() {
    let w = Weight::new(Nd::from([[1.0_f64, 2.0], [3.0, 4.0]]));
    let view = w.t().reshape(4).reshape([2, 2]).permute([1, 0]);
    let (forward, whole) = (view.forward().wait().unwrap(), w.layer().forward().wait().unwrap());
    let kept = (forward.data().clone(), whole.data().clone());
    let copy = Nd::from(kept.0.view().to_owned());
    let loss = (&view * &view + w.row(0)).sum();
    loss.train(&Sgd::new(0.5)).wait().unwrap();
    assert_eq!(kept.0, copy);
    assert_eq!(kept.1, Nd::from([[1.0, 2.0], [3.0, 4.0]]));
    assert_eq!(*forward.data(), copy);
    assert_eq!(w.value(), Nd::from([[-1.0, -1.0], [0.0, 0.0]]));
}

#[test]
fn operators_accept_every_kind_of_operand() {
    let plain = Nd::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    let weight: NdWeight = Weight::new(plain.clone());
    let layer: NdLayer = weight.layer();
    let (number, half) = (Weight::new(2.0_f32), &0.5);
    let twice = Nd::from([[2.0, 4.0], [6.0, 8.0]]);
    let all: Vec<NdLayer> = vec![
        &plain * 2.0,
        plain.clone() * 2.0,
        2.0 * &plain,
        2.0 * plain.clone(),
        &weight * 2.0,
        2.0 * &weight,
        2.0 * weight.clone(),
        &layer * 2.0,
        2.0 * &layer,
        layer.clone() * half * 4.0,
        &number * &plain,
        &number * &weight,
        number.layer() * layer.clone(),
        &plain * &number,
        &weight * number.layer(),
        layer.clone() * number.clone(),
        &plain + &plain,
        &plain + &weight,
        &plain + &layer,
        plain.clone() + weight.clone(),
        &weight + &plain,
        &weight + &layer,
        &layer + plain.clone(),
        &layer + &weight,
        layer.clone() + layer.clone(),
        -(&plain * -2.0),
        -(-(&plain + &plain)),
        max(&plain * 2.0, &plain),
        max(0.5, &plain) * 2.0,
        min(9.0, &weight) * 2.0,
        max(&plain, &weight * 2.0),
        min(&plain * 3.0, &weight * 2.0),
        plain.layer().max(&layer + &weight),
        2.0 * pow(&plain, 1.0) * pow(2.0_f32, Nd::from([0.0])),
    ];
    for (i, layer) in all.into_iter().enumerate() {
        assert_eq!(layer.predict().wait().unwrap(), twice, "number {i}");
    }
    let negated: NdLayer = -&plain;
    assert_eq!(negated.predict().wait().unwrap(), Nd::from([[-1.0, -2.0], [-3.0, -4.0]]));
}

/// Expected values from NumPy: `np.array([-7, 5.5]) % 3`, `5 % np.array([-7, 5.5])`
#[test]
fn rem_matches_numpy() {
    let plain = Nd::from([-7.0_f32, 5.5]);
    let weight: NdWeight<Ix1> = Weight::new(plain.clone());
    let (three, five) = (Weight::new(3.0_f32), Weight::new(5.0_f32));
    for (i, layer) in [&plain % 3.0, plain.clone() % &three, &weight % 3.0, weight.layer() % &three].iter().enumerate()
    {
        assert_eq!(layer.predict().wait().unwrap(), Nd::from([2.0, 2.5]), "number {i}");
    }
    for (i, layer) in [5.0 % &plain, 5.0 % plain.clone(), 5.0 % &weight, &five % &plain, five.layer() % weight.layer()]
        .iter()
        .enumerate()
    {
        assert_eq!(layer.predict().wait().unwrap(), Nd::from([-2.0, 5.0]), "number {i}");
    }
}

#[test]
fn operators_on_unequal_ranks_broadcast() {
    let matrix = Nd::from([[1.0_f64, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let vector = Nd::from([10.0, 20.0, 30.0]);
    let sum: Layer<Nd<f64, Ix2>> = &vector + &matrix;
    assert_eq!(sum.predict().wait().unwrap(), Nd::from([[11.0, 22.0, 33.0], [14.0, 25.0, 36.0]]));
    let open: Layer<Nd<f64, ndarray::IxDyn>> = matrix.to_dyn() * &vector;
    assert_eq!(open.predict().wait().unwrap().view(), arr2(&[[10.0, 40.0, 90.0], [40.0, 100.0, 180.0]]).into_dyn());
    let w: NdWeight<Ix1, f64> = Weight::new(vector);
    (&matrix + &w).train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!(w.value(), Nd::from([8.0, 18.0, 28.0]));
}

#[test]
fn weight_of_any_strides_trains() {
    let transposed = Nd::from(arr2(&[[1.0_f64, 2.0], [3.0, 4.0]]).reversed_axes());
    let w = Weight::new(transposed);
    let sgd = Sgd::new(1.0).momentum(0.5);
    (&w * Nd::from([[1.0, 10.0], [100.0, 1000.0]])).train(&sgd).wait().unwrap();
    w.t().train(&sgd).wait().unwrap();
    assert_eq!(w.value(), Nd::from([[-1.5, -13.0], [-149.0, -1497.0]]));
}

#[test]
fn second_derivative_of_cube_has_known_value() {
    let w = Weight::new(Nd::from([[0.5_f64, -1.0], [2.0, 0.25]]));
    let cube = (w.square() * &w).sum();
    let slope = cube.gradient(&w);
    assert_eq!(slope.predict().wait().unwrap(), Nd::from([[0.75, 3.0], [12.0, 0.1875]]));
    assert_eq!(slope.gradient(&w).predict().wait().unwrap(), Nd::from([[3.0, -6.0], [12.0, 1.5]]));
}

#[test]
fn gradient_of_unused_weight_is_zero() {
    let (w, other) = (Weight::new(Nd::from([[1.0_f64, 2.0]])), Weight::new(Nd::from([1.0_f64, 2.0, 3.0])));
    assert_eq!(w.sum().gradient(&other).predict().wait().unwrap(), Nd::from([0.0, 0.0, 0.0]));
}

#[test]
fn max_of_nan_is_nan() {
    let x = Nd::from([[f32::NAN, 1.0], [1.0, f32::NAN]]);
    assert!(x.amax_axis(1).predict().wait().unwrap().view().iter().all(|x| x.is_nan()));
    assert!(x.amax_axis(0).predict().wait().unwrap().view().iter().all(|x| x.is_nan()));
    assert!(x.layer().relu().sum().predict().wait().unwrap().is_nan());
}

/// NaN at any position of lanes of several lengths, with several values of the other elements.
#[test]
fn softmax_of_lane_with_nan_is_nan() {
    for len in (1..40).chain([63, 64, 65]) {
        for at in 0..len {
            for other in [f32::NEG_INFINITY, -1.0, f32::MAX] {
                let with = |number: f32| {
                    let mut lane = vec![other; len];
                    lane[at] = number;
                    Nd::from(lane)
                };
                assert!(with(f32::NAN).logsumexp().predict().wait().unwrap().is_nan(), "{at} of {len} beside {other}");
                if other < 0.0 {
                    assert_eq!(
                        with(300.0).logsumexp().predict().wait().unwrap(),
                        300.0,
                        "{at} of {len} beside {other}"
                    );
                }
            }
        }
        let nothing = Nd::from(vec![f32::NEG_INFINITY; len]);
        assert_eq!(nothing.logsumexp().predict().wait().unwrap(), f32::NEG_INFINITY);
    }
}

#[test]
fn initialisers_f32_are_rounded_from_f64() {
    let single = init::he_normal::<f32, _>([20, 30], &mut init::rng(3));
    let double = init::he_normal::<f64, _>([20, 30], &mut init::rng(3));
    assert_eq!(single, Nd::from(double.view().mapv(|x| x as f32)));
    assert_ne!(single, init::he_normal::<f32, _>([20, 30], &mut init::rng(4)));
    // pins the first draws of seed 3, to detect changes of dependencies
    let uniform = init::uniform::<f64, _>([2], 0.0, 1.0, &mut init::rng(3));
    assert_eq!(uniform, Nd::from([0.6229674639432577, 0.08130169721295732]));
    let normal = init::normal::<f64, _>([2], 0.0, 1.0, &mut init::rng(3));
    assert_eq!(normal, Nd::from([0.43875618940787525, -1.1284219644132385]));
}

#[test]
fn iterator_sum_of_tensor_layers_adds_elements() {
    let w: NdWeight = Weight::new(Nd::from([[1.0, 2.0]]));
    let y: NdLayer = [w.layer(), &w * 2.0].iter().sum();
    assert_eq!(y.predict().wait().unwrap(), Nd::from([[3.0, 6.0]]));
    let nothing: NdLayer = std::iter::empty::<NdLayer>().sum();
    assert!(nothing.predict().wait().unwrap_err().to_string().contains("the sum of no layers has no shape"));
}
