//! Random programs give the same value and gradient in three interpreters: an annotated one, one
//! written by hand with `flat_map` and `zip`, and an eager one without layers.
//!
//! A program is a list of statements over three variables, two of which are trained. Its branches
//! and loops depend on values.

use dl::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Some of the random programs as source code of annotated functions.
#[rustfmt::skip]
#[path = "generated/programs.rs"]
mod generated;

const VARIABLES: usize = 3;

#[derive(Clone, Debug)]
enum Term {
    Number(f64),
    Variable(usize),
    Add(Box<Term>, Box<Term>),
    Sub(Box<Term>, Box<Term>),
    Mul(Box<Term>, Box<Term>),
    Neg(Box<Term>),
    /// An extraction: the value without the gradient.
    Detached(Box<Term>),
    /// The difference of two extractions in one expression.
    Both(Box<Term>, Box<Term>),
}

#[derive(Clone, Debug)]
enum Statement {
    Assign(usize, Term),
    /// The first program runs if the first term is larger than the second, else the other.
    If(Term, Term, Program, Program),
    /// While a variable is larger than a limit: scales it by a factor and runs the body. The number
    /// of iterations is bounded.
    While(usize, f64, f64, usize, Program),
    For(usize, Program),
    /// Returns the term early if a variable is below a limit.
    ReturnIf(usize, f64, Term),
    /// Assigns to a variable, depending on the integral part of a term.
    Match(Term, usize),
}

type Program = Vec<Statement>;

fn term(rng: &mut ChaCha8Rng, depth: usize) -> Term {
    let inner = |rng: &mut ChaCha8Rng| Box::new(term(rng, depth - 1));
    match rng.random_range(0..if depth == 0 { 3 } else { 10 }) {
        0 => Term::Number(f64::from(rng.random_range(-8..=8)) / 4.0),
        1 | 2 => Term::Variable(rng.random_range(0..VARIABLES)),
        3 | 4 => Term::Add(inner(rng), inner(rng)),
        5 => Term::Sub(inner(rng), inner(rng)),
        6 => Term::Mul(inner(rng), inner(rng)),
        7 => Term::Neg(inner(rng)),
        8 => Term::Detached(inner(rng)),
        _ => Term::Both(inner(rng), inner(rng)),
    }
}

fn program(rng: &mut ChaCha8Rng, depth: usize) -> Program {
    (0..rng.random_range(1..4)).map(|_| statement(rng, depth)).collect()
}

fn statement(rng: &mut ChaCha8Rng, depth: usize) -> Statement {
    let variable = rng.random_range(0..VARIABLES);
    let limit = f64::from(rng.random_range(-4..=4)) / 2.0;
    match rng.random_range(0..if depth == 0 { 5 } else { 10 }) {
        0..=2 => Statement::Assign(variable, term(rng, 2)),
        3 => Statement::Match(term(rng, 1), variable),
        4 => Statement::ReturnIf(variable, limit - 3.0, term(rng, 1)),
        5..=7 => Statement::If(term(rng, 1), term(rng, 1), program(rng, depth - 1), program(rng, depth - 1)),
        8 => Statement::While(variable, limit, 0.5, rng.random_range(1..4), program(rng, depth - 1)),
        _ => Statement::For(rng.random_range(0..3), program(rng, depth - 1)),
    }
}

/// A value and its derivative with respect to the trained variables.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Dual(f64, [f64; 2]);

mod eager {
    use super::{Dual, Program, Statement, Term};

    pub(super) fn term(term: &Term, env: &[Dual; 3]) -> Dual {
        let each = |a: [f64; 2], b: [f64; 2], f: fn(f64, f64) -> f64| [f(a[0], b[0]), f(a[1], b[1])];
        match term {
            Term::Number(n) => Dual(*n, [0.0; 2]),
            Term::Variable(v) => env[*v],
            Term::Add(a, b) => {
                let (a, b) = (self::term(a, env), self::term(b, env));
                Dual(a.0 + b.0, each(a.1, b.1, |a, b| a + b))
            }
            Term::Sub(a, b) => {
                let (a, b) = (self::term(a, env), self::term(b, env));
                Dual(a.0 - b.0, each(a.1, b.1, |a, b| a - b))
            }
            Term::Mul(a, b) => {
                let (a, b) = (self::term(a, env), self::term(b, env));
                Dual(a.0 * b.0, each(a.1.map(|d| d * b.0), b.1.map(|d| d * a.0), |a, b| a + b))
            }
            Term::Neg(a) => {
                let a = self::term(a, env);
                Dual(-a.0, a.1.map(|d| -d))
            }
            Term::Detached(a) => Dual(self::term(a, env).0, [0.0; 2]),
            Term::Both(a, b) => Dual(self::term(a, env).0 - self::term(b, env).0, [0.0; 2]),
        }
    }

