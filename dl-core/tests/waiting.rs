//! Fusion of a value with its gradients: in a pass that only predicts, an operation with `CAN_DEFER_VALUE`
//! defers its value and computes it once, together with the derivatives.

use dl_core::{At, BuiltIn, Data, Delta, Deltas, Differentiable, Do, Error, Layer, Others, Primitive, Result, Weight};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A pair of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair(f64, f64);

impl Data for Pair {
    type Delta = Pair;
    fn one(&self) -> Pair {
        Pair(1.0, 1.0)
    }
}

impl Delta for Pair {
    fn sum(mut terms: Vec<Layer<Pair>>) -> Layer<Pair> {
        terms.pop().expect("nothing is added here")
    }
    fn scale(layer: &Layer<Pair>, factor: f64) -> Layer<Pair> {
        Layer::apply(Times(factor), (layer.clone(),))
    }
    fn squared_norm(&self) -> f64 {
        self.0 * self.0 + self.1 * self.1
    }
}

struct Times(f64);

impl Primitive for Times {
    type Operands = (Layer<Pair>,);
    type Output = Pair;
    fn name(&self) -> &'static str {
        "times"
    }
    fn value(&self, (x,): (&Pair,)) -> Result<Pair> {
        Ok(Pair(self.0 * x.0, self.0 * x.1))
    }
    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(Layer::apply(Times(self.0), (at.delta.clone(),))),)
    }
}

/// Counts of calls, without and with the derivatives.
#[derive(Default)]
struct Calls {
    alone: AtomicUsize,
    beside: AtomicUsize,
}

/// The sum of both numbers. Its value can be deferred.
#[derive(Clone)]
struct Total {
    calls: Arc<Calls>,
    fails: bool,
}

impl Primitive for Total {
    type Operands = (Layer<Pair>,);
    type Output = f64;
    fn name(&self) -> &'static str {
        "total"
    }
    fn value(&self, (x,): (&Pair,)) -> Result<f64> {
        self.calls.alone.fetch_add(1, Ordering::Relaxed);
        Ok(x.0 + x.1)
    }
    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let delta = at.delta.clone();
        (Some(Layer::apply(Twice, (delta,))),)
    }
}

impl BuiltIn for Total {
    const CAN_DEFER_VALUE: bool = true;

    fn unit_cotangents(&self, _: (&Pair,)) -> Option<Deltas<Self>> {
        Some((Some(Layer::constant(Pair(1.0, 1.0))),))
    }

    fn value_fused_with(&self, (x,): (&Pair,), others: Others<'_>) -> Result<f64> {
        self.calls.beside.fetch_add(1, Ordering::Relaxed);
        assert_eq!(others.of::<Pair>().collect::<Vec<_>>(), [&Pair(3.0, 3.0)], "the derivatives computed with it");
        if self.fails { Err(Error::invalid("no total today")) } else { Ok(x.0 + x.1) }
    }
}

/// A pair of twice the same number.
struct Twice;

impl Primitive for Twice {
    type Operands = (Layer<f64>,);
    type Output = Pair;
    fn name(&self) -> &'static str {
        "twice"
    }
    fn value(&self, (x,): (&f64,)) -> Result<Pair> {
        Ok(Pair(*x, *x))
    }
    fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
        (None,)
    }
}

fn total(fails: bool) -> (Layer<Pair>, Layer<f64>, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    let x = Layer::constant(Pair(1.0, 2.0));
    let tripled = Layer::apply(Times(3.0), (x.clone(),));
    let total = Layer::apply_built_in(Total { calls: calls.clone(), fails }, (tripled,));
    (x, total, calls)
}

fn counts(calls: &Calls) -> (usize, usize) {
    (calls.alone.load(Ordering::Relaxed), calls.beside.load(Ordering::Relaxed))
}

#[test]
fn deferred_value_in_prediction_is_computed_once_with_derivatives() -> Result<()> {
    let (x, total, calls) = total(false);
    let both = total.value_and_gradient(&x);
    assert_eq!(Do::predict(both).wait()?, (9.0, Pair(3.0, 3.0)));
    assert_eq!(counts(&calls), (0, 1));
    assert_eq!(total.predict().wait()?, 9.0);
    assert_eq!(counts(&calls), (1, 1));
    Ok(())
}

#[test]
fn value_in_training_pass_is_not_deferred() -> Result<()> {
    let (x, total, calls) = total(false);
    let (value, slope) = total.value_and_gradient(&x);
    let kept = Do::from_fn(move || {
        let (value, slope) = (value.clone(), slope.clone());
        async move { Ok((value.extract().await?, slope.extract().await?)) }
    });
    let w = Weight::new(1.0);
    let trained = Layer::from(kept.map(|(value, slope)| value + slope.0)) * &w;
    assert_eq!(trained.train(&dl_optim::Sgd::new(0.0)).wait()?, 12.0);
    assert_eq!(counts(&calls), (1, 0));
    Ok(())
}

#[test]
fn deferred_value_with_derivative_in_itself_is_computed_alone() -> Result<()> {
    let (x, total, calls) = total(false);
    let derivatives = total.gradients(&(&total, &x));
    assert_eq!(Do::predict(derivatives).wait()?, (1.0, Pair(3.0, 3.0)));
    assert_eq!(counts(&calls), (1, 0));
    Ok(())
}

#[test]
fn deferred_value_with_dependent_variable_is_computed_once() -> Result<()> {
    let (x, total, calls) = total(false);
    let twice = &total * 2.0;
    let (value, (by_twice, by_x)) = Do::predict(total.value_and_gradients(&(&twice, &x))).wait()?;
    assert_eq!((value, by_twice, by_x), (9.0, 0.0, Pair(3.0, 3.0)));
    assert_eq!(counts(&calls), (1, 0));
    Ok(())
}

#[test]
fn error_in_deferred_value_names_operation_and_place() {
    let (x, total, _) = total(true);
    let error = Do::predict(total.value_and_gradient(&x)).wait().unwrap_err().to_string();
    assert!(error.starts_with("total: no total today") && error.contains("waiting.rs"), "{error}");
}
