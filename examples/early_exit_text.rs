//! Early exit inside an encoder: a transformer decides whether a sentence of a novel is spoken or
//! narrated, and has an exit after each of its layers. A sentence takes the first exit with a
//! confidence above a threshold; the sentences that go on are the batch of the next layer.
//!
//! ```sh
//! cargo run --release --example early_exit_text --features plot        # --seed --epochs --threshold --quick --out curve.svg
//! ```
//!
//! The text is that of `char_gpt`, and the labels are its quotation marks, which the network does not
//! see. The `if` of `classify` reads the confidences of a layer; the layers after the last exit that a
//! sentence of the batch needs are neither computed nor built. All exits are trained together.
//!
//! At the end the example prints the accuracy and the time for several thresholds, and plots one over
//! the other. At the chosen threshold it must lose at most 0.01 of the accuracy of the whole network
//! and take at most 0.7 of its time. For the seeds 1, 2, 3 the accuracies with exits are 0.906, 0.878
//! and 0.887, each that of the whole network, in 0.35, 0.31 and 0.30 of its time; nine sentences of
//! ten leave by the first exit.

#[path = "common/curve.rs"]
mod curve;

use clap::Parser;
use dl::nd::init;
use dl::nn::{Activation, Dropout, Embedding, LayerNorm, Linear, TransformerBlock};
use dl::prelude::*;
use dl::schedule::OneCycle;
use rand::Rng;
use rand::seq::SliceRandom;
use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

const TEXT: &str = include_str!("../data/eighty_days.txt");
const BATCH: usize = 32;
/// Longer sentences are cut.
const LONGEST: usize = 40;
/// A threshold above every confidence: sentences pass through the whole network.
const NEVER: f32 = 2.0;

#[derive(Parser)]
struct Args {
    /// Seed of the split, the order and the initial weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How many times to go through the training sentences.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,

    /// The probability of the answer above which a sentence exits.
    #[arg(long, default_value_t = 0.9)]
    threshold: f32,

    /// A small network and a few epochs, for a smoke test.
    #[arg(long)]
    quick: bool,

    /// The output file of the curve (SVG).
    #[arg(long, default_value = "out/early_exit_text.svg")]
    out: PathBuf,
}

/// A sentence as words and punctuation marks.
#[derive(Clone)]
struct Sentence {
    tokens: Vec<usize>,
    /// 1 for speech, 0 for narration.
    label: usize,
}

/// The sentences of the novel, and the number of different tokens. Words that occur once are one
/// token.
fn sentences() -> (Vec<Sentence>, usize) {
    let mut texts: Vec<(Vec<String>, usize)> = Vec::new();
    for paragraph in TEXT.split("\n\n").filter(|text| text.chars().any(char::is_lowercase)) {
        // every other part is between quotation marks
        for (number, part) in paragraph.split('"').enumerate() {
            for sentence in part.split_inclusive(['.', '!', '?', ';']) {
                let words = tokens(sentence);
                if words.len() >= 3 {
                    texts.push((words, number % 2));
                }
            }
        }
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    texts.iter().flat_map(|(words, _)| words).for_each(|word| *counts.entry(word).or_default() += 1);
    let mut frequent: Vec<&str> = counts.iter().filter(|(_, count)| **count > 1).map(|(word, _)| *word).collect();
    frequent.sort_unstable();
    let ids: HashMap<&str, usize> = frequent.iter().enumerate().map(|(id, word)| (*word, id + 1)).collect();
    let id = |word: &String| ids.get(word.as_str()).copied().unwrap_or(0);
    let sentence = |(words, label): &(Vec<String>, usize)| Sentence {
        tokens: words.iter().take(LONGEST).map(id).collect(),
        label: *label,
    };
    (texts.iter().map(sentence).collect(), frequent.len() + 1)
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut in_word = false;
    for character in text.chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '\'' if in_word => {
                tokens.last_mut().expect("a word").push(character.to_ascii_lowercase())
            }
            'a'..='z' | 'A'..='Z' => tokens.push(character.to_ascii_lowercase().to_string()),
            '.' | ',' | '!' | '?' | ';' | ':' => tokens.push(character.to_string()),
            _ => {}
        }
        in_word = character.is_ascii_alphabetic() || in_word && character == '\'';
    }
    tokens
}

#[derive(Clone, Module)]
struct Stage {
    block: TransformerBlock,
    norm: LayerNorm,
    exit: Linear,
}

#[derive(Clone, Module)]
struct Net {
    words: Embedding,
    positions: Embedding,
    stages: Vec<Stage>,
}

