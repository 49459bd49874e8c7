//! Tests of the tests: both must detect a square with a wrong value, gradient or second derivative.

use crate::case::Tensor;
use crate::registry::{self, Op};
use crate::{differences, reference};
use dl_core::{At, Layer, Primitive, Result};
use dl_nd::Nd;
use ndarray::IxDyn;

/// `factor · x²` with the derivative `slope`, a function of the operand and its value.
struct Square {
    factor: f64,
    slope: fn(&Tensor<f64>, &Nd<f64, IxDyn>) -> Tensor<f64>,
}

impl Primitive for Square {
    type Operands = (Tensor<f64>,);
    type Output = Nd<f64, IxDyn>;

    fn name(&self) -> &'static str {
        "square"
    }

    fn value(&self, (x,): (&Nd<f64, IxDyn>,)) -> Result<Nd<f64, IxDyn>> {
        Ok(x.view().mapv(|x| self.factor * x * x).into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Tensor<f64>>,) {
        (Some(at.delta * (self.slope)(&at.operands.0, at.values.0)),)
    }
}

/// The failures that the comparison with PyTorch and with differences report for this square.
fn findings(double: fn(&crate::case::Args, &[Tensor<f64>]) -> Tensor<f64>) -> [String; 2] {
    let square = registry::all().into_iter().find(|op| op.name == "square").expect("`square` is registered");
    let op = Op { double, ..square };
    [reference::wrong::<f64>(&[op], 1e-10), differences::wrong(&[op])].map(|wrong| wrong.join("\n"))
}

#[test]
fn correct_operation_is_accepted() {
    let right = findings(|_, x| Layer::apply(Square { factor: 1.0, slope: |x, _| x * 2.0 }, (x[0].clone(),)));
    assert_eq!(right, ["", ""]);
}

#[test]
fn wrong_value_is_detected() {
    let [reference, differences] =
        findings(|_, x| Layer::apply(Square { factor: 1.0 + 1e-9, slope: |x, _| x * (2.0 + 2e-9) }, (x[0].clone(),)));
    assert!(reference.contains("the value is wrong"), "{reference}");
    assert_eq!(differences, "", "it is the derivative of what it computes");
}

#[test]
fn wrong_gradient_is_detected() {
    let [reference, differences] =
        findings(|_, x| Layer::apply(Square { factor: 1.0, slope: |x, _| x * 2.0001 }, (x[0].clone(),)));
    assert!(reference.contains("gradient 0 is wrong"), "{reference}");
    assert!(differences.contains("gradient 0 is"), "{differences}");
}

#[test]
fn wrong_second_derivative_is_detected() {
    // computed from the value, so that the gradient is a constant in the graph
    let [reference, differences] =
        findings(|_, x| Layer::apply(Square { factor: 1.0, slope: |_, x| x * 2.0 }, (x[0].clone(),)));
    assert!(reference.contains("second derivative 0 is wrong"), "{reference}");
    assert!(!reference.contains("gradient 0 is wrong"), "{reference}");
    assert!(differences.contains("second derivative 0 is"), "{differences}");
}
