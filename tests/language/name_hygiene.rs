use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn named(start: &Layer<f64>, value: f64, kept: Layer<f64>, tail: f64) -> Layer<f64> {
    let first = !start + !kept;
    let (this, returned) = (value, tail);
    let extracted_0_1 = first;
    let result_1 = extracted_0_1 + this;
    let operand = start * result_1;
    if returned > 0.0 {
        return operand * kept;
    }
    operand
}

struct Ok;
#[allow(dead_code, reason = "the name shadows that of the prelude")]
struct Result;

#[test]
fn names_of_expansion_do_not_collide() {
    let _ = Ok;
    // (2 + 3 + 1) · 2 · 3
    assert_eq!(value_of(&named(&Layer::constant(2.0), 1.0, Layer::constant(3.0), 1.0)), 36.0);
}

fn value_of(layer: &Layer<f64>) -> f64 {
    value(layer)
}
