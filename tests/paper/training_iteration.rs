//! *The Overview of a Training Iteration*: steps 1 and 2 have no side effects; steps 3 to 5 happen
//! only when awaited.

use dl::{At, Differentiable, Do, Layer, Primitive, Result, Sgd, Weight};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

struct Counted(Arc<AtomicUsize>);

impl Primitive for Counted {
    type Operands = (Layer<f64>,);
    type Output = f64;
    fn name(&self) -> &'static str {
        "counted"
    }
    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        self.0.fetch_add(1, SeqCst);
        Ok(*x)
    }
    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(Layer::apply(Counted(self.0.clone()), (at.delta.clone(),))),)
    }
}

#[test]
fn training_iteration_has_five_steps() {
    let ran = Arc::<AtomicUsize>::default();
    let w = Weight::new(3.0);

    // 1. calling the differentiable function creates an expression
    let y = Layer::apply(Counted(ran.clone()), (w.layer(),)) * 2.0;
    // 2. `forward` creates a computation
    let forward: Do<_> = y.forward();
    assert_eq!(ran.load(SeqCst), 0, "no kernel may run");

    // 3. running it creates a tape
    let tape = forward.wait().unwrap();
    assert_eq!((*tape.data(), ran.load(SeqCst)), (6.0, 1));

    // 4. the backward of the tape collects side effects, and performs none
    let effects = tape.backward(Do::now(1.0));
    let step = effects.step(&Sgd::new(0.5));
    assert_eq!((w.value(), ran.load(SeqCst)), (3.0, 1));

    // 5. they are performed when awaited
    step.wait().unwrap();
    assert_eq!((w.value(), ran.load(SeqCst)), (2.0, 2));
}

#[test]
fn computation_can_be_run_repeatedly() {
    let w = Weight::new(1.0);
    let y = &w * 2.0;
    let (predict, train) = (y.predict(), y.train(&Sgd::new(0.25)));
    assert_eq!((predict.wait().unwrap(), train.wait().unwrap(), predict.wait().unwrap()), (2.0, 2.0, 1.0));
    assert_eq!((train.wait().unwrap(), predict.wait().unwrap()), (1.0, 0.0));
}
