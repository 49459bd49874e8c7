//! The robot of *Monadic Deep Learning* takes an IQ test: which number follows 3, 6, 9, …?
//!
//! ```sh
//! cargo run --release --example iq_robot            # --seed --quick
//! ```
//!
//! The first robot is the paper's: a weighted sum of the given numbers, all of them plain `f64`s.
//! The two questions of the paper do not determine its answers to other questions; a few more do.
//!
//! The second robot has several rules, trained one after the other: arithmetic, geometric and
//! Fibonacci-like sequences. The kind of a question is not given. The robot extracts the error of a
//! rule on the *given* numbers with `!`, selects the first rule that explains them, and evaluates
//! no other. A training step changes only the selected rule. See `rule_for` and `answer`: a loop,
//! an `if` and a `return`. Questions are random (`Question::random`); test questions are not used
//! in training.
//!
//! At the end the example prints the fraction of 600 unseen questions answered to within 1 %: 1.000
//! for the seeds 1, 2 and 3. A single rule like the paper's, trained on as many questions of the
//! same kinds, reaches 0.02.

use clap::Parser;
use dl::nd::init;
use dl::prelude::*;
use dl::schedule::Cosine;
use rand::Rng;
use rand::seq::IndexedRandom;

#[derive(Parser)]
struct Args {
    /// Seed of the weights and of the questions.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Fewer questions, for a smoke test.
    #[arg(long)]
    quick: bool,
}

/// The paper's `guessNextNumber`: the weighted sum of the numbers, plus a bias.
fn guess_next_number(question: &[f64], weights: &[Weight<f64>], bias: &Weight<f64>) -> Layer<f64> {
    question.iter().zip(weights).map(|(&number, weight)| number * weight).sum::<Layer<f64>>() + bias
}

/// The paper's `squareLoss`.
#[differentiable]
fn square_loss(robot_answer: &Layer<f64>, expected: f64) -> Layer<f64> {
    let difference = robot_answer - expected;
    difference * difference
}

fn random_weights(count: usize, rng: &mut impl Rng) -> Vec<Weight<f64>> {
    (0..count).map(|_| Weight::new(rng.random())).collect()
}

/// The robot of the paper.
fn robot_of_the_paper(rounds: usize, rng: &mut impl Rng) -> dl::Result<()> {
    let (weights, bias) = (random_weights(3, rng), Weight::new(rng.random()));
    let guess = |question: &[f64]| guess_next_number(question, &weights, &bias);
    let unseen = || Do::join([guess(&[3.0, 6.0, 9.0]).predict(), guess(&[42.0, 43.0, 44.0]).predict()]).wait();
    let learn = |questions: &[([f64; 3], f64)], sgd: &Sgd| -> dl::Result<()> {
        for _ in 0..rounds {
            for (question, expected) in questions {
                square_loss(&guess(question), *expected).train(sgd).wait()?;
            }
        }
        Ok(())
    };
    let report = |when: &str| -> dl::Result<[f64; 2]> {
        let answers = unseen()?;
        println!("{when}: 3, 6, 9, {:.2}   42, 43, 44, {:.2}", answers[0], answers[1]);
        Ok([answers[0], answers[1]])
    };

    report("before training                     ")?;
    learn(&[([3.0, 4.0, 5.0], 6.0), ([13.0, 19.0, 25.0], 31.0)], &Sgd::new(0.0005))?;
    report("after the two questions of the paper")?;
    let more = [([3.0, 4.0, 5.0], 6.0), ([1.0, 0.5, 0.0], -0.5), ([-1.0, -1.0, -1.0], -1.0), ([0.0, 3.0, 6.0], 9.0)];
    learn(&more, &Sgd::new(0.01))?;
    let [after_nine, after_forty_four] = report("after four other questions          ")?;
    assert!(
        (after_nine - 12.0).abs() < 0.05 && (after_forty_four - 45.0).abs() < 0.5,
        "the answers are too inaccurate"
    );
    Ok(())
}

/// The kinds of sequences.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Arithmetic,
    Geometric,
    Fibonacci,
}

const KINDS: [Kind; 3] = [Kind::Arithmetic, Kind::Geometric, Kind::Fibonacci];

/// The given numbers of a sequence, and the next one.
struct Question {
    shown: Vec<f64>,
    next: f64,
}

impl Question {
    /// Four numbers of a random sequence of this kind, and the next one.
    fn random(kind: Kind, rng: &mut impl Rng) -> Self {
        let mut numbers: Vec<f64> = match kind {
            Kind::Geometric => vec![rng.random_range(1..=9).into()],
            Kind::Arithmetic | Kind::Fibonacci => vec![rng.random_range(-9..=9).into(), rng.random_range(1..=9).into()],
        };
        let ratio = *[0.25, 0.5, 2.0, 3.0, 4.0].choose(rng).expect("there are ratios");
        while numbers.len() < 5 {
            numbers.push(match (kind, &numbers[..]) {
                (Kind::Arithmetic, [.., before, last]) => 2.0 * last - before,
                (Kind::Fibonacci, [.., before, last]) => before + last,
                (_, [.., last]) => ratio * last,
                (_, []) => unreachable!("a sequence has a first number"),
            });
        }
        let next = numbers.pop().expect("there are five");
        Question { shown: numbers, next }
    }
}

