//! Promise 5: no global tape and no leak; values are released after their last use; dropping a
//! future cancels its work.

use super::support::on_threads;
use dl::{At, Data, Delta, Differentiable, Layer, Primitive, Result, Value};
use futures::FutureExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The number of live values, and its maximum.
#[derive(Default)]
struct Ledger {
    alive: AtomicUsize,
    most: AtomicUsize,
}

/// A number that counts its live instances.
struct Big(f64, Arc<Ledger>);

impl Big {
    fn new(number: f64, ledger: &Arc<Ledger>) -> Self {
        let alive = ledger.alive.fetch_add(1, SeqCst) + 1;
        ledger.most.fetch_max(alive, SeqCst);
        Big(number, ledger.clone())
    }
}

impl Clone for Big {
    fn clone(&self) -> Self {
        Big::new(self.0, &self.1)
    }
}

impl Drop for Big {
    fn drop(&mut self) {
        self.1.alive.fetch_sub(1, SeqCst);
    }
}

impl Data for Big {
    type Delta = Big;
    fn one(&self) -> Big {
        Big::new(1.0, &self.1)
    }
    fn into_value(self) -> Value {
        Value::boxed(self)
    }
}

impl Delta for Big {
    fn sum(mut terms: Vec<Layer<Big>>) -> Layer<Big> {
        terms.remove(0)
    }

    fn scale(layer: &Layer<Big>, _: f64) -> Layer<Big> {
        layer.clone()
    }

    fn squared_norm(&self) -> f64 {
        self.0 * self.0
    }
}

struct Next;

impl Primitive for Next {
    type Operands = (Layer<Big>,);
    type Output = Big;
    fn name(&self) -> &'static str {
        "next"
    }
    fn value(&self, (x,): (&Big,)) -> Result<Big> {
        Ok(Big::new(x.0 + 1.0, &x.1))
    }
    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Big>>,) {
        (Some(at.delta.clone()),)
    }
}

fn chain(length: usize, ledger: &Arc<Ledger>) -> Layer<Big> {
    let mut y = Layer::constant(Big::new(0.0, ledger));
    for _ in 0..length {
        y = Layer::apply(Next, (y,));
    }
    y
}

#[test]
fn predict_memory_is_independent_of_depth() {
    let ledger = Arc::<Ledger>::default();
    for threads in [1, 2] {
        let y = chain(1000, &ledger);
        let value = on_threads(threads, || y.predict().wait()).unwrap();
        assert_eq!(value.0, 1000.0);
    }
    assert!(ledger.most.load(SeqCst) < 10, "{} live values", ledger.most.load(SeqCst));
    assert_eq!(ledger.alive.load(SeqCst), 0);
}

#[test]
fn value_with_live_handle_is_retained() {
    let ledger = Arc::<Ledger>::default();
    let x = chain(3, &ledger);
    let kept = x.clone();
    let y = Layer::dynamic(move || {
        let x = kept.clone();
        async move {
            let next = Layer::apply(Next, (x.clone(),));
            next.extract().await?; // the pass knows no further consumers of x
            Ok(Layer::apply(Next, (x.clone(),)))
        }
    });
    assert_eq!(y.predict().wait().unwrap().0, 4.0);
    drop((x, y));
    assert_eq!(ledger.alive.load(SeqCst), 0);
}

#[test]
fn tape_dropped_without_backward_releases_values() {
    let ledger = Arc::<Ledger>::default();
    let tape = chain(100, &ledger).forward().wait().unwrap();
    assert!(ledger.alive.load(SeqCst) >= 100, "a tape must retain the residuals");
    drop(tape);
    assert_eq!(ledger.alive.load(SeqCst), 0);
}

#[test]
fn dropped_run_releases_all_values() {
    let ledger = Arc::<Ledger>::default();
    let held = chain(100, &ledger);
    let y = Layer::dynamic(move || {
        let held = held.clone();
        async move {
            let _guard = held.extract().await?;
            let tape = held.forward().await?;
            std::future::pending::<()>().await;
            drop(tape);
            Ok(held)
        }
    });
    let mut run = y.train(&dl::Sgd::new(0.1)).run();
    on_threads(2, || {
        for _ in 0..20 {
            assert!((&mut run).now_or_never().is_none());
            std::thread::yield_now();
        }
    });
    assert!(ledger.alive.load(SeqCst) > 0);
    drop((run, y));
    assert_eq!(ledger.alive.load(SeqCst), 0);
}