    /// `Err` is an early return.
    pub(super) fn run(program: &Program, env: &mut [Dual; 3]) -> Result<(), Dual> {
        for statement in program {
            match statement {
                Statement::Assign(v, e) => env[*v] = term(e, env),
                Statement::If(a, b, then, otherwise) => {
                    run(if term(a, env).0 > term(b, env).0 { then } else { otherwise }, env)?;
                }
                Statement::While(v, limit, share, times, body) => {
                    let mut left = *times;
                    while left > 0 && env[*v].0 > *limit {
                        env[*v] = Dual(env[*v].0 * share, env[*v].1.map(|d| d * share));
                        run(body, env)?;
                        left -= 1;
                    }
                }
                Statement::For(n, body) => {
                    for _ in 0..*n {
                        run(body, env)?;
                    }
                }
                Statement::ReturnIf(v, limit, e) => {
                    if env[*v].0 < *limit {
                        return Err(term(e, env));
                    }
                }
                Statement::Match(e, v) => match term(e, env).0.floor() as i64 {
                    0 => env[*v] = env[0],
                    1 | -1 => {
                        env[*v] = Dual(
                            env[1].0 * env[2].0,
                            std::array::from_fn(|i| env[1].1[i] * env[2].0 + env[2].1[i] * env[1].0),
                        )
                    }
                    n if n % 2 == 0 => env[*v] = Dual(env[*v].0 + 1.0, env[*v].1),
                    _ => {}
                },
            }
        }
        Ok(())
    }

    pub(super) fn whole(program: &Program, mut env: [Dual; 3]) -> Dual {
        match run(program, &mut env) {
            Ok(()) => Dual(
                env[0].0 + env[1].0 * 2.0 + env[2].0,
                std::array::from_fn(|i| env[0].1[i] + env[1].1[i] * 2.0 + env[2].1[i]),
            ),
            Err(value) => value,
        }
    }
}

type Env = [Layer<f64>; 3];
/// The three variables, or the result of an early return.
type Step = Do<Result<Env, Layer<f64>>>;

#[differentiable]
mod annotated {
    use super::{Env, Program, Statement, Step, Term};
    use dl::prelude::*;

    pub(super) fn term(term: &Term, env: &Env) -> Layer<f64> {
        match term {
            Term::Number(n) => Layer::constant(*n),
            Term::Variable(v) => env[*v].clone(),
            Term::Add(a, b) => self::term(a, env) + self::term(b, env),
            Term::Sub(a, b) => self::term(a, env) - self::term(b, env),
            Term::Mul(a, b) => {
                let (a, b) = (self::term(a, env), self::term(b, env));
                a * b
            }
            Term::Neg(a) => -self::term(a, env),
            Term::Detached(a) => {
                let value = !self::term(a, env);
                Layer::constant(value)
            }
            Term::Both(a, b) => Layer::constant(!self::term(a, env) - !self::term(b, env)),
        }
    }

    #[differentiable(lazy)]
    pub(super) fn run(program: &Program, env: &Env) -> Step {
        let mut env = env.clone();
        for statement in program {
            match statement {
                Statement::Assign(v, e) => env[*v] = term(e, &env),
                Statement::If(a, b, then, otherwise) => {
                    let chosen = if !term(a, &env) > !term(b, &env) { then } else { otherwise };
                    match !run(chosen, &env) {
                        Ok(after) => env = after,
                        Err(value) => return Do::now(Err(value)),
                    }
                }
                Statement::While(v, limit, share, times, body) => {
                    let mut left = *times;
                    while left > 0 && !env[*v] > *limit {
                        env[*v] = env[*v] * *share;
                        env = match !run(body, &env) {
                            Ok(after) => after,
                            early => return Do::now(early),
                        };
                        left -= 1;
                    }
                }
                Statement::For(n, body) => {
                    for _ in 0..*n {
                        let Ok(after) = !run(body, &env) else {
                            return run(body, &env);
                        };
                        env = after;
                    }
                }
                Statement::ReturnIf(v, limit, e) => {
                    if !env[*v] < *limit {
                        return Do::now(Err(term(e, &env)));
                    }
                }
                Statement::Match(e, v) => match (!term(e, &env)).floor() as i64 {
                    0 => env[*v] = env[0].clone(),
                    1 | -1 => env[*v] = env[1] * env[2],
                    n if n % 2 == 0 => env[*v] = env[*v] + 1.0,
                    _ => {}
                },
            }
        }
        Do::now(Ok(env))
    }

