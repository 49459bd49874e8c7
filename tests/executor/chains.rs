//! Chains of operations: which thread runs them, failures, cancellation.

use crate::support::{on_threads, watched};
use dl::prelude::*;
use dl::{At, Error, Primitive, Result, Run};
use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Waker};
use std::thread::ThreadId;
use std::time::Duration;

/// `x + 1`, after a function call. Its pullback passes the delta through `Step` as well, so the
/// delta is incremented, too.
#[derive(Clone)]
struct Step<F> {
    nanoseconds: f64,
    does: F,
}

impl<F: Fn() -> Result<()> + Clone + Send + Sync + 'static> Primitive for Step<F> {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "step"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        (self.does)().map(|()| x + 1.0)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(Layer::apply(self.clone(), (at.delta.clone(),))),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        assert!(self.nanoseconds >= 0.0, "unknown cost");
        self.nanoseconds
    }
}

fn step(x: &Layer<f64>, nanoseconds: f64, does: impl Fn() -> Result<()> + Clone + Send + Sync + 'static) -> Layer<f64> {
    Layer::apply(Step { nanoseconds, does }, (x.clone(),))
}

#[test]
fn chain_of_operations_stays_on_its_thread() {
    let threads: Vec<Arc<Mutex<HashSet<ThreadId>>>> = (0..16).map(|_| Arc::default()).collect();
    let branch = |threads: &Arc<Mutex<HashSet<ThreadId>>>| {
        let x = Weight::new(0.0).layer();
        (0..8).fold(x, |x, _| {
            let threads = threads.clone();
            step(&x, 4_000.0, move || {
                threads.lock().unwrap().insert(std::thread::current().id());
                std::thread::sleep(Duration::from_micros(100)); // time for another thread to take a part
                Ok(())
            })
        })
    };
    let sum: Layer<f64> = threads.iter().map(branch).sum();
    assert_eq!(on_threads(2, || sum.predict().wait()).unwrap(), 128.0);
    // a branch may be split if a worker takes its head while its tail is being discovered
    let whole = threads.iter().filter(|threads| threads.lock().unwrap().len() == 1).count();
    assert!(whole >= 8, "of 16 branches {whole} stayed on their threads");
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Error,
    Panic,
    PanicOfCost,
}

#[test]
fn consumers_of_failed_operation_are_not_run() {
    for fault in [Fault::Error, Fault::Panic, Fault::PanicOfCost] {
        for at in 0..6 {
            let messages = [1, 2, 4].map(|threads| {
                let weights = [0; 4].map(|_| Weight::new(1.0));
                let runs = Arc::new(AtomicUsize::new(0));
                let branch = |(number, w): (usize, &Weight<f64>)| {
                    (0..6).fold(w.layer(), |x, place| {
                        let fails = number == 2 && place == at;
                        let unknown = fails && fault == Fault::PanicOfCost;
                        let runs = runs.clone();
                        step(&x, if unknown { -1.0 } else { 5_000.0 }, move || {
                            runs.fetch_add(1, SeqCst);
                            match fault {
                                Fault::Error if fails => Err(Error::invalid("no further")),
                                Fault::Panic if fails => panic!("no further"),
                                _ => Ok(()),
                            }
                        })
                    })
                };
                let sum: Layer<f64> = weights.iter().enumerate().map(branch).sum();
                let error = on_threads(threads, || sum.train(&Sgd::new(1.0)).wait()).unwrap_err();
                assert!(weights.iter().all(|w| w.value() == 1.0));
                let expected = 18 + at + usize::from(fault != Fault::PanicOfCost);
                assert_eq!(runs.load(SeqCst), expected, "{fault:?} at {at} on {threads} threads");
                error.to_string()
            });
            assert!(messages[0].contains("step") && messages.iter().all(|text| *text == messages[0]), "{messages:?}");
        }
    }
}

