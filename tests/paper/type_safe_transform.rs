//! `transform` and `typeSafeTransform`: from a function to the side effects of its derivative.

use dl::prelude::*;

// typeSafeTransform
fn transform<F: Fn(f64) -> Layer<f64>>(f: F) -> impl Fn(f64) -> SideEffects {
    move |input| match f(input).forward().wait() {
        Ok(tape) => tape.backward(Do::now(1.0)),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn transform_of_function_with_two_weights() {
    let (slope, offset) = (Weight::new(2.0), Weight::new(1.0));
    let derivative = transform(|x| x * &slope + &offset);
    let effects = derivative(3.0);
    assert_eq!((slope.value(), offset.value()), (2.0, 1.0), "side effects are lazy");
    effects.step(&Sgd::new(0.1)).wait().unwrap();
    assert!((slope.value() - 1.7).abs() < 1e-12);
    assert!((offset.value() - 0.9).abs() < 1e-12);
}
