//! Compares gradients, directional derivatives and second derivatives with central differences, at
//! random points of random shapes and strides.

use crate::case::Numbers;
use crate::draw::{Draw, Sample};
use crate::registry::{self, Op, Scalar};
use dl_core::{Differentiable, Layer, Result, Weight};
use dl_nd::Nd;
use ndarray::IxDyn;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

const STEP: f64 = 1e-5;
const TOLERANCE: f64 = 1e-6;

/// Shapes of up to four axes and about a dozen elements.
fn shapes() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![4 => Just(1_usize), 5 => Just(2), 5 => Just(3), 1 => Just(0)];
    prop::collection::vec(length, 0..=4).prop_map(|mut shape| {
        let mut elements = 1;
        for length in &mut shape {
            *length = if elements * *length > 12 { 1 } else { *length };
            elements *= *length;
        }
        shape
    })
}

/// The operands of an operation, as weights that can be moved along directions.
struct Point<'a> {
    inputs: &'a [Numbers],
    weights: Vec<Weight<Nd<f64, IxDyn>>>,
}

impl<'a> Point<'a> {
    fn new(inputs: &'a [Numbers]) -> Self {
        Point { inputs, weights: inputs.iter().map(|input| Weight::new(input.tensor())).collect() }
    }

    /// Sets the weights to the original point plus `steps` steps along `directions`.
    fn move_to(&self, steps: f64, directions: &[Vec<f64>]) {
        for ((input, weight), direction) in self.inputs.iter().zip(&self.weights).zip(directions) {
            let data = input.data.iter().zip(direction).map(|(x, v)| x + steps * STEP * v).collect();
            weight.set(Numbers { data, ..input.clone() }.tensor());
        }
    }

    /// The difference quotient of `f` as the inputs move along `directions`.
    fn quotient(&self, directions: &[Vec<f64>], f: impl Fn() -> Result<Vec<f64>>) -> Result<Vec<f64>> {
        self.move_to(1.0, directions);
        let above = f()?;
        self.move_to(-1.0, directions);
        let below = f()?;
        self.move_to(0.0, directions);
        Ok(above.iter().zip(below).map(|(above, below)| (above - below) / (2.0 * STEP)).collect())
    }

    /// The gradients of a loss by all inputs, concatenated.
    fn gradient(&self, loss: &Layer<f64>) -> Result<Vec<f64>> {
        let mut all = Vec::new();
        for weight in &self.weights {
            all.extend(loss.gradient(weight).predict().wait()?.view().iter());
        }
        Ok(all)
    }
}

/// Weights that differ between elements, so that errors do not cancel.
fn mixture(shape: &[usize], start: f64) -> Numbers {
    let mut next = start;
    let data = (0..shape.iter().product()).map(|_| {
        next = (next * 1.7 + 0.1) % 1.0 + 0.2;
        next
    });
    Numbers { shape: shape.to_vec(), data: data.collect(), layout: (Vec::new(), Vec::new()) }
}

fn agree(what: &str, analytic: &[f64], numeric: &[f64]) -> std::result::Result<(), TestCaseError> {
    prop_assert_eq!(analytic.len(), numeric.len());
    let largest = analytic.iter().fold(1.0, |largest: f64, x| largest.max(x.abs()));
    for (i, (analytic, numeric)) in analytic.iter().zip(numeric).enumerate() {
        let error = (analytic - numeric).abs();
        prop_assert!(error < TOLERANCE * largest, "{what} {i} is {analytic}, the difference quotient {numeric}");
    }
    Ok(())
}

fn check(op: &Op, Sample { args, inputs }: &Sample) -> std::result::Result<(), TestCaseError> {
    let failed = |error: dl_core::Error| TestCaseError::fail(error.to_string());
    let point = Point::new(inputs);
    let operands: Vec<_> = point.weights.iter().map(Differentiable::layer).collect();
    let output = f64::apply(op, args, &operands);
    let shape = output.predict().wait().map_err(failed)?.shape().to_vec();
    // the square gives linear operations second derivatives, too
    let loss = f64::dot(&(&output + output.square()), &mixture(&shape, 0.3).tensor());
    let gradient = point.gradient(&loss).map_err(failed)?;

    // element by element
    let zero: Vec<Vec<f64>> = inputs.iter().map(|input| vec![0.0; input.data.len()]).collect();
    let mut quotients = Vec::new();
    for (i, input) in inputs.iter().enumerate() {
        for element in 0..input.data.len() {
            let mut direction = zero.clone();
            direction[i][element] = 1.0;
            let value = || Ok(vec![loss.predict().wait()?]);
            quotients.extend(point.quotient(&direction, value).map_err(failed)?);
        }
    }
    agree("gradient", &gradient, &quotients)?;

    // along a direction
    let directions: Vec<Numbers> = inputs.iter().map(|input| mixture(&input.shape, 0.6)).collect();
    let moves: Vec<_> = directions.iter().map(|v| Layer::constant(v.tensor())).collect();
    let elements = |layer: &Layer<Nd<f64, IxDyn>>| -> Result<Vec<f64>> {
        Ok(layer.predict().wait()?.view().iter().copied().collect())
    };
    let slope = elements(&output.jvp(&point.weights, &moves)).map_err(failed)?;
    let data: Vec<Vec<f64>> = directions.iter().map(|direction| direction.data.clone()).collect();
    agree("slope", &slope, &point.quotient(&data, || elements(&output)).map_err(failed)?)?;

    // second derivatives are symmetric: the derivative of the gradient along a direction is the
    // gradient of the directional derivative
    let along = point.weights.iter().zip(&directions).map(|(weight, v)| f64::dot(&loss.gradient(weight), &v.tensor()));
    let along: Layer<f64> = along.sum();
    let second = point.gradient(&along).map_err(failed)?;
    let quotients = point.quotient(&data, || point.gradient(&loss)).map_err(failed)?;
    agree("second derivative", &second, &quotients)
}

/// The failures of these operations at random points.
pub(crate) fn wrong(ops: &[Op]) -> Vec<String> {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(8);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut wrong = Vec::new();
    for op in ops {
        let Some(draw) = op.draw else { continue };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let samples = (shapes(), any::<u64>()).prop_map(|(shape, seed)| draw(&mut Draw::new(shape, seed)));
        if let Err(error) = TestRunner::new_with_rng(config.clone(), rng).run(&samples, |sample| check(op, &sample)) {
            wrong.push(format!("{}: {error}", op.name));
        }
    }
    wrong
}

#[test]
fn every_operation_matches_differences() {
    let wrong = wrong(&registry::all());
    assert!(wrong.is_empty(), "{} operations are wrong\n{}", wrong.len(), wrong.join("\n"));
}
