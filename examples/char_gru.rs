//! A character-level language model: a gated recurrent unit learns to predict the next character of
//! a novel, then generates text.
//!
//! ```sh
//! cargo run --release --example char_gru                   # --epochs --seed --quick
//! ```
//!
//! Backpropagation through time is truncated: a step reads a window of the text and starts from the
//! final state of the step before. That state is a `Buffer`: the step writes it when it commits,
//! and no gradient flows into it. The text is the first twelve chapters of *Around the World in
//! Eighty Days*; its last tenth is held out and measures the generalisation.

use clap::Parser;
use dl::nd::{concat, init};
use dl::nn::{Embedding, GruCell, Linear};
use dl::prelude::*;
use dl::schedule::OneCycle;
use rand::Rng;
use rand::distr::{Distribution, weighted::WeightedIndex};

const TEXT: &str = include_str!("../data/eighty_days.txt");

#[derive(Parser)]
struct Args {
    /// The number of epochs. With fewer than eight the final check may fail.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,

    /// Seed of the initial weights and of the sample.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// A small network and a part of the text, for a smoke test.
    #[arg(long)]
    quick: bool,
}

/// The sizes of the network, the text and the batches.
struct Sizes {
    characters: usize,
    embedding: usize,
    hidden: usize,
    /// The number of parts of the text that are read in parallel.
    streams: usize,
    /// The number of characters that a step reads of each stream.
    window: usize,
    epochs: u64,
    /// The upper bound for the perplexity of held-out text.
    bound: f32,
}

#[derive(Clone, Module)]
struct Model {
    characters: Embedding,
    cell: GruCell,
    output: Linear,
}

impl Model {
    fn new(alphabet: usize, sizes: &Sizes, rng: &mut impl Rng) -> dl::Result<Self> {
        Ok(Model {
            characters: Embedding::new(alphabet, sizes.embedding, rng)?,
            cell: GruCell::new(sizes.embedding, sizes.hidden, rng)?,
            output: Linear::new(sizes.hidden, alphabet, rng)?,
        })
    }

    /// Reads one character of each stream per time step, from a state `[streams, hidden]`. Returns
    /// the logits of the next characters `[times · streams, alphabet]` and the final state.
    fn read(&self, text: &[Vec<usize>], state: impl NdExpression) -> (NdLayer, NdLayer) {
        let mut state = state.into_layer();
        let mut states = Vec::with_capacity(text.len());
        for characters in text {
            state = self.cell.of(self.characters.of(characters), state);
            states.push(state.clone());
        }
        (self.output.of(concat(0, states)), state)
    }

    /// The perplexity of the windows: the exponential of the mean cross entropy.
    fn perplexity(&self, windows: &[Window]) -> dl::Result<f32> {
        let mut state = self.cell.initial(windows[0].text[0].len());
        let mut sum = 0.0;
        for Window { text, next } in windows {
            let (scores, last) = self.read(text, &state);
            let loss;
            (loss, state) = Do::predict((scores.cross_entropy(next), last)).wait()?;
            sum += loss;
        }
        Ok((sum / windows.len() as f32).exp())
    }

    /// Generates text after these characters. A temperature below 1 sharpens the distribution.
    fn write(&self, start: &[usize], length: usize, temperature: f32, rng: &mut impl Rng) -> dl::Result<Vec<usize>> {
        let mut written = start.to_vec();
        let mut unread: Vec<_> = start.iter().map(|&character| vec![character]).collect();
        let mut state = self.cell.initial(1);
        for _ in 0..length {
            let (scores, last) = self.read(&unread, &state);
            let next = (scores.slice_axis(0, -1..) / temperature).softmax(1);
            let chances;
            (chances, state) = Do::predict((next, last)).wait()?;
            let character = WeightedIndex::new(chances.view()).map_err(Error::other)?.sample(rng);
            written.push(character);
            unread = vec![vec![character]];
        }
        Ok(written)
    }
}

