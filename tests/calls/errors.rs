//! Call chains in error messages.

use super::support::{broken, chain, functions};
use dl::prelude::*;
use dl::{At, Deltas, Primitive};

#[differentiable]
fn score(x: &Layer<f64>) -> Layer<f64> {
    gate(x) * 2.0 // line 9
}

#[differentiable]
fn gate(x: &Layer<f64>) -> Layer<f64> {
    broken(x) // line 14
}

#[test]
fn error_displays_calls_only_in_alternate_format() {
    assert_eq!(line!(), 19);
    let file = file!();
    let error = score(&Layer::constant(1.0)).predict().wait().unwrap_err(); // line 21
    let message = format!("broken: [2, 3] and [4, 5] do not fit (at {file}:14:5)");
    let chain = format!("  in `gate`, called at {file}:9:5\n  in `score`, called at {file}:21:17");
    assert_eq!(error.to_string(), message);
    assert_eq!(format!("{error:#}"), format!("{message}\n{chain}"));
    assert_eq!(format!("{error:?}"), format!("{message}\n{chain}"));
    let within = error.context("batch 3");
    assert_eq!(format!("{within:#}"), format!("batch 3: {message}\n{chain}"));
}

#[test]
fn parallel_failures_display_calls_of_each_error() {
    let x = Layer::constant(1.0);
    let error = (score(&x) + gate(&x)).predict().wait().unwrap_err();
    let text = format!("{error:?}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert!(lines[1].starts_with("  in `gate`") && lines[2].starts_with("  in `score`"), "{text}");
    assert_eq!(lines[3], "and in parallel:");
    assert!(lines[4].starts_with("  broken: ") && lines[5].starts_with("    in `gate`"), "{text}");
    assert!(error.to_string().ends_with("; and 1 more failed in parallel"));
}

#[differentiable]
fn panics(x: &Layer<f64>) -> Layer<f64> {
    if !x > 0.0 { panic!("on purpose") } else { x.clone() }
}

#[test]
fn panic_in_body_has_calls() {
    let error = panics(&Layer::constant(1.0)).predict().wait().unwrap_err();
    assert!(error.is_panic());
    assert_eq!(functions(error.calls()), ["panics"]);
    // the panic leaves the function before it returns a layer
    #[differentiable]
    fn at_once(x: &Layer<f64>) -> Layer<f64> {
        assert!(x.predict().wait().is_err(), "on purpose");
        x.clone()
    }
    let built = std::panic::catch_unwind(|| at_once(&Layer::constant(1.0)));
    assert!(built.is_err());
    assert!(dl::Calls::here().is_empty());
}

/// An operation with an incorrect pullback rule.
struct Wrong(fn(&Layer<f64>) -> Layer<f64>);

impl Primitive for Wrong {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "wrong"
    }

    fn value(&self, (x,): (&f64,)) -> dl::Result<f64> {
        Ok(*x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(self.0(at.delta)),)
    }
}

#[differentiable]
fn wrong(x: &Layer<f64>, rule: fn(&Layer<f64>) -> Layer<f64>) -> Layer<f64> {
    Layer::apply(Wrong(rule), (x.clone(),))
}

#[test]
fn error_in_backward_has_calls_of_operation() {
    let w = Weight::new(1.0);
    let line = line!();
    // a failing delta: the error has the line of the rule and the calls of the operation
    let loss = wrong(&w.layer(), |delta| broken(delta)) * 3.0;
    let error = loss.train(&Sgd::new(0.1)).wait().unwrap_err();
    assert_eq!((error.op(), error.place().map(|place| place.line())), (Some("broken"), Some(line + 2)));
    assert_eq!(chain(error.calls()), [("wrong", line + 2)]);
    // the rule panics
    let loss = wrong(&w.layer(), |_| panic!("on purpose"));
    let error = loss.train(&Sgd::new(0.1)).wait().unwrap_err();
    assert_eq!((error.op(), functions(error.calls())), (Some("wrong"), vec!["wrong"]));
    assert_eq!(w.value(), 1.0);
}

#[differentiable]
fn root(x: &Layer<f64>) -> Layer<f64> {
    x.sqrt()
}

#[test]
fn non_finite_value_and_derivative_have_calls() {
    let w = Weight::new(-1.0);
    let line = line!();
    let loss = root(&w.layer()) + 1.0;
    let error = loss.first_non_finite().wait().unwrap().expect("the root of a negative number");
    assert_eq!((error.op(), chain(error.calls())), (Some("sqrt"), vec![("root", line + 1)]));
    w.set(0.0);
    let error = loss.first_non_finite().wait().unwrap().expect("an infinite slope");
    assert!(error.to_string().contains("its derivative has inf in it"), "{error}");
    assert_eq!(chain(error.calls()), [("root", line + 1)]);
    assert!(
        format!("{error:#}").ends_with(&format!("\n  in `root`, called at {}:{}:16", file!(), line + 1)),
        "{error:#}"
    );
}

#[cfg(feature = "train")]
#[test]
fn step_refused_by_guard_has_calls() {
    let (w, sgd) = (Weight::new(-1.0), Sgd::new(0.1));
    let trainer = dl::train::Trainer::new(&sgd, 1).refuse_non_finite();
    let error = trainer.run(|_| Ok([1.0, 2.0].map(Ok)), |scale: f64| root(&(&w * scale))).unwrap_err();
    assert!(error.to_string().contains("the step was refused"), "{error}");
    assert_eq!((error.op(), functions(error.calls())), (Some("sqrt"), vec!["root"]));
    assert!(format!("{error:?}").contains("\n  in `root`, called at "), "{error:?}");
}
