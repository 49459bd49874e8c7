//! A panic in user code becomes an error with its message and the place of the layer. The pool
//! remains usable, and the panic hook is not replaced.

use super::panicking::{Break, Fragile, MakeFragile, PanickingOp, ReadFragile};
use super::support::{block_on, on_tokio, watched};
use dl::prelude::*;
use dl::{Chunk, Memory, Result, Slot};
use std::panic::panic_any;
use std::sync::{Arc, Mutex};

fn source() -> Layer<f64> {
    Layer::constant(2.0)
}

/// 18, as a sum of nine layers, which provides work for several threads.
fn sum_of_nine() -> Layer<f64> {
    (0..9).map(|_| Layer::apply(PanickingOp(Break::Never), (source(),))).sum()
}

/// The pass must fail with this message and line, in pools of several sizes and under several
/// executors. The next pass in the same pool must succeed.
#[track_caller]
fn fails_with(pass: Do<f64>, message: &str, line: u32) {
    let check = |error: dl::Error| {
        assert!(error.is_panic(), "{error}");
        assert!(error.to_string().contains(message), "{error}");
        let place = error.place().unwrap_or_else(|| panic!("no place: {error}"));
        assert!(place.file().ends_with("panics.rs"), "{error}");
        assert_eq!(place.line(), line, "{error}");
    };
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for _ in 0..2 {
            let pass = pass.clone();
            check(pool.install(|| pass.wait()).unwrap_err());
            assert_eq!(pool.install(|| sum_of_nine().predict().wait()).unwrap(), 18.0);
        }
    }
    let run = pass.run();
    check(watched("block_on", || block_on(run)).unwrap_err());
    check(on_tokio(Some(1), pass.run()).unwrap_err());
    assert_eq!(on_tokio(Some(1), sum_of_nine().predict().run()).unwrap(), 18.0);
}

#[test]
fn panic_in_kernel_is_error() {
    let y = Layer::apply(PanickingOp(Break::Value), (source(),)); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + y).predict(), "panic in value", line);
}

#[test]
fn panic_with_non_string_payload_is_error() {
    let y = Layer::apply(PanickingOp(Break::Payload), (source(),)); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + y).predict(), "not text", line);
}

#[test]
fn panic_in_name_is_error() {
    let y = Layer::apply(PanickingOp(Break::Name), (source(),)); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + y).predict(), "panic in name", line);
}

#[test]
fn panic_in_cost_estimate_is_error() {
    let y = Layer::apply(PanickingOp(Break::Cost), (source(),)); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + y).predict(), "panic in cost", line);
}

#[test]
fn panic_in_pullback_rule_is_error() {
    let w = Weight::new(1.0);
    let y = Layer::apply(PanickingOp(Break::Rule), (w.layer(),)); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + y).train(&Sgd::new(0.1)), "panic in rule", line);
}

#[test]
fn panic_in_body_is_error() {
    let before = Layer::dynamic(|| -> std::future::Ready<Result<Layer<f64>>> { panic!("panic in body") }); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + before).predict(), "panic in body", line);
    let after = Layer::<f64>::dynamic(|| async { panic!("panic in body at {}", source().extract().await?) }); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + after).predict(), "panic in body at 2", line);
}

/// The line of the function below.
const DECIDED: u32 = line!() + 3;

#[differentiable]
fn decided(x: &Layer<f64>, limits: &[f64]) -> Layer<f64> {
    if limits[(!x) as usize] > 0.0 { x.clone() } else { -x }
}

#[test]
fn panic_in_differentiable_function_is_error() {
    fails_with((sum_of_nine() + decided(&source(), &[1.0])).predict(), "index out of bounds", DECIDED);
}

