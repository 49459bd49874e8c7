//! A convolutional network for handwritten digits: convolutions, batch normalisation with running
//! statistics, pooling, dropout, label smoothing, and accuracy as a layer.
//!
//! ```sh
//! cargo run --release --example digits_conv            # a number behind `--` for more or fewer epochs than 15
//! cargo run --release --features gpu --example digits_conv -- 15 --device
//! ```
//!
//! Dropout and batch normalisation follow the mode of the pass: `train` or `predict`. Random
//! numbers depend on the seed of the step, not on the number of threads.

#[path = "common/device.rs"]
mod device;
#[path = "common/digits.rs"]
mod digits;

use dl::nd::{CrossEntropy, MoveModule, RunningStats, init};
use dl::prelude::*;
use rand::seq::SliceRandom;
use std::error::Error;

const BATCH: usize = 32;

type Labels = Nd<usize, Ix1>;

/// A convolution followed by batch normalisation and `relu`.
#[derive(Module)]
struct Block {
    filters: NdWeight<Ix4>,
    gamma: NdWeight<Ix1>,
    beta: NdWeight<Ix1>,
    stats: RunningStats,
}

impl Block {
    fn new(channels_in: usize, channels: usize, rng: &mut impl rand::Rng) -> Self {
        Block {
            filters: Weight::new(init::he_normal([channels, channels_in, 3, 3], rng)),
            gamma: Weight::new(Nd::full([channels], 1.0)),
            beta: Weight::new(Nd::full([channels], 0.0)),
            stats: RunningStats::new(channels),
        }
    }

    fn of(&self, images: impl NdExpression<Ix4>) -> NdLayer<Ix4> {
        let features = images.conv2d(&self.filters, Conv::new().padding(1));
        features.batch_norm_with(&self.stats, 1e-5).affine(&self.gamma, &self.beta).relu()
    }
}

#[derive(Module)]
struct Net {
    blocks: [Block; 2],
    output: NdWeight,
    bias: NdWeight<Ix1>,
}

impl Net {
    /// `[batch, 64] → [batch, 10]`.
    fn logits(&self, images: &Nd) -> NdLayer {
        let images = images.reshape([images.shape()[0], 1, 8, 8]);
        let fine = self.blocks[0].of(images).max_pool2d(Pool::new(2));
        let coarse = self.blocks[1].of(fine).max_pool2d(Pool::new(2));
        coarse.flatten_rows().dropout(0.3).matmul(&self.output) + &self.bias
    }

    fn accuracy(&self, images: &Nd, labels: &Labels) -> Layer<f32> {
        self.logits(images).argmax(1).equal(labels).to_floats::<f32>().mean()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let epochs = std::env::args().nth(1).map_or(Ok(15), |epochs| epochs.parse())?;
    let all = digits::tensors()?;
    let mut rng = init::rng(1);
    let mut order = digits::shuffled(all.1.len(), &mut rng);
    let (test, train) = order.split_at_mut(all.1.len() / 5);
    let device = device::open(std::env::args().any(|argument| argument == "--device"))?;
    let select = |of: &[usize]| -> dl::Result<digits::Batch> {
        let (images, labels) = digits::select(&all, of);
        device.as_ref().map_or(Ok((images.clone(), labels.clone())), |to| Ok((images.to(to)?, labels.to(to)?)))
    };
    let (test_images, test_labels) = select(test)?;

    let net = Net {
        blocks: [Block::new(1, 16, &mut rng), Block::new(16, 32, &mut rng)],
        output: Weight::new(init::xavier_uniform([32 * 2 * 2, 10], &mut rng)),
        bias: Weight::new(Nd::full([10], 0.0)),
    };
    if let Some(device) = &device {
        net.move_to(device)?;
    }
    let smoothed = CrossEntropy::new().label_smoothing(0.05);
    let adam = Adam::new(0.003);
    let mut step = 0;
    for epoch in 1..=epochs {
        train.shuffle(&mut rng);
        let mut loss = 0.0;
        for of in train.chunks(BATCH) {
            let (images, labels) = select(of)?;
            loss = net.logits(&images).cross_entropy_with(labels, &smoothed).train(&adam).seed(step).wait()?;
            step += 1;
        }
        let accuracy = net.accuracy(&test_images, &test_labels).predict().wait()?;
        println!("epoch {epoch:2}  loss of the last batch {loss:.4}  test accuracy {accuracy:.4}");
    }
    let accuracy = net.accuracy(&test_images, &test_labels).predict().wait()?;
    assert!(epochs < 15 || accuracy > 0.97, "the network has learned less than it should");
    Ok(())
}
