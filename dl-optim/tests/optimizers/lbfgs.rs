//! L-BFGS: comparison with PyTorch (`reference/lbfgs.py`), and its guarantees.

use super::numbers;
use dl_core::{Buffer, Differentiable, Error, Layer, Mode, Optimizer, Result, Seed, Weight};
use dl_optim::{Adam, Ending, Lbfgs, Minimum, Sgd};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn reference(case: &str) -> Value {
    let mut all: Value = serde_json::from_str(include_str!("../reference/lbfgs.json")).expect("JSON");
    all[case].take()
}

fn weights(start: &[f64]) -> Vec<Weight<f64>> {
    start.iter().copied().map(Weight::new).collect()
}

fn values(weights: &[Weight<f64>]) -> Vec<f64> {
    weights.iter().map(Weight::value).collect()
}

fn rosenbrock(w: &[Weight<f64>]) -> Layer<f64> {
    w.windows(2).map(|w| (1.0 - &w[0]).square() + 100.0 * (&w[1] - w[0].square()).square()).sum()
}

/// Logistic regression on forty samples, with a penalty.
macro_rules! logistic {
    ($A:ident, $w:expr) => {{
        let w: &[Weight<$A>] = $w;
        let loss = (0..40).map(|i| {
            let i = f64::from(i);
            let (x, y) = ((1.3 * i).sin(), (0.7 * i * i).cos());
            let sign = if x + 0.5 * y + 0.8 * (5.0 * i).sin() > 0.0 { -1.0 } else { 1.0 };
            (sign * (x as $A * &w[0] + y as $A * &w[1] + &w[2])).softplus()
        });
        let penalty: Layer<$A> = w.iter().map(|w| w.square()).sum();
        loss.sum::<Layer<$A>>() / 40.0 + 0.005 * penalty
    }};
}

/// Compares an end with PyTorch's: the weights to a tolerance, the counts nearly.
fn compare(case: &str, found: &Minimum, weights: &[f64], tolerance: f64) {
    let expected = reference(case);
    let count = |what: &str| expected[what].as_u64().expect("a count") as usize;
    println!("{case}: {found:?}, PyTorch {} and {}", count("iterations"), count("evaluations"));
    for (found, expected) in weights.iter().zip(numbers(&expected["weights"])) {
        assert!((found - expected).abs() <= tolerance, "{case}: {found}, PyTorch has {expected}");
    }
    assert!((found.loss - expected["loss"].as_f64().expect("a number")).abs() <= tolerance, "{case}");
    assert!(found.iterations.abs_diff(count("iterations")) <= 1, "{case}");
    assert!(found.evaluations.abs_diff(count("evaluations")) <= 1, "{case}");
}

fn start(case: &str) -> Vec<f64> {
    numbers(&reference(case)["start"])
}

#[test]
fn minima_of_rosenbrock_match_pytorch() -> Result<()> {
    for (case, lbfgs, tolerance) in [
        ("rosenbrock", Lbfgs::new(), 1e-6),
        ("rosenbrock-far", Lbfgs::new(), 1e-4),
        ("rosenbrock-long", Lbfgs::new().history(3).iterations(1000), 1e-6),
        ("rosenbrock-few", Lbfgs::new().iterations(7), 1e-9),
    ] {
        let w = weights(&start(case));
        compare(case, &lbfgs.minimize(&rosenbrock(&w)).wait()?, &values(&w), tolerance);
    }
    Ok(())
}

#[test]
fn minima_of_logistic_regression_match_pytorch() -> Result<()> {
    for (case, lbfgs) in [("logistic", Lbfgs::new()), ("logistic-tolerance", Lbfgs::new().tolerances(1e-3, 1e-6))] {
        let w = weights(&start(case));
        compare(case, &lbfgs.minimize(&logistic!(f64, &w)).wait()?, &values(&w), 1e-6);
    }
    let case = "logistic-f32";
    let w: Vec<Weight<f32>> = start(case).into_iter().map(|w| Weight::new(w as f32)).collect();
    let minimum = Lbfgs::new().tolerances(1e-4, 1e-7).minimize(&logistic!(f32, &w)).wait()?;
    compare(case, &minimum, &w.iter().map(|w| f64::from(w.value())).collect::<Vec<_>>(), 2e-3);
    Ok(())
}

/// With an exact line search, L-BFGS takes the steps of conjugate gradients.
#[test]
fn quadratic_with_exact_line_search_ends_within_n_plus_1_iterations() -> Result<()> {
    for n in [1, 2, 5, 8] {
        let w = weights(&vec![1.0; n]);
        let terms = w.iter().enumerate().map(|(i, w)| (i as f64 + 1.0) * (w - i as f64).square());
        let coupled = w.windows(2).map(|w| 0.5 * &w[0] * &w[1]);
        let quadratic: Layer<f64> = terms.chain(coupled).sum();
        let lbfgs = Lbfgs::new().wolfe(1e-10, 1e-9).tolerances(1e-6, 0.0);
        let minimum = lbfgs.minimize(&quadratic).wait()?;
        assert_eq!(minimum.ending, Ending::Gradient, "{n} weights: {minimum:?}");
        assert!(minimum.iterations <= n + 1, "{n} weights: {minimum:?}");
    }
    Ok(())
}

