//! Random programs over three variables, as syntax trees and as Rust in bang notation.

use std::fmt::Write;

/// The number of variables of a program.
pub const VARIABLES: usize = 3;

/// A scalar expression.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are those of the operations")]
pub enum Term {
    Number(f64),
    Variable(usize),
    Add(Box<Term>, Box<Term>),
    Sub(Box<Term>, Box<Term>),
    Mul(Box<Term>, Box<Term>),
    Neg(Box<Term>),
    /// A bang: the value, without its gradient.
    Detached(Box<Term>),
    /// The difference of two bangs in one expression.
    Both(Box<Term>, Box<Term>),
}

/// A statement of a program.
#[derive(Clone, Debug)]
pub enum Statement {
    /// Assigns to a variable.
    Assign(usize, Term),
    /// Runs the first program if the first term is greater than the second, or else the other.
    If(Term, Term, Program, Program),
    /// While a variable is greater than a limit: scales the variable by a factor and runs the body.
    /// The integer is the maximal number of iterations.
    While(usize, f64, f64, usize, Program),
    /// Runs the body this number of times.
    For(usize, Program),
    /// Returns the term if a variable is less than a limit.
    ReturnIf(usize, f64, Term),
    /// Assigns to a variable. The integral part of the term selects the arm.
    Match(Term, usize),
}

/// A list of statements. Its result is `x0 + 2 · x1 + x2`, or that of an early return.
pub type Program = Vec<Statement>;

/// A generator of pseudo-random numbers (SplitMix64): a dependency would be built for the build
/// script and once more for the tests.
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// A number from 0 to `end - 1`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        ((u128::from(bits) * end as u128) >> 64) as usize
    }

    /// An integer from `-bound` to `bound`, divided by `divisor`.
    pub fn fraction(&mut self, bound: usize, divisor: f64) -> f64 {
        (self.below(2 * bound + 1) as f64 - bound as f64) / divisor
    }
}

fn term(random: &mut Random, depth: usize) -> Term {
    let inner = |random: &mut Random| Box::new(term(random, depth - 1));
    match random.below(if depth == 0 { 3 } else { 10 }) {
        0 => Term::Number(random.fraction(8, 4.0)),
        1 | 2 => Term::Variable(random.below(VARIABLES)),
        3 | 4 => Term::Add(inner(random), inner(random)),
        5 => Term::Sub(inner(random), inner(random)),
        6 => Term::Mul(inner(random), inner(random)),
        7 => Term::Neg(inner(random)),
        8 => Term::Detached(inner(random)),
        _ => Term::Both(inner(random), inner(random)),
    }
}

/// A random program with statements nested to at most this depth.
pub fn program(random: &mut Random, depth: usize) -> Program {
    (0..1 + random.below(3)).map(|_| statement(random, depth)).collect()
}

fn statement(random: &mut Random, depth: usize) -> Statement {
    let variable = random.below(VARIABLES);
    let limit = random.fraction(4, 2.0);
    match random.below(if depth == 0 { 5 } else { 10 }) {
        0..=2 => Statement::Assign(variable, term(random, 2)),
        3 => Statement::Match(term(random, 1), variable),
        4 => Statement::ReturnIf(variable, limit - 3.0, term(random, 1)),
        5..=7 => {
            Statement::If(term(random, 1), term(random, 1), program(random, depth - 1), program(random, depth - 1))
        }
        8 => Statement::While(variable, limit, 0.5, 1 + random.below(3), program(random, depth - 1)),
        _ => Statement::For(random.below(3), program(random, depth - 1)),
    }
}

/// The programs of a seed.
pub fn programs(seed: u64, count: usize) -> Vec<Program> {
    let mut random = Random::new(seed);
    (0..count).map(|_| program(&mut random, 2)).collect()
}

/// The same programs as annotated functions, in an array `ALL`, with `SEED` beside it.
pub fn source(seed: u64, count: usize) -> String {
    let mut out = format!(
        "pub(super) const SEED: u64 = {seed};\n\
         pub(super) const ALL: &[fn(Layer<f64>, Layer<f64>, Layer<f64>) -> Layer<f64>] = &[\n"
    );
    (0..count).for_each(|i| writeln!(out, "program_{i},").unwrap());
    out.push_str("];\n");
    for (i, program) in programs(seed, count).iter().enumerate() {
        writeln!(
            out,
            "\n#[differentiable]\n\
             fn program_{i}(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {{"
        )
        .unwrap();
        write_statements(program, &mut out, 0);
        out.push_str("x0 + x1 * 2.0 + x2\n}\n");
    }
    out
}

fn expression(term: &Term) -> String {
    match term {
        Term::Number(n) => format!("Layer::constant({n:?}_f64)"),
        Term::Variable(v) => format!("x{v}"),
        Term::Add(a, b) => format!("({} + {})", expression(a), expression(b)),
        Term::Sub(a, b) => format!("({} - {})", expression(a), expression(b)),
        Term::Mul(a, b) => format!("({} * {})", expression(a), expression(b)),
        Term::Neg(a) => format!("(-{})", expression(a)),
        Term::Detached(a) => format!("Layer::constant(!{})", expression(a)),
        Term::Both(a, b) => format!("Layer::constant(!{} - !{})", expression(a), expression(b)),
    }
}

/// A term as an expression. A term that is only a variable would be moved, so it is cloned.
fn whole_expression(term: &Term) -> String {
    match term {
        Term::Variable(v) => format!("x{v}.clone()"),
        other => expression(other),
    }
}

fn write_statements(program: &Program, out: &mut String, depth: usize) {
    for statement in program {
        match statement {
            Statement::Assign(v, e) => writeln!(out, "x{v} = {};", whole_expression(e)),
            Statement::If(a, b, then, otherwise) => {
                writeln!(out, "if !{} > !{} {{", expression(a), expression(b)).unwrap();
                write_statements(then, out, depth + 1);
                out.push_str("} else {\n");
                write_statements(otherwise, out, depth + 1);
                writeln!(out, "}}")
            }
            Statement::While(v, limit, share, times, body) => {
                writeln!(out, "let mut left{depth} = {times};").unwrap();
                writeln!(out, "while left{depth} > 0 && !x{v} > {limit:?} {{").unwrap();
                writeln!(out, "x{v} = x{v} * {share:?};").unwrap();
                write_statements(body, out, depth + 1);
                writeln!(out, "left{depth} -= 1;\n}}")
            }
            Statement::For(n, body) => {
                writeln!(out, "for _ in 0..{n} {{").unwrap();
                write_statements(body, out, depth + 1);
                writeln!(out, "}}")
            }
            Statement::ReturnIf(v, limit, e) => {
                writeln!(out, "if !x{v} < {limit:?} {{\nreturn {};\n}}", whole_expression(e))
            }
            Statement::Match(e, v) => writeln!(
                out,
                "match (!{}).floor() as i64 {{\n0 => x{v} = x0.clone(),\n1 | -1 => x{v} = x1 * x2,\n\
                 n if n % 2 == 0 => x{v} = x{v} + 1.0,\n_ => {{}}\n}}",
                expression(e)
            ),
        }
        .unwrap();
    }
}
