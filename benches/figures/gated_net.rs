//! An epoch of the example `gated_net`, with both accuracies.

use crate::common::Bench;
use crate::digits::{self, Digits, PIXELS};
use crate::network::{Net, batch_loss, gated_net};
use dl::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::time::Instant;

const BATCH: usize = 16;

pub(crate) fn measure(bench: &mut Bench) {
    let (training, test) = Digits::read(Path::new(digits::FILE)).expect("the digits are there").split(1);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let net = Net::new(&mut random);
    let sgd = Sgd::new(0.1).momentum(0.9);
    let (training_images, test_images) = (layers(&training), layers(&test));
    let epochs = 1 + bench.pace.repeats;
    let mut seconds: Vec<f64> = (0..epochs)
        .map(|_| {
            let start = Instant::now();
            for batch in digits::shuffled(training.count(), &mut random).chunks(BATCH) {
                let images: Vec<_> = batch.iter().map(|&image| training_images[image].clone()).collect();
                let labels: Vec<_> = batch.iter().map(|&image| training.labels[image]).collect();
                batch_loss(&images, &labels, &net).train(&sgd).wait().expect("it succeeds");
            }
            predict(&training_images, &net);
            predict(&test_images, &net);
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    bench.row("gated_net", "epoch", seconds[epochs / 2] * 1e3, "ms");
}

fn layers(digits: &Digits) -> Vec<NdLayer> {
    let layer = |image: &[f32; PIXELS]| Nd::from_vec([1, PIXELS], image.to_vec()).expect("a row of pixels").layer();
    digits.images.iter().map(layer).collect()
}

fn predict(images: &[NdLayer], net: &Net) -> Vec<Nd> {
    Do::join(images.iter().map(|image| gated_net(image, net).predict())).wait().expect("it succeeds")
}
