//! Fine-tunes a pretrained encoder on rated sentences of reviews: first a classifier on its frozen
//! embeddings, then a classifier together with low-rank adapters in the encoder.
//!
//! ```sh
//! just fine_tuning                                             # fetches all-MiniLM-L6-v2 and 3,708 sentences
//! cargo run --release -p sentence_embedding --bin fine_tuning -- --model FOLDER --reviews FILE
//! ```

use clap::Parser;
use dl::nd::init;
use dl::nd::ndarray::Ix3;
use dl::nn::{Block, Linear, LoRA};
use dl::prelude::*;
use dl::schedule::OneCycle;
use dl::train::save_torch_as;
use rand::seq::SliceRandom;
use sentence_embedding::{BATCH, Bert, Encoder, Review, names, read_reviews};
use std::path::PathBuf;
use std::time::Instant;

#[derive(Parser)]
#[command(about = "Fine-tunes a pretrained encoder on rated sentences of reviews.")]
struct Args {
    /// The folder with config.json, tokenizer.json and model.safetensors.
    #[arg(long)]
    model: PathBuf,

    /// Lines of a name, a rating from -4 to 4 and a sentence, separated by tabs.
    #[arg(long)]
    reviews: PathBuf,

    /// The rank of the adapters.
    #[arg(long, default_value_t = 8)]
    rank: usize,

    /// How often the encoder reads the training sentences.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,

    /// Seed of the split, the order and the initial weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// A file for the weights of the encoder with its adapters merged, in the names of the model.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Clone, Module)]
struct Classifier<L> {
    encoder: Bert<L>,
    head: Linear,
}

/// Tokens and labels.
type Samples<'a> = [(&'a [usize], usize)];

impl<L: Block<Ix3>> Classifier<L> {
    /// The logits of a batch, and its labels.
    fn of(&self, batch: &Samples<'_>) -> dl::Result<(NdLayer, Nd<usize, Ix1>)> {
        let sentences: Vec<Vec<usize>> = batch.iter().map(|(tokens, _)| tokens.to_vec()).collect();
        let labels: Vec<usize> = batch.iter().map(|&(_, label)| label).collect();
        Ok((self.head.of(self.encoder.of(&sentences)? * SHARPNESS), Nd::from(labels)))
    }

    /// The fraction of sentences that are classified correctly.
    fn accuracy(&self, samples: &Samples<'_>) -> dl::Result<f64> {
        let mut right = 0.0;
        for batch in samples.chunks(BATCH) {
            let (logits, labels) = self.of(batch)?;
            right += f64::from(logits.argmax(1).equal(&labels).to_floats::<f32>().sum().predict().wait()?);
        }
        Ok(right / samples.len() as f64)
    }
}

/// Embeddings have length 1; the classifier reads longer ones.
const SHARPNESS: f32 = 10.0;

/// Trains the weights that are not frozen. `loss` is that of a batch of indices.
fn train(
    count: usize,
    epochs: u64,
    rate: f64,
    seed: u64,
    mut loss: impl FnMut(&[usize]) -> dl::Result<Layer<f32>>,
) -> dl::Result<()> {
    let (mut order, rng): (Vec<usize>, _) = ((0..count).collect(), &mut init::rng(seed));
    let adam = AdamW::new(OneCycle::new(rate, epochs * count.div_ceil(BATCH) as u64)).weight_decay(0.01);
    for epoch in 1..=epochs {
        order.shuffle(rng);
        let mut sum = 0.0;
        for batch in order.chunks(BATCH) {
            sum += loss(batch)?.train(&adam).wait()? * batch.len() as f32;
        }
        if epochs < 10 || epoch % 10 == 0 {
            println!("  epoch {epoch:2}  loss {:.4}", sum / count as f32);
        }
    }
    Ok(())
}

fn main() -> dl::Result<()> {
    let args = Args::parse();
    let encoder = Encoder::open(&args.model)?;
    let mut reviews = read_reviews(&args.reviews)?;
    let rng = &mut init::rng(args.seed);
    if reviews.len() < 10 {
        let (path, found) = (args.reviews.display(), reviews.len());
        return Err(Error::invalid(format!("{path}: {found} clear ratings; it takes at least 10")));
    }
    reviews.shuffle(rng);
    let tokens = reviews.iter().map(|review| encoder.tokens(&review.text)).collect::<dl::Result<Vec<_>>>()?;
    let samples: Vec<(&[usize], usize)> =
        tokens.iter().zip(&reviews).map(|(tokens, review)| (&tokens[..], review.label)).collect();
    let (test, rest) = samples.split_at(samples.len() / 5);
    let positive = test.iter().map(|&(_, label)| label).sum::<usize>() as f64 / test.len() as f64;
    println!("{} sentences to train on, {} to test, {:.3} of them positive", rest.len(), test.len(), positive);

    // the embeddings of a frozen encoder are computed once
    let texts: Vec<&str> = reviews.iter().map(|Review { text, .. }| &text[..]).collect();
    let embeddings = encoder.embed(&texts, BATCH)?;
    let (width, head_seed) = (embeddings[0].len(), args.seed + 1);
    let embedded = |numbers: &[usize], from: usize| {
        let rows: Vec<f32> = numbers.iter().flat_map(|&number| embeddings[from + number].iter().copied()).collect();
        Nd::<f32, Ix2>::from_vec([numbers.len(), width], rows)
    };
    let labels = |numbers: &[usize], of: &Samples<'_>| numbers.iter().map(|&number| of[number].1).collect::<Vec<_>>();
    let head = Linear::new(width, 2, &mut init::rng(head_seed))?;
    println!("a classifier on frozen embeddings, {} parameters:", head.parameters());
    train(rest.len(), 30, 0.02, args.seed, |batch| {
        let logits = head.of(embedded(batch, test.len())? * SHARPNESS);
        Ok(logits.cross_entropy(Nd::from(labels(batch, rest))))
    })?;
    let all: Vec<usize> = (0..test.len()).collect();
    let right = head.of(embedded(&all, 0)? * SHARPNESS).argmax(1).equal(Nd::from(labels(&all, test)));
    let frozen = f64::from(right.to_floats::<f32>().mean().predict().wait()?);
    println!("test_accuracy={frozen:.4}");

    let encoder = encoder.bert().clone().adapted(args.rank, rng)?;
    let net: Classifier<LoRA> = Classifier { encoder, head };
    let trained: usize = net.weights().iter().filter(|weight| !weight.is_frozen()).map(|weight| weight.len()).sum();
    println!("with adapters of rank {}, {trained} of {} parameters:", args.rank, net.parameters());
    let start = Instant::now();
    train(rest.len(), args.epochs, 0.002, args.seed, |batch| {
        let batch: Vec<_> = batch.iter().map(|&number| rest[number]).collect();
        let (logits, labels) = net.of(&batch)?;
        Ok(logits.cross_entropy(labels))
    })?;
    let adapted = net.accuracy(test)?;
    println!("test_accuracy={adapted:.4} after {:.0} s", start.elapsed().as_secs_f64());

    // without adapters, a number may be rounded in another way
    let merged = Classifier { encoder: net.encoder.merged()?, head: net.head.clone() };
    if let Some(path) = args.out {
        save_torch_as(&merged.encoder, &names(), &path)?;
        println!("saved {}", path.display());
    }
    println!("test_accuracy={:.4} with merged adapters", merged.accuracy(test)?);
    let majority = positive.max(1.0 - positive);
    assert!(adapted > majority, "the more frequent label alone is right for {majority:.4} of the sentences");
    assert!(adapted >= frozen - 0.02, "the adapters have made it worse");
    Ok(())
}
