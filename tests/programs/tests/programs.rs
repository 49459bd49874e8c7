//! Random programs have the same value and gradient in three interpreters: the annotated one, one
//! written with `flat_map` and `zip`, and an eager one without layers.
//!
//! A program is a list of statements over three variables, two of which are trained. Branches and
//! loops depend on values.

use dl::prelude::*;
use programs::{Program, Random, Statement, Term};
use std::sync::Arc;

/// Random programs as annotated functions (`build.rs`).
mod generated {
    #![allow(clippy::all, unused, reason = "the code is random")]

    use dl::prelude::*;

    include!(concat!(env!("OUT_DIR"), "/programs.rs"));
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
    let mut random = Random::new(42);
    let (mut compared, mut moved) = (0, 0);
    while compared < 3000 {
        let program = programs::program(&mut random, 2);
        let start: [f64; 3] = std::array::from_fn(|_| random.fraction(12, 4.0));
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

/// Tests random expansions: each program is a function that the macro has expanded.
#[test]
fn expanded_programs_agree_with_interpreters() {
    let programs = programs::programs(generated::SEED, generated::ALL.len());
    let mut random = Random::new(1);
    let mut compared = 0;
    for (program, expanded_program) in programs.iter().zip(generated::ALL) {
        for _ in 0..15 {
            let start: [f64; 3] = std::array::from_fn(|_| random.fraction(12, 4.0));
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
    assert!(compared > 10 * programs.len(), "{compared} runs of {} programs", programs.len());
}