/// The input of a step: the characters of all streams at each time, and the characters that follow,
/// in the order of the logits.
struct Window {
    text: Vec<Vec<usize>>,
    next: Vec<usize>,
}

/// Splits a text into `streams` parts of equal length, and these into windows.
fn windows(text: &[usize], streams: usize, length: usize) -> Vec<Window> {
    let part = (text.len() - 1) / streams;
    let at = |time| (0..streams).map(move |stream| text[stream * part + time]);
    let window = |start| Window {
        text: (start..start + length).map(|time| at(time).collect()).collect(),
        next: (start..start + length).flat_map(|time| at(time + 1)).collect(),
    };
    (0..part / length).map(|number| window(number * length)).collect()
}

/// The perplexity of a unigram model, with character frequencies from the training text.
fn unigram_perplexity(learned: &[usize], held_out: &[usize], alphabet: usize) -> f32 {
    let mut times = vec![1.0; alphabet];
    learned.iter().for_each(|&character| times[character] += 1.0);
    let all: f32 = times.iter().sum();
    let surprise = |&character: &usize| -(times[character] / all).ln();
    (held_out.iter().map(surprise).sum::<f32>() / held_out.len() as f32).exp()
}

fn main() -> dl::Result<()> {
    let Args { epochs, seed, quick } = Args::parse();
    let sizes = if quick {
        Sizes { characters: 20_000, embedding: 16, hidden: 32, streams: 16, window: 16, epochs: 2, bound: 14.0 }
    } else {
        Sizes { characters: TEXT.len(), embedding: 32, hidden: 128, streams: 32, window: 32, epochs, bound: 6.0 }
    };
    let text = &TEXT[..sizes.characters];
    let mut alphabet: Vec<char> = text.chars().collect();
    alphabet.sort_unstable();
    alphabet.dedup();
    let number = |c| alphabet.binary_search(&c).expect("a character of the text");
    let text: Vec<usize> = text.chars().map(number).collect();
    let (learned, held_out) = text.split_at(text.len() / 10 * 9);

    let rng = &mut init::rng(seed);
    let model = Model::new(alphabet.len(), &sizes, rng)?;
    println!("{}", model.summary());
    let frequencies = unigram_perplexity(learned, held_out, alphabet.len());
    println!("{} characters, {} different ones", text.len(), alphabet.len());
    println!("perplexity of held-out text, by the frequencies of characters alone: {frequencies:.3}");

    let (training, test) = (windows(learned, sizes.streams, sizes.window), windows(held_out, 8, sizes.window));
    let state = Buffer::new(model.cell.initial(sizes.streams));
    let schedule = OneCycle::new(0.01, sizes.epochs * training.len() as u64).warm_up(0.1);
    let optimizer = Adam::new(schedule).clip_norm(1.0);
    let mut perplexity = f32::INFINITY;
    for epoch in 1..=sizes.epochs {
        state.set(model.cell.initial(sizes.streams));
        let mut sum = 0.0;
        for Window { text, next } in &training {
            let (scores, last) = model.read(text, state.layer());
            sum += scores.cross_entropy(next).updating(&state, last).train(&optimizer).wait()?;
        }
        perplexity = model.perplexity(&test)?;
        let learned = (sum / training.len() as f32).exp();
        println!("epoch {epoch:2}  perplexity {learned:7.3}, of held-out text {perplexity:.3}");
    }

    let start: Vec<usize> = "Mr. Fogg ".chars().map(number).collect();
    let written = model.write(&start, if quick { 80 } else { 400 }, 0.7, rng)?;
    println!("\n{}\n", written.iter().map(|&character| alphabet[character]).collect::<String>());
    println!("perplexity={perplexity:.3}");
    let bound = sizes.bound;
    assert!(perplexity < bound, "the network has learned less than it should: {perplexity:.3} is not below {bound}");
    Ok(())
}
