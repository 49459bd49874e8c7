//! The main example: a gate and two experts learn handwritten digits. Each image has its own graph.

use super::{Net, Witness};
use crate::digits::{Digits as Data, PIXELS, shuffled};
use crate::jitter::Jitter;
use crate::network;
use dl::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::path::Path;

const BATCH: usize = 6;

pub(crate) struct Digits {
    net: network::Net,
    images: Vec<NdLayer>,
    held_out: Vec<NdLayer>,
    labels: Vec<usize>,
    order: Vec<usize>,
}

impl Net for Digits {
    type Loss = f32;
    const STEPS: usize = 24;

    fn new() -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/digits.csv");
        let (training, held_out) = Data::read(&file).unwrap().split(1);
        let mut random = ChaCha8Rng::seed_from_u64(1);
        Digits {
            net: network::Net::new(&mut random),
            images: layers(&training),
            held_out: layers(&held_out),
            order: shuffled(training.count(), &mut random),
            labels: training.labels,
        }
    }

    fn step(&self, step: usize, jitter: &Jitter, optimizer: &Witness) -> Do<f32> {
        let batch = &self.order[step * BATCH..][..BATCH];
        let images: Vec<_> = batch.iter().map(|&image| jitter.of(&jitter.late(&self.images[image]))).collect();
        let labels: Vec<_> = batch.iter().map(|&image| self.labels[image]).collect();
        network::batch_loss(&images, &labels, &self.net).train(optimizer)
    }

    /// The logits of held-out images, and the number of times that each expert was built.
    fn outcome(&self) -> Vec<u64> {
        let logits = self.held_out.iter().take(8).map(|image| network::gated_net(image, &self.net).predict());
        let logits = Do::join(logits).wait().unwrap();
        let bits =
            logits.iter().flat_map(|logits| logits.view().iter().map(|x| x.to_bits().into()).collect::<Vec<_>>());
        bits.chain([&self.net.left, &self.net.right].map(|expert| expert.times_built() as u64)).collect()
    }
}

fn layers(digits: &Data) -> Vec<NdLayer> {
    digits.images.iter().map(|image| Nd::from_vec([1, PIXELS], image.to_vec()).unwrap().layer()).collect()
}
