//! Promise 9: errors point to where the user wrote the operation.

use super::support::Custom;
use dl::{Differentiable, Error, Layer, Weight};

#[test]
fn at_the_line_of_the_user() {
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
fn through_dynamic_layers() {
    let y = Layer::<f64>::dynamic(|| async {
        Ok(Custom(|_| Err(Error::shape("no"))).of(&Layer::constant(1.0))) // this line
    });
    let error = (y + 1.0).predict().wait().unwrap_err();
    assert_eq!(error.place().unwrap().line(), line!() - 3);
}

#[test]
fn errors_of_the_user_keep_their_words() {
    let y = Layer::<f64>::dynamic(|| async { Err(Error::other("1,5".parse::<f64>().unwrap_err())) });
    let error = y.predict().wait().unwrap_err();
    assert!(error.to_string().contains("invalid float literal"), "{error}");
}
