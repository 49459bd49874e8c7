use dl::record::{PassRecord, Recorder};
use dl::{At, Calls, Deltas, Differentiable, Error, Layer, Primitive, Result};

/// An operation that fails.
pub(crate) struct Broken;

impl Primitive for Broken {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "broken"
    }

    fn value(&self, _: (&f64,)) -> Result<f64> {
        Err(Error::shape("[2, 3] and [4, 5] do not fit"))
    }

    fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
        (None,)
    }
}

#[track_caller]
pub(crate) fn broken(x: &Layer<f64>) -> Layer<f64> {
    Layer::apply(Broken, (x.clone(),))
}

/// Functions and call lines, innermost first.
pub(crate) fn chain(calls: Calls) -> Vec<(&'static str, u32)> {
    calls.frames().map(|call| (call.function, call.from.line())).collect()
}

/// The names of the functions.
pub(crate) fn functions(calls: Calls) -> Vec<&'static str> {
    calls.frames().map(|call| call.function).collect()
}

/// Runs `predict`. Returns its result and the record of its pass.
pub(crate) fn recorded_pass(layer: &Layer<f64>) -> (Result<f64>, PassRecord) {
    let recorder = Recorder::new();
    let result = layer.predict().recorded(&recorder).wait();
    (result, recorder.take().passes.swap_remove(0))
}