/// What attention and the exits need of the lengths of a batch.
struct Lengths {
    attention: Attention<f32>,
    /// Of each token its share of the mean, `[batch, 1, length]`; padding has 0.
    shares: Nd<f32, Ix3>,
}

impl Lengths {
    fn of(lengths: &[usize], longest: usize) -> dl::Result<Self> {
        let is_token = || lengths.iter().flat_map(|&length| (0..longest).map(move |place| (place < length, length)));
        let mask = Nd::<bool, Ix4>::from_vec([lengths.len(), 1, 1, longest], is_token().map(|(is, _)| is).collect())?;
        let share = |(is, length): (bool, usize)| if is { 1.0 / length as f32 } else { 0.0 };
        let shares = Nd::from_vec([lengths.len(), 1, longest], is_token().map(share).collect())?;
        Ok(Lengths { attention: Attention::new().mask(mask), shares })
    }
}

impl Stage {
    /// `[batch, 2]`.
    fn logits(&self, x: &NdLayer<Ix3>, lengths: &Lengths) -> NdLayer {
        self.exit.of(lengths.shares.matmul(self.norm.of(x)).squeeze(1))
    }
}

impl Net {
    fn new(words: usize, width: usize, layers: usize, rng: &mut impl Rng) -> dl::Result<Self> {
        let mut stage = || {
            let block = TransformerBlock::new(width, 4, 2 * width, rng)?;
            let block = TransformerBlock {
                norm_first: true,
                activation: Activation::Gelu,
                dropout: Dropout { p: 0.2 },
                ..block
            };
            Ok(Stage { block, norm: LayerNorm::new(width)?, exit: Linear::new(width, 2, rng)? })
        };
        let stages = (0..layers).map(|_| stage()).collect::<dl::Result<_>>()?;
        let [words, positions] = [words, LONGEST]
            .map(|number| Embedding { weight: Weight::new(init::normal([number, width], 0.0, 0.3, rng).into()) });
        Ok(Net { words, positions, stages })
    }

    /// The input of the first layer, `[batch, longest, width]`.
    fn embed(&self, sentences: &[Sentence]) -> dl::Result<NdLayer<Ix3>> {
        let longest = sentences.iter().map(|sentence| sentence.tokens.len()).max().unwrap_or(0);
        let padded = |sentence: &Sentence| {
            (0..longest).map(|place| sentence.tokens.get(place).copied().unwrap_or(0)).collect::<Vec<_>>()
        };
        let ids = Nd::from_vec([sentences.len(), longest], sentences.iter().flat_map(padded).collect())?;
        Ok(self.words.of(ids) + self.positions.of((0..longest).collect::<Vec<_>>()).unsqueeze(0))
    }

    /// The sum of the losses of all exits.
    fn loss(&self, sentences: &[Sentence]) -> dl::Result<Layer<f32>> {
        let (mut x, labels) = (self.embed(sentences)?, sentences.iter().map(|sentence| sentence.label));
        let lengths: Vec<usize> = sentences.iter().map(|sentence| sentence.tokens.len()).collect();
        let lengths = Lengths::of(&lengths, lengths.iter().copied().max().unwrap_or(0))?;
        let (labels, mut loss) = (labels.collect::<Vec<_>>(), Layer::constant(0.0));
        for stage in &self.stages {
            x = stage.block.of_with(x, &lengths.attention);
            loss = loss + stage.logits(&x, &lengths).cross_entropy(&labels);
        }
        Ok(loss)
    }

    /// The answer to each sentence and the index of its exit: the first with a confidence above the
    /// threshold, or the last.
    #[differentiable]
    fn classify(&self, sentences: &[Sentence], threshold: f32) -> Do<Vec<(usize, usize)>> {
        let mut x = self.embed(sentences)?;
        let mut left: Vec<usize> = (0..sentences.len()).collect();
        let mut answers = vec![(0, 0); sentences.len()];
        for (exit, stage) in self.stages.iter().enumerate() {
            let lengths: Vec<usize> = left.iter().map(|&number| sentences[number].tokens.len()).collect();
            let longest = lengths.iter().copied().max().unwrap_or(0);
            let lengths = Lengths::of(&lengths, longest)?;
            x = stage.block.of_with(x.slice_axis(1, 0..longest as isize), &lengths.attention);
            let (confidence, answer) = !stage.logits(&x, &lengths).softmax(1).max_with_indices(1);
            let mut on = Vec::new();
            for (row, &number) in left.iter().enumerate() {
                if exit + 1 == self.stages.len() || confidence[row] > threshold {
                    answers[number] = (answer[row], exit);
                } else {
                    on.push(row);
                }
            }
            if on.is_empty() {
                break; // the later layers are never built
            }
            x = x.index_select(0, on.clone()); // the sentences that go on are the next batch
            left = on.iter().map(|&row| left[row]).collect();
        }
        Do::now(answers)
    }

