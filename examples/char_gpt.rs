//! A character-level language model in the form of Llama learns from the text of `char_gru`, then
//! writes, with a cache of keys and values.
//!
//! ```sh
//! cargo run --release --example char_gpt                   # --steps --seed --parts --quick
//! ```
//!
//! It ends with speculative decoding (Leviathan et al., 2023): a small model, the draft, writes some
//! characters ahead, and the large one reads all of them in one pass. Those with which it agrees are
//! the ones that it would have written itself, so the text is the same.

use clap::Parser;
use dl::Parts;
use dl::nd::init;
use dl::nn::{Cache, DecoderBlock, Embedding, Generation, Linear, Past, RmsNorm, Sampling};
use dl::prelude::*;
use dl::schedule::OneCycle;
use rand::Rng;
use std::time::Instant;

const TEXT: &str = include_str!("../data/eighty_days.txt");

#[derive(Parser)]
struct Args {
    /// The number of steps. With fewer than the default the final check may fail.
    #[arg(long, default_value_t = 700, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,

    /// Seed of the initial weights, the windows and the sample.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// The number of parts of a batch. Each step takes the memory for one of them.
    #[arg(long, default_value_t = 1)]
    parts: usize,

    /// A small network and a part of the text, for a smoke test.
    #[arg(long)]
    quick: bool,
}

/// The sizes of the network, the text and the batches.
struct Sizes {
    characters: usize,
    width: usize,
    blocks: usize,
    /// The number of characters of a window.
    context: usize,
    batch: usize,
    parts: usize,
    steps: u64,
    /// The upper bound for the perplexity of held-out text.
    bound: f32,
}

#[derive(Clone, Module)]
struct Model {
    characters: Embedding,
    blocks: Vec<DecoderBlock>,
    norm: RmsNorm,
    output: Linear,
    alphabet: usize,
}

impl Model {
    fn new(alphabet: usize, width: usize, blocks: usize, rng: &mut impl Rng) -> dl::Result<Self> {
        Ok(Model {
            characters: Embedding { weight: Weight::new(init::normal([alphabet, width], 0.0, 0.5, rng).into()) },
            blocks: (0..blocks).map(|_| DecoderBlock::new(width, 4, 2, 2 * width, rng)).collect::<dl::Result<_>>()?,
            norm: RmsNorm::new(width)?,
            output: Linear::without_bias(width, alphabet, rng)?,
            alphabet,
        })
    }

    /// The mean cross entropy of the last `counted` characters of each window, given those before.
    fn loss(&self, windows: &[&[usize]], counted: usize) -> Layer<f32> {
        let length = windows[0].len() - 1;
        let read = windows.iter().flat_map(|window| &window[..length]).copied().collect();
        let read = Nd::from_vec([windows.len(), length], read).expect("windows of one length");
        let next: Vec<_> = windows.iter().flat_map(|window| &window[window.len() - counted..]).copied().collect();
        let x = self.blocks.iter().fold(self.characters.of(read), |x, block| block.of(x));
        let x = self.norm.of(x.slice_axis(1, length - counted..));
        self.output.of(x).reshape([windows.len() * counted, self.alphabet]).cross_entropy(next)
    }

    /// The scores of the characters that follow each new one: `[batch, longest, alphabet]`.
    fn read(&self, past: &Past) -> NdLayer<Ix3> {
        let blocks = self.blocks.iter().enumerate();
        let x =
            blocks.fold(self.characters.of(past.tokens()), |x, (number, block)| block.of_cached(x, past.layer(number)));
        self.output.of(self.norm.of(x))
    }

    /// Trains on random windows. Returns the loss of the first and of the last tenth of the steps.
    fn learn(&self, text: &[usize], sizes: &Sizes, steps: u64, rng: &mut impl Rng) -> dl::Result<(f32, f32)> {
        let optimizer = AdamW::new(OneCycle::new(0.006, steps).warm_up(0.1)).clip_norm(1.0);
        let mut losses = Vec::new();
        for step in 1..=steps {
            let starts = (0..sizes.batch).map(|_| rng.random_range(0..text.len() - sizes.context));
            let windows: Vec<_> = starts.map(|start| &text[start..=start + sizes.context]).collect();
            let parts = windows.chunks(sizes.batch / sizes.parts).map(|windows| self.loss(windows, sizes.context));
            losses.push(mean(&Parts::mean(parts).train(&optimizer).wait()?));
            if step % (steps / 5).max(1) == 0 {
                println!("step {step:4}  perplexity {:.3}", mean(&losses[losses.len().saturating_sub(20)..]).exp());
            }
        }
        let tenth = losses.len().div_ceil(10);
        Ok((mean(&losses[..tenth]), mean(&losses[losses.len() - tenth..])))
    }

    /// The perplexity of text. Windows overlap by one half, in which no character is counted.
    fn perplexity(&self, text: &[usize], context: usize) -> dl::Result<f32> {
        let windows: Vec<_> = text.windows(context + 1).step_by(context / 2).collect();
        let full = windows.chunks_exact(8);
        let losses: Vec<_> =
            full.map(|windows| self.loss(windows, context / 2).predict().wait()).collect::<dl::Result<_>>()?;
        Ok(mean(&losses).exp())
    }

