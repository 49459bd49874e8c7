//! From a file to a trained network: Fisher's irises are read from CSV, split by class, normalised
//! and loaded in mini-batches.
//!
//! ```sh
//! cargo run --release --example iris_csv --features data
//! ```
//!
//! The mean and the standard deviation of each feature are those of the training part. Order and
//! batches depend on the seed, not on the number of threads.

use dl::Result;
use dl::data::{Csv, Dataset, InMemory, Loader, Normalizer, split_by_class};
use dl::nd::{init, ndarray::Axis};
use dl::prelude::*;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/iris.csv");
const SEED: u64 = 1;
const EPOCHS: u64 = 60;

struct Net {
    hidden: NdWeight,
    hidden_bias: NdWeight<Ix1>,
    output: NdWeight,
    output_bias: NdWeight<Ix1>,
}

impl Net {
    fn new(features: usize, width: usize, classes: usize) -> Self {
        let mut rng = init::rng(SEED);
        Net {
            hidden: Weight::new(init::he_normal([features, width], &mut rng)),
            hidden_bias: Weight::new(init::zeros([width])),
            output: Weight::new(init::xavier_uniform([width, classes], &mut rng)),
            output_bias: Weight::new(init::zeros([classes])),
        }
    }

    /// `[batch, features] → [batch, classes]`.
    fn scores(&self, features: &Nd) -> NdLayer {
        (features.matmul(&self.hidden) + &self.hidden_bias).relu().matmul(&self.output) + &self.output_bias
    }
}

fn main() -> Result<()> {
    let iris = Csv::new().label("species").read::<f32>(FILE)?;
    let [train, test] = split_by_class(&iris.labels, [0.8, 0.2], SEED)?;
    let learned_from: Nd = iris.features.view().select(Axis(0), &train).into();
    let features = Normalizer::fit(&learned_from, 1)?.apply(&iris.features, 1)?;

    let net = Net::new(iris.names.len(), 16, iris.classes.len());
    let data = InMemory(features).zip(InMemory(iris.labels))?;
    let (features, labels) = data.clone().subset(test)?.all()?;
    let train = Loader::new(data.subset(train)?, 16).shuffle(true).seed(SEED).prefetch(2);

    let adam = Adam::new(0.01);
    let mut accuracy = 0.0;
    for epoch in 0..EPOCHS {
        let mut loss = 0.0;
        for batch in train.epoch(epoch)? {
            let (features, labels) = batch?;
            loss = net.scores(&features).cross_entropy(labels).train(&adam).wait()?;
        }
        accuracy = net.scores(&features).argmax(1).equal(&labels).to_floats::<f32>().mean().predict().wait()?;
        if epoch % 10 == 9 {
            println!("epoch {:2}  loss of the last batch {loss:.4}  test accuracy {accuracy:.4}", epoch + 1);
        }
    }
    println!(
        "{} of {} held-out plants are classified correctly as one of {:?}",
        (accuracy * labels.len() as f32).round(),
        labels.len(),
        iris.classes
    );
    assert!(accuracy > 0.9, "the network has learned less than it should");
    Ok(())
}
