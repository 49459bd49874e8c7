//! Nested steps: an optimizer that trains other weights during a step.

use super::support::{on_threads, watched};
use dl::prelude::*;
use dl::schedule::Linear;
use dl::{Chunk, Memory, Result, Slot, Snapshot, Step};
use std::sync::{Arc, Barrier};

/// Gradient descent that calls a function before each step.
#[derive(Clone)]
struct Before {
    sgd: Sgd,
    call: Arc<dyn Fn() -> Result<()> + Send + Sync>,
}

impl Before {
    fn new(sgd: &Sgd, call: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        Before { sgd: sgd.clone(), call: Arc::new(call) }
    }
}

impl Optimizer for Before {
    fn slots(&self) -> &[Slot] {
        self.sgd.slots()
    }
    fn memory(&self) -> Option<&Memory> {
        self.sgd.memory()
    }
    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        (self.call)()?;
        self.sgd.step(chunk, steps)
    }
}

/// A chain of optimizers, each of which trains the next weight.
#[test]
fn chain_of_nested_steps_succeeds() {
    let weights: Vec<Weight<f64>> = (0..10).map(|_| Weight::new(0.0)).collect();
    let chain = weights.iter().fold(Do::now(0.0), |next, w| {
        w.train(&Before::new(&Sgd::new(1.0).momentum(0.5), move || next.wait().map(drop)))
    });
    watched("a chain of nested steps", move || {
        chain.wait().unwrap();
        chain.wait().unwrap();
    });
    for w in &weights {
        assert_eq!(w.value(), -2.5);
    }
}

/// A nested step is independent: its result is kept if the outer step fails.
#[test]
fn nested_step_is_kept_when_outer_step_fails() {
    let (inner, outer) = (Weight::new(0.0), Weight::new(0.0));
    let step = inner.train(&Sgd::new(1.0));
    let fails = Before::new(&Sgd::new(1.0), move || {
        step.wait()?;
        Err(dl::Error::invalid("and now it fails"))
    });
    assert!(outer.train(&fails).wait().unwrap_err().is_invalid());
    assert_eq!((inner.value(), outer.value()), (-1.0, 0.0));
}

/// A nested step must not wait: if it needs a lock that the outer step holds, it is refused, and
/// the outer step fails, too.
#[test]
fn nested_step_with_memory_of_outer_step_is_error() {
    let (inner, outer) = (Weight::new(0.0), Weight::new(0.0));
    let (sgd, kept) = (Sgd::new(1.0).momentum(0.5), [inner.clone(), outer.clone()]);
    watched("a nested step with the same memory", move || {
        let step = inner.train(&sgd);
        let error = outer.train(&Before::new(&sgd, move || step.wait().map(drop))).wait().unwrap_err();
        assert!(error.to_string().contains("a memory that another step holds"), "{error}");
    });
    assert_eq!(kept.map(|w| w.value()), [0.0, 0.0]);
}

#[test]
fn nested_steps_on_each_others_weights_do_not_deadlock() {
    let weights = [Weight::new(0.0), Weight::new(0.0)];
    let kept = weights.clone();
    watched("nested steps on each other's weights", move || {
        let both = Arc::new(Barrier::new(2));
        std::thread::scope(|scope| {
            for [own, other] in [[0, 1], [1, 0]].map(|pair| pair.map(|i| weights[i].clone())) {
                let both = both.clone();
                let before = Before::new(&Sgd::new(1.0), move || {
                    both.wait();
                    let inner = other.train(&Sgd::new(1.0)).wait().map(drop);
                    both.wait();
                    inner
                });
                scope.spawn(move || {
                    let error = own.train(&before).wait().unwrap_err();
                    assert!(error.to_string().contains("a weight that this or another step holds"), "{error}");
                });
            }
        });
    });
    assert_eq!(kept.map(|w| w.value()), [0.0, 0.0]);
}

/// Adam that formats its own state at the beginning of each step and for each weight.
#[derive(Clone)]
struct SelfReading(Adam);

impl SelfReading {
    fn describe(&self) -> Result<String> {
        let memory = self.0.memory().expect("Adam has a memory");
        Ok(format!("{} {} {} {memory:?} {:?}", self.0.learning_rate()?, memory.steps(), memory.is_empty(), self.0))
    }
}

impl Optimizer for SelfReading {
    fn slots(&self) -> &[Slot] {
        self.0.slots()
    }
    fn memory(&self) -> Option<&Memory> {
        self.0.memory()
    }
    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        assert!(!self.describe()?.is_empty());
        self.0.begin(step)
    }
    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        assert!(!self.describe()?.is_empty());
        self.0.step(chunk, steps)
    }
}

#[test]
fn optimizer_reads_own_state_during_step() {
    let w = Weight::new(1.0_f64);
    let self_reading = SelfReading(Adam::new(Linear::new(0.1, 0.0, 100)));
    assert!(self_reading.describe().unwrap().starts_with("0.1 0 true"));
    let step = w.train(&self_reading);
    watched("an optimizer that reads its state", move || step.wait().unwrap());
    assert!(self_reading.describe().unwrap().starts_with("0.099 1 false"), "{}", self_reading.describe().unwrap());
}

/// A weight that is locked by a step cannot be set during that step.
#[test]
fn set_of_weight_during_its_step_is_error() {
    let (w, other) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
    let (same, free) = (w.clone(), other.clone());
    let step = w.train(&Before::new(&Sgd::new(1.0), move || {
        free.set(5.0);
        same.set(0.5);
        Ok(())
    }));
    let error = watched("a weight that is set during its step", move || step.wait().unwrap_err());
    assert!(error.is_panic() && error.to_string().contains("that this or another step holds"), "{error}");
    assert_eq!((w.value(), other.value()), (1.0, 5.0));
}

/// A pass within a step uses several threads. None of them may wait for a lock that the step holds.
#[test]
fn bodies_in_step_on_two_threads_do_not_deadlock() {
    bodies_inside_a_step(false);
    bodies_inside_a_step(true);
}

fn bodies_inside_a_step(blocking: bool) {
    let w = Weight::new(3.0_f64);
    let (snapshot, both) = (Snapshot::take(), Arc::new(Barrier::new(2)));
    let body = |train: bool| {
        let (w, both) = (w.clone(), both.clone());
        Layer::dynamic(move || {
            let w = w.clone();
            both.wait(); // so that two threads run the bodies
            async move {
                if train {
                    let step = w.train(&Sgd::new(1.0));
                    let refused = if blocking { step.wait() } else { step.await }.unwrap_err();
                    assert!(refused.to_string().contains("that this or another step holds"), "{refused}");
                }
                Ok(w.layer() * 2.0)
            }
        })
    };
    let (a, b) = (body(true), body(true));
    let call = move || {
        let (a, b) = Do::predict((a.clone(), b.clone())).on(&snapshot).wait()?;
        assert_eq!((a, b), (6.0, 6.0));
        Ok(())
    };
    let step = w.train(&Before::new(&Sgd::new(1.0), call));
    watched("bodies in a step", move || on_threads(2, || step.wait()).unwrap());
    assert_eq!(w.value(), 2.0);
}
