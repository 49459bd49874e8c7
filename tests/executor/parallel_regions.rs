//! Kernels with parallel regions: idle workers and waiting threads help, and cheap work wakes no
//! worker.

use crate::support::{on_threads, watched};
use dl::parallel::for_each;
use dl::prelude::*;
use dl::{At, Data, Nothing, Primitive, Result};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// `x + 1`, after a function call.
struct After<F> {
    nanoseconds: f64,
    does: F,
}

impl<F: Fn() + Send + Sync + 'static> Primitive for After<F> {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "after"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        (self.does)();
        Ok(x + 1.0)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(at.delta.clone()),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        self.nanoseconds
    }
}

fn after(nanoseconds: f64, does: impl Fn() + Send + Sync + 'static) -> Layer<f64> {
    Layer::apply(After { nanoseconds, does }, (Weight::new(0.0).layer(),))
}

/// The threads that have arrived.
#[derive(Default)]
struct Arrivals {
    threads: Mutex<HashSet<ThreadId>>,
    changed: Condvar,
}

impl Arrivals {
    /// Registers this thread, and returns whether `many` threads have arrived before the timeout.
    fn arrive_and_await(&self, many: usize) -> bool {
        let mut threads = self.threads.lock().unwrap();
        threads.insert(std::thread::current().id());
        self.changed.notify_all();
        let patience = Duration::from_secs(10);
        let waited = self.changed.wait_timeout_while(threads, patience, |threads| threads.len() < many);
        !waited.unwrap().1.timed_out()
    }
}

/// One operation ends when the other has begun on the second thread. The first thread is then idle:
/// it waits for the pass. A worker that waits takes no tokens, and must help with the region
/// anyway.
fn waiting_thread_helps(what: &'static str, run: impl Fn(Layer<f64>) -> Result<f64> + Send + 'static) {
    watched(what, move || {
        for round in 0..20 {
            let (begun, parts) = (Arc::new(Arrivals::default()), Arc::new(Arrivals::default()));
            let divided_by_two = Arc::new(AtomicBool::new(false));
            let first = after(1e6, {
                let begun = begun.clone();
                move || assert!(begun.arrive_and_await(2))
            });
            let divided = after(1e6, {
                let divided_by_two = divided_by_two.clone();
                move || {
                    assert!(begun.arrive_and_await(2));
                    if round % 2 == 0 {
                        std::thread::sleep(Duration::from_millis(2)); // by then the other thread is parked
                    }
                    for_each(4, 1e6, |_| {
                        divided_by_two.fetch_or(parts.arrive_and_await(2), SeqCst);
                    });
                }
            });
            assert_eq!(run(first + divided).unwrap(), 2.0);
            assert!(divided_by_two.load(SeqCst), "one thread computed all parts");
        }
    });
}

#[test]
fn thread_waiting_for_pass_helps_with_region() {
    waiting_thread_helps("a kernel with a region", |sum| on_threads(2, || sum.predict().wait()));
}

#[test]
fn thread_waiting_for_outer_pass_helps_with_region() {
    waiting_thread_helps("a kernel with a region in a nested pass", |sum| {
        let inside = Layer::dynamic(move || {
            let sum = sum.clone();
            async move { Ok(Layer::constant(sum.predict().await?)) }
        });
        on_threads(2, || inside.predict().wait())
    });
}

/// Two kernels and three threads. The third thread helps with the first kernel when the second one
/// starts its region. All threads are busy at that moment; the third thread must help with the
/// second kernel when it has finished its piece.
#[test]
fn thread_that_helped_one_region_helps_the_next() {
    watched("two kernels and three threads", || {
        for _ in 0..20 {
            let (inside, parts) = (Arc::new(Arrivals::default()), Arc::new(Arrivals::default()));
            let (is_divided, is_done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let until = |flag: &AtomicBool| {
                let begun = Instant::now();
                while !flag.load(SeqCst) && begun.elapsed() < Duration::from_secs(10) {
                    std::thread::yield_now();
                }
                flag.load(SeqCst)
            };
            let first = after(1e9, {
                let (inside, is_divided, is_done) = (inside.clone(), is_divided.clone(), is_done.clone());
                move || {
                    let here = std::thread::current().id();
                    for_each(2, 1e9, |_| {
                        assert!(inside.arrive_and_await(2), "no thread helps with the first kernel");
                        if std::thread::current().id() == here {
                            assert!(until(&is_done), "no thread helps with the second kernel");
                        } else {
                            assert!(until(&is_divided));
                            std::thread::sleep(Duration::from_millis(1)); // until the region is announced
                        }
                    });
                }
            });
            let second = after(1e9, move || {
                while inside.threads.lock().unwrap().len() < 2 {
                    std::thread::yield_now();
                }
                for_each(2, 1e9, |_| {
                    is_divided.store(true, SeqCst);
                    assert!(parts.arrive_and_await(2), "one thread computed all parts");
                });
                is_done.store(true, SeqCst);
            });
            assert_eq!(on_threads(3, || (first + second).predict().wait()).unwrap(), 2.0);
        }
    });
}

/// A lazy value, which must be computed in a parallel region before it is returned.
#[derive(Clone)]
struct LazyValue {
    parts: Arc<Arrivals>,
    by_two: Arc<AtomicBool>,
}

impl Data for LazyValue {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }

    fn settle(values: &[&Self]) {
        let LazyValue { parts, by_two } = values[0];
        for_each(4, 1e6, |_| {
            by_two.fetch_or(parts.arrive_and_await(2), SeqCst);
        });
    }
}

