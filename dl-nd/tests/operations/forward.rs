//! Compares forward-mode derivatives with the gradients and second derivatives from PyTorch:
//! `⟨u, J·v⟩ = ⟨Jᵀ·u, v⟩`.

use crate::case::{Case, Numbers};
use crate::reference::error;
use crate::registry::{self, Op, Scalar};
use dl_core::{Differentiable, Layer, Weight};

/// A direction for an operand, with distinct neighbouring elements.
fn direction(shape: &[usize]) -> Numbers {
    let data = (0..shape.iter().product()).map(|i: usize| ((i as f64 + 1.0) * 0.7).sin());
    Numbers { shape: shape.to_vec(), data: data.collect(), layout: (Vec::new(), Vec::new()) }
}

/// The failures of an operation in one case, and the number of results checked.
fn check(op: &Op, case: &Case) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    let weights: Vec<Weight<_>> = case.inputs.iter().map(|input| Weight::new(input.tensor::<f64>())).collect();
    let operands: Vec<_> = weights.iter().map(Differentiable::layer).collect();
    let output = f64::apply(op, &case.args, &operands);
    let directions: Vec<Numbers> = case.inputs.iter().map(|input| direction(&input.shape)).collect();
    let layers = |all: &[Numbers]| -> Vec<_> { all.iter().map(|v| Layer::constant(v.tensor::<f64>())).collect() };
    let tangent = match output.jvp(&weights, &layers(&directions)).predict().wait() {
        Ok(tangent) => tangent,
        Err(error) => return (vec![error.to_string()], 1),
    };
    if tangent.shape() != case.output.shape {
        wrong.push(format!("the tangent of a value of shape {:?} is {tangent:?}", case.output.shape));
    }
    let Some(first) = &case.first else { return (wrong, 1) };
    let terms = |a: &mut dyn Iterator<Item = f64>, b: &[f64]| -> (f64, f64) {
        let products: Vec<f64> = a.zip(b).map(|(a, b)| a * b).filter(|product| *product != 0.0).collect();
        (products.iter().sum(), products.iter().map(|product| product.abs()).sum())
    };
    let forward = terms(&mut tangent.view().iter().copied(), &first.weights[0].data);
    let gradients = first.gradients.iter().zip(&directions);
    let reverse = gradients.map(|(gradient, v)| terms(&mut gradient.data.iter().copied(), &v.data));
    let reverse = reverse.fold((0.0, 0.0), |sum, term| (sum.0 + term.0, sum.1 + term.1));
    if reverse.0.is_finite() && (forward.0 - reverse.0).abs() > 1e-10 * reverse.1.max(forward.1) {
        wrong.push(format!("⟨u, J·v⟩ = {}, ⟨Jᵀ·u, v⟩ = {}", forward.0, reverse.0));
    }
    let Some(second) = &case.second else { return (wrong, 2) };
    let loss = f64::dot(&output, &first.weights[0].tensor());
    let along = loss.hvp(&weights, &layers(&second.weights));
    for (i, (along, reference)) in along.iter().zip(&second.gradients).enumerate() {
        match along.predict().wait() {
            Ok(along) if error(&along, reference) <= 1e-10 => {}
            found => wrong.push(format!("second derivative {i} is {found:?} instead of {reference:?}")),
        }
    }
    (wrong, 3)
}

#[test]
fn forward_derivatives_of_every_case_match_reference() {
    let (mut wrong, mut checked) = (Vec::new(), 0);
    let cases = Case::all();
    for op in registry::all() {
        for case in cases.iter().filter(|case| case.op == op.name) {
            let (found, count) = check(&op, case);
            checked += count;
            wrong.extend(
                found.into_iter().map(|what| format!("{}, line {}, {:?}: {what}", op.name, case.line, case.args)),
            );
        }
    }
    assert!(wrong.is_empty(), "{} results are wrong\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked >= 1000, "only {checked} results were checked");
}