    pub(super) fn whole(program: &Program, env: &Env) -> Layer<f64> {
        match !run(program, env) {
            Ok([a, b, c]) => a + b * 2.0 + c,
            Err(value) => value,
        }
    }
}

mod by_hand {
    use super::{Arc, Env, Program, Statement, Step, Term};
    use dl::prelude::*;

    pub(super) fn term(term: &Term, env: &Env) -> Layer<f64> {
        match term {
            Term::Number(n) => Layer::constant(*n),
            Term::Variable(v) => env[*v].clone(),
            Term::Add(a, b) => self::term(a, env) + self::term(b, env),
            Term::Sub(a, b) => self::term(a, env) - self::term(b, env),
            Term::Mul(a, b) => self::term(a, env) * self::term(b, env),
            Term::Neg(a) => -self::term(a, env),
            Term::Detached(a) => {
                let tape = self::term(a, env).forward();
                Layer::from(tape.flat_map(|tape| Layer::constant(*tape.data()).forward()))
            }
            Term::Both(a, b) => {
                let tapes = self::term(a, env).forward().zip(self::term(b, env).forward());
                Layer::from(tapes.flat_map(|(a, b)| Layer::constant(a.data() - b.data()).forward()))
            }
        }
    }

    fn then(step: Step, next: impl Fn(Env) -> Step + Send + Sync + 'static) -> Step {
        step.flat_map(move |result| match result {
            Ok(env) => next(env),
            Err(value) => Do::now(Err(value)),
        })
    }

    fn repeat(statement: Statement, left: usize, env: Env) -> Step {
        match &statement {
            _ if left == 0 => Do::now(Ok(env)),
            Statement::While(v, limit, share, _, body) => {
                let (v, limit, share, body) = (*v, *limit, *share, body.clone());
                let statement = statement.clone();
                env[v].forward().flat_map(move |tape| {
                    if *tape.data() > limit {
                        let mut env = env.clone();
                        env[v] = &env[v] * share;
                        let statement = statement.clone();
                        then(run(&body, &env), move |env| repeat(statement.clone(), left - 1, env))
                    } else {
                        Do::now(Ok(env.clone()))
                    }
                })
            }
            Statement::For(_, body) => {
                let step = run(body, &env);
                then(step, move |env| repeat(statement.clone(), left - 1, env))
            }
            _ => unreachable!("no loop"),
        }
    }

    fn one(statement: &Statement, mut env: Env) -> Step {
        match statement.clone() {
            Statement::Assign(v, e) => {
                env[v] = term(&e, &env);
                Do::now(Ok(env))
            }
            Statement::If(a, b, yes, no) => {
                let tapes = term(&a, &env).forward().zip(term(&b, &env).forward());
                tapes.flat_map(move |(a, b)| run(if a.data() > b.data() { &yes } else { &no }, &env))
            }
            Statement::While(_, _, _, n, _) | Statement::For(n, _) => repeat(statement.clone(), n, env),
            Statement::ReturnIf(v, limit, e) => env[v].forward().flat_map(move |tape| {
                Do::now(if *tape.data() < limit { Err(term(&e, &env)) } else { Ok(env.clone()) })
            }),
            Statement::Match(e, v) => term(&e, &env).forward().flat_map(move |tape| {
                let mut env = env.clone();
                match tape.data().floor() as i64 {
                    0 => env[v] = env[0].clone(),
                    1 | -1 => env[v] = &env[1] * &env[2],
                    n if n % 2 == 0 => env[v] = &env[v] + 1.0,
                    _ => {}
                }
                Do::now(Ok(env))
            }),
        }
    }

