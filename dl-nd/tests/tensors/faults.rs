//! A helper to check the error of a layer: operation, source location and text.

use dl_core::{Data, Differentiable, Error, Layer};
use std::fmt::Debug;
use std::panic::Location;

/// Evaluates a layer that was built on the line of this call, and returns its error. The error must
/// carry this line and the operation `op`, and contain all `parts`.
#[track_caller]
pub(crate) fn error_of<T: Data + Debug>(layer: Layer<T>, op: &str, parts: &[&str]) -> Error {
    let error = layer.predict().wait().expect_err("the layer should fail");
    let here = Location::caller();
    let place = error.place().expect("the error has a place");
    assert_eq!((place.file(), place.line()), (here.file(), here.line()), "{error}");
    assert_eq!(error.op(), Some(op), "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{error} should contain {part}");
    }
    error
}
