//! Small kernels, and concurrent traversals.

use super::passes::{explore_with_pools, start_and_leave};
use super::tracked::{Tracked, plus, times};
use super::{Part, together};
use crate::api::built_in::BuiltIn;
use crate::api::deferred::Do;
use crate::api::differentiable::Differentiable;
use crate::api::primitive::{At, Primitive};
use crate::api::weight::Weight;
use crate::error::Result;
use crate::graph::layer::Layer;
use crate::testing::Sgd;
use dl_parallel::sync::checker::thread;
use dl_parallel::sync::{AtomicUsize, Ordering};
use std::sync::Arc;

/// x ↦ x + x, by a small kernel that counts its runs; its cotangent is computed by another such
/// kernel.
#[derive(Clone, Default)]
struct Twice {
    forward: Arc<AtomicUsize>,
    backward: Arc<AtomicUsize>,
}

impl Twice {
    fn of(&self, x: &Layer<Tracked>) -> Layer<Tracked> {
        Layer::apply(self.clone(), (x.clone(),))
    }

    fn counts(&self) -> (usize, usize) {
        (self.forward.load(Ordering::SeqCst), self.backward.load(Ordering::SeqCst))
    }
}

impl Primitive for Twice {
    type Operands = (Layer<Tracked>,);
    type Output = Tracked;

    fn name(&self) -> &'static str {
        "twice"
    }

    fn value(&self, (x,): (&Tracked,)) -> Result<Tracked> {
        // Lets other threads run.
        thread::yield_now();
        self.forward.fetch_add(1, Ordering::SeqCst);
        Ok(x.times(2.0))
    }

    fn cost(&self, _: (&Tracked,)) -> f64 {
        100.0
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Tracked>>,) {
        let backward = Twice { forward: self.backward.clone(), ..self.clone() };
        (Some(backward.of(at.delta)),)
    }
}

/// Two bodies, which may be polled concurrently, extract the same layers and resolve to layers
/// above these.
#[test]
fn concurrent_traversals_run_each_small_kernel_once() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let (w, shared, above) = (Weight::new(value), Twice::default(), Twice::default());
        let four = shared.of(&shared.of(&w.layer()));
        let body = |asks: bool| {
            let (four, above) = (four.clone(), above.clone());
            Layer::dynamic(move || {
                let (four, above) = (four.clone(), above.clone());
                async move {
                    if asks {
                        assert_eq!(four.extract().await?.number(), 4.0);
                    }
                    Ok(above.of(&above.of(&four)))
                }
            })
        };
        let sum = plus(body(true), body(false));
        assert_eq!(sum.predict().wait().expect("nothing fails").number(), 32.0);
        assert_eq!((shared.counts(), above.counts()), ((2, 0), (4, 0)), "each kernel runs once");
        drop((four, sum, w));
        assert_eq!(copies.left(), 0);
    });
}

/// Two runs evaluate the same cotangents of one tape, so both traverse in its pass.
#[test]
fn two_drivers_run_each_small_kernel_once() {
    explore_with_pools(|| {
        let (w, twice) = (Weight::new(Tracked::new(1.0)), Twice::default());
        let four = twice.of(&twice.of(&w.layer()));
        let tape = four.forward().wait().expect("nothing fails");
        let effects = tape.backward(Do::from_fn(|| async { Ok(Tracked::new(1.0)) }));
        let step = || {
            let effects = effects.clone();
            Box::new(move || effects.step(&Sgd::new(1.0)).wait().expect("nothing fails")) as Part
        };
        together([step(), step()]);
        assert_eq!(w.value().number(), 1.0 - 4.0 - 4.0);
        assert_eq!(twice.counts(), (2, 2), "each kernel runs once");
    });
}

/// One of the drivers does not wait for the kernels that it has discovered.
#[test]
fn driver_leaving_between_small_kernels_runs_each_once() {
    explore_with_pools(|| {
        let (w, twice) = (Weight::new(Tracked::new(1.0)), Twice::default());
        let four = twice.of(&twice.of(&w.layer()));
        let tape = four.forward().wait().expect("nothing fails");
        let effects = tape.backward(Do::from_fn(|| async { Ok(Tracked::new(1.0)) }));
        let leaves = effects.clone();
        let leaver = thread::spawn(move || start_and_leave(&leaves));
        effects.step(&Sgd::new(1.0)).wait().expect("a pass with a driver continues");
        let ended = leaver.join().expect("no panic");
        assert_eq!(w.value().number(), if ended { -7.0 } else { -3.0 });
        assert_eq!(twice.counts(), (2, 2), "each kernel runs once");
    });
}