    pub(super) fn run(program: &Program, env: &Env) -> Step {
        let program: Arc<[Statement]> = program.as_slice().into();
        fn from(program: Arc<[Statement]>, i: usize, env: Env) -> Step {
            match program.get(i) {
                None => Do::now(Ok(env)),
                Some(statement) => {
                    let step = one(statement, env);
                    then(step, move |env| from(program.clone(), i + 1, env))
                }
            }
        }
        from(program, 0, env.clone())
    }

    pub(super) fn whole(program: &Program, env: &Env) -> Layer<f64> {
        Layer::from(run(program, env).flat_map(|result| {
            match result {
                Ok([a, b, c]) => a + b * 2.0 + c,
                Err(value) => value,
            }
            .forward()
        }))
    }
}

/// The value of a layer, and its derivative with respect to two weights, measured by a training
/// step.
fn measured(whole: fn(&Program, &Env) -> Layer<f64>, program: &Program, start: [f64; 3]) -> Dual {
    let weights = [Weight::new(start[0]), Weight::new(start[1])];
    let layer = whole(program, &[weights[0].layer(), weights[1].layer(), Layer::constant(start[2])]);
    let value = layer.predict().wait().unwrap();
    layer.train(&Sgd::new(1.0)).wait().unwrap();
    Dual(value, [start[0] - weights[0].value(), start[1] - weights[1].value()])
}

fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}

fn agree(a: Dual, b: Dual) -> bool {
    close(a.0, b.0) && close(a.1[0], b.1[0]) && close(a.1[1], b.1[1])
}

#[test]
fn random_programs_agree_in_all_interpreters() {
    let mut rng = ChaCha8Rng::seed_from_u64(42);
    let (mut compared, mut moved) = (0, 0);
    while compared < 3000 {
        let program = program(&mut rng, 2);
        let start: [f64; 3] = std::array::from_fn(|_| f64::from(rng.random_range(-12..=12)) / 4.0);
        let expected =
            eager::whole(&program, [Dual(start[0], [1.0, 0.0]), Dual(start[1], [0.0, 1.0]), Dual(start[2], [0.0; 2])]);
        // With large values, the difference of two weights has too large an error as a derivative.
        if [expected.0, expected.1[0], expected.1[1]].iter().any(|x| x.is_nan() || x.abs() > 1e6) {
            continue;
        }
        compared += 1;
        moved += usize::from(expected.1 != [0.0; 2]);
        let annotated = measured(annotated::whole, &program, start);
        assert!(agree(annotated, expected), "annotated {annotated:?}, eager {expected:?}: {start:?} {program:#?}");
        let by_hand = measured(by_hand::whole, &program, start);
        assert!(agree(by_hand, expected), "by hand {by_hand:?}, eager {expected:?}: {start:?} {program:#?}");
    }
    assert!(moved > 1000, "{moved} programs have a gradient");
}

/// Prints a program as Rust source.
mod source {
    use super::{Program, Statement, Term};
    use std::fmt::Write;

    fn term(term: &Term) -> String {
        match term {
            Term::Number(n) => format!("Layer::constant({n:?}_f64)"),
            Term::Variable(v) => format!("x{v}"),
            Term::Add(a, b) => format!("({} + {})", self::term(a), self::term(b)),
            Term::Sub(a, b) => format!("({} - {})", self::term(a), self::term(b)),
            Term::Mul(a, b) => format!("({} * {})", self::term(a), self::term(b)),
            Term::Neg(a) => format!("(-{})", self::term(a)),
            Term::Detached(a) => format!("Layer::constant(!{})", self::term(a)),
            Term::Both(a, b) => format!("Layer::constant(!{} - !{})", self::term(a), self::term(b)),
        }
    }

    /// A term in a place where it is no operand of an operator: a variable must be cloned.
    fn whole_term(whole: &Term) -> String {
        match whole {
            Term::Variable(v) => format!("x{v}.clone()"),
            other => term(other),
        }
    }

