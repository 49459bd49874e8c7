//! w2: scalar operations; each run builds, differentiates, steps and drops the layers.

use crate::common::{Bench, SAMPLES, WEIGHTS};
use dl::prelude::*;
use std::hint::black_box;

/// A learning rate so small that a step computes and writes the weights without changing them.
const TINY_RATE: f64 = 1e-30;

pub(crate) fn measure(bench: &mut Bench) {
    guess_next_number(bench);
    let sgd = Sgd::new(TINY_RATE);
    let [x, w] = [1.0_f32, 1.00001].map(Weight::new);
    let chain = || (0..10_000).fold(x.layer(), |y, _| y * &w);
    let (value, (by_x, by_w)) = Do::predict(chain().value_and_gradients(&(&x, &w))).wait().expect("it succeeds");
    bench.check("w2b", "chain10000", &[value, by_x, by_w].map(f64::from));
    bench.operations("w2b", "chain10000", 10_000, || chain().train(&sgd).wait().expect("it succeeds"));

    let x = Weight::new(-0.5_f32);
    let diamonds = || (0..1_000).fold(x.layer(), |y, _| &y * &y + y);
    let (value, by_x) = Do::predict(diamonds().value_and_gradients(&x)).wait().expect("it succeeds");
    bench.check("w2c", "diamond1000", &[value, by_x].map(f64::from));
    bench.operations("w2c", "diamond1000", 2_000, || diamonds().train(&sgd).wait().expect("it succeeds"));
}

fn guess_next_number(bench: &mut Bench) {
    let [w0, w1, w2, bias] = WEIGHTS.map(Weight::new);
    let sgd = Sgd::new(0.01);
    let mut samples = SAMPLES.into_iter().cycle();
    bench.training("w2a", "guessNextNumber", || {
        let ([x0, x1, x2], answer) = black_box(samples.next().expect("a cycle does not end"));
        let guess = x0 * &w0 + x1 * &w1 + x2 * &w2 + &bias;
        let difference = guess - answer;
        (&difference * &difference).train(&sgd).wait().expect("it succeeds").into()
    });
}
