use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

/// Doubles.
///
/// Or not.
#[differentiable]
#[must_use = "it is needed"]
#[allow(clippy::needless_pass_by_value, reason = "the test is about it")]
#[inline]
pub fn doubled(#[allow(unused_variables, reason = "the test is about it")] spare: u8, x: Layer<f64>) -> Layer<f64> {
    #![allow(unused_mut, reason = "the test is about it")]
    let mut v = !x;
    #[cfg(any())]
    let v = missing;
    #[allow(clippy::let_and_return, reason = "the test is about it")]
    let y = x * v;
    y
}

#[differentiable]
#[deprecated = "for a test"]
fn old(x: Layer<f64>) -> Layer<f64> {
    x
}

#[test]
fn attributes_and_docs_survive_expansion() {
    assert_eq!(value(&doubled(0, Layer::constant(3.0))), 9.0);
    #[allow(deprecated, reason = "the test is about it")]
    let same = old(Layer::constant(1.0));
    assert_eq!(value(&same), 1.0);
}
