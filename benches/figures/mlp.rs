//! w5: a multilayer perceptron 784-512-512-10 on batches of 128.

use crate::common::{Bench, Numbers, labels};
use crate::dense::{dense, uniform};
use dl::prelude::*;

const BATCH: usize = 128;

pub(crate) fn measure(bench: &mut Bench) {
    let mut numbers = Numbers::new(5);
    let batches: Vec<Nd> = (0..4).map(|_| uniform(&mut numbers, [BATCH, 784], 1.0)).collect();
    let [first, second, last] =
        [(784, 512), (512, 512), (512, 10)].map(|(inputs, outputs)| dense(&mut numbers, inputs, outputs));
    let labels = Nd::from(labels(BATCH));
    let sgd = Sgd::new(0.01);
    let mut turns = batches.iter().cycle();
    bench.training("w5", "mlp", || {
        let images = turns.next().expect("a cycle does not end");
        let logits = last.of(second.relu_of(first.relu_of(images)));
        logits.cross_entropy(&labels).train(&sgd).wait().expect("it succeeds").into()
    });
}
