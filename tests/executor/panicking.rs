//! Values and operations that panic at a given place.

use dl::{At, Chunk, Data, Error, Layer, Primitive, Result, Trainable, Value};
use std::panic::panic_any;

/// The place of the panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    Never,
    Value,
    /// In the kernel, with a payload that is not a string.
    Payload,
    /// In the kernel, with a payload that panics when it is dropped.
    PayloadDrop,
    Name,
    Cost,
    Rule,
    Clone,
    Drop,
    One,
    Zeros,
    Update,
}

impl Break {
    fn at(self, place: Break, message: &str) {
        assert!(self != place, "{message}");
    }
}

/// x ↦ x.
pub(crate) struct PanickingOp(pub(crate) Break);

struct PayloadThatBreaks;

impl Drop for PayloadThatBreaks {
    fn drop(&mut self) {
        panic!("panic in payload");
    }
}

impl Primitive for PanickingOp {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        self.0.at(Break::Name, "panic in name");
        "panicking"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        self.0.at(Break::Value, "panic in value");
        match self.0 {
            Break::Payload => panic_any(7),
            Break::PayloadDrop => panic_any(PayloadThatBreaks),
            // the name is only requested after a failure
            Break::Name => Err(Error::invalid("no value")),
            _ => Ok(*x),
        }
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        self.0.at(Break::Rule, "panic in rule");
        (Some(at.delta.clone()),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        self.0.at(Break::Cost, "panic in cost");
        20_000.0
    }
}

/// A value, also of weights.
pub(crate) struct Fragile(pub(crate) Break);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        self.0.at(Break::Clone, "panic in clone");
        Fragile(self.0)
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.at(Break::Drop, "panic in drop");
        }
    }
}

impl Data for Fragile {
    type Delta = f64;

    fn one(&self) -> f64 {
        self.0.at(Break::One, "panic in one");
        1.0
    }

    fn into_value(self) -> Value {
        Value::boxed(self)
    }
}

impl Trainable for Fragile {
    fn zeros_like(&self) -> Self {
        self.0.at(Break::Zeros, "panic in zeros");
        Fragile(self.0)
    }

    fn update(&mut self, _: &f64, _: &mut [Self], _: &mut dyn FnMut(Chunk<'_>) -> Result<()>) -> Result<()> {
        self.0.at(Break::Update, "panic in update");
        Ok(())
    }
}

/// Creates a `Fragile`.
pub(crate) struct MakeFragile(pub(crate) Break);

impl Primitive for MakeFragile {
    type Operands = (Layer<f64>,);
    type Output = Fragile;

    fn name(&self) -> &'static str {
        "make fragile"
    }

    fn value(&self, _: (&f64,)) -> Result<Fragile> {
        Ok(Fragile(self.0))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(at.delta.clone()),)
    }
}

/// Reads a `Fragile`.
pub(crate) struct ReadFragile;

impl Primitive for ReadFragile {
    type Operands = (Layer<Fragile>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "read fragile"
    }

    fn value(&self, _: (&Fragile,)) -> Result<f64> {
        Ok(1.0)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(at.delta.clone()),)
    }
}
