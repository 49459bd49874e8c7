//! dfdx. Its backward refuses `y * y` with the same tensor on both sides, so the diamonds use `square`.

use dfdx::prelude::*;
use scalar_peers::{CHAIN, CHAIN_START, DIAMOND_START, DIAMONDS, RATE, WEIGHTS, run};
use std::hint::black_box;

type Scalar = Tensor<Rank0, f32, Cpu>;

fn main() {
    let device = Cpu::default();
    let scalar = |value: f32| -> Scalar { device.tensor(black_box(value)) };
    let mut weights = WEIGHTS.map(scalar);
    run(
        "dfdx",
        |question, answer| step(&mut weights, question, answer),
        || chain(CHAIN_START.map(scalar)),
        || diamonds(scalar(DIAMOND_START)),
    );
}

fn step(weights: &mut [Scalar; 4], [x0, x1, x2]: [f32; 3], answer: f32) -> f32 {
    let [w0, w1, w2, bias] = &*weights;
    let guess = w0.leaky_trace() * x0 + w1.leaky_trace() * x1 + w2.leaky_trace() * x2 + bias.clone();
    let loss = (guess - answer).square();
    let value = loss.array();
    let gradients = loss.backward();
    for w in weights {
        let delta = gradients.get(w);
        w.axpy(1.0, &delta, -RATE);
    }
    value
}

fn chain([x, w]: [Scalar; 2]) -> [f32; 3] {
    let mut y = x.leaky_trace();
    for _ in 0..CHAIN {
        y = y * w.clone();
    }
    let value = y.array();
    let gradients = y.backward();
    [value, gradients.get(&x).array(), gradients.get(&w).array()]
}

fn diamonds(x: Scalar) -> [f32; 2] {
    let mut y = x.leaky_trace();
    for _ in 0..DIAMONDS {
        let (before, tape) = y.split_tape();
        y = before.clone().put_tape(tape).square() + before;
    }
    let value = y.array();
    let gradients = y.backward();
    [value, gradients.get(&x).array()]
}