    /// The fraction of sentences classified correctly, the number of sentences that take each exit,
    /// and the time in milliseconds.
    fn evaluate(&self, sentences: &[Sentence], threshold: f32) -> dl::Result<(f64, Vec<usize>, f64)> {
        let (mut right, mut exits) = (0, vec![0; self.stages.len()]);
        let begun = Instant::now();
        for batch in sentences.chunks(BATCH) {
            let answers = self.classify(batch, threshold).mode(Mode::Evaluate).wait()?;
            for ((answer, exit), sentence) in answers.into_iter().zip(batch) {
                right += usize::from(answer == sentence.label);
                exits[exit] += 1;
            }
        }
        Ok((right as f64 / sentences.len() as f64, exits, 1e3 * begun.elapsed().as_secs_f64()))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Args { seed, epochs, threshold, quick, out } = Args::parse();
    let (width, layers, epochs) = if quick { (16, 3, 3) } else { (64, 6, epochs) };
    let rng = &mut init::rng(seed);
    let (mut all, words) = sentences();
    all.shuffle(rng);
    let (test, train) = all.split_at(all.len() / 4);
    let spoken = test.iter().filter(|sentence| sentence.label == 1).count();
    println!("{} sentences to learn, {} held out, {spoken} of them spoken; {words} words", train.len(), test.len());

    let net = Net::new(words, width, layers, rng)?;
    let mut train = train.to_vec();
    let steps = epochs * train.len().div_ceil(BATCH) as u64;
    let adam = AdamW::new(OneCycle::new(0.003, steps)).clip_norm(1.0);
    let mut step = 0;
    for epoch in 1..=epochs {
        train.shuffle(rng);
        let mut sum = 0.0;
        for batch in train.chunks(BATCH) {
            sum += net.loss(batch)?.train(&adam).seed(step).wait()? * batch.len() as f32;
            step += 1;
        }
        println!("epoch {epoch:2}  loss {:.4}", sum / (layers * train.len()) as f32);
    }

    // sentences of similar length are evaluated together
    let mut test = test.to_vec();
    test.sort_by_key(|sentence| sentence.tokens.len());
    let all = [0.0, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, NEVER];
    let thresholds = [if quick { &[0.0, 0.6, NEVER] } else { &all[..] }, &[threshold]].concat();
    // The median times of rounds in turns.
    let rounds = if quick { 3 } else { 21 };
    let mut times = vec![Vec::new(); thresholds.len()];
    for _ in 0..rounds {
        for (times, &threshold) in times.iter_mut().zip(&thresholds) {
            times.push(net.evaluate(&test, threshold)?.2);
        }
    }
    println!("\nthreshold  accuracy  milliseconds  sentences that leave by each exit");
    let mut curve = Vec::new();
    for (times, threshold) in times.iter_mut().zip(thresholds) {
        times.sort_by(f64::total_cmp);
        let (accuracy, exits, _) = net.evaluate(&test, threshold)?;
        println!("{threshold:9.3}  {accuracy:8.4}  {:12.2}  {exits:?}", times[rounds / 2]);
        curve.push((times[rounds / 2], accuracy));
    }
    let chosen = curve.pop().expect("the chosen threshold");
    let whole = curve[curve.len() - 1];
    curve::draw("milliseconds for the held-out sentences", &curve, chosen, &out)?;
    println!("drawn: {}\n", out.display());

    let (lost, time) = (whole.1 - chosen.1, chosen.0 / whole.0);
    let most_frequent = spoken.max(test.len() - spoken) as f64 / test.len() as f64;
    println!("accuracy={:.4}", chosen.1);
    println!("lost_accuracy={lost:.4}");
    println!("time={time:.3}");
    let (least, most_lost, most_time) = if quick { (0.02, 0.05, 1.1) } else { (0.12, 0.01, 0.7) };
    assert!(whole.1 > most_frequent + least, "{:.4}: the network has learned less than it should", whole.1);
    assert!(lost <= most_lost && time <= most_time, "{lost:.4} of the accuracy lost for {time:.3} of the time");
    Ok(())
}
