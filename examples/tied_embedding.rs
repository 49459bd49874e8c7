//! Tied embeddings: the rows of one table represent the input characters (a sparse delta), and the
//! whole table scores the next character (a dense delta). One training step adds both deltas.
//!
//! ```sh
//! cargo run --release --example tied_embedding
//! ```
//!
//! The model is log-bilinear (Mnih and Hinton, 2007): the vector of the next character is predicted
//! as the sum of the vectors of the last characters, each scaled by a weight of its position. The
//! text is the Apache licence of this repository; its last tenth is held out.

use dl::Result;
use dl::nd::init;
use dl::prelude::*;
use rand::Rng;

const TEXT: &str = include_str!("../LICENSE-APACHE");
const CONTEXT: usize = 5;
const WIDTH: usize = 24;
const BATCH: usize = 64;

struct Model {
    /// A vector for each character.
    characters: Weight<Table>,
    /// The scale of each position before the next character.
    places: NdWeight,
    bias: NdWeight<Ix1>,
}

impl Model {
    /// The logits of the next character, `[batch, context] → [batch, characters]`.
    fn scores(&self, before: Nd<usize, Ix2>) -> NdLayer {
        let guess = (self.characters.embedding(before) * &self.places).sum_axis(1);
        guess.matmul(self.characters.dense().t()) + &self.bias
    }
}

/// The characters before these positions of the text, and the characters at them.
fn examples(text: &[usize], places: &[usize]) -> Result<(Nd<usize, Ix2>, Nd<usize, Ix1>)> {
    let before = places.iter().flat_map(|&place| text[place - CONTEXT..place].iter().copied()).collect();
    let next = places.iter().map(|&place| text[place]).collect::<Vec<_>>();
    Ok((Nd::from_vec([places.len(), CONTEXT], before)?, next.into()))
}

fn main() -> Result<()> {
    let mut alphabet: Vec<char> = TEXT.chars().collect();
    alphabet.sort_unstable();
    alphabet.dedup();
    let number = |c| alphabet.binary_search(&c).expect("a character of the text");
    let text: Vec<usize> = TEXT.chars().map(number).collect();
    let learned = text.len() * 9 / 10;

    let mut rng = init::rng(1);
    let model = Model {
        characters: Weight::new(init::normal([alphabet.len(), WIDTH], 0.0, 0.3, &mut rng).into()),
        places: Weight::new(init::normal([CONTEXT, WIDTH], 0.5, 0.2, &mut rng)),
        bias: Weight::new(Nd::full([alphabet.len()], 0.0)),
    };
    let held_back: Vec<usize> = (learned..text.len()).collect();
    let perplexity = || -> Result<f32> {
        let (before, next) = examples(&text, &held_back)?;
        Ok(model.scores(before).cross_entropy(next).predict().wait()?.exp())
    };

    println!("{} characters of text, {} different ones", text.len(), alphabet.len());
    println!("perplexity before training {:.1}", perplexity()?);
    let adam = Adam::new(0.005);
    for epoch in 1..=10 {
        for _ in 0..learned / BATCH {
            let places: Vec<usize> = (0..BATCH).map(|_| rng.random_range(CONTEXT..learned)).collect();
            let (before, next) = examples(&text, &places)?;
            model.scores(before).cross_entropy(next).train(&adam).wait()?;
        }
        println!("epoch {epoch:2}: perplexity of held-out text {:.2}", perplexity()?);
    }
    assert!(perplexity()? < 16.0);

    let mut line: Vec<usize> = "This License ".chars().map(number).collect();
    for _ in 0..60 {
        let (before, _) = examples(&[&line[..], &[0]].concat(), &[line.len()])?;
        line.push(model.scores(before).argmax(1).predict().wait()?[0]);
    }
    println!("{}", line.iter().map(|&c| if alphabet[c] == '\n' { ' ' } else { alphabet[c] }).collect::<String>());
    Ok(())
}