/// The numbers divided by the largest absolute value, and this value.
fn scaled(numbers: &[f64]) -> (Vec<f64>, f64) {
    let unit = numbers.iter().fold(0.0, |largest: f64, number| largest.max(number.abs()));
    (numbers.iter().map(|number| number / unit).collect(), unit)
}

/// Predicts the next number from the last ones.
#[derive(Clone, Module)]
struct Rule {
    /// Whether the rule is linear in the logarithms of the numbers.
    logarithms: bool,
    weights: Vec<Weight<f64>>,
    bias: Weight<f64>,
}

impl Rule {
    fn new(length: usize, logarithms: bool, rng: &mut impl Rng) -> Self {
        Rule { logarithms, weights: random_weights(length, rng), bias: Weight::new(0.0) }
    }

    /// The predicted next number.
    fn next(&self, shown: &[f64]) -> Layer<f64> {
        let last = &shown[shown.len() - self.weights.len()..];
        if self.logarithms {
            let logarithms: Vec<f64> = last.iter().map(|number| number.ln()).collect();
            guess_next_number(&logarithms, &self.weights, &self.bias).exp()
        } else {
            guess_next_number(last, &self.weights, &self.bias)
        }
    }

    /// The squared error of the rule on the given numbers; NaN if a logarithm is undefined.
    fn error(&self, shown: &[f64]) -> Layer<f64> {
        (self.weights.len()..shown.len()).map(|place| square_loss(&self.next(&shown[..place]), shown[place])).sum()
    }
}

/// A rule with a smaller error explains a sequence.
const TOLERANCE: f64 = 1e-4;

/// The index of the first rule that explains the given numbers; otherwise of the last one. Later
/// rules are not evaluated.
#[differentiable]
fn rule_for(shown: &[f64], rules: &[Rule]) -> Do<usize> {
    for (number, rule) in rules.iter().enumerate() {
        if !rule.error(shown) < TOLERANCE {
            return Do::now(number);
        }
    }
    Do::now(rules.len() - 1)
}

/// The next number, by the selected rule.
#[differentiable]
fn answer(shown: &[f64], rules: &[Rule]) -> Layer<f64> {
    let number = !rule_for(shown, rules);
    rules[number].next(shown)
}

/// Trains on `questions` questions of these kinds. The kind is not an input.
fn train(rules: &[Rule], kinds: &[Kind], questions: u64, rng: &mut impl Rng) -> dl::Result<()> {
    let adam = Adam::new(Cosine::new(0.1, questions)).refuse_non_finite();
    for _ in 0..questions {
        let kind = *kinds.choose(rng).expect("there are kinds");
        let question = Question::random(kind, rng);
        let (shown, unit) = scaled(&question.shown);
        square_loss(&answer(&shown, rules), question.next / unit).train(&adam).wait()?;
    }
    Ok(())
}

/// The fraction of these questions answered to within 1 %, or to within 0.01 if the answer is
/// small.
fn exam(rules: &[Rule], questions: &[Question]) -> dl::Result<f64> {
    let mut right = 0;
    for question in questions {
        let (shown, unit) = scaled(&question.shown);
        let said = unit * answer(&shown, rules).predict().wait()?;
        right += usize::from((said - question.next).abs() <= 0.01 * question.next.abs().max(1.0));
    }
    Ok(right as f64 / questions.len() as f64)
}

fn main() -> dl::Result<()> {
    let Args { seed, quick } = Args::parse();
    let rng = &mut init::rng(seed);
    let questions = if quick { 5000 } else { 10_000 };

    robot_of_the_paper(questions as usize, rng)?;

    // One new rule a lesson, with questions for all rules so far.
    let rules = [Rule::new(2, false, rng), Rule::new(2, true, rng), Rule::new(2, false, rng)];
    println!();
    for known in 1..=rules.len() {
        train(&rules[..known], &KINDS[..known], questions, rng)?;
        rules[known - 1].freeze(); // later lessons must not change it
        println!("lesson {known}: {:?} sequences", KINDS[known - 1]);
    }
    let single = [Rule::new(4, false, rng)];
    train(&single, &KINDS, 3 * questions, rng)?;

    println!();
    let questions: [&[f64]; 4] =
        [&[3.0, 6.0, 9.0], &[7.0, 3.0, -1.0, -5.0], &[81.0, 27.0, 9.0, 3.0], &[1.0, 1.0, 2.0, 3.0, 5.0, 8.0]];
    for question in questions {
        let (shown, unit) = scaled(question);
        let (rule, next) = rule_for(&shown, &rules).zip(answer(&shown, &rules).predict()).wait()?;
        println!("{question:?}: next {:.2}, by rule {}", unit * next, rule + 1);
    }
    let test: Vec<Question> = (0..600).map(|number| Question::random(KINDS[number % 3], rng)).collect();
    let (several, one) = (exam(&rules, &test)?, exam(&single, &test)?);
    println!("\nright_with_one_rule={one:.3}");
    println!("right_with_several_rules={several:.3}");
    assert!(several >= 0.99, "the robot answers only {several:.3} of the questions correctly");
    assert!(one < 0.6, "a single rule answers {one:.3} of the questions: they are too easy");
    Ok(())
}