    /// Writes the most likely characters. The draft proposes some of them; `self` reads these in one
    /// pass, and keeps those that it would have written. Returns the text and the number of passes.
    fn write_with_draft(&self, draft: &Model, prompt: &[usize], length: usize) -> dl::Result<(Vec<usize>, usize)> {
        const AHEAD: usize = 4;
        let (cache, drafted) = (Cache::new(length + AHEAD), Cache::new(length + AHEAD));
        let mut text = prompt.to_vec();
        let mut passes = 0;
        while text.len() < length {
            let mut proposal = text.clone();
            while proposal.len() < text.len() + AHEAD {
                let unread = proposal[tokens_of(&drafted)..].to_vec();
                let scores = drafted.predict(&[unread], |past| past.last(draft.read(past))).wait()?;
                proposal.push(best(&scores.into_vec()));
            }
            let unread = proposal[tokens_of(&cache)..].to_vec();
            let scores = cache.predict(&[unread], |past| self.read(past)).wait()?.into_vec();
            // the scores of the characters from `text.len()` on, and of the one after the proposal
            let choices = scores.chunks_exact(self.alphabet).rev().take(AHEAD + 1).rev().map(best);
            for choice in choices {
                text.push(choice);
                if proposal.get(text.len() - 1) != Some(&choice) {
                    break;
                }
            }
            // the caches forget the characters that were proposed in vain
            for cache in [&cache, &drafted] {
                cache.truncate(0, tokens_of(cache).min(text.len() - 1))?;
            }
            passes += 1;
        }
        text.truncate(length);
        Ok((text, passes))
    }
}

fn mean(numbers: &[f32]) -> f32 {
    numbers.iter().sum::<f32>() / numbers.len() as f32
}

fn tokens_of(cache: &Cache) -> usize {
    cache.lengths().first().copied().unwrap_or(0)
}

/// The index of the largest number.
fn best(scores: &[f32]) -> usize {
    let largest = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (0..scores.len()).fold(0, largest)
}

fn main() -> dl::Result<()> {
    let Args { steps, seed, quick, parts } = Args::parse();
    assert!([1, 2, 4].contains(&parts), "a batch has 1, 2 or 4 parts");
    let sizes = if quick {
        Sizes { characters: 20_000, width: 16, blocks: 1, context: 32, batch: 4, parts, steps: 150, bound: 17.0 }
    } else {
        Sizes { characters: TEXT.len(), width: 96, blocks: 3, context: 96, batch: 16, parts, steps, bound: 6.0 }
    };
    let text = &TEXT[..sizes.characters];
    let mut alphabet: Vec<char> = text.chars().collect();
    alphabet.sort_unstable();
    alphabet.dedup();
    let number = |c| alphabet.binary_search(&c).expect("a character of the text");
    let print = |text: &[usize]| println!("\n{}\n", text.iter().map(|&c| alphabet[c]).collect::<String>());
    let text: Vec<usize> = text.chars().map(number).collect();
    let (learned, held_out) = text.split_at(text.len() / 10 * 9);

    let rng = &mut init::rng(seed);
    let model = Model::new(alphabet.len(), sizes.width, sizes.blocks, rng)?;
    println!("{}", model.summary());
    let start = Instant::now();
    let (first, last) = model.learn(learned, &sizes, sizes.steps, rng)?;
    println!("learned in {:.1} s", start.elapsed().as_secs_f64());
    let perplexity = model.perplexity(held_out, sizes.context)?;
    println!("perplexity of held-out text: {perplexity:.3}");

    let prompt: Vec<usize> = "Mr. Fogg ".chars().map(number).collect();
    let next = |past: &Past| past.last(model.read(past));
    let nucleus = Sampling::new().temperature(0.8).top_p(0.95);
    let written = Generation::new(next, vec![prompt.clone()], sizes.context).sampling(nucleus).seed(seed).first();
    print(&[prompt.clone(), written.collect::<dl::Result<Vec<_>>>()?].concat());

    let greedy = Generation::new(next, vec![prompt.clone()], sizes.context).sampling(Sampling::greedy()).first();
    let expected = [prompt.clone(), greedy.collect::<dl::Result<Vec<_>>>()?].concat();
    let draft = Model::new(alphabet.len(), sizes.width / 2, 1, rng)?;
    draft.learn(learned, &sizes, sizes.steps / 2, rng)?;
    let (drafted, passes) = model.write_with_draft(&draft, &prompt, sizes.context)?;
    print(&drafted);
    println!("{} characters in {passes} passes of the model", drafted.len() - prompt.len());
    assert_eq!(drafted, expected, "the draft must not change the text");

    println!("perplexity={perplexity:.3}");
    assert!(last < first, "the loss has not fallen: {first:.3}, then {last:.3}");
    let bound = sizes.bound;
    assert!(perplexity < bound, "the network has learned less than it should: {perplexity:.3} is not below {bound}");
    Ok(())
}