/// Returns its lazy value.
struct MakeLazy(LazyValue);

impl Primitive for MakeLazy {
    type Operands = (Layer<f64>,);
    type Output = LazyValue;

    fn name(&self) -> &'static str {
        "make lazy"
    }

    fn value(&self, _: (&f64,)) -> Result<LazyValue> {
        Ok(self.0.clone())
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (None,)
    }
}

/// Either thread may poll the body; the other one waits for the pass.
#[test]
fn thread_waiting_for_pass_helps_to_realize_extracted_value() {
    watched("a body that returns a lazy value", || {
        for _ in 0..20 {
            let begun = Arc::new(Arrivals::default());
            let lazy = LazyValue { parts: Arc::default(), by_two: Arc::default() };
            let arrives = |begun: &Arc<Arrivals>| {
                let begun = begun.clone();
                after(1e6, move || assert!(begun.arrive_and_await(2)))
            };
            let body = Layer::dynamic({
                let made = Layer::apply(MakeLazy(lazy.clone()), (arrives(&begun),));
                move || {
                    let made = made.clone();
                    async move { made.extract().await.map(|_| Layer::constant(1.0)) }
                }
            });
            let sum = arrives(&begun) + body;
            assert_eq!(on_threads(2, || sum.predict().wait()).unwrap(), 2.0);
            assert!(lazy.by_two.load(SeqCst), "one thread made all parts");
        }
    });
}

#[test]
fn cheap_operations_beside_expensive_one_wake_no_worker() {
    let threads_of = |nanoseconds: &[f64], pause: Duration| {
        let threads: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
        let operation = |&nanoseconds: &f64| {
            let threads = threads.clone();
            after(nanoseconds, move || {
                threads.lock().unwrap().insert(std::thread::current().id());
                std::thread::sleep(pause); // time for another thread to take a part
            })
        };
        let sum: Layer<f64> = nanoseconds.iter().map(operation).sum();
        assert_eq!(on_threads(2, || sum.predict().wait()).unwrap(), nanoseconds.len() as f64);
        threads.lock().unwrap().len()
    };
    for _ in 0..20 {
        let pause = Duration::from_micros(500);
        assert_eq!(threads_of(&[1e6, 1_500.0, 1_500.0, 1_500.0], pause), 1);
        assert_eq!(threads_of(&[1_500.0, 1e6, 1_500.0], pause), 1);
    }
}

/// A thread in a parallel region holds a lock that a cost estimate takes while the estimating
/// thread holds the state lock.
#[test]
fn lock_shared_by_kernel_and_cost_estimate_does_not_deadlock() {
    struct Locking(Arc<Mutex<f64>>);

    impl Primitive for Locking {
        type Operands = (Layer<f64>,);
        type Output = f64;

        fn name(&self) -> &'static str {
            "locking"
        }

        fn value(&self, (x,): (&f64,)) -> Result<f64> {
            let total = self.0.lock().unwrap();
            for_each(4, 1e6, |_| std::thread::yield_now());
            Ok(x + *total)
        }

        fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
            (Some(at.delta.clone()),)
        }

        fn cost(&self, _: (&f64,)) -> f64 {
            let _total = self.0.lock().unwrap();
            1e6
        }
    }

    watched("a lock shared by kernels and cost estimates", || {
        let shared = Arc::new(Mutex::new(1.0));
        let branch = |_| {
            let x = Weight::new(0.0).layer();
            (0..20).fold(x, |x, _| Layer::apply(Locking(shared.clone()), (x,)))
        };
        for threads in [2, 4] {
            for _ in 0..50 {
                let sum: Layer<f64> = (0..4).map(branch).sum();
                assert_eq!(on_threads(threads, || sum.predict().wait()).unwrap(), 80.0);
            }
        }
    });
}

/// The consumers of a cheap kernel may be expensive, so it must not be delayed.
#[test]
fn cheap_operation_runs_before_expensive_one() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let logs = |name: &'static str| {
        let order = order.clone();
        move || order.lock().unwrap().push(name)
    };
    let sum = after(1e6, logs("expensive")) + after(1_500.0, logs("cheap"));
    assert_eq!(on_threads(2, || sum.predict().wait()).unwrap(), 2.0);
    assert_eq!(*order.lock().unwrap(), ["cheap", "expensive"]);
}
