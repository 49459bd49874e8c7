//! Differentiable program search: gradient descent selects the instructions of a small loop and
//! finds Kadane's algorithm for the maximum subarray sum.
//!
//! ```sh
//! cargo run --release --example program_search             # --seed --quick
//! ```
//!
//! The loop reads a list number by number. It has two registers and three instructions with unknown
//! operations and operands: 262,144 programs. The training data are lists of at most five numbers
//! and their maximum subarray sums. While a choice is open, its options are blended by their
//! probability (as in the differentiable interpreters of Neelakantan et al., 2016, and Gaunt et
//! al., 2016); an option with a negligible probability is not computed. The `if` of `blend`
//! therefore makes the program cheaper during training, down to one operation per instruction, when
//! it is an ordinary program. About every second search ends in a local minimum; the next one
//! starts with other weights.
//!
//! At the end the example prints the program, and for how many of a thousand lists of fifty numbers
//! it is exact: it must be exact for all of them. The first exact program is found by the second,
//! first and first search for the seeds 1, 2, 3, in three different forms.

use clap::Parser;
use dl::nd::init;
use dl::prelude::*;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// The lists, transposed: for each position the numbers of all lists; and the target of each list.
type Examples = (Vec<Nd<f32, Ix1>>, Nd<f32, Ix1>);

/// Options below this probability are not computed.
const NEGLIGIBLE: f32 = 0.01;
/// The maximal number of searches, and of steps in each.
const SEARCHES: u64 = 20;
const STEPS: usize = 600;
/// The maximal length of training lists.
const MAX_LENGTH: usize = 5;

const OPERATIONS: [&str; 4] = ["+", "-", "max", "min"];
const OPERANDS: [&str; 4] = ["x", "current", "best", "0"];

#[derive(Parser)]
struct Args {
    /// Seed of the initial weights and the lists.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// A seed with a short search, and fewer and shorter test lists.
    #[arg(long)]
    quick: bool,
}

/// An instruction with open choices: the logits of each choice, `[4]`.
#[derive(Clone, Module)]
struct Instruction {
    operation: NdWeight<Ix1>,
    left: NdWeight<Ix1>,
    right: NdWeight<Ix1>,
}

/// The loop body: two instructions write `current`, one writes `best`.
#[derive(Clone, Module)]
struct Program {
    current: [Instruction; 2],
    best: Instruction,
}

/// The sum of the options weighted by their probabilities. Options with a negligible probability
/// are never computed.
#[differentiable]
fn blend(logits: &NdWeight<Ix1>, options: [NdLayer<Ix1>; 4]) -> NdLayer<Ix1> {
    let chances = logits.softmax(0);
    let likely = !chances;
    let mut blended = Vec::new();
    for (index, option) in options.iter().enumerate() {
        if likely[index] > NEGLIGIBLE {
            blended.push(chances.at([index]) * option);
        }
    }
    blended.into_iter().sum()
}

impl Instruction {
    fn new(rng: &mut ChaCha8Rng) -> Self {
        let [operation, left, right] = std::array::from_fn(|_| Weight::new(init::normal([4], 0.0, 0.5, rng)));
        Instruction { operation, left, right }
    }

    /// The result of the instruction on the operands `x`, `current`, `best` and 0.
    fn of(&self, operands: &[NdLayer<Ix1>; 4]) -> NdLayer<Ix1> {
        let left = blend(&self.left, operands.clone());
        let right = blend(&self.right, operands.clone());
        blend(&self.operation, [&left + &right, &left - &right, max(&left, &right), min(&left, &right)])
    }

    fn choices(&self) -> [&NdWeight<Ix1>; 3] {
        [&self.operation, &self.left, &self.right]
    }
}

impl Program {
    fn new(rng: &mut ChaCha8Rng) -> Self {
        Program { current: std::array::from_fn(|_| Instruction::new(rng)), best: Instruction::new(rng) }
    }

    /// Runs the program on a batch of lists.
    fn run(&self, lists: &[Nd<f32, Ix1>]) -> NdLayer<Ix1> {
        let zero = Layer::constant(init::zeros(lists[0].len()));
        let (mut current, mut best) = (zero.clone(), zero.clone());
        for x in lists {
            for instruction in &self.current {
                current = instruction.of(&[x.layer(), current, best.clone(), zero.clone()]);
            }
            best = self.best.of(&[x.layer(), current.clone(), best, zero.clone()]);
        }
        best
    }