#[test]
fn history_of_zero_steps_is_steepest_descent() -> Result<()> {
    let w = weights(&[3.0, -2.0]);
    let minimum = Lbfgs::new().history(0).minimize(&(w[0].square() + 2.0 * w[1].square())).wait()?;
    assert!(minimum.loss < 1e-9 && minimum.iterations > 3, "{minimum:?}");
    Ok(())
}

/// Rosenbrock's function, with a body that runs before each evaluation.
fn watched(w: &[Weight<f64>], body: impl Fn(usize) -> Result<()> + Send + Sync + 'static) -> Layer<f64> {
    let (loss, body, count) = (rosenbrock(w), Arc::new(body), Arc::new(AtomicUsize::new(0)));
    Layer::dynamic(move || {
        let (loss, body, number) = (loss.clone(), body.clone(), count.fetch_add(1, Ordering::SeqCst));
        async move {
            body(number)?;
            Ok(loss)
        }
    })
}

/// The weights after each iteration.
fn path(start: &[f64], iterations: usize) -> Vec<Vec<f64>> {
    let all = (0..=iterations).map(|most| {
        let w = weights(start);
        Lbfgs::new().iterations(most).minimize(&rosenbrock(&w)).wait().expect("a minimum");
        values(&w)
    });
    all.collect()
}

#[test]
fn failed_evaluation_leaves_weights_of_last_iteration() {
    let path = path(&[-1.2, 1.0], 12);
    for fails in 0..12 {
        for panics in [false, true] {
            let w = weights(&[-1.2, 1.0]);
            let loss = watched(&w, move |number| match (number == fails, panics) {
                (true, true) => panic!("no"),
                (true, false) => Err(Error::invalid("no")),
                _ => Ok(()),
            });
            let error = Lbfgs::new().minimize(&loss).wait().expect_err("a failure");
            assert_eq!(error.is_panic(), panics, "{error}");
            assert!(path.contains(&values(&w)), "evaluation {fails}: {:?} is no end of an iteration", values(&w));
            assert!(fails > 1 || values(&w) == [-1.2, 1.0]);
        }
    }
}

#[test]
fn trial_points_are_not_seen_outside_of_evaluation() -> Result<()> {
    let (w, path) = (weights(&[-1.2, 1.0]), path(&[-1.2, 1.0], 20));
    let (seen, watch) = (Arc::new(Mutex::new(Vec::new())), w.clone());
    let to = seen.clone();
    let loss = watched(&w, move |_| {
        to.lock().unwrap().push(values(&watch));
        Ok(())
    });
    let minimum = Lbfgs::new().iterations(20).minimize(&loss).wait()?;
    let mut seen = Arc::into_inner(Arc::clone(&seen))
        .map_or_else(|| seen.lock().unwrap().clone(), |seen| seen.into_inner().unwrap());
    assert_eq!(seen.len(), minimum.evaluations);
    assert!(minimum.evaluations > 22, "some line searches take several evaluations: {minimum:?}");
    seen.dedup();
    assert!(seen.iter().all(|point| path.contains(point)), "{seen:?}");
    Ok(())
}

#[test]
fn buffers_are_those_of_accepted_evaluations() -> Result<()> {
    let (w, evaluated, iterations) = (weights(&[-1.2, 1.0]), Arc::new(AtomicUsize::new(0)), Buffer::new(0.0_f64));
    let (loss, count, buffer) = (rosenbrock(&w), evaluated.clone(), iterations.clone());
    let loss = Layer::dynamic(move || {
        let loss = loss.updating(&buffer, buffer.layer() + 1.0);
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            assert_eq!(Mode::current(), Some(Mode::Train));
            Ok(loss)
        }
    });
    let minimum = Lbfgs::new().minimize(&loss).wait()?;
    assert_eq!(iterations.value(), minimum.iterations as f64);
    assert_eq!(evaluated.load(Ordering::SeqCst), minimum.evaluations);
    Ok(())
}

#[test]
fn frozen_weight_is_not_moved() -> Result<()> {
    let w = weights(&[-1.2, 1.0]);
    w[0].freeze();
    let minimum = Lbfgs::new().minimize(&rosenbrock(&w)).wait()?;
    assert_eq!((w[0].value(), minimum.ending), (-1.2, Ending::Gradient));
    assert!((w[1].value() - 1.44).abs() < 1e-8);
    w[1].freeze();
    assert_eq!(Lbfgs::new().minimize(&rosenbrock(&w)).wait()?.evaluations, 1);
    Ok(())
}

