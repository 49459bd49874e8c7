//! Training of the network before it is served.

use crate::net::{EXPERTS, Image, Net, PIXELS, logits};
use dl::data::{Csv, Dataset, InMemory, Loader};
use dl::prelude::*;
use dl::train::{Progress, Trainer};
use std::path::Path;

/// The default data file.
pub const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/digits.csv");
/// The pixel value of full ink, in the data set and in requests.
pub const MAX_GREY: f32 = 16.0;

const BATCH: usize = 16;
/// The factor of the load-balancing term.
const BALANCE: f32 = 0.5;

/// Reads the images and labels of a file with 64 grey values and a label per line.
pub fn read(data: &Path) -> dl::Result<(Vec<Image>, Vec<usize>)> {
    let digits = Csv::new().header(false).label_below(PIXELS, 10).read::<f32>(data)?;
    let pixels = digits.features.into_vec();
    let images = pixels.as_chunks::<PIXELS>().0.iter().map(|image| image.map(|pixel| pixel / MAX_GREY));
    Ok((images.collect(), digits.labels))
}

/// Trains a network on four fifths of the images. Returns it with the accuracy on the others.
pub fn train(data: &Path, seed: u64, epochs: u64) -> dl::Result<(Net, f64)> {
    let (images, labels) = read(data)?;
    let images = images.iter().map(|image| Nd::from(*image)).collect::<Vec<Nd<f32, Ix1>>>();
    let [train, test] = InMemory(images).zip(InMemory(labels))?.split([0.8, 0.2], seed)?;
    let test = (0..test.len()).map(|index| test.get(index)).collect::<dl::Result<Vec<_>>>()?;
    let loader = Loader::new(train, BATCH).shuffle(true).seed(seed);

    let net = Net::new(seed)?;
    let steps = epochs * loader.epoch(0)?.len() as u64;
    let adam = Adam::new(dl::schedule::OneCycle::new(0.01, steps));
    let outcome = Trainer::new(&adam, epochs)
        .validate(|| Ok([("test accuracy", accuracy(&net, &test)?)]))
        .callback(Progress::new("digits"))
        .refuse_non_finite()
        .run(|epoch| loader.epoch(epoch), |(images, labels)| batch_loss(&net, &images, &labels))?;
    let accuracy = outcome.epochs.last().and_then(|epoch| epoch.get("test accuracy")).unwrap_or(0.0);
    Ok((net, accuracy))
}

/// The mean cross-entropy of the images plus a load-balancing term: the squared coefficient of
/// variation of the experts' importance (Shazeer et al., *Outrageously large neural networks*, 2017,
/// section 4).
fn batch_loss(net: &Net, images: &Nd, labels: &Nd<usize, Ix1>) -> Layer<f32> {
    let images = images.layer();
    let gates = net.gates(&images);
    let uneven = EXPERTS as f32 * gates.mean_axis(0).square().sum() - 1.0;
    logits(&images, &gates, net).cross_entropy(labels) + BALANCE * uneven
}

/// The fraction of images classified correctly.
fn accuracy(net: &Net, test: &[(Nd<f32, Ix1>, usize)]) -> dl::Result<f64> {
    let images: Vec<Image> = test.iter().map(|(image, _)| std::array::from_fn(|pixel| image[pixel])).collect();
    let answers = net.classify(&images).wait()?;
    let right = answers.iter().zip(test).filter(|(answer, (_, label))| answer.digit == *label).count();
    Ok(right as f64 / test.len() as f64)
}
