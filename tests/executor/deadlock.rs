//! A pass can be started anywhere: in user code of other passes at any depth, in pools of any size,
//! under any executor.

use super::support::{Log, block_on, on_threads, on_tokio, sweep, watched_by_log};
use dl::prelude::*;
use dl::{At, Chunk, Data, Primitive, Result, Value};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// User code that is called at a site.
type Hook = Arc<dyn Fn() + Send + Sync>;

/// The site of user code within a pass.
#[derive(Clone, Copy, Debug)]
enum Site {
    /// The kernel of an operation.
    Value,
    /// The body of a dynamic node.
    Body,
    /// An operation of a pass that a body awaits.
    BodyAwait,
    /// An operation of a pass that a body awaits, joined with another pass.
    BodyJoin,
    /// A closure of `Do::map`.
    Map,
    /// A closure of `Do::flat_map`, in a layer.
    FlatMap,
    /// A hand-written backward.
    HandWritten,
    /// An optimizer.
    Optimizer,
    /// The destructor of a value.
    Drop,
    /// An operation of a pass that a foreign executor runs.
    BlockOn,
    /// A job of the rayon pool.
    Job,
}

const SITES: [Site; 11] = [
    Site::Value,
    Site::Body,
    Site::BodyAwait,
    Site::BodyJoin,
    Site::Map,
    Site::FlatMap,
    Site::HandWritten,
    Site::Optimizer,
    Site::Drop,
    Site::BlockOn,
    Site::Job,
];

/// x; the kernel calls the hook.
struct Hooked(Hook);

impl Hooked {
    fn layer(hook: &Hook) -> Layer<f64> {
        parallel_zero() + Layer::apply(Hooked(hook.clone()), (Layer::constant(1.0),))
    }
}

impl Primitive for Hooked {
    type Operands = (Layer<f64>,);
    type Output = f64;
    fn name(&self) -> &'static str {
        "hooked"
    }
    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        (self.0)();
        Ok(*x)
    }
    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(at.delta.clone()),)
    }
    fn cost(&self, _: (&f64,)) -> f64 {
        1e5
    }
}

/// Zero, with parallel work for all threads.
fn parallel_zero() -> Layer<f64> {
    let nothing: Hook = Arc::new(|| ());
    (0..6).map(|_| Layer::apply(Hooked(nothing.clone()), (Layer::constant(0.0),))).sum()
}

/// A value. Its destructor calls the hook.
#[derive(Clone)]
struct Dropped(#[allow(dead_code, reason = "held for its destructor")] Arc<DropHook>);

struct DropHook(Hook);

impl Drop for DropHook {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Data for Dropped {
    type Delta = f64;
    fn one(&self) -> f64 {
        1.0
    }
    fn into_value(self) -> Value {
        Value::boxed(self)
    }
}

struct Make(Hook);

impl Primitive for Make {
    type Operands = (Layer<f64>,);
    type Output = Dropped;
    fn name(&self) -> &'static str {
        "make"
    }
    fn value(&self, _: (&f64,)) -> Result<Dropped> {
        Ok(Dropped(Arc::new(DropHook(self.0.clone()))))
    }
    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (None,)
    }
}

struct Use;

impl Primitive for Use {
    type Operands = (Layer<Dropped>,);
    type Output = f64;
    fn name(&self) -> &'static str {
        "use"
    }
    fn value(&self, _: (&Dropped,)) -> Result<f64> {
        Ok(1.0)
    }
    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (None,)
    }
}

#[derive(Clone)]
struct HookedOptimizer(Hook);

impl Optimizer for HookedOptimizer {
    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        (self.0)();
        Ok(())
    }
}

