//! Leak tests: passes of every kind that succeed, fail, panic or are cancelled. After their threads
//! have ended, no more memory may be live than before.

use super::allocator::{Alive, alive};
use super::soon;
use dl::nd::{init, ops::*};
use dl::prelude::*;
use dl::{At, Chunk, Error, Memory, Primitive, Result, Slot};
use futures::FutureExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of passes per case.
const PASSES: usize = 600;

const TOO_LARGE: &str = " is too large";

/// x; expensive enough for other threads; above the limit it fails or panics.
#[derive(Clone)]
struct Checked {
    limit: f64,
    panics: bool,
}

impl Checked {
    fn of(&self, x: &Layer<f64>) -> Layer<f64> {
        Layer::apply(self.clone(), (x.clone(),))
    }
}

impl Primitive for Checked {
    type Operands = (Layer<f64>,);
    type Output = f64;
    fn name(&self) -> &'static str {
        "checked"
    }
    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        if *x <= self.limit {
            return Ok(*x);
        }
        assert!(!self.panics, "{x}{TOO_LARGE}");
        Err(Error::invalid(format!("{x}{TOO_LARGE}")))
    }
    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(self.of(at.delta)),)
    }
    fn cost(&self, _: (&f64,)) -> f64 {
        20_000.0
    }
}

/// A network with scalars, tensors, and bodies that branch, loop and suspend.
#[derive(Clone)]
struct Net {
    w: Weight<f64>,
    table: NdWeight<Ix2, f64>,
    checked: Checked,
    sgd: Sgd,
}

#[differentiable]
fn decided(x: &Layer<f64>, net: &Net) -> Layer<f64> {
    let (mut y, mut rounds) = (net.checked.of(x), 0);
    while !y.clone() < 10.0 && rounds < 5 {
        y = y * 1.5 + &net.w;
        rounds += 1;
    }
    let woken = woken_elsewhere().await?;
    if !y > 1.0 { y * woken } else { net.checked.of(&y) }
}

/// One, after a wake-up by another thread.
async fn woken_elsewhere() -> Result<f64> {
    let (send, receive) = futures::channel::oneshot::channel();
    std::thread::spawn(move || {
        let _ = send.send(1.0); // the receiver is gone if the pass was dropped
    });
    receive.await.map_err(Error::other)
}

impl Net {
    fn new(limit: f64, panics: bool) -> Self {
        let sgd = Sgd::new(1e-6).momentum(0.9);
        let table = Weight::new(init::uniform([6, 8], -1.0, 1.0, &mut init::rng(1)));
        Net { w: Weight::new(0.5), table, checked: Checked { limit, panics }, sgd }
    }

    fn loss(&self) -> Layer<f64> {
        let hidden = Nd::full([4, 6], 0.5).matmul(&self.table).tanh();
        let branches: Layer<f64> = (0..4).map(|i| decided(&(&self.w * f64::from(i)), self)).sum();
        hidden.square().mean() + branches * 1e-3
    }
}

/// Runs a pass many times in pools of one and two threads, and counts blocks after the threads have
/// ended, because thread-local caches are freed with their thread. The pool itself frees some
/// blocks later, a bounded number; the tolerance is less than one block per pass.
fn leaves_nothing(what: &str, pass: impl Fn() + Sync) {
    leaves_nothing_with(what, || (), |()| pass());
}

/// [`leaves_nothing`] with a value that is created on the thread of each round and dropped there.
fn leaves_nothing_with<R>(what: &str, make: impl Fn() -> R + Sync, pass: impl Fn(&R) + Sync) {
    for threads in [1, 2] {
        let round = |passes: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let made = make();
                (0..passes).for_each(|_| pass(&made));
            });
        };
        // initializes statics
        std::thread::scope(|scope| scope.spawn(|| round(5)).join().unwrap());
        let before = alive_at_rest();
        std::thread::scope(|scope| scope.spawn(|| round(PASSES)).join().unwrap());
        let few = || alive_at_rest().blocks <= before.blocks + PASSES as isize * 2 / 3;
        assert!(soon(few), "{what} on {threads} threads: {before:?} became {:?}", alive());
    }
}

/// Live memory after all threads have released their free buffers, those of the global rayon pool
/// included, which may have run tasks.
pub(crate) fn alive_at_rest() -> Alive {
    dl::buffers::release();
    rayon::broadcast(|_| dl::buffers::release());
    alive()
}

/// Thread-local caches must be bounded.
fn keeps_little(what: &str, pass: impl Fn() + Sync) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let before = alive();
    pool.install(|| (0..10 * PASSES).for_each(|_| pass()));
    let kept = alive().bytes - before.bytes;
    assert!(kept < 4 << 20, "{what}: {kept} bytes are retained");
}

fn ended(pass: Do<f64>) {
    assert!(pass.wait().unwrap().is_finite());
}

/// An optimizer that fails at the last weight of every step.
#[derive(Clone)]
struct Refuses(Sgd, Arc<AtomicUsize>);

impl Optimizer for Refuses {
    fn slots(&self) -> &[Slot] {
        self.0.slots()
    }
    fn memory(&self) -> Option<&Memory> {
        self.0.memory()
    }
    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        if self.1.fetch_add(1, Relaxed) % 2 == 1 {
            return Err(Error::invalid("refused"));
        }
        self.0.step(chunk, steps)
    }
}

