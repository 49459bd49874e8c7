//! A panic in user code becomes an error with its message and the place of the layer. The pool
//! remains usable, and the panic hook is not replaced.

use super::fragile::{Break, Fragile, Give, Take, Tell};
use super::support::{block_on, on_tokio, watched};
use dl::prelude::*;
use dl::{Chunk, Memory, Result, Slot};
use std::panic::panic_any;
use std::sync::{Arc, Mutex};

fn source() -> Layer<f64> {
    Layer::constant(2.0)
}

/// 18, as a sum of nine layers, which provides work for several threads.
fn good() -> Layer<f64> {
    (0..9).map(|_| Layer::apply(Tell(Break::Never), (source(),))).sum()
}

/// The pass must fail with this message and line, in pools of several sizes and under several
/// executors. The next pass in the same pool must succeed.
#[track_caller]
fn told(pass: Do<f64>, message: &str, line: u32) {
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
            assert_eq!(pool.install(|| good().predict().wait()).unwrap(), 18.0);
        }
    }
    let run = pass.run();
    check(watched("block_on", || block_on(run)).unwrap_err());
    check(on_tokio(Some(1), pass.run()).unwrap_err());
    assert_eq!(on_tokio(Some(1), good().predict().run()).unwrap(), 18.0);
}

#[test]
fn in_the_value_of_an_operation() {
    let y = Layer::apply(Tell(Break::Value), (source(),)); // this line
    let line = line!() - 1;
    told((good() + y).predict(), "value breaks", line);
}

#[test]
fn with_a_payload_that_is_no_text() {
    let y = Layer::apply(Tell(Break::Payload), (source(),)); // this line
    let line = line!() - 1;
    told((good() + y).predict(), "not text", line);
}

#[test]
fn in_a_name() {
    let y = Layer::apply(Tell(Break::Name), (source(),)); // this line
    let line = line!() - 1;
    told((good() + y).predict(), "name breaks", line);
}

#[test]
fn in_an_estimate_of_cost() {
    let y = Layer::apply(Tell(Break::Cost), (source(),)); // this line
    let line = line!() - 1;
    told((good() + y).predict(), "cost breaks", line);
}

#[test]
fn in_a_rule() {
    let w = Weight::new(1.0);
    let y = Layer::apply(Tell(Break::Rule), (w.layer(),)); // this line
    let line = line!() - 1;
    told((good() + y).train(&Sgd::new(0.1)), "rule breaks", line);
}

#[test]
fn in_the_body_of_a_dynamic_layer() {
    let before = Layer::dynamic(|| -> std::future::Ready<Result<Layer<f64>>> { panic!("body breaks") }); // this line
    let line = line!() - 1;
    told((good() + before).predict(), "body breaks", line);
    let after = Layer::<f64>::dynamic(|| async { panic!("body breaks at {}", source().extract().await?) }); // this line
    let line = line!() - 1;
    told((good() + after).predict(), "body breaks at 2", line);
}

/// The line of the function below.
const DECIDED: u32 = line!() + 3;

#[differentiable]
fn decided(x: &Layer<f64>, limits: &[f64]) -> Layer<f64> {
    if limits[(!x) as usize] > 0.0 { x.clone() } else { -x }
}

#[test]
fn in_a_differentiable_function() {
    told((good() + decided(&source(), &[1.0])).predict(), "index out of bounds", DECIDED);
}

#[test]
fn in_a_closure_of_a_computation() {
    let mapped = Layer::from(good().predict().map(|_| -> f64 { panic!("map breaks") })); // this line
    let line = line!() - 1;
    told((good() + mapped).predict(), "map breaks", line);
    let chained = Layer::from(good().predict().flat_map(|_| -> Do<f64> { panic!("flat_map breaks") })); // this line
    let line = line!() - 1;
    told((good() + chained).predict(), "flat_map breaks", line);
    let started = Layer::from(Do::from_fn(|| -> std::future::Ready<Result<f64>> { panic!("start breaks") })); // this line
    let line = line!() - 1;
    told((good() + started).predict(), "start breaks", line);
}

#[test]
fn in_a_backward_by_hand() {
    let w = Weight::new(1.0);
    let forward = w.forward().map(|tape| Tape::new(*tape.data(), |_| panic!("backward breaks")));
    let y = Layer::from(forward); // this line
    let line = line!() - 1;
    told((good() + y).train(&Sgd::new(0.1)), "backward breaks", line);
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
        panic!("optimizer breaks")
    }
}

#[test]
fn in_an_optimizer() {
    let w = Weight::new(1.0); // this line
    let line = line!() - 1;
    told((good() + &w).train(&Broken::default()), "optimizer breaks", line);
    assert_eq!(w.value(), 1.0);
}

#[test]
fn in_the_step_of_a_weight_of_the_users() {
    for (broken, message) in
        [(Break::Clone, "clone breaks"), (Break::Zeros, "zeros break"), (Break::Update, "update breaks")]
    {
        let w = Weight::new(Fragile(broken)); // this line
        let line = line!() - 1;
        told(Layer::apply(Take, (w.layer(),)).train(&Sgd::new(0.1).momentum(0.9)), message, line);
    }
}

#[test]
fn in_the_destructor_of_an_intermediate_value() {
    let x = Layer::apply(Give(Break::Drop), (source(),)); // this line
    let line = line!() - 1;
    told((good() + Layer::apply(Take, (x,))).predict(), "drop breaks", line);
}

#[test]
fn in_the_clone_that_hands_a_value_out() {
    let x = Layer::apply(Give(Break::Clone), (source(),)); // this line
    let line = line!() - 1;
    told(x.predict().map(|_| 1.0), "clone breaks", line);
}

#[test]
fn in_the_delta_that_a_backward_starts_with() {
    let w = Weight::new(Fragile(Break::One)); // this line
    let line = line!() - 1;
    told(w.train(&Sgd::new(0.1)).map(|_| 1.0), "one breaks", line);
}

/// If the destructor of the payload panics, the worker must not unwind.
#[test]
fn with_a_payload_that_breaks_itself() {
    let y = Layer::apply(Tell(Break::PayloadDrop), (source(),)); // this line
    let line = line!() - 1;
    watched("a payload that breaks itself", move || told((good() + y).predict(), "not text", line));
}

/// The hook of the program is called for every panic before, during and after a pass, and it is not
/// replaced.
#[test]
fn the_hook_stays_what_it_was() {
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
