//! Compares values, gradients and second derivatives with PyTorch.

use crate::case::{Case, Numbers};
use crate::registry::{self, ELSEWHERE, Op, Scalar};
use dl_core::{Differentiable, Layer, Result, Weight};
use dl_nd::Nd;
use dl_nd::operations::Operation;
use ndarray::IxDyn;
use std::collections::BTreeSet;

/// The largest error of an element, relative to the largest element of the reference. Errors below
/// the smallest normal number do not count, as subnormal numbers have fewer digits.
pub(crate) fn error<A: Scalar>(found: &Nd<A, IxDyn>, reference: &Numbers) -> f64 {
    if found.shape() != reference.shape {
        return f64::INFINITY;
    }
    let largest = reference.data.iter().filter(|x| x.is_finite()).fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let errors = found.view().into_iter().zip(&reference.data).map(|(&found, &reference)| {
        let found = found.to_double();
        let tiny = (found - reference).abs() < A::min_positive_value().to_double();
        if found == reference || tiny || found.is_nan() && reference.is_nan() {
            0.0
        } else {
            // an error of NaN counts as infinite
            Some((found - reference).abs() / largest).filter(|error| !error.is_nan()).unwrap_or(f64::INFINITY)
        }
    });
    errors.fold(0.0, f64::max)
}

/// Computes all results of a case that have a reference. Calls `judge` with a description, the
/// result and the reference of each.
fn run<A: Scalar>(op: &Op, case: &Case, mut judge: impl FnMut(String, Result<Nd<A, IxDyn>>, &Numbers)) {
    let weights: Vec<Weight<_>> = case.inputs.iter().map(|input| Weight::new(input.tensor::<A>())).collect();
    let operands: Vec<_> = weights.iter().map(Differentiable::layer).collect();
    let output = A::apply(op, &case.args, &operands);
    judge("the value".into(), output.predict().wait(), &case.output);
    let Some(first) = &case.first else { return };
    let loss = A::dot(&output, &first.weights[0].tensor());
    for (i, (weight, gradient)) in weights.iter().zip(&first.gradients).enumerate() {
        judge(format!("gradient {i}"), loss.gradient(weight).predict().wait(), gradient);
    }
    let Some(second) = case.second.as_ref().filter(|_| A::EXACT) else { return };
    let along = weights.iter().zip(&second.weights).map(|(weight, v)| A::dot(&loss.gradient(weight), &v.tensor()));
    let along: Layer<A> = along.sum();
    for (i, (weight, gradient)) in weights.iter().zip(&second.gradients).enumerate() {
        judge(format!("second derivative {i}"), along.gradient(weight).predict().wait(), gradient);
    }
}

/// The failures of these operations in all of their cases.
pub(crate) fn wrong<A: Scalar>(ops: &[Op], tolerance: f64) -> Vec<String> {
    let cases = Case::all();
    let mut wrong = Vec::new();
    for op in ops {
        let mut worst = 0.0;
        for case in cases.iter().filter(|case| case.op == op.name) {
            run::<A>(op, case, |what, found, reference| {
                let error = found.as_ref().map_or(f64::INFINITY, |found| error(found, reference));
                worst = f64::max(worst, error);
                if error > tolerance {
                    let (name, line, args) = (op.name, case.line, &case.args);
                    let found = match found {
                        Ok(found) => format!("{found:?}"),
                        Err(error) => error.to_string(),
                    };
                    wrong.push(format!(
                        "{name}, line {line}, {args:?}: {what} is wrong by {error:.1e}\n  found {found}\n  instead of {reference:?}"
                    ));
                }
            });
        }
        println!("{:30} {worst:.1e}", op.name);
    }
    wrong
}

fn check<A: Scalar>(tolerance: f64) {
    let wrong = wrong::<A>(&registry::all(), tolerance);
    assert!(wrong.is_empty(), "{} results are wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_case_in_f64_matches_pytorch() {
    check::<f64>(1e-10);
}

#[test]
fn every_case_in_f32_matches_pytorch() {
    check::<f32>(1e-5);
}

#[test]
fn every_library_operation_is_in_registry() {
    let library: BTreeSet<&str> = Operation::all().iter().map(|operation| operation.name).collect();
    let here = registry::all().into_iter().map(|op| op.name);
    let known: BTreeSet<&str> = here.chain(ELSEWHERE.iter().map(|(name, _)| *name)).collect();
    assert_eq!(library.difference(&known).collect::<Vec<_>>(), [] as [&&str; 0], "operations that are not tested");
    assert_eq!(
        known.difference(&library).collect::<Vec<_>>(),
        [] as [&&str; 0],
        "operations that are not in the catalog"
    );
}

#[test]
fn registry_and_reference_cases_name_same_operations() {
    let cases = Case::all();
    let with_cases: BTreeSet<&str> = cases.iter().map(|case| case.op.as_str()).collect();
    let known: BTreeSet<&str> = registry::all().iter().map(|op| op.name).collect();
    assert_eq!(with_cases.difference(&known).collect::<Vec<_>>(), [] as [&&str; 0], "cases of unknown operations");
    assert_eq!(known.difference(&with_cases).collect::<Vec<_>>(), [] as [&&str; 0], "operations without a case");
    assert!(cases.len() >= 450, "{} cases", cases.len());
}
