//! Results of the device that have other bits than those of the host.

use crate::{Size, matrix};
use dl_core::{Differentiable, Error, Optimizer, Pointwise, Result, Unary, Weight};
use dl_nd::device::Device;
use dl_nd::{MoveModule, Nd, NdLayer, NdWeight, ops::*};
use dl_optim::{Adam, OptimizerExt, Sgd};
use std::sync::Arc;

/// Operations that the host takes from the library of its platform.
const OF_PLATFORM: [Unary; 3] = [Unary::Sinh, Unary::Cosh, Unary::Asinh];

type Case = Box<dyn Fn(&Nd, &Nd) -> NdLayer>;

/// Operations on a `[rows, columns]` and a `[columns, rows]`.
fn cases() -> Vec<(String, Case)> {
    let mut cases: Vec<(String, Case)> = Vec::new();
    for &op in Unary::ALL.iter().filter(|op| !OF_PLATFORM.contains(op)) {
        // positive, above 1 for the inverse of `cosh`
        let of = move |x: &Nd, _: &Nd| match op {
            Unary::Acosh => Pointwise::unary(op, &(x.abs() + 1.0)),
            _ => Pointwise::unary(op, &(x.abs() * 0.9 + 0.05)),
        };
        cases.push((op.name().to_owned(), Box::new(of)));
    }
    cases.push(("matmul".to_owned(), Box::new(|a, b| a.matmul(b))));
    cases.push(("product of transposes".to_owned(), Box::new(|a, b| b.t().matmul(a.t()))));
    cases.push(("sum of rows".to_owned(), Box::new(|a, _| a.sum_keepdim(0))));
    cases.push(("sum of columns".to_owned(), Box::new(|a, _| a.sum_keepdim(1))));
    cases.push(("sum".to_owned(), Box::new(|a, _| a.sum_keepdim(..))));
    cases.push(("gradient".to_owned(), Box::new(gradient)));
    cases
}

fn gradient(a: &Nd, b: &Nd) -> NdLayer {
    let x = a.layer();
    let y = x.matmul(b).tanh() * 0.5 + x.square().matmul(b).sigmoid();
    y.square().sum().gradient(&x)
}

fn differing(a: &[f32], b: &[f32]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan())).count()
}

pub(crate) fn check(device: &Arc<dyn Device>, size: Size) -> Result<()> {
    let (rows, columns) = (size.of(1024, 48), size.of(1500, 700));
    let (a, b) = (matrix([rows, columns], 1, 1.0), matrix([columns, rows], 2, 1.0));
    let (on_a, on_b) = (a.to(device)?, b.to(device)?);
    let mut wrong = 0;
    for (name, case) in cases() {
        let expected = case(&a, &b).predict().wait()?.into_vec();
        // interpreted at first, then compiled
        for _ in 0..3 {
            let found = case(&on_a, &on_b).predict().wait()?.to_host()?.into_vec();
            let differ = differing(&expected, &found);
            wrong += differ;
            if differ > 0 {
                println!("bits: {name}: {differ} of {} elements differ", expected.len());
            }
        }
    }
    for (name, optimizer) in [
        ("Sgd", Arc::new(Sgd::new(0.01).momentum(0.9)) as Arc<dyn Optimizer>),
        ("Adam, clipped", Arc::new(Adam::new(0.01).clip_norm(1.0))),
    ] {
        let differ = training(device, size, &optimizer)?;
        wrong += differ;
        println!("bits: weights after training with {name}: {differ} differ");
    }
    println!("bits: {wrong} results differ from those of the host");
    if wrong == 0 { Ok(()) } else { Err(Error::invalid("the device has other bits than the host")) }
}

/// The number of weights that differ after some steps.
fn training(device: &Arc<dyn Device>, size: Size, optimizer: &Arc<dyn Optimizer>) -> Result<usize> {
    let (inputs, hidden) = (size.of(3072, 40), size.of(512, 24));
    let (x, y) = (matrix([16, inputs], 5, 1.0), matrix([16, 10], 6, 1.0));
    let net = || -> [NdWeight; 2] {
        [Weight::new(matrix([inputs, hidden], 3, 0.02)), Weight::new(matrix([hidden, 10], 4, 0.1))]
    };
    let train = |net: &[NdWeight; 2], x: &Nd, y: &Nd| {
        let loss = (x.matmul(&net[0]).tanh().matmul(&net[1]) - y.layer()).square().mean();
        (0..5).try_for_each(|_| loss.train(optimizer).wait().map(drop))
    };
    let (host, moved) = (net(), net());
    moved.move_to(device)?;
    train(&host, &x, &y)?;
    train(&moved, &x.to(device)?, &y.to(device)?)?;
    moved.move_to_host()?;
    Ok(host.iter().zip(&moved).map(|(a, b)| differing(&a.value().into_vec(), &b.value().into_vec())).sum())
}
