//! candle. Its backward calls itself for every operation of a chain, so it runs on a thread with a large stack.

use candle_core::{Device, Result, Tensor, Var};
use scalar_peers::{CHAIN, CHAIN_START, DIAMOND_START, DIAMONDS, RATE, WEIGHTS, run};
use std::hint::black_box;

fn main() {
    let thread = std::thread::Builder::new().stack_size(2 << 30).spawn(workloads).expect("a thread");
    thread.join().expect("it ends");
}

fn workloads() {
    let weights = WEIGHTS.map(var);
    run(
        "candle",
        |question, answer| step(&weights, question, answer).expect("it succeeds"),
        || chain().expect("it succeeds"),
        || diamonds().expect("it succeeds"),
    );
}

fn var(value: f32) -> Var {
    Var::new(black_box(value), &Device::Cpu).expect("a variable")
}

fn step([w0, w1, w2, bias]: &[Var; 4], [x0, x1, x2]: [f32; 3], answer: f32) -> Result<f32> {
    let product = |w: &Var, x: f32| w.affine(f64::from(x), 0.0);
    let guess = (((product(w0, x0)? + product(w1, x1)?)? + product(w2, x2)?)? + bias.as_tensor())?;
    let difference = (guess - f64::from(answer))?;
    let loss = (&difference * &difference)?;
    let gradients = loss.backward()?;
    for w in [w0, w1, w2, bias] {
        // there is no gradient of a weight that was multiplied by zero
        if let Some(delta) = gradients.get(w) {
            w.set(&(w.as_tensor() - (delta * f64::from(RATE))?)?)?;
        }
    }
    loss.to_scalar()
}

fn chain() -> Result<[f32; 3]> {
    let [x, w] = CHAIN_START.map(var);
    let mut y = x.as_tensor().clone();
    for _ in 0..CHAIN {
        y = (&y * w.as_tensor())?;
    }
    let gradients = y.backward()?;
    let of = |v: &Var| gradients.get(v).expect("it is used").to_scalar();
    Ok([y.to_scalar()?, of(&x)?, of(&w)?])
}

fn diamonds() -> Result<[f32; 2]> {
    let x = var(DIAMOND_START);
    let mut y: Tensor = x.as_tensor().clone();
    for _ in 0..DIAMONDS {
        y = ((&y * &y)? + &y)?;
    }
    let gradients = y.backward()?;
    Ok([y.to_scalar()?, gradients.get(&x).expect("it is used").to_scalar()?])
}
