//! Destructors that panic.

use super::panicking::{Break, MakeFragile, ReadFragile};
use super::support::{on_threads, watched};
use dl::prelude::*;
use dl::{Chunk, Data, Result, Trainable, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// A number. Once an update has been computed, the next destructor panics.
#[derive(Clone)]
struct Number(f64, Arc<AtomicBool>);

impl Drop for Number {
    fn drop(&mut self) {
        // only once: a second panic during unwinding would abort the process
        assert!(!self.1.swap(false, SeqCst), "panic in destructor");
    }
}

impl Data for Number {
    type Delta = f64;

    fn one(&self) -> f64 {
        1.0
    }

    fn into_value(self) -> Value {
        Value::boxed(self)
    }
}

impl Trainable for Number {
    fn zeros_like(&self) -> Self {
        Number(0.0, Arc::default())
    }

    fn update(&mut self, delta: &f64, _: &mut [Self], rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>) -> Result<()> {
        rule(Chunk::F64 { values: std::slice::from_mut(&mut self.0), deltas: &[*delta], slots: &mut [] })?;
        self.1.store(true, SeqCst);
        Ok(())
    }
}

/// The destructor of a replaced value panics, after the commit. The result must say whether the
/// step has happened: a success if the weight has changed, an error if not. The caller may drop the
/// returned value, too, and must handle its panic.
#[test]
fn panicking_destructor_of_replaced_weight_is_reported() {
    for threads in [1, 2] {
        let w = Weight::new(Number(1.0, Arc::default()));
        let result = on_threads(threads, || {
            let value = w.train(&Sgd::new(0.25)).wait();
            value.map(|value| drop(catch_unwind(AssertUnwindSafe(|| drop(value)))))
        });
        let changed = w.value().0 != 1.0;
        assert_eq!(result.is_ok(), changed, "{result:?}");
    }
}

/// Twenty values with destructors that panic.
fn broken() -> Layer<f64> {
    (0..20).map(|_| Layer::apply(ReadFragile, (Layer::apply(MakeFragile(Break::Drop), (Layer::constant(2.0),)),))).sum()
}

/// The pass must end with its value or an error, without unwinding, and the next pass must succeed.
fn succeeds_or_fails(pass: Do<f64>) {
    for threads in [1, 2] {
        on_threads(threads, || {
            for _ in 0..3 {
                match pass.wait() {
                    Ok(value) => assert_eq!(value, 20.0),
                    Err(error) => assert!(error.is_panic() && error.to_string().contains("panic in drop"), "{error}"),
                }
                assert_eq!(Layer::constant(3.0).predict().wait().unwrap(), 3.0);
            }
        });
    }
}

#[test]
fn panicking_destructor_of_intermediate_value_does_not_unwind() {
    succeeds_or_fails(broken().predict());
}

#[test]
fn panicking_destructor_of_residual_does_not_unwind() {
    succeeds_or_fails(broken().train(&Sgd::new(0.1)));
}

/// When it is dropped, it sets the buffer from which it was replaced.
#[derive(Clone)]
struct Last(Option<Arc<OnceLock<Buffer<Last>>>>);

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(place) = self.0.take()
            && let Some(buffer) = place.get()
        {
            buffer.set(Last(None));
        }
    }
}

impl Data for Last {
    type Delta = f64;

    fn one(&self) -> f64 {
        1.0
    }
}

#[test]
fn destructor_of_replaced_value_can_set_its_variable() {
    watched("a destructor that sets a buffer", || {
        let place = Arc::new(OnceLock::new());
        let buffer = Buffer::new(Last(Some(place.clone())));
        assert!(place.set(buffer.clone()).is_ok());
        buffer.set(Last(None));
        assert!(buffer.value().0.is_none());
    });
}
