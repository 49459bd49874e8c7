//! w6: a convolutional network on 32 images of 32×32 pixels.

use crate::common::{Bench, Numbers, labels};
use crate::dense::{dense, uniform};
use dl::nn::Conv2d;
use dl::prelude::*;

const BATCH: usize = 32;

pub(crate) fn measure(bench: &mut Bench) {
    let mut numbers = Numbers::new(6);
    let batches: Vec<Nd<f32, Ix4>> = (0..4).map(|_| uniform(&mut numbers, [BATCH, 3, 32, 32], 1.0)).collect();
    let first = filters(&mut numbers, 3, 32);
    let second = filters(&mut numbers, 32, 64);
    let output = dense(&mut numbers, 64 * 8 * 8, 10);
    let labels = Nd::from(labels(BATCH));
    let sgd = Sgd::new(0.01);
    let mut turns = batches.iter().cycle();
    bench.training("w6", "conv", || {
        let images = turns.next().expect("a cycle does not end");
        let features = first.of(images).relu().max_pool2d(Pool::new(2));
        let features = second.of(features).relu().max_pool2d(Pool::new(2));
        let logits = output.of(features.flatten_rows());
        logits.cross_entropy(&labels).train(&sgd).wait().expect("it succeeds").into()
    });
}

/// Filters of 3×3 with a padding of one pixel.
fn filters(numbers: &mut Numbers, inputs: usize, outputs: usize) -> Conv2d {
    let bound = 1.0 / (inputs as f32 * 9.0).sqrt();
    Conv2d {
        weight: Weight::new(uniform(numbers, [outputs, inputs, 3, 3], bound)),
        bias: Some(Weight::new(Nd::full([outputs], 0.0))),
        settings: Conv::new().padding(1),
    }
}