pub(crate) fn run_all() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().downcast_ref::<String>().is_some_and(|text| text.ends_with(TOO_LARGE)) {
            others(info);
        }
    }));
    let (good, fails, panics) = (Net::new(1e9, false), Net::new(1.4, false), Net::new(1.4, true));

    keeps_little_of_what_is_large();
    keeps_little("train", || ended(good.loss().train(&good.sgd)));
    leaves_nothing("predict", || ended(good.loss().predict()));
    leaves_nothing("train", || ended(good.loss().train(&good.sgd)));
    let kept = good.loss();
    leaves_nothing("train with one layer", || ended(kept.train(&good.sgd)));
    leaves_nothing("a tape and its steps", || {
        let tape = good.loss().forward().wait().unwrap();
        tape.backward(Do::now(1.0)).step(&good.sgd).wait().unwrap();
        (0.5 * tape.backward(Do::now(1.0))).step(&good.sgd).wait().unwrap();
    });
    leaves_nothing("a gradient", || ended(good.loss().gradient(&good.w).predict()));
    leaves_nothing("a gradient in a body", || {
        let y = &good.w * &good.w;
        let slope = Layer::dynamic({
            let (y, w) = (y.clone(), good.w.clone());
            move || {
                let (y, w) = (y.clone(), w.clone());
                async move {
                    let effects = y.forward().await?.backward(Do::now(1.0));
                    Ok(Layer::from(effects.delta(&w).map(Option::unwrap)))
                }
            }
        });
        ended((y + slope).train(&good.sgd));
    });
    leaves_nothing("a failed pass", || drop(fails.loss().train(&fails.sgd).wait().unwrap_err()));
    leaves_nothing("a panicking pass", || assert!(panics.loss().train(&panics.sgd).wait().unwrap_err().is_panic()));
    let refuses = Refuses(good.sgd.clone(), Arc::default());
    leaves_nothing("a refused step", || drop(good.loss().train(&refuses).wait().unwrap_err()));
    leaves_nothing("a cancelled pass", || {
        let never = Layer::<f64>::dynamic(std::future::pending);
        let mut run = (good.loss() + never).train(&good.sgd).run();
        for _ in 0..3 {
            assert!((&mut run).now_or_never().is_none());
        }
    });
    for workers in [None, Some(2)] {
        let runtime = || {
            let mut builder = match workers {
                None => tokio::runtime::Builder::new_current_thread(),
                Some(_) => tokio::runtime::Builder::new_multi_thread(),
            };
            builder.worker_threads(2).build().unwrap()
        };
        leaves_nothing_with("a task of tokio", runtime, |runtime| {
            let task = runtime.spawn(good.loss().train(&good.sgd).run());
            runtime.block_on(task).unwrap().unwrap();
        });
        leaves_nothing_with("an aborted task of tokio", runtime, |runtime| {
            let never = Layer::<f64>::dynamic(std::future::pending);
            let task = runtime.spawn((good.loss() + never).predict().run());
            runtime.block_on(async {
                tokio::task::yield_now().await;
                task.abort();
                assert!(task.await.unwrap_err().is_cancelled());
            });
        });
    }
}

/// After a large pass, and after nodes of another thread are dropped, caches must be bounded. When
/// free buffers are released, they must be as small as after a small pass.
fn keeps_little_of_what_is_large() {
    let before = alive().bytes;
    let kept = |nodes: usize| {
        let made = std::thread::spawn(move || (0..nodes).fold(Layer::constant(1.0), |x, _| x + 1e-6));
        let large = made.join().unwrap();
        ended(large.predict());
        drop(large);
        alive().bytes - before
    };
    let once = kept(200_000);
    assert!(kept(200_000) < once + (4 << 20), "memory of the first pass must be reused");
    assert!(kept(3_000_000) < 300 << 20, "memory of the largest pass must not all be retained");
    dl::buffers::release();
    let kept = alive().bytes - before;
    assert!(kept < 4 << 20, "{kept} bytes are retained");
    for (what, pass) in LARGE {
        pass();
        let kept = || alive_at_rest().bytes - before;
        assert!(soon(|| kept() < 4 << 20), "{what}: {} bytes are retained", kept());
    }
}

/// Large passes, each of which fills other tables.
const LARGE: [(&str, fn()); 4] = [
    ("a large step", || {
        let w = Weight::new(1.0);
        let large = (0..200_000).fold(w.layer(), |x, _| x + 1e-6);
        ended(large.train(&Sgd::new(0.1)));
    }),
    ("many suspended bodies", || {
        let all = Arc::new(tokio::sync::Barrier::new(100_000));
        let body = |_| {
            let all = all.clone();
            Layer::dynamic(move || {
                let all = all.clone();
                async move {
                    all.wait().await;
                    Ok(Layer::constant(1.0))
                }
            })
        };
        let bodies: Vec<Layer<f64>> = (0..100_000).map(body).collect();
        ended(bodies.into_iter().sum::<Layer<f64>>().predict());
    }),
    ("many weights", || {
        let weights: Vec<Weight<f64>> = (0..200_000).map(|_| Weight::new(1.0)).collect();
        ended(weights.iter().map(Weight::layer).sum::<Layer<f64>>().predict());
    }),
    ("nodes dropped out of order", || {
        let mut nodes: Vec<Option<Layer<f64>>> = (0..1 << 18).map(|_| Some(Layer::constant(1.0))).collect();
        // consecutive drops are in different blocks
        (0..1 << 18).for_each(|i| drop(nodes[i * 1_001 % (1 << 18)].take()));
    }),
];