/// A run that is joined with another one extracts a layer above.
#[test]
fn joined_extracts_run_each_small_kernel_once() {
    explore_with_pools(|| {
        let (w, twice) = (Weight::new(Tracked::new(1.0)), Twice::default());
        let two = twice.of(&w.layer());
        let four = twice.of(&two);
        let both = || {
            let (two, four) = (two.clone(), four.clone());
            Layer::dynamic(move || {
                let (two, four) = (two.clone(), four.clone());
                async move {
                    let (two, four) = futures::future::join(two.extract(), four.extract()).await;
                    Ok(Layer::constant(four?.times(two?.number())))
                }
            })
        };
        let sum = plus(both(), both());
        assert_eq!(sum.predict().wait().expect("nothing fails").number(), 16.0);
        assert_eq!(twice.counts(), (2, 0), "each kernel runs once");
    });
}

/// x ↦ 2x, as a built-in operation: where a pass keeps its values it is a local job, for which no
/// thread is invited.
#[derive(Clone, Default)]
struct Stays(Twice);

impl Stays {
    fn of(&self, x: Layer<Tracked>) -> Layer<Tracked> {
        Layer::apply_built_in(self.clone(), (x,))
    }
}

impl Primitive for Stays {
    type Operands = (Layer<Tracked>,);
    type Output = Tracked;

    fn name(&self) -> &'static str {
        "stays"
    }

    fn value(&self, operands: (&Tracked,)) -> Result<Tracked> {
        self.0.value(operands)
    }

    fn cost(&self, operands: (&Tracked,)) -> f64 {
        self.0.cost(operands)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Tracked>>,) {
        let backward = Stays(Twice { forward: self.0.backward.clone(), ..self.0.clone() });
        (Some(backward.of(at.delta.clone())),)
    }
}

impl BuiltIn for Stays {
    const IS_PURE: bool = true;
}

/// Two bodies extract the same layers concurrently. Except for the roots, each has one handle, in
/// its consumer, so only a stamp shows that it is already in the table.
#[test]
fn two_traversals_insert_uniquely_referenced_nodes_once() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let (w, inline, queued) = (Weight::new(value), Stays::default(), Twice::default());
        let unique = || inline.of(inline.of(queued.of(&inline.of(w.layer()))));
        let shared = plus(unique(), unique());
        let body = || {
            let shared = shared.clone();
            Layer::dynamic(move || {
                let shared = shared.clone();
                async move {
                    let number = shared.extract().await?.number();
                    Ok(Layer::constant(Tracked::new(number)))
                }
            })
        };
        let sum = plus(plus(body(), body()), inline.of(shared.clone()));
        assert_eq!(sum.predict().wait().expect("nothing fails").number(), 128.0);
        assert_eq!((inline.0.counts(), queued.counts()), ((7, 0), (2, 0)), "each kernel runs once");
        drop((sum, shared, w));
        assert_eq!(copies.left(), 0);
    });
}

/// 8w + 36w: local jobs between, behind and beside expensive ones.
fn branches(w: &Weight<Tracked>, stays: &Stays) -> Layer<Tracked> {
    let dear = times(3.0, stays.of(times(3.0, w.layer())));
    plus(stays.of(stays.of(times(2.0, w.layer()))), stays.of(dear))
}

#[test]
fn local_jobs_behind_expensive_kernel_run_once() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let (w, stays) = (Weight::new(value), Stays::default());
        let loss = branches(&w, &stays);
        assert_eq!(loss.train(&Sgd::new(1.0)).wait().expect("nothing fails").number(), 44.0);
        assert_eq!(w.value().number(), 1.0 - 44.0);
        assert_eq!(stays.0.counts(), (4, 4), "each kernel runs once");
        drop((loss, w));
        assert_eq!(copies.left(), 0);
    });
}

/// One of two drivers leaves the jobs that it would have run first.
#[test]
fn driver_leaving_with_local_jobs_runs_each_kernel_once() {
    explore_with_pools(|| {
        let (w, stays) = (Weight::new(Tracked::new(1.0)), Stays::default());
        let tape = branches(&w, &stays).forward().wait().expect("nothing fails");
        let effects = tape.backward(Do::from_fn(|| async { Ok(Tracked::new(1.0)) }));
        let leaves = effects.clone();
        let leaver = thread::spawn(move || start_and_leave(&leaves));
        effects.step(&Sgd::new(1.0)).wait().expect("a pass with a driver continues");
        let ended = leaver.join().expect("no panic");
        assert_eq!(w.value().number(), if ended { 1.0 - 88.0 } else { 1.0 - 44.0 });
        assert_eq!(stays.0.counts(), (4, 4), "each kernel runs once");
    });
}