#[test]
fn dropped_run_starts_no_further_operation() {
    let ran = Arc::<AtomicUsize>::default();
    let count = ran.clone();
    let (started, wait) = std::sync::mpsc::channel();
    let slow = super::support::Custom(move |x| {
        count.fetch_add(1, SeqCst);
        let _ = started.send(());
        std::thread::sleep(std::time::Duration::from_millis(50));
        Ok(x)
    });
    let mut y = slow.of(&Layer::constant(1.0));
    for _ in 0..100 {
        let count = ran.clone();
        y = super::support::Custom(move |x| {
            count.fetch_add(1, SeqCst);
            Ok(x)
        })
        .of(&y);
    }
    let mut run = y.predict().run();
    assert!((&mut run).now_or_never().is_none());
    wait.recv_timeout(std::time::Duration::from_secs(60)).expect("the first operation starts on the pool");
    drop(run);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(ran.load(SeqCst), 1, "no further operation may start");
}

#[test]
fn optimizer_state_is_released_with_its_weight() {
    let sgd = dl::Sgd::new(0.1).momentum(0.9);
    for _ in 0..100 {
        let w = dl::Weight::new(1.0);
        w.layer().train(&sgd).wait().unwrap();
    }
    assert!(format!("{sgd:?}").contains("weights: 1"), "{sgd:?}");
}

#[test]
fn backward_inside_predict_is_error() {
    let w = dl::Weight::new(2.0);
    let held = w.clone();
    let y = Layer::dynamic(move || {
        let w = held.clone();
        async move {
            let tape = (&w * &w).forward().await?;
            tape.backward(dl::Do::now(1.0)).step(&dl::Sgd::new(0.1)).await?;
            Ok(w.layer())
        }
    });
    let error = y.predict().wait().unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("a backward inside `predict`"), "{error}");
    assert_eq!(w.value(), 2.0);
}

/// A loop of bangs retains only the values in use, in a computation and in a dynamic node. Retained
/// layers keep their values after many others have been swept.
#[test]
fn long_loop_of_bangs_releases_unused_values() {
    let ledger = Arc::<Ledger>::default();
    let (kept, loop_ledger) = (chain(3, &ledger), ledger.clone());
    let run = move || {
        let (kept, ledger) = (kept.clone(), loop_ledger.clone());
        async move {
            let mut retained = Vec::new();
            for i in 0..5000 {
                let y = Layer::apply(Next, (kept.clone(),));
                assert_eq!(y.extract().await?.0, 4.0);
                if i % 1000 == 0 {
                    retained.push(y);
                }
                let most = ledger.alive.load(SeqCst);
                assert!(most < 200, "{most} values at step {i}");
            }
            for y in &retained {
                assert_eq!(Layer::apply(Next, (y.clone(),)).extract().await?.0, 5.0);
            }
            Ok(1.0)
        }
    };
    let dynamic = {
        let run = run.clone();
        Layer::dynamic(move || {
            let run = run();
            async move { run.await.map(Layer::constant) }
        })
    };
    let run_both = || {
        assert_eq!(dl::Do::from_fn(run.clone()).wait().unwrap(), 1.0);
        assert_eq!(dynamic.train(&dl::Sgd::new(0.1)).wait().unwrap(), 1.0);
        ledger.alive.load(SeqCst)
    };
    let before = ledger.alive.load(SeqCst);
    assert_eq!(on_threads(1, run_both), before, "without helpers all values must be released immediately");
    run_both();
    drop((run, dynamic));
    // a worker that is preempted may still own the last values
    let since = Instant::now();
    while ledger.alive.load(SeqCst) > 0 {
        assert!(since.elapsed() < Duration::from_secs(60), "{} live values", ledger.alive.load(SeqCst));
        std::thread::yield_now();
    }
}

#[test]
fn tape_is_usable_after_dropped_step() {
    let w = dl::Weight::new(1.0);
    let tape = super::support::Custom(Ok).of(&(&w * 2.0)).forward().wait().unwrap();
    let step = || {
        let delta = dl::Do::from_fn(|| async {
            std::future::pending::<()>().await;
            Ok(1.0)
        });
        tape.backward(delta).step(&dl::Sgd::new(0.1)).run()
    };
    let mut pending = step();
    assert!((&mut pending).now_or_never().is_none());
    drop(pending);
    tape.backward(dl::Do::now(1.0)).step(&dl::Sgd::new(0.1)).wait().unwrap();
    assert_eq!(w.value(), 0.8);
}

#[test]
fn failed_pass_starts_no_further_operation() {
    let ran = Arc::<AtomicUsize>::default();
    let count = ran.clone();
    let y = Layer::<f64>::dynamic(move || {
        let many: Layer<f64> = (0..40)
            .map(|i| {
                let count = count.clone();
                super::support::Custom(move |x| {
                    count.fetch_add(1, SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    Ok(x)
                })
                .of(&Layer::constant(f64::from(i)))
            })
            .sum();
        async move {
            let _ = futures::poll!(&mut many.extract());
            Err(dl::Error::invalid("stop"))
        }
    });
    assert!(on_threads(2, || y.predict().wait()).is_err());
    let at_the_end = ran.load(SeqCst);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(ran.load(SeqCst) <= at_the_end + 4, "no further operation may start");
}
