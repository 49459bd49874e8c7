//! Promise 9: an error has the place where the user code created the operation.

use super::support::Custom;
use dl::{Differentiable, Error, Layer, Weight};

#[test]
fn error_has_place_in_user_code() {
    let x = Weight::new(1.0).layer();
    let bad = Custom(|_| Err(Error::shape("[2, 3] and [4, 5] do not fit"))).of(&x); // this line
    let line = line!() - 1;
    let y = (bad * 2.0).tanh();
    let error = y.predict().wait().unwrap_err();
    let place = error.place().expect("a place");
    assert!(place.file().ends_with("errors.rs"));
    assert_eq!(place.line(), line);
    assert_eq!(error.op(), Some("custom"));
    assert_eq!(
        error.to_string(),
        format!("custom: [2, 3] and [4, 5] do not fit (at {}:{line}:{})", place.file(), place.column())
    );
}

#[test]
fn error_in_body_has_place_in_user_code() {
    let y = Layer::<f64>::dynamic(|| async {
        Ok(Custom(|_| Err(Error::shape("no"))).of(&Layer::constant(1.0))) // this line
    });
    let error = (y + 1.0).predict().wait().unwrap_err();
    assert_eq!(error.place().unwrap().line(), line!() - 3);
}

#[test]
fn user_error_keeps_its_message() {
    let y = Layer::<f64>::dynamic(|| async { Err(Error::other("1,5".parse::<f64>().unwrap_err())) });
    let error = y.predict().wait().unwrap_err();
    assert!(error.to_string().contains("invalid float literal"), "{error}");
}

#[test]
fn shape_error_has_operation_shapes_and_place() {
    use dl::nd::Nd;
    use dl::prelude::ProductOps;
    let (x, w) = (Weight::new(Nd::from([[1.0_f32, 2.0, 3.0]])), Weight::new(Nd::from([[1.0_f32, 2.0]])));
    let y = x.matmul(&w).relu(); // this line
    let line = line!() - 1;
    let error = y.train(&dl::Sgd::new(0.1)).wait().unwrap_err();
    assert!(error.is_shape());
    assert_eq!((error.op(), error.place().unwrap().line()), (Some("matmul"), line));
    let text = error.to_string();
    assert!(text.contains("[1, 3]") && text.contains("[1, 2]"), "{text}");
}
