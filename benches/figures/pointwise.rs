//! w3: value and all gradients of `Σ tanh(a·b + c·d) · exp(-a)` on a million elements.

use crate::common::{Bench, Numbers};
use crate::dense::uniform;
use dl::prelude::*;
use std::hint::black_box;

const ELEMENTS: usize = 1 << 20;

pub(crate) fn measure(bench: &mut Bench) {
    let mut numbers = Numbers::new(3);
    let [a, b, c, d] = [(); 4].map(|()| Weight::new(uniform(&mut numbers, [ELEMENTS], 1.0)));
    let value_and_gradients = || {
        let sum = ((&a * &b + &c * &d).tanh() * (-&a).exp()).sum();
        Do::predict(sum.value_and_gradients(&(&a, &b, &c, &d))).wait().expect("it succeeds")
    };
    let (value, (by_a, ..)) = value_and_gradients();
    let by_a = by_a.view().iter().copied().map(f64::from).sum();
    bench.check("w3", "elementwise1M", &[value.into(), by_a]);
    bench.milliseconds("w3", "elementwise1M", || drop(black_box(value_and_gradients())));
}
