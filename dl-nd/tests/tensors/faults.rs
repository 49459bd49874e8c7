//! The error of a layer: its operation, its place, its text.

use dl_core::{Data, Differentiable, Error, Layer};
use std::fmt::Debug;
use std::panic::Location;

/// The error of a layer that was built on the line that calls this. It names the operation and
/// contains all parts.
#[track_caller]
pub(crate) fn error_of<T: Data + Debug>(layer: Layer<T>, op: &str, parts: &[&str]) -> Error {
    let error = layer.predict().wait().expect_err("the layer does not fit");
    let here = Location::caller();
    let place = error.place().expect("the error has a place");
    assert_eq!((place.file(), place.line()), (here.file(), here.line()), "{error}");
    assert_eq!(error.op(), Some(op), "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{error} should contain {part}");
    }
    error
}
