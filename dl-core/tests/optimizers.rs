//! The optimizers against PyTorch's: see `reference/optimizers.py`.

use dl_core::{Adagrad, Adam, Differentiable, Layer, Optimizer, Sgd, Weight};

const REFERENCE: &str = include_str!("reference/optimizers.txt");

fn check<O: Optimizer + Clone + 'static>(case: &str, optimizer: &O) {
    let weights = [0.7, -1.3, 2.1].map(Weight::new);
    let [x, y, z] = &weights;
    let loss: Layer<f64> = (x * y - 1.0).square() + (y * z + 0.5).square() + (z - x).square();
    let (mut taken, mut compared) = (0, 0);
    for line in REFERENCE.lines() {
        let mut words = line.split(' ');
        if words.next() != Some(case) {
            continue;
        }
        let steps: usize = words.next().unwrap().parse().unwrap();
        for _ in taken..steps {
            loss.train(optimizer).wait().unwrap();
        }
        taken = steps;
        for (weight, expected) in weights.iter().zip(words) {
            let (found, expected) = (weight.value(), expected.parse::<f64>().unwrap());
            assert!((found - expected).abs() < 1e-12, "{case}, step {steps}: {found}, PyTorch has {expected}");
            compared += 1;
        }
    }
    assert_eq!((taken, compared), (20, 15));
}

#[test]
fn as_in_pytorch() {
    check("sgd", &Sgd::new(0.02));
    check("momentum", &Sgd::new(0.02).momentum(0.9));
    check("adagrad", &Adagrad::new(0.1));
    check("adagrad-settings", &Adagrad::new(0.1).initial_accumulator(0.5).eps(1e-3));
    check("adam", &Adam::new(0.05));
    check("adam-settings", &Adam::new(0.05).betas(0.8, 0.95).eps(1e-3));
}

#[test]
fn a_step_that_fails_does_not_count() {
    let (adam, w) = (Adam::new(0.5).refuse_non_finite(), Weight::new(0.0_f64));
    assert!(w.sqrt().train(&adam).wait().unwrap_err().is_not_finite());
    (&w * 2.0).train(&adam).wait().unwrap();
    assert!((w.value() + 0.5).abs() < 1e-8);
}

/// The number of steps is that of the weight, with this memory.
#[test]
fn a_weight_that_comes_later_counts_from_one() {
    let adam = Adam::new(0.5);
    let (first, second) = (Weight::new(3.0_f64), Weight::new(3.0_f64));
    for _ in 0..10 {
        (&first * 2.0).train(&adam).wait().unwrap();
    }
    (&second * 2.0).train(&adam.at_learning_rate(0.25)).wait().unwrap();
    assert!((second.value() - 2.75).abs() < 1e-8);
}
