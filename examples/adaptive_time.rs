//! Adaptive computation time (Graves, 2016): a recurrent network decides for each question how many
//! steps to compute.
//!
//! ```sh
//! cargo run --release --example adaptive_time --features train             # --seed --epochs --ponder --quick
//! ```
//!
//! The question is which of two six-digit numbers is larger, or whether they are equal. In each
//! round the network reads the next digit of both. It is not trained to stop at the first
//! difference, but each round has a cost. The `while` of `ponder` continues until the remaining
//! halting probability is at most `EPSILON`; later rounds are never built, forward or backward.
//!
//! At the end the example prints, for pairs that first differ at position 1, 2, …, the mean number
//! of rounds and the accuracy. The accuracy on unseen pairs must be at least 99 %, with about one
//! round more than there are digits to read. With the seeds 1, 2, 3 all of 1000 pairs are answered
//! correctly, in 4.8 rounds on average, where 3.9 are needed.

use clap::Parser;
use dl::nd::init;
use dl::nn::{GruCell, Linear};
use dl::prelude::*;
use dl::train::{Outcome, Trainer};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Digits per number.
const PLACES: usize = 6;
const HIDDEN: usize = 24;
const BATCH: usize = 32;
/// The halting probability that may remain when the loop ends.
const EPSILON: f32 = 0.01;

#[derive(Parser)]
struct Args {
    /// Seed of the questions and the initial weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// The number of epochs; each has 50 batches of new questions.
    #[arg(long, default_value_t = 14, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,

    /// The cost of a round, relative to the cross entropy of the answer.
    #[arg(long, default_value_t = 0.01)]
    ponder: f32,

    /// Shorter numbers and fewer questions, for a smoke test.
    #[arg(long)]
    quick: bool,
}

/// Two numbers, as pairs of digits by position, and their order: less, equal, greater.
#[derive(Clone)]
struct Question {
    digits: Vec<[usize; 2]>,
    answer: usize,
    /// The first position where they differ, or the number of positions.
    differ_at: usize,
}

impl Question {
    /// The first difference is uniformly distributed over the positions and "no difference".
    fn random(places: usize, rng: &mut ChaCha8Rng) -> Self {
        let differ_at = rng.random_range(0..=places);
        let place = |place| {
            let first = rng.random_range(0..10);
            let second = if place < differ_at {
                first
            } else if place == differ_at {
                (first + rng.random_range(1..10)) % 10
            } else {
                rng.random_range(0..10)
            };
            [first, second]
        };
        let digits: Vec<[usize; 2]> = (0..places).map(place).collect();
        let answer = match digits.get(differ_at) {
            None => 1,
            Some([first, second]) => 2 * usize::from(first > second),
        };
        Question { digits, answer, differ_at }
    }

    /// The input for a position: the digits of both numbers, centred at 0, `[1, 2]`.
    fn input(&self, place: usize) -> Nd {
        Nd::from([self.digits[place].map(|digit| (digit as f32 - 4.5) / 2.0)])
    }
}

#[derive(Clone, Module)]
struct Net {
    cell: GruCell,
    halt: Linear,
    answer: Linear,
}

/// The result of `ponder`.
#[derive(Clone, Layers)]
struct Pondered {
    /// The logits of the three answers, `[1, 3]`.
    answer: NdLayer,
    rounds: Do<usize>,
    /// The number of rounds plus the halting probability that remained before the last. Its
    /// gradient trains the network to halt earlier or later.
    cost: Layer<f32>,
}

impl Net {
    fn new(rng: &mut ChaCha8Rng) -> dl::Result<Self> {
        let net = Net {
            cell: GruCell::new(2, HIDDEN, rng)?,
            halt: Linear::new(HIDDEN, 1, rng)?,
            answer: Linear::new(HIDDEN, 3, rng)?,
        };
        // Start with a low halting probability, so that the network first learns to use several
        // rounds.
        net.halt.bias.iter().for_each(|bias| bias.set(Nd::from([-2.0])));
        Ok(net)
    }

    /// The halting probability of a state, between 0 and 1.
    fn halt(&self, state: &NdLayer) -> Layer<f32> {
        self.halt.of(state).sigmoid().at([0, 0])
    }

