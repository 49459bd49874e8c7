//! w1: the network of the evaluation in *Monadic Deep Learning*: feature columns, a coarse
//! classifier, and 20 fine ones, of which a mini-batch of one coarse class needs one.

use crate::common::{Bench, Numbers, coarse_labels, fine_labels};
use crate::dense::{dense, uniform};
use dl::nn::Linear;
use dl::prelude::*;
use std::ops::Range;

const BATCHES: usize = 20;
const PIXELS: usize = 3072;

#[derive(Clone)]
pub(crate) struct Net {
    columns: Vec<[Linear; 2]>,
    pub(crate) coarse: Linear,
    pub(crate) fine: Vec<Fine>,
}

#[derive(Clone)]
pub(crate) struct Fine([Linear; 3]);

impl Net {
    fn new(columns: usize, numbers: &mut Numbers) -> Self {
        Net {
            columns: (0..columns).map(|_| [dense(numbers, PIXELS, 64), dense(numbers, 64, 64)]).collect(),
            coarse: dense(numbers, 64, 20),
            fine: (0..20)
                .map(|_| Fine([dense(numbers, 64, 64), dense(numbers, 64, 64), dense(numbers, 64, 5)]))
                .collect(),
        }
    }

    pub(crate) fn features(&self, images: &Nd) -> NdLayer {
        let columns = self.columns.iter().map(|[first, second]| second.relu_of(first.relu_of(images)));
        columns.reduce(|sum, column| sum + column).expect("there is a column")
    }

    /// The loss of the coarse classifier plus those of the fine classifiers in `wanted`.
    pub(crate) fn loss(&self, images: &Nd, coarse: &[usize], fine: &[usize], wanted: Range<usize>) -> Layer<f32> {
        let features = self.features(images);
        let fine: Layer<f32> = self.fine[wanted].iter().map(|net| net.of(&features).cross_entropy(fine)).sum();
        self.coarse.of(&features).cross_entropy(coarse) + fine
    }
}

impl Fine {
    pub(crate) fn of(&self, features: &NdLayer) -> NdLayer {
        let [first, second, last] = &self.0;
        last.of(second.relu_of(first.relu_of(features)))
    }
}

/// Mini-batches `[16, 3072]` and the network.
pub(crate) fn images_and_net(columns: usize) -> (Vec<Nd>, Net) {
    let mut numbers = Numbers::new(1);
    let images = (0..BATCHES).map(|_| uniform(&mut numbers, [16, PIXELS], 1.0)).collect();
    (images, Net::new(columns, &mut numbers))
}

pub(crate) fn measure(bench: &mut Bench) {
    for columns in [1, 2, 4] {
        for skip in [false, true] {
            let (images, net) = images_and_net(columns);
            let batches: Vec<(Nd, Vec<usize>, Vec<usize>)> = images
                .into_iter()
                .zip(0..)
                .map(|(images, batch)| (images, coarse_labels(batch), fine_labels(batch)))
                .collect();
            let sgd = Sgd::new(0.01);
            let mut turns = batches.iter().enumerate().cycle();
            let variant = format!("cols={columns};{}", if skip { "skip" } else { "noskip" });
            bench.training("w1", &variant, || {
                let (class, (images, coarse, fine)) = turns.next().expect("a cycle does not end");
                let wanted = if skip { class..class + 1 } else { 0..net.fine.len() };
                net.loss(images, coarse, fine, wanted).train(&sgd).wait().expect("it succeeds").into()
            });
        }
    }
}
