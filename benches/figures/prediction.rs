//! w8: a prediction of the paper's network, in which the output of the coarse classifier selects
//! the fine classifier.

use crate::common::Bench;
use crate::paper::{Net, images_and_net};
use dl::nd::ndarray::Axis;
use dl::prelude::*;
use std::hint::black_box;
use std::sync::Arc;

/// The coarse class with the highest summed logit over all images, and the logits of its fine
/// classes.
#[differentiable]
fn classify(images: &Nd, net: &Arc<Net>) -> Do<(usize, Nd)> {
    let features = net.features(images);
    let class = !net.coarse.of(&features).sum_axis(0).argmax(0);
    let class = class.view().into_scalar().to_owned();
    let fine = !net.fine[class].of(&features);
    Do::now((class, fine))
}

pub(crate) fn measure(bench: &mut Bench) {
    let (batches, net) = images_and_net(1);
    let net = Arc::new(net);
    let single: Vec<Nd> = batches
        .iter()
        .flat_map(|batch| {
            batch.view().outer_iter().map(|image| image.insert_axis(Axis(0)).to_owned().into()).collect::<Vec<_>>()
        })
        .collect();
    for (variant, inputs) in [("batch=1", single), ("batch=16", batches)] {
        let classify = |images: &Nd| classify(images, &net).wait().expect("it succeeds");
        let (mut classes, mut sum) = (0, 0.0);
        for images in &inputs[..20] {
            let (class, fine) = classify(images);
            classes += class;
            sum += fine.view().iter().copied().map(f64::from).sum::<f64>();
        }
        bench.check("w8", variant, &[classes as f64, sum]);
        let mut turns = inputs.iter().cycle();
        bench.latency("w8", variant, || {
            black_box(classify(turns.next().expect("a cycle does not end")));
        });
    }
}
