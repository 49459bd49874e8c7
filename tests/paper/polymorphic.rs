//! `polymorphicDifferentiableFunction`: one function for all kinds of operands.

use dl::prelude::*;

// polymorphicDifferentiableFunction
#[differentiable]
fn polymorphic(a: impl NdExpression, b: impl NdExpression, c: impl NdExpression, d: impl NdExpression) -> NdLayer {
    a * b + c * d
}

/// A user-defined differentiable type: a non-negative matrix.
struct Positive(NdWeight);

impl Differentiable for Positive {
    type Data = Nd;
    type Delta = Nd;
    fn forward(&self) -> Do<Tape<Nd, Nd>> {
        self.0.exp().forward()
    }
}

fn matrix(number: f32) -> Nd {
    Nd::from([[number, 2.0 * number]])
}

fn check(y: NdLayer, expected: f32) {
    let value = y.predict().wait().unwrap();
    assert_eq!(value.view()[[0, 0]], expected);
}

#[test]
fn polymorphic_function_accepts_all_operand_kinds() {
    let (value, weight, own) = (matrix(2.0), Weight::new(matrix(3.0)), Positive(Weight::new(matrix(0.0))));
    let layer: NdLayer = &weight + 1.0;
    check(polymorphic(&value, &weight, &layer, &own), 2.0 * 3.0 + 4.0 * 1.0);
    check(polymorphic(&own, &layer, &weight, &value), 1.0 * 4.0 + 3.0 * 2.0);
    check(polymorphic(value.clone(), weight.clone(), layer.clone(), &own), 10.0);
    check(polymorphic(&value, &value, &value, &value), 8.0);
    check(polymorphic(&weight, &weight, &weight, &weight), 18.0);
    check(polymorphic(&layer, &layer, &own, &own), 17.0);
}

#[test]
fn gradient_reaches_all_weights() {
    let (weight, own) = (Weight::new(matrix(3.0)), Positive(Weight::new(matrix(0.0))));
    polymorphic(matrix(2.0), &weight, &own, matrix(5.0)).train(&Sgd::new(0.5)).wait().unwrap();
    assert_eq!(weight.value().view()[[0, 0]], 3.0 - 0.5 * 2.0);
    assert_eq!(own.0.value().view()[[0, 0]], -0.5 * 5.0);
}

/// The same for scalars, with all nine pairs of built-in kinds.
#[differentiable]
fn scalar<A, B>(a: A, b: B) -> Layer<f64>
where
    A: Differentiable<Data = f64, Delta = f64>,
    B: Differentiable<Data = f64, Delta = f64>,
{
    a * b + 1.0
}

#[test]
fn polymorphic_scalar_function_accepts_all_operand_kinds() {
    let weight = Weight::new(3.0);
    let layer = &weight * 2.0;
    for (y, expected) in
        [(scalar(2.0, &weight), 7.0), (scalar(&weight, &layer), 19.0), (scalar(&layer, layer.clone()), 37.0)]
    {
        assert_eq!(y.predict().wait().unwrap(), expected);
    }
}
