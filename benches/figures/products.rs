//! w4: matrix products as layers.

use crate::common::{Bench, Numbers, PRODUCTS};
use crate::dense::uniform;
use dl::prelude::*;
use std::hint::black_box;

const MANY: usize = 1_000;

pub(crate) fn measure(bench: &mut Bench) {
    for shape in PRODUCTS {
        let [m, k, n] = shape;
        let variant = format!("{m}x{k}x{n}");
        let mut numbers = Numbers::new(4);
        let (a, b): (Nd, Nd) = (uniform(&mut numbers, [m, k], 1.0), uniform(&mut numbers, [k, n], 1.0));
        let product = || a.matmul(&b).predict().wait().expect("it succeeds");
        let sum: f64 = product().view().iter().copied().map(f64::from).sum();
        bench.check("w4", &variant, &[sum]);
        bench.products(&variant, shape, 1, || drop(black_box(product())));
    }
    many(bench);
}

/// One pass with many small products, all of which are results.
fn many(bench: &mut Bench) {
    let shape = [64; 3];
    let variant = format!("{MANY} of 64x64x64");
    let mut numbers = Numbers::new(4);
    let mut ten = || -> Vec<Nd> { (0..10).map(|_| uniform(&mut numbers, [64, 64], 1.0)).collect() };
    let (left, right) = (ten(), ten());
    let pair = |at: usize| (&left[at % 10], &right[at / 10 % 10]);
    bench.products(&variant, shape, MANY, || {
        let products = (0..MANY).map(|at| {
            let (a, b) = pair(at);
            a.matmul(b)
        });
        drop(black_box(Do::predict(products.collect::<Vec<_>>()).wait().expect("it succeeds")));
    });
}