#[test]
fn step_of_others_during_iteration_is_an_error() {
    let w = weights(&[-1.2, 1.0]);
    let other = w[1].clone();
    let loss = watched(&w, move |number| {
        if number == 1 {
            other.set(2.0);
        }
        Ok(())
    });
    let error = Lbfgs::new().minimize(&loss).wait().expect_err("a failure");
    assert!(error.is_invalid() && error.to_string().contains("another step has changed the weights"), "{error}");
    assert_eq!(values(&w), [-1.2, 2.0]);

    // an evaluation with fewer weights
    let w = weights(&[-1.2, 1.0]);
    let (loss, part, count) = (rosenbrock(&w), w[0].square(), AtomicUsize::new(0));
    let fewer = Layer::dynamic(move || {
        let loss = if count.fetch_add(1, Ordering::SeqCst) == 0 { loss.clone() } else { part.clone() };
        async move { Ok(loss) }
    });
    let error = Lbfgs::new().minimize(&fewer).wait().expect_err("a failure").to_string();
    assert!(error.contains("a gradient of the same elements in each evaluation: of 2 before, of 1 now"), "{error}");
    assert_eq!(values(&w), [-1.2, 1.0]);
}

#[test]
fn invalid_settings_and_starts_are_errors() {
    let w = weights(&[-1.2, 1.0]);
    for (lbfgs, message) in [
        (Lbfgs::new().wolfe(0.5, 0.1), "the decrease of the Wolfe conditions, 0.5, is above the curvature, 0.1"),
        (Lbfgs::new().wolfe(-0.5, 0.1), "the decrease of the Wolfe conditions of the optimizer is -0.5"),
        (Lbfgs::new().wolfe(0.0, 1.0), "the curvature of the Wolfe conditions of the optimizer is 1"),
        (Lbfgs::new().tolerances(f64::NAN, 0.0), "the gradient tolerance of the optimizer is NaN"),
        (Lbfgs::new().tolerances(0.0, -1.0), "the change tolerance of the optimizer is -1"),
        (Lbfgs::new().evaluations(0), "a line search of L-BFGS needs at least one evaluation"),
    ] {
        let error = lbfgs.minimize(&rosenbrock(&w)).wait().expect_err("a failure");
        assert!(error.is_invalid() && error.to_string().contains(message), "{error}");
    }
    for (loss, message) in [
        (w[0].ln() + &w[1], "the loss is NaN"),
        ((&w[1] - 1.0).sqrt() + &w[0], "the loss is -1.2, and 1 of 2 elements of its gradient are not finite"),
    ] {
        let error = Lbfgs::new().minimize(&loss).wait().expect_err("a failure");
        assert!(error.is_not_finite() && error.to_string().contains(message), "{error}");
    }
    assert_eq!(values(&w), [-1.2, 1.0]);
}

/// The first step of this loss leads to where it is NaN.
#[test]
fn line_search_steps_back_from_values_that_are_not_finite() -> Result<()> {
    let w = weights(&[1e-3]);
    let minimum = Lbfgs::new().minimize(&(50.0 * &w[0] - w[0].ln())).wait()?;
    assert!((w[0].value() - 0.02).abs() < 1e-6, "{minimum:?}");
    Ok(())
}

#[test]
fn evaluations_with_seed_draw_same_numbers() -> Result<()> {
    let (w, seeds) = (weights(&[-1.2, 1.0]), Arc::new(Mutex::new(Vec::new())));
    let (loss, to, seed) = (rosenbrock(&w), seeds.clone(), Seed::draw());
    let loss = Layer::dynamic(move || {
        let (loss, to, seed) = (loss.clone(), to.clone(), seed.clone());
        async move {
            let seed = seed.extract().await?;
            to.lock().unwrap().push(seed);
            Ok(loss)
        }
    });
    Lbfgs::new().iterations(3).seed(7).minimize(&loss).wait()?;
    let mut seeds = seeds.lock().unwrap().clone();
    assert!(seeds.len() > 3);
    seeds.dedup();
    assert_eq!(seeds.len(), 1);
    let error = Lbfgs::new().minimize(&loss).wait().expect_err("no seed").to_string();
    assert!(error.contains(".seed("), "{error}");
    Ok(())
}

#[test]
fn preview_shows_step_and_changes_nothing() -> Result<()> {
    fn check(optimizer: &(impl Optimizer + Clone + 'static)) -> Result<()> {
        let (w, calls) = (weights(&[-1.2, 1.0]), Buffer::new(0.0_f64));
        let loss = rosenbrock(&w).updating(&calls, calls.layer() + 1.0);
        for step in 1..4 {
            let effects = loss.backward().wait()?;
            let (before, preview) = (values(&w), effects.preview(optimizer).wait()?);
            let again = effects.preview(optimizer).wait()?;
            assert_eq!((values(&w), calls.value()), (before, f64::from(step - 1)));
            effects.step(optimizer).wait()?;
            for w in &w {
                assert_eq!(w.predict().on(&preview).wait()?, w.value());
                assert_eq!(w.predict().on(&again).wait()?, w.value());
            }
            assert_eq!(calls.value(), f64::from(step));
        }
        Ok(())
    }
    check(&Adam::new(0.1))?;
    check(&Sgd::new(0.1))
}