/// Runs a pass that calls the hook at a site.
fn call(site: Site, hook: Hook) -> Result<f64> {
    match site {
        Site::Value => Hooked::layer(&hook).predict().wait(),
        Site::Body => {
            let body = Layer::dynamic(move || {
                hook();
                std::future::ready(Ok(parallel_zero()))
            });
            (parallel_zero() + body).predict().wait()
        }
        Site::BodyAwait => {
            let body = Layer::dynamic(move || {
                let inner = Hooked::layer(&hook).predict();
                async move { inner.await.map(Layer::constant) }
            });
            (parallel_zero() + body).predict().wait()
        }
        Site::BodyJoin => {
            let body = Layer::dynamic(move || {
                let both = Hooked::layer(&hook).predict().zip(parallel_zero().predict());
                async move { both.await.map(|(x, _)| Layer::constant(x)) }
            });
            (parallel_zero() + body).predict().wait()
        }
        Site::Map => {
            let mapped = parallel_zero().predict().map(move |x| {
                hook();
                x
            });
            mapped.wait()
        }
        Site::FlatMap => {
            let computed = parallel_zero().forward().flat_map(move |_| {
                hook();
                parallel_zero().forward()
            });
            (parallel_zero() + Layer::from(computed)).train(&Sgd::new(0.1)).wait()
        }
        Site::HandWritten => {
            let w = Weight::new(1.0);
            let twice = w.forward().map(move |tape| {
                let hook = hook.clone();
                Tape::new(2.0 * tape.data(), move |delta: Do<f64>| {
                    hook();
                    tape.backward(delta)
                })
            });
            (parallel_zero() + Layer::from(twice)).train(&Sgd::new(0.1)).wait()
        }
        Site::Optimizer => (parallel_zero() + &Weight::new(1.0)).train(&HookedOptimizer(hook)).wait(),
        Site::Drop => {
            let made = Layer::apply(Make(hook), (Layer::constant(0.0),));
            (parallel_zero() + Layer::apply(Use, (made,)) + parallel_zero()).predict().wait()
        }
        Site::BlockOn => block_on(Hooked::layer(&hook).predict().run()),
        Site::Job => {
            let (left, right) =
                rayon::join(|| parallel_zero().predict().wait(), || Hooked::layer(&hook).predict().wait());
            left.and(right)
        }
    }
}

/// Runs nested passes at these sites, the outermost first. Returns the depth that was reached.
fn nest(sites: &[Site]) -> Result<usize> {
    let Some((&site, rest)) = sites.split_first() else { return parallel_zero().predict().wait().map(|_| 0) };
    let rest = rest.to_vec();
    let (result, inner) = mpsc::channel();
    let hook: Hook = Arc::new(move || result.send(nest(&rest)).expect("the receiver is alive"));
    call(site, hook)?;
    // a destructor may run on another thread after the pass has ended
    let inner = inner.recv_timeout(Duration::from_secs(60)).expect("the hook must be called");
    inner.map(|depth| depth + 1)
}

/// The context in which the outermost pass is started.
#[derive(Clone, Copy, Debug)]
enum From {
    Thread,
    Pool(usize),
    /// A blocking task of tokio.
    Task(Option<usize>),
    /// A task of tokio that awaits a pass. A kernel of that pass starts the nested passes.
    Awaited(Option<usize>),
}

const FROM: [From; 8] = [
    From::Thread,
    From::Pool(1),
    From::Pool(2),
    From::Pool(4),
    From::Task(None),
    From::Task(Some(2)),
    From::Awaited(None),
    From::Awaited(Some(2)),
];

fn nest_all(from: From, all: impl IntoIterator<Item = Vec<Site>> + Send + 'static) {
    let log = Log::default();
    let watch = log.clone();
    let run = move || {
        for sites in all {
            log.say(format!("{sites:?} from {from:?}"));
            assert_eq!(nest(&sites).unwrap(), sites.len(), "{sites:?} from {from:?}");
        }
    };
    watched_by_log(&watch, move || match from {
        From::Thread => run(),
        From::Pool(threads) => on_threads(threads, run),
        From::Task(workers) => on_tokio(workers, async move { run() }),
        From::Awaited(workers) => {
            let run = Mutex::new(Some(run));
            let hook: Hook = Arc::new(move || run.lock().unwrap().take().expect("once")());
            on_tokio(workers, Hooked::layer(&hook).predict().run()).unwrap();
        }
    });
}

#[test]
fn passes_nested_at_any_pair_of_sites_do_not_deadlock() {
    for from in FROM {
        let pairs = SITES.into_iter().flat_map(|outer| SITES.map(|inner| vec![outer, inner]));
        nest_all(from, pairs);
    }
}

#[test]
fn deeply_nested_passes_do_not_deadlock() {
    for from in FROM {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let samples = if sweep() { 500 } else { 20 };
        let deep = |_| {
            let depth = random.random_range(3..9);
            (0..depth).map(|_| *SITES.choose(&mut random).unwrap()).collect()
        };
        nest_all(from, (0..samples).map(deep).collect::<Vec<Vec<Site>>>());
    }
}
