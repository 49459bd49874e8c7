//! The network of *Monadic Deep Learning*, section Evaluation, on CIFAR-100: a classifier of 20
//! coarse classes, and for each of them a classifier of its 5 fine classes. For each image only one
//! fine classifier is built.
//!
//! ```sh
//! cargo run --release --example cifar100 --features data                             # made-up images
//! cargo run --release --example cifar100 --features data -- --data cifar-100-binary  # train.bin and test.bin of the binary version
//! ```
//!
//! Other flags: `--columns --epochs --learning-rate --seed --quick`. All images of a mini-batch
//! belong to one coarse class, so a training step needs one fine classifier. In evaluation the
//! coarse prediction, extracted with `!`, selects it. Results do not depend on the number of
//! threads.

mod images;
mod network;

use clap::Parser;
use dl::data::cifar::Cifar100;
use dl::data::{Dataset, InMemory, Loader, unit};
use dl::nd::init;
use dl::prelude::*;
use dl::schedule::Cosine;
use images::Classes;
use network::{COARSE, Net, classify};
use std::num::NonZeroUsize;
use std::path::PathBuf;

const BATCH: usize = 16;

#[derive(Parser)]
struct Args {
    /// A folder with `train.bin` and `test.bin` of CIFAR-100; without it, images are generated.
    #[arg(long)]
    data: Option<PathBuf>,

    /// The number of feature columns.
    #[arg(long, default_value = "2")]
    columns: NonZeroUsize,

    /// The number of epochs. With fewer than ten the final check may fail.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,

    /// The initial learning rate.
    #[arg(long, default_value_t = 0.01)]
    learning_rate: f64,

    /// Seed of the initial weights, the order and the generated images.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// One column and few images, for a smoke test.
    #[arg(long)]
    quick: bool,
}

/// Images with pixels between −1 and 1, and their labels: the coarse class, and the index of the
/// fine class within it.
fn labelled(data: Cifar100, classes: &Classes) -> dl::Result<impl Dataset<Item = Sample> + use<>> {
    let pairs = data.coarse.iter().zip(&data.fine);
    let labels = pairs.map(|(&coarse, &fine)| Ok((coarse, classes.place(coarse, fine)?))).collect::<dl::Result<_>>()?;
    let centred = |image| Nd::from(unit(&image).view().mapv(|bright| 2.0 * bright - 1.0));
    Ok(InMemory(data.images).zip(InMemory::<Vec<_>>(labels))?.map(move |(image, labels)| Ok((centred(image), labels))))
}

type Sample = (Nd<f32, Ix3>, (usize, usize));

/// The fractions of images with the correct coarse class, and with both classes correct.
fn accuracy(net: &Net, test: &impl Dataset<Item = Sample>) -> dl::Result<(f64, f64)> {
    let (mut coarse_right, mut fine_right) = (0, 0);
    let numbers: Vec<usize> = (0..test.len()).collect();
    for some in numbers.chunks(256) {
        let samples = some.iter().map(|&number| test.get(number)).collect::<dl::Result<Vec<_>>>()?;
        let predicted = Do::join(samples.iter().map(|(image, _)| {
            let image = image.view().insert_axis(dl::nd::ndarray::Axis(0)).into();
            classify(&image, net)
        }));
        for ((coarse, fine), (_, labels)) in predicted.wait()?.into_iter().zip(samples) {
            coarse_right += usize::from(coarse == labels.0);
            fine_right += usize::from((coarse, fine) == labels);
        }
    }
    Ok((coarse_right as f64 / test.len() as f64, fine_right as f64 / test.len() as f64))
}

fn main() -> dl::Result<()> {
    let Args { data, columns, epochs, learning_rate, seed, quick } = Args::parse();
    let (columns, epochs, of_each_class) = if quick { (1, 4, [8, 2]) } else { (columns.get(), epochs, [40, 10]) };
    let [train, test] = match &data {
        Some(folder) => images::read(folder)?,
        None => images::generated(of_each_class, seed)?,
    };
    // For real images the bound is twice the accuracy of guessing.
    let [least_coarse, least_fine] = match (&data, quick) {
        (Some(_), _) => [0.1, 0.02],
        (None, true) => [0.6, 0.1],
        (None, false) => [0.9, 0.8],
    };
    let source = data.map_or("GENERATED images, not CIFAR-100".to_owned(), |folder| folder.display().to_string());
    println!("{source}: {} training images, {} test images", train.coarse.len(), test.coarse.len());

    let classes = Classes::of(&train)?;
    let coarse = train.coarse.clone();
    let (train, test) = (labelled(train, &classes)?, labelled(test, &classes)?);
    let loader = Loader::new(train, BATCH).by_class(coarse).shuffle(true).seed(seed).prefetch(4);
    let net = Net::new(columns, &mut init::rng(seed))?;
    println!("columns: {columns}, fine classifiers: {COARSE}, parameters: {}", net.parameters());
    let steps = loader.epoch(0)?.len();
    let sgd = Sgd::new(Cosine::new(learning_rate, epochs * steps as u64)).momentum(0.9).clip_norm(5.0);
    for epoch in 0..epochs {
        let mut sum = 0.0;
        for batch in loader.epoch(epoch)? {
            let (images, (coarse, fine)) = batch?;
            sum += net.loss(&images, coarse[0], &fine).train(&sgd).wait()?;
        }
        println!("epoch {:2}  loss {:.4}", epoch + 1, sum / steps as f32);
    }
    println!("fine classifiers per training step: {}", net.fine_built() as f64 / (epochs * steps as u64) as f64);

    let before = net.fine_built();
    let (coarse, fine) = accuracy(&net, &test)?;
    let evaluated = (net.fine_built() - before) as f64 / test.len() as f64;
    println!("coarse_accuracy={coarse:.4}");
    println!("fine_accuracy={fine:.4}");
    println!("fine_classifiers_per_image={evaluated}");
    assert_eq!(evaluated, 1.0, "one fine classifier is evaluated for each image");
    assert!(coarse >= least_coarse, "the coarse classifier has learned less than it should, {least_coarse}");
    assert!(fine >= least_fine, "the fine classifiers have learned less than they should, {least_fine}");
    Ok(())
}
