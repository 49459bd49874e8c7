//! A program that is learned: gradient descent chooses the instructions of a small loop, and finds
//! Kadane's algorithm for the largest sum of neighbours.
//!
//! ```sh
//! cargo run --release --example program_search             # --seed --quick
//! ```
//!
//! The loop reads a list number by number, with two registers, and has three instructions in its
//! body. Which operation each of them carries out, and on what, is not known: there are 262,144
//! such programs. All that is given is lists of at most five numbers, and for each the largest sum
//! that numbers in a row can have. As long as a choice is open, its options are blended, by their
//! probability (as in the differentiable interpreters of Neelakantan et al., 2016, and Gaunt et
//! al., 2016); an option that is next to impossible is not computed. So look at `blend`: its `if`
//! makes the program cheaper while it is learned, down to one operation for each instruction, and
//! then it *is* a program. About every other search ends in a bad place; the next one begins with
//! other weights.
//!
//! In the end it prints the program, and how many of a thousand lists of fifty numbers, ten times
//! as long as those it has learned from, come out exactly right: all of them have to. Found by the
//! second, first and first search for the seeds 1, 2, 3; three ways to write it.

use clap::Parser;
use dl::nd::init;
use dl::prelude::*;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Lists, and the largest sum of each: at each time, the numbers of all of them.
type Examples = (Vec<Nd<f32, Ix1>>, Nd<f32, Ix1>);

/// Options below this probability are not computed.
const NEGLIGIBLE: f32 = 0.01;
/// How many searches there are at most, and how many steps each.
const SEARCHES: u64 = 20;
const STEPS: usize = 600;
/// Of the lists that it learns from.
const LONGEST: usize = 5;

const OPERATIONS: [&str; 4] = ["+", "-", "max", "min"];
const OPERANDS: [&str; 4] = ["x", "current", "best", "0"];

#[derive(Parser)]
struct Args {
    /// Seed of the weights in the beginning, and of the lists.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// A seed that soon comes to an end, with fewer and shorter lists there.
    #[arg(long)]
    quick: bool,
}

/// An instruction that is not decided yet: the logits of its choices, `[4]` each.
#[derive(Clone, Module)]
struct Instruction {
    operation: NdWeight<Ix1>,
    left: NdWeight<Ix1>,
    right: NdWeight<Ix1>,
}

/// The body of the loop: two instructions write `current`, one writes `best`.
#[derive(Clone, Module)]
struct Program {
    current: [Instruction; 2],
    best: Instruction,
}

/// The options, each as much as it is probable. Those that are next to impossible are never
/// computed.
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

    /// What it makes of `x`, `current`, `best` and 0.
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

    /// Runs on many lists at once.
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

    /// The same with each choice made: all of the probability is with the likeliest option.
    fn decided(&self) -> Self {
        let decide = |logits: &NdWeight<Ix1>| {
            let option = likeliest(logits);
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

    /// The share of lists for which it is exactly right.
    fn right(&self, (lists, sums): &Examples) -> dl::Result<f32> {
        self.run(lists).equal(sums).to_floats::<f32>().mean().predict().wait()
    }

    /// As it would be written.
    fn written(&self) -> String {
        let line = |(register, instruction): (&str, &Instruction)| {
            let [operation, left, right] = instruction.choices().map(likeliest);
            let (operation, left, right) = (OPERATIONS[operation], OPERANDS[left], OPERANDS[right]);
            match operation {
                "max" | "min" => format!("    {register} = {operation}({left}, {right})\n"),
                _ => format!("    {register} = {left} {operation} {right}\n"),
            }
        };
        format!("current, best = 0, 0\nfor each x:\n{}", self.instructions().map(line).concat())
    }
}

fn likeliest(logits: &NdWeight<Ix1>) -> usize {
    let logits = logits.value();
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).expect("there are options")
}

/// Random lists, and for each the largest sum of numbers in a row, by trying all of them. No number
/// at all has the sum 0.
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

/// Learns from short lists until the program, once it is decided, is right for all of 200 others.
fn search(rng: &mut ChaCha8Rng) -> dl::Result<Option<Program>> {
    let program = Program::new(rng);
    let adam = Adam::new(0.1);
    let check = examples(200, LONGEST, rng);
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
        let (lists, sums) = examples(32, 1 + step % LONGEST, rng);
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
        println!("\n{}", program.written());
        println!("exactly right for {:.1} % of {count} lists of {length} numbers", 100.0 * right);
        println!("searches={number}");
        assert!(right == 1.0, "the program is right for short lists only");
        return Ok(());
    }
    panic!("none of {SEARCHES} searches has found a program");
}
