//! w2: operations on single numbers, built anew, differentiated, stepped and dropped each time.

use crate::common::{Bench, SAMPLES, WEIGHTS};
use dl::prelude::*;
use std::hint::black_box;

/// Small enough that a step changes no weight, though it is computed and written.
const TINY_RATE: f64 = 1e-30;

pub(crate) fn measure(bench: &mut Bench) {
    guess_next_number(bench);
    let sgd = Sgd::new(TINY_RATE);
    let [x, w] = [1.0_f32, 1.00001].map(Weight::new);
    let chain = || (0..10_000).fold(x.layer(), |y, _| y * &w);
    let gradients = Do::predict(chain().gradients(&(&x, &w))).wait().expect("it succeeds");
    let value = chain().predict().wait().expect("it succeeds");
    bench.check("w2b", "chain10000", &[value, gradients.0, gradients.1].map(f64::from));
    per_operation(bench, "w2b", "chain10000", 10_000, || chain().train(&sgd).wait());

    let x = Weight::new(-0.5_f32);
    let diamonds = || (0..1_000).fold(x.layer(), |y, _| &y * &y + &y);
    let gradient = diamonds().gradient(&x).predict().wait().expect("it succeeds");
    let value = diamonds().predict().wait().expect("it succeeds");
    bench.check("w2c", "diamond1000", &[value, gradient].map(f64::from));
    per_operation(bench, "w2c", "diamond1000", 2_000, || diamonds().train(&sgd).wait());
}

fn per_operation(
    bench: &mut Bench,
    workload: &'static str,
    variant: &str,
    operations: usize,
    train: impl Fn() -> dl::Result<f32>,
) {
    let seconds = bench.pace.seconds_per_call(|| {
        black_box(train().expect("it succeeds"));
    });
    bench.row(workload, variant, seconds * 1e9 / operations as f64, "ns/op");
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
