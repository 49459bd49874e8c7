//! Checkpoint segments that are rematerialized by several threads, for several concurrent
//! backwards, and for a backward that is dropped.

use super::passes::{explore_with_pools, start_and_leave};
use super::tracked::{Tracked, plus, times};
use super::{Part, together};
use crate::api::deferred::Do;
use crate::api::differentiable::Differentiable;
use crate::api::weight::Weight;
use crate::autodiff::gradients::SideEffects;
use crate::graph::layer::Layer;
use crate::testing::Sgd;
use dl_parallel::sync::checker::thread;

/// 6w + 5w, in two checkpoint segments that may run concurrently, below a third one.
fn eleven_times(w: &Weight<Tracked>) -> Layer<Tracked> {
    let left = times(3.0, times(2.0, w.layer())).checkpoint();
    let right = times(5.0, times(1.0, w.layer())).checkpoint();
    times(1.0, plus(times(1.0, left), right)).checkpoint()
}

/// A step by −1 per unit of the delta, on the tape of a pass that is suspended.
fn backwards(w: &Weight<Tracked>) -> impl Fn() -> SideEffects {
    let tape = eleven_times(w).forward().wait().expect("nothing fails");
    move || tape.backward(Do::from_fn(|| async { Ok(Tracked::new(1.0)) }))
}

#[test]
fn step_with_checkpoints_and_workers_computes_gradient() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let w = Weight::new(value);
        assert_eq!(eleven_times(&w).train(&Sgd::new(1.0)).wait().expect("nothing fails").number(), 11.0);
        assert_eq!(w.value().number(), -10.0);
        drop(w);
        assert_eq!(copies.left(), 0);
    });
}

#[test]
fn two_backwards_share_rematerialized_segments() {
    explore_with_pools(|| {
        let w = Weight::new(Tracked::new(1.0));
        let effects = backwards(&w);
        let step = || {
            let effects = effects();
            Box::new(move || effects.step(&Sgd::new(1.0)).wait().expect("nothing fails")) as Part
        };
        together([step(), step()]);
        assert_eq!(w.value().number(), 1.0 - 11.0 - 11.0);
    });
}

#[test]
fn backward_dropped_during_rematerialization_lets_other_finish() {
    explore_with_pools(|| {
        let w = Weight::new(Tracked::new(1.0));
        let effects = backwards(&w)();
        let leaves = effects.clone();
        let leaver = thread::spawn(move || start_and_leave(&leaves));
        effects.step(&Sgd::new(1.0)).wait().expect("an interrupted backward restarts");
        let ended = leaver.join().expect("no panic");
        assert_eq!(w.value().number(), if ended { -21.0 } else { -10.0 });
    });
}