    fn instructions(&self) -> [(&'static str, &Instruction); 3] {
        [("current", &self.current[0]), ("current", &self.current[1]), ("best", &self.best)]
    }

    /// The discrete program: each choice has the most probable option with probability 1.
    fn decided(&self) -> Self {
        let decide = |logits: &NdWeight<Ix1>| {
            let option = most_probable(logits);
            Weight::new(
                (0..4).map(|index| if index == option { 0.0 } else { f32::NEG_INFINITY }).collect::<Vec<_>>().into(),
            )
        };
        let instruction = |open: &Instruction| {
            let [operation, left, right] = open.choices().map(decide);
            Instruction { operation, left, right }
        };
        Program { current: self.current.each_ref().map(instruction), best: instruction(&self.best) }
    }

    /// The fraction of lists for which the program is exact.
    fn right(&self, (lists, sums): &Examples) -> dl::Result<f32> {
        self.run(lists).equal(sums).to_floats::<f32>().mean().predict().wait()
    }

    /// The source text of the program.
    fn source(&self) -> String {
        let line = |(register, instruction): (&str, &Instruction)| {
            let [operation, left, right] = instruction.choices().map(most_probable);
            let (operation, left, right) = (OPERATIONS[operation], OPERANDS[left], OPERANDS[right]);
            match operation {
                "max" | "min" => format!("    {register} = {operation}({left}, {right})\n"),
                _ => format!("    {register} = {left} {operation} {right}\n"),
            }
        };
        format!("current, best = 0, 0\nfor each x:\n{}", self.instructions().map(line).concat())
    }
}

fn most_probable(logits: &NdWeight<Ix1>) -> usize {
    let logits = logits.value();
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).expect("there are options")
}

/// Random lists and their maximum subarray sums, by exhaustive search. The empty subarray has the
/// sum 0.
fn examples(count: usize, length: usize, rng: &mut ChaCha8Rng) -> Examples {
    let lists: Vec<Vec<f32>> =
        (0..count).map(|_| (0..length).map(|_| rng.random_range(-5..=5) as f32).collect()).collect();
    let largest = |list: &Vec<f32>| {
        let from = |start| {
            list[start..].iter().scan(0.0, |sum: &mut f32, x| {
                *sum += x;
                Some(*sum)
            })
        };
        (0..length).flat_map(from).fold(0.0, f32::max)
    };
    let at = |time| lists.iter().map(|list| list[time]).collect::<Vec<_>>().into();
    ((0..length).map(at).collect(), lists.iter().map(largest).collect::<Vec<_>>().into())
}

/// Trains on short lists until the discrete program is exact for all of 200 other lists.
fn search(rng: &mut ChaCha8Rng) -> dl::Result<Option<Program>> {
    let program = Program::new(rng);
    let adam = Adam::new(0.1);
    let check = examples(200, MAX_LENGTH, rng);
    for step in 0..STEPS {
        if step % 50 == 0 {
            let loss = program.run(&check.0).huber(&check.1, 1.0);
            let (loss, counters) = loss.predict().counted().wait()?;
            let right = program.decided().right(&check)?;
            println!(
                "  step {step:3}  loss {loss:.4}  {} evaluations  right when decided {right:.3}",
                counters.evaluations
            );
            if right == 1.0 {
                return Ok(Some(program));
            }
        }
        let (lists, sums) = examples(32, 1 + step % MAX_LENGTH, rng);
        program.run(&lists).huber(&sums, 1.0).train(&adam).wait()?;
    }
    Ok(None)
}

fn main() -> dl::Result<()> {
    let Args { seed, quick } = Args::parse();
    let seed = if quick { 5 } else { seed };
    for number in 1..=SEARCHES {
        println!("search {number}");
        let Some(program) = search(&mut init::rng_for(seed, &format!("search {number}")))? else { continue };
        let (count, length) = if quick { (100, 20) } else { (1000, 50) };
        let right = program.decided().right(&examples(count, length, &mut init::rng_for(seed, "test")))?;
        println!("\n{}", program.source());
        println!("exactly right for {:.1} % of {count} lists of {length} numbers", 100.0 * right);
        println!("searches={number}");
        assert!(right == 1.0, "the program is exact for short lists only");
        return Ok(());
    }
    panic!("none of {SEARCHES} searches has found a program");
}