#[test]
fn panic_in_closure_of_computation_is_error() {
    let mapped = Layer::from(sum_of_nine().predict().map(|_| -> f64 { panic!("panic in map") })); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + mapped).predict(), "panic in map", line);
    let chained = Layer::from(sum_of_nine().predict().flat_map(|_| -> Do<f64> { panic!("panic in flat_map") })); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + chained).predict(), "panic in flat_map", line);
    let started = Layer::from(Do::from_fn(|| -> std::future::Ready<Result<f64>> { panic!("panic in start") })); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + started).predict(), "panic in start", line);
}

#[test]
fn panic_in_hand_written_backward_is_error() {
    let w = Weight::new(1.0);
    let forward = w.forward().map(|tape| Tape::new(*tape.data(), |_| panic!("panic in backward")));
    let y = Layer::from(forward); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + y).train(&Sgd::new(0.1)), "panic in backward", line);
}

/// An optimizer with state, which panics.
#[derive(Clone, Default)]
struct Broken(Memory);

impl Optimizer for Broken {
    fn slots(&self) -> &[Slot] {
        const { &[Slot::zeros("state")] }
    }
    fn memory(&self) -> Option<&Memory> {
        Some(&self.0)
    }
    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        panic!("panic in optimizer")
    }
}

#[test]
fn panic_in_optimizer_is_error() {
    let w = Weight::new(1.0); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + &w).train(&Broken::default()), "panic in optimizer", line);
    assert_eq!(w.value(), 1.0);
}

#[test]
fn panic_in_update_of_user_weight_is_error() {
    for (broken, message) in
        [(Break::Clone, "panic in clone"), (Break::Zeros, "panic in zeros"), (Break::Update, "panic in update")]
    {
        let w = Weight::new(Fragile(broken)); // this line
        let line = line!() - 1;
        fails_with(Layer::apply(ReadFragile, (w.layer(),)).train(&Sgd::new(0.1).momentum(0.9)), message, line);
    }
}

#[test]
fn panic_in_destructor_of_intermediate_value_is_error() {
    let x = Layer::apply(MakeFragile(Break::Drop), (source(),)); // this line
    let line = line!() - 1;
    fails_with((sum_of_nine() + Layer::apply(ReadFragile, (x,))).predict(), "panic in drop", line);
}

#[test]
fn panic_in_clone_of_result_is_error() {
    let x = Layer::apply(MakeFragile(Break::Clone), (source(),)); // this line
    let line = line!() - 1;
    fails_with(x.predict().map(|_| 1.0), "panic in clone", line);
}

#[test]
fn panic_in_initial_delta_is_error() {
    let w = Weight::new(Fragile(Break::One)); // this line
    let line = line!() - 1;
    fails_with(w.train(&Sgd::new(0.1)).map(|_| 1.0), "panic in one", line);
}

/// If the destructor of the payload panics, the worker must not unwind.
#[test]
fn panic_payload_with_panicking_destructor_is_error() {
    let y = Layer::apply(PanickingOp(Break::PayloadDrop), (source(),)); // this line
    let line = line!() - 1;
    watched("a payload that panics when it is dropped", move || {
        fails_with((sum_of_nine() + y).predict(), "not text", line)
    });
}

/// The hook of the program is called for every panic before, during and after a pass, and it is not
/// replaced.
#[test]
fn panic_hook_is_not_replaced() {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let (notes, others) = (seen.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| match info.payload().downcast_ref::<Marked>() {
        Some(Marked(text)) => notes.lock().unwrap().push((*text).to_owned()),
        None => others(info),
    }));
    let caught = |text| std::panic::catch_unwind(|| panic_any(Marked(text))).unwrap_err();
    caught("before");
    for text in ["first", "second"] {
        let y = Layer::<f64>::dynamic(move || async move { panic_any(Marked(text)) });
        assert!(y.predict().wait().unwrap_err().is_panic());
    }
    caught("after");
    assert_eq!(*seen.lock().unwrap(), ["before", "first", "second", "after"]);
}

/// A payload that the hook of this test recognizes.
struct Marked(&'static str);