    /// Computes rounds until the halting probability is used up. The answer is the mean of the
    /// answers of all rounds, weighted by their halting probabilities; the last round gets the
    /// rest.
    #[differentiable(lazy)]
    fn ponder(&self, question: &Question) -> Pondered {
        let mut state = self.cell.of(question.input(0), self.cell.initial(1));
        let mut halt = self.halt(&state);
        let mut before = Layer::constant(0.0);
        let mut answer = Layer::constant(init::zeros([1, 3]));
        let mut rounds = 1;
        while !halt < 1.0 - EPSILON && rounds < question.digits.len() {
            answer = answer + (halt - before) * self.answer.of(&state);
            state = self.cell.of(question.input(rounds), state);
            before = halt.clone();
            halt = halt + self.halt(&state);
            rounds += 1;
        }
        let rest = 1.0 - before;
        Pondered { answer: answer + rest * self.answer.of(state), rounds: Do::now(rounds), cost: rest + rounds as f32 }
    }

    fn loss(&self, questions: &[Question], ponder: f32) -> Layer<f32> {
        let one = |question: &Question| {
            let pondered = self.ponder(question);
            pondered.answer.cross_entropy([question.answer]) + ponder * pondered.cost
        };
        questions.iter().map(one).sum::<Layer<f32>>() / questions.len() as f32
    }

    /// 1.0 if the answer is correct, otherwise 0.0, and the number of rounds.
    fn examine(&self, question: &Question) -> Do<(f32, f32)> {
        let Pondered { answer, rounds, .. } = self.ponder(question);
        let right = answer.argmax(1).equal(question.answer).to_floats().mean();
        right.predict().zip(rounds.map(|rounds| rounds as f32))
    }
}

fn questions(count: usize, places: usize, rng: &mut ChaCha8Rng) -> Vec<Question> {
    (0..count).map(|_| Question::random(places, rng)).collect()
}

fn main() -> dl::Result<()> {
    let Args { seed, epochs, ponder, quick } = Args::parse();
    let (places, batches, epochs) = if quick { (2, 15, 4) } else { (PLACES, 50, epochs) };
    let net = Net::new(&mut init::rng_for(seed, "weights"))?;
    let test = questions(if quick { 100 } else { 1000 }, places, &mut init::rng_for(seed, "test"));
    let examine = || Do::join(test.iter().map(|question| net.examine(question))).wait();
    let mean = |numbers: &[f32]| numbers.iter().sum::<f32>() / numbers.len() as f32;

    let epoch_batches = |epoch| {
        let mut rng = init::rng_for(seed, &format!("epoch {epoch}"));
        Ok((0..batches).map(move |_| Ok(questions(BATCH, places, &mut rng))))
    };
    let optimizer = Adam::new(0.01).clip_norm(1.0);
    let Outcome { epochs, .. } = Trainer::new(&optimizer, epochs)
        .validate(|| {
            let (right, rounds): (Vec<f32>, Vec<f32>) = examine()?.into_iter().unzip();
            Ok([("accuracy", mean(&right)), ("rounds", mean(&rounds))])
        })
        .run(epoch_batches, |questions| net.loss(&questions, ponder))?;
    for record in epochs {
        println!("epoch {:2}  {record}", record.epoch + 1);
    }

    println!();
    let seen = examine()?;
    let mut extra = 0.0;
    for differ_at in 0..=places {
        let of_place = test.iter().zip(&seen).filter(|(question, _)| question.differ_at == differ_at);
        let (right, rounds): (Vec<f32>, Vec<f32>) = of_place.map(|(_, seen)| *seen).unzip();
        let what =
            if differ_at == places { "equal".to_owned() } else { format!("differ from place {} on", differ_at + 1) };
        println!("{what:22}  accuracy {:.3}  rounds {:.2}", mean(&right), mean(&rounds));
        extra += (mean(&rounds) - (differ_at + 1).min(places) as f32).abs() / (places + 1) as f32;
    }
    let accuracy = mean(&seen.iter().map(|&(right, _)| right).collect::<Vec<_>>());
    println!("accuracy={accuracy:.4}");
    println!("extra_rounds={extra:.3}");
    let (least, most) = if quick { (0.7, 1.5) } else { (0.99, 1.2) };
    assert!(accuracy >= least, "the network has learned less than it should: {accuracy:.4} is below {least}");
    assert!(extra <= most, "the number of rounds differs by {extra:.3} from the number needed");
    Ok(())
}