    fn statements(program: &Program, out: &mut String, depth: usize) {
        for statement in program {
            match statement {
                Statement::Assign(v, e) => writeln!(out, "x{v} = {};", whole_term(e)),
                Statement::If(a, b, then, otherwise) => {
                    writeln!(out, "if !{} > !{} {{", term(a), term(b)).unwrap();
                    statements(then, out, depth + 1);
                    out.push_str("} else {\n");
                    statements(otherwise, out, depth + 1);
                    writeln!(out, "}}")
                }
                Statement::While(v, limit, share, times, body) => {
                    writeln!(out, "let mut left{depth} = {times};").unwrap();
                    writeln!(out, "while left{depth} > 0 && !x{v} > {limit:?} {{").unwrap();
                    writeln!(out, "x{v} = x{v} * {share:?};").unwrap();
                    statements(body, out, depth + 1);
                    writeln!(out, "left{depth} -= 1;\n}}")
                }
                Statement::For(n, body) => {
                    writeln!(out, "for _ in 0..{n} {{").unwrap();
                    statements(body, out, depth + 1);
                    writeln!(out, "}}")
                }
                Statement::ReturnIf(v, limit, e) => {
                    writeln!(out, "if !x{v} < {limit:?} {{\nreturn {};\n}}", whole_term(e))
                }
                Statement::Match(e, v) => writeln!(
                    out,
                    "match (!{}).floor() as i64 {{\n0 => x{v} = x0.clone(),\n1 | -1 => x{v} = x1 * x2,\n\
                     n if n % 2 == 0 => x{v} = x{v} + 1.0,\n_ => {{}}\n}}",
                    term(e)
                ),
            }
            .unwrap();
        }
    }

    pub(super) fn file(programs: &[Program]) -> String {
        let mut out = String::from(
            "//! Random programs, generated by `tests/macro_programs.rs`. `UPDATE_PROGRAMS=1` rewrites them.\n\n\
             #![allow(clippy::all, unused, reason = \"generated code\")]\n\n\
             use dl::prelude::*;\n\n\
             pub(super) const ALL: &[fn(Layer<f64>, Layer<f64>, Layer<f64>) -> Layer<f64>] = &[\n",
        );
        (0..programs.len()).for_each(|i| writeln!(out, "program_{i},").unwrap());
        out.push_str("];\n");
        for (i, program) in programs.iter().enumerate() {
            writeln!(
                out,
                "\n#[differentiable]\n\
                 fn program_{i}(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {{"
            )
            .unwrap();
            statements(program, &mut out, 0);
            out.push_str("x0 + x1 * 2.0 + x2\n}\n");
        }
        out
    }
}

/// Each random program is a function that the macro has expanded.
#[test]
fn expanded_random_programs_agree_with_interpreters() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let programs: Vec<Program> = (0..200).map(|_| program(&mut rng, 2)).collect();
    let (file, text) = (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/generated/programs.rs"), source::file(&programs));
    if std::env::var_os("UPDATE_PROGRAMS").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    assert!(text == include_str!("generated/programs.rs"), "the programs have changed: run with UPDATE_PROGRAMS=1");

    let mut compared = 0;
    for (program, expanded_program) in programs.iter().zip(generated::ALL) {
        for _ in 0..15 {
            let start: [f64; 3] = std::array::from_fn(|_| f64::from(rng.random_range(-12..=12)) / 4.0);
            let duals = [Dual(start[0], [1.0, 0.0]), Dual(start[1], [0.0, 1.0]), Dual(start[2], [0.0; 2])];
            let expected = eager::whole(program, duals);
            if [expected.0, expected.1[0], expected.1[1]].iter().any(|x| x.is_nan() || x.abs() > 1e6) {
                continue;
            }
            let weights = [Weight::new(start[0]), Weight::new(start[1])];
            let layer = expanded_program(weights[0].layer(), weights[1].layer(), Layer::constant(start[2]));
            let value = layer.predict().wait().unwrap();
            layer.train(&Sgd::new(1.0)).wait().unwrap();
            let expanded = Dual(value, [start[0] - weights[0].value(), start[1] - weights[1].value()]);
            assert!(agree(expanded, expected), "expanded {expanded:?}, eager {expected:?}: {start:?} {program:#?}");
            let by_hand = measured(by_hand::whole, program, start);
            assert!(agree(by_hand, expected), "by hand {by_hand:?}, eager {expected:?}: {start:?} {program:#?}");
            compared += 1;
        }
    }
    assert!(compared > 2000, "{compared} runs");
}
