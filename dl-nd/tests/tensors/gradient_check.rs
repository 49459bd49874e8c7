//! Compares gradients with central differences.

use dl_core::{Differentiable, Layer, Weight};
use dl_nd::{Nd, Rank, init, ops::*};

/// Uniformly distributed numbers between `low` and `high`. Two of them are unlikely to be closer
/// than the step of the difference quotient.
pub(crate) fn numbers<S>(shape: S, low: f64, high: f64, seed: u64) -> Nd<f64, S::Dim>
where
    S: ndarray::IntoDimension,
    S::Dim: Rank,
{
    init::uniform(shape, low, high, &mut init::rng(seed))
}

/// Reduces a layer to a weighted sum. The weights of neighbouring elements differ, so that errors
/// of gradients do not cancel.
pub(crate) fn mixed<D: Rank>(y: &Layer<Nd<f64, D>>) -> Layer<f64> {
    let shape = y.predict().wait().expect("the layer has a value");
    let mut next = 0.3;
    let factors = shape.view().mapv(|_| {
        next = (next * 1.7 + 0.1) % 1.0 + 0.2;
        next
    });
    (y * Nd::from(factors)).sum()
}

/// Compares the gradient of `loss` with central differences, for each element of `weight`.
pub(crate) fn check<D: Rank>(what: &str, loss: &Layer<f64>, weight: &Weight<Nd<f64, D>>) {
    let analytic = loss.gradient(weight).predict().wait().expect("the gradient has a value");
    let original = weight.value();
    let step = 1e-5;
    for (place, (index, &analytic)) in analytic.view().into_dyn().indexed_iter().enumerate() {
        let at = |offset: f64| {
            let mut array = original.clone().into_array();
            let element = array.iter_mut().nth(place).expect("an element");
            *element += offset;
            weight.set(array.into());
            loss.predict().wait().expect("predict")
        };
        let numeric = (at(step) - at(-step)) / (2.0 * step);
        let scale = 1.0 + numeric.abs().max(analytic.abs());
        assert!(
            (numeric - analytic).abs() < 1e-6 * scale,
            "{what}: the gradient at {index:?} is {analytic}, the difference quotient {numeric}"
        );
    }
    weight.set(original);
}

/// [`check`] for the loss and for its gradient: first and second derivatives.
pub(crate) fn check_twice<D: Rank>(what: &str, loss: &Layer<f64>, weight: &Weight<Nd<f64, D>>) {
    check(what, loss, weight);
    check(&format!("second derivative of {what}"), &mixed(&loss.gradient(weight)), weight);
}
