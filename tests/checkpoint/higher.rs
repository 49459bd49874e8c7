//! Higher-order derivatives through checkpoint boundaries.

use super::nets::{Checkpoints, Row, numbers, weights};
use dl::prelude::*;

fn net(checkpoints: Checkpoints, w: &[Weight<Row>]) -> Layer<f64> {
    let x = Layer::constant(numbers(3, 4, 3));
    let a = checkpoints.at((x.matmul(&w[0]) + 0.1).tanh());
    let b = checkpoints.at((a.matmul(&w[1]) * &a).exp().tanh());
    checkpoints.at((b.matmul(&w[0]) + a).tanh().square()).sum()
}

#[test]
fn gradient_is_same_with_checkpoints() {
    let w = weights(2);
    for weight in &w {
        let gradient = |checkpoints| net(checkpoints, &w).gradient(weight).predict().wait().unwrap();
        assert_eq!(gradient(Checkpoints::With), gradient(Checkpoints::Without));
    }
}

#[test]
fn second_derivative_is_same_with_checkpoints() {
    let w = weights(2);
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let second = |checkpoints| {
            let slope = net(checkpoints, &w).gradient(&w[first]).square().sum();
            slope.gradient(&w[second]).predict().wait().unwrap()
        };
        assert_eq!(second(Checkpoints::With), second(Checkpoints::Without));
    }
}

#[test]
fn third_derivative_is_same_with_checkpoints() {
    let w = weights(2);
    let third = |checkpoints| {
        let slope = net(checkpoints, &w).gradient(&w[0]).square().sum();
        let curvature = slope.gradient(&w[1]).square().sum();
        curvature.gradient(&w[0]).predict().wait().unwrap()
    };
    let (marked, plain) = (third(Checkpoints::With), third(Checkpoints::Without));
    assert_eq!(marked, plain);
    assert!(plain.into_vec().iter().any(|&x| x != 0.0));
}

/// Training on a gradient penalty.
#[test]
fn gradient_penalty_step_is_same_with_checkpoints() {
    let run = |checkpoints: Checkpoints| {
        let w = weights(2);
        for _ in 0..3 {
            let loss = net(checkpoints, &w);
            let penalty = checkpoints.at(loss.gradient(&w[1]).square() * 0.1).sum();
            (loss + penalty).train(&Sgd::new(0.05)).wait().unwrap();
        }
        w.iter().map(Weight::value).collect::<Vec<_>>()
    };
    assert_eq!(run(Checkpoints::With), run(Checkpoints::Without));
}

/// Comparison with finite differences, which are independent of the implementation.
#[test]
fn gradient_with_checkpoints_matches_finite_differences() {
    let w = weights(2);
    let gradient = net(Checkpoints::With, &w).gradient(&w[0]).predict().wait().unwrap().into_vec();
    let value = w[0].value().into_vec();
    for at in 0..value.len() {
        let side = |by: f64| {
            let mut moved = value.clone();
            moved[at] += by;
            w[0].set(Nd::from_vec([4, 4], moved).unwrap());
            net(Checkpoints::With, &w).predict().wait().unwrap()
        };
        let difference = (side(1e-5) - side(-1e-5)) / 2e-5;
        assert!((difference - gradient[at]).abs() < 1e-8, "{difference} and {}", gradient[at]);
        w[0].set(Nd::from_vec([4, 4], value.clone()).unwrap());
    }
}

/// A consumer of the marked layer and a consumer of its boundary: their deltas are summed.
#[test]
fn delta_of_marked_layer_and_checkpoint_is_summed() {
    let run = |checkpoints: Checkpoints| {
        let w = weights(2);
        let x = Layer::constant(numbers(30, 4, 3)).matmul(&w[0]).tanh();
        let marked = checkpoints.at(x.clone());
        let mean = (&x * 1.5).exp().mean();
        let same = checkpoints.at(mean.clone());
        let numbers = &same * &mean + same.exp() * &mean + &same;
        let y = (marked.matmul(&w[1]) * &x + &marked * &x).tanh() * &same + &x;
        let loss = y.square().sum() * &mean + numbers;
        let value = (loss.gradient(&w[0]).square().sum() + &loss).train(&Sgd::new(0.01)).wait().unwrap();
        (value, w.iter().map(Weight::value).collect::<Vec<_>>())
    };
    assert_eq!(run(Checkpoints::With), run(Checkpoints::Without));
}
