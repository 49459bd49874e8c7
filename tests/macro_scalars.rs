//! Extractions in small scalar networks, as in the paper, trained with a learning rate of one.

use dl::prelude::*;

fn train(times: usize, build: impl Fn(&Weight<f32>) -> Layer<f32>) -> f32 {
    let w = Weight::new(1.0_f32);
    for _ in 0..times {
        build(&w).train(&Sgd::new(1.0)).wait().unwrap();
    }
    w.value()
}

#[differentiable]
fn one_bang(x: f32, w: &Weight<f32>) -> Layer<f32> {
    6.7 + !(x + w) + w + 5.5
}

#[differentiable]
fn a_tuple(x: f32, w: &Weight<f32>) -> Layer<f32> {
    let (a, b, c) = !(x + w, 2.0, w);
    6.7 + a + b + c + w + 5.5
}

#[test]
fn extraction_stops_gradient() {
    assert_eq!(train(5, |w| one_bang(1.0, w)), -4.0);
    assert_eq!(train(5, |w| a_tuple(1.0, w)), -4.0);
}

#[test]
fn layer_can_be_trained_repeatedly() {
    let w = Weight::new(1.0_f32);
    let loss = one_bang(1.0, &w);
    for _ in 0..5 {
        loss.train(&Sgd::new(1.0)).wait().unwrap();
    }
    assert_eq!(w.value(), -4.0);
    let predicted = loss.predict();
    assert_eq!(predicted.wait().unwrap(), predicted.wait().unwrap());
}

#[differentiable]
fn several(x: &Layer<f32>, w: Weight<f32>) -> Layer<f32> {
    let array = ![x, x, &(x * w)];
    let vec = !vec![x + w, x - w];
    let nested = !((x, w), [w, w], 3_usize, Do::now("text".to_owned()));
    let ((a, b), [c, d], three, text) = nested;
    assert_eq!((three, text.as_str()), (3, "text"));
    let sum: f32 = array.iter().chain(&vec).sum();
    x * sum * (a + b + c + d)
}

#[test]
fn extraction_of_tuples_arrays_and_vecs_returns_members() {
    let x = Layer::constant(2.0_f32);
    let layer = several(&x, Weight::new(3.0));
    // (2 + 2 + 6 + 5 − 1) · (2 + 3 + 3 + 3) · 2
    assert_eq!(layer.predict().wait().unwrap(), 308.0);
}

#[differentiable]
fn square(x: &Layer<f64>, y: f64) -> Layer<f64> {
    let difference = x - y;
    difference * difference
}

#[test]
fn operand_used_twice_is_duplicated() {
    assert_eq!(square(&Layer::constant(5.0), 2.0).predict().wait().unwrap(), 9.0);
}

#[differentiable]
fn doubled(x: &Layer<f64>) -> Layer<f64> {
    let sum = x + !x;
    sum * sum
}

#[test]
fn layer_reports_source_location_of_operator_and_function() {
    let x = Layer::constant(5.0);
    // The location of the operator, not of the attribute.
    let place = format!("{:?}", square(&x, 2.0));
    assert!(place.contains(&format!("{}:{}:5", file!(), place_of("difference * difference"))), "{place}");
    // The location of the lazy function.
    let place = format!("{:?}", doubled(&x));
    assert!(place.contains(&format!("{}:{}:4", file!(), place_of("fn doubled"))), "{place}");
    assert_eq!(doubled(&x).predict().wait().unwrap(), 100.0);
}

/// The number of the first line of this file that contains the text.
fn place_of(text: &str) -> usize {
    1 + include_str!("macro_scalars.rs").lines().position(|line| line.contains(text)).unwrap()
}