/// An expensive operation must not wait for another one that needs the same input.
#[test]
fn expensive_siblings_run_in_parallel() {
    let both = Arc::new(Barrier::new(2));
    let shared = step(&Weight::new(0.0).layer(), 4_000.0, || Ok(()));
    let expensive = |_| {
        let both = both.clone();
        step(&shared, 1e6, move || {
            both.wait();
            Ok(())
        })
    };
    let [a, b] = [0, 1].map(expensive);
    let sum = step(&a, 4_000.0, || Ok(())) + b;
    assert_eq!(watched("an expensive sibling", move || on_threads(2, || sum.predict().wait())).unwrap(), 5.0);
}

/// Polls the run once, and drops it when a kernel has begun on a worker.
fn drop_when<T>(run: Run<T>, begins: &mpsc::Receiver<()>) {
    let mut run = pin!(run);
    assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    begins.recv().unwrap();
}

#[test]
fn dropped_run_starts_no_further_kernel() {
    watched("a dropped run", || {
        let runs = Arc::new(AtomicUsize::new(0));
        let (begun, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let goes_on = Mutex::new(goes_on);
        let w = Weight::new(0.0);
        let does = Arc::new({
            let runs = runs.clone();
            move || {
                if runs.fetch_add(1, SeqCst) == 1 {
                    begun.send(()).unwrap();
                    goes_on.lock().unwrap().recv().unwrap();
                }
                Ok(())
            }
        });
        let y = (0..10).fold(w.layer(), |x, _| {
            let does = does.clone();
            step(&x, 1e6, move || does())
        });
        drop_when(y.predict().run(), &begins);
        go_on.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(20)); // only makes a failure more likely
        let again = y.predict().wait().unwrap();
        assert_eq!((again, runs.load(SeqCst)), (10.0, 12));
    });
}

/// Deltas that are being computed in a pass when the run is dropped are completed in that pass,
/// each once.
#[test]
fn interrupted_chain_is_resumed_without_recomputation() {
    watched("an interrupted chain", || {
        let runs = Arc::new(AtomicUsize::new(0));
        let (begun, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let goes_on = Arc::new(Mutex::new(goes_on));
        let w = Weight::new(0.0);
        let y = (0..10).fold(w.layer(), |x, _| {
            let (runs, begun, goes_on) = (runs.clone(), begun.clone(), goes_on.clone());
            step(&x, 1e6, move || {
                if runs.fetch_add(1, SeqCst) == 12 {
                    begun.send(()).unwrap();
                    goes_on.lock().unwrap().recv().unwrap();
                }
                Ok(())
            })
        });
        let effects = y.backward().wait().unwrap();
        assert_eq!(runs.load(SeqCst), 10);
        drop_when(effects.delta(&w).run(), &begins);
        go_on.send(()).unwrap();
        for _ in 0..2 {
            assert_eq!(effects.delta(&w).wait().unwrap(), Some(11.0));
            assert_eq!(runs.load(SeqCst), 20);
        }
    });
}

/// A value that only one operation uses is extracted while that operation, which will release it,
/// is running.
#[test]
fn extract_of_operand_during_its_consumer_succeeds() {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    let slow = |x: Layer<f64>| {
        let does: fn() -> Result<()> = || {
            BEGUN.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(50));
            Ok(())
        };
        Layer::apply(Step { nanoseconds: 1_000.0, does }, (x,))
    };
    let ask = move || {
        let y = slow(slow(Weight::new(0.0).layer()));
        let asks = Layer::dynamic({
            let y = y.clone();
            move || {
                let y = y.clone();
                async move {
                    while BEGUN.load(SeqCst) < 2 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    let (_, (x,)) = y.applied::<Step<fn() -> Result<()>>>().expect("the operation is `Step`");
                    Ok(Layer::constant(x.extract().await?))
                }
            }
        });
        // enough to wake a second thread; it begins with the operations, which are discovered last
        let other = || Layer::dynamic(|| async { Ok(Layer::constant(0.0)) });
        let (x, _, y) = Do::predict((asks, [other(), other()], y)).wait().unwrap();
        (x, y)
    };
    assert_eq!(watched("an extracted operand", move || on_threads(2, ask)), (1.0, 2.0));
}
