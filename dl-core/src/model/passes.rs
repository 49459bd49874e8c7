//! Passes: drivers and helpers, which come and leave.

use super::tracked::{Halves, Tracked, plus, times};
use super::wakes::{Gate, foreign_block_on};
use super::{Part, eventually, explore, together};
use crate::api::deferred::Do;
use crate::api::differentiable::Differentiable;
use crate::api::weight::Weight;
use crate::autodiff::gradients::SideEffects;
use crate::error::Result;
use crate::graph::layer::Layer;
use crate::testing::Sgd;
use dl_parallel::sync::checker::thread;
use dl_parallel::sync::{AtomicUsize, Ordering, pool};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

fn number(value: Result<Tracked>) -> f64 {
    value.expect("nothing fails in this model").number()
}

/// Explores the model with pools of two and of three threads, including the waiting thread.
pub(super) fn explore_with_pools(model: impl Fn() + Send + Sync + Copy + 'static) {
    for size in [2, 3] {
        explore(move || {
            pool::of_size(size);
            model();
        });
    }
}

/// (2w) + (3w): two expensive kernels that may run concurrently, and one that depends on both.
fn five_times(w: &Weight<Tracked>) -> Layer<Tracked> {
    plus(times(2.0, w.layer()), times(3.0, w.layer()))
}

#[test]
fn wait_while_workers_hold_tickets_releases_all_values() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let w = Weight::new(value);
        assert_eq!(number(five_times(&w).predict().wait()), 5.0);
        drop(w);
        assert_eq!(copies.left(), 0);
    });
}

/// The last owner is dropped while helpers hold the pass, and perhaps run a job for it.
#[test]
fn pass_is_retired_while_helpers_hold_it() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let w = Weight::new(value);
        let tape = five_times(&w).forward().wait().expect("nothing fails");
        let effects = tape.backward(Do::from_fn(|| async { Ok(Tracked::new(1.0)) }));
        drop((tape, w));
        let other = thread::spawn(move || {
            start_and_leave(&effects);
            drop(effects);
        });
        other.join().expect("no panic");
        eventually(|| copies.left() == 0);
    });
}

#[test]
fn training_step_with_workers_updates_weight() {
    explore_with_pools(|| {
        let w = Weight::new(Tracked::new(1.0));
        assert_eq!(number(five_times(&w).train(&Sgd::new(0.1)).wait()), 5.0);
        assert_eq!(w.value().number(), 0.5);
    });
}

/// A pass in the body of another pass. The workers of the outer pass help in it.
#[test]
fn nested_pass_with_workers_releases_all_values() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let w = Weight::new(value);
        let inside = {
            let w = w.clone();
            Layer::dynamic(move || {
                let w = w.clone();
                async move {
                    let five = five_times(&w).predict().await?;
                    Ok(times(five.number(), w.layer()))
                }
            })
        };
        let both = plus(inside, times(2.0, w.layer()));
        assert_eq!(number(both.predict().wait()), 7.0);
        drop((both, w));
        assert_eq!(copies.left(), 0);
    });
}

/// A body that is woken by another thread, which holds the pass meanwhile.
#[test]
fn body_woken_by_other_thread_completes() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let (w, gate) = (Weight::new(value), Gate::new());
        let body = {
            let (w, gate) = (w.clone(), gate.clone());
            Layer::dynamic(move || {
                let (w, gate) = (w.clone(), gate.clone());
                async move {
                    gate.passed().await;
                    Ok(times(3.0, w.layer()))
                }
            })
        };
        let opens = thread::spawn(move || gate.open());
        assert_eq!(number(body.predict().wait()), 3.0);
        drop((body, w));
        assert_eq!(copies.left(), 0);
        opens.join().expect("no panic");
    });
}

/// A kernel that is divided beside another one: the thread that has run that one, and the one that
/// waits, may help.
#[test]
fn divided_kernel_beside_other_kernel_completes() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let w = Weight::new(value);
        let sum = Layer::apply(Halves, (w.layer(), w.layer()));
        assert_eq!(number(plus(sum, times(3.0, w.layer())).predict().wait()), 5.0);
        drop(w);
        assert_eq!(copies.left(), 0);
    });
}

#[test]
fn two_drivers_on_one_pass_both_complete() {
    explore_with_pools(|| {
        let w = Weight::new(Tracked::new(1.0));
        let tape = five_times(&w).forward().wait().expect("nothing fails");
        let step = || {
            let effects = tape.backward(Do::from_fn(|| async { Ok(Tracked::new(1.0)) }));
            Box::new(move || effects.step(&Sgd::new(1.0)).wait().expect("nothing fails")) as Part
        };
        together([step(), step()]);
        assert_eq!(w.value().number(), 1.0 - 5.0 - 5.0);
    });
}

/// Starts a step, and drops it unless it ends at once. Only the pool works for it: this thread does
/// not wait.
pub(super) fn start_and_leave(effects: &SideEffects) -> bool {
    let mut run = effects.step(&Sgd::new(1.0)).run();
    let polled = Pin::new(&mut run).poll(&mut Context::from_waker(Waker::noop()));
    match polled {
        Poll::Ready(ended) => ended.map(|()| true).expect("nothing fails"),
        Poll::Pending => false,
    }
}

/// A backward of `five_times`. Its initial cotangent waits at the gate.
fn gated_backward(w: &Weight<Tracked>, gate: &Gate) -> SideEffects {
    let tape = five_times(w).forward().wait().expect("nothing fails");
    let gate = gate.clone();
    tape.backward(Do::from_fn(move || {
        let gate = gate.clone();
        async move {
            gate.passed().await;
            Ok(Tracked::new(1.0))
        }
    }))
}

#[test]
fn last_driver_leaving_during_poll_restarts_task_for_next_driver() {
    explore_with_pools(|| {
        let (w, gate) = (Weight::new(Tracked::new(1.0)), Gate::new());
        let effects = gated_backward(&w, &gate);
        let leaves = effects.clone();
        let leaver = thread::spawn(move || start_and_leave(&leaves));
        gate.open();
        let ended = leaver.join().expect("no panic");
        effects.step(&Sgd::new(1.0)).wait().expect("an interrupted body restarts");
        assert_eq!(w.value().number(), if ended { -9.0 } else { -4.0 });
    });
}

#[test]
fn driver_leaving_while_other_arrives_keeps_pass_running() {
    explore_with_pools(|| {
        let (w, gate) = (Weight::new(Tracked::new(1.0)), Gate::new());
        let effects = gated_backward(&w, &gate);
        let leaves = effects.clone();
        let leaver = thread::spawn(move || start_and_leave(&leaves));
        let opener = thread::spawn(move || gate.open());
        effects.step(&Sgd::new(1.0)).wait().expect("a pass with a driver continues");
        opener.join().expect("no panic");
        let ended = leaver.join().expect("no panic");
        assert_eq!(w.value().number(), if ended { -9.0 } else { -4.0 });
    });
}

/// The tape still holds the pass, but no run waits for the gate any more.
#[test]
fn suspended_pass_drops_its_futures() {
    explore_with_pools(|| {
        let (w, alive) = (Weight::new(Tracked::new(1.0)), Arc::new(()));
        let tape = five_times(&w).forward().wait().expect("nothing fails");
        let effects = tape.backward(Do::from_fn({
            let alive = alive.clone();
            move || {
                let alive = alive.clone();
                async move {
                    Gate::new().passed().await;
                    drop(alive);
                    Ok(Tracked::new(1.0))
                }
            }
        }));
        let leaves = effects.clone();
        let leavers = [effects.clone(), leaves].map(|effects| thread::spawn(move || start_and_leave(&effects)));
        for leaver in leavers {
            assert!(!leaver.join().expect("no panic"), "it ended before the gate was open");
        }
        eventually(|| Arc::strong_count(&alive) == 2);
        drop(effects);
    });
}

/// The body that was started for the first driver ends after the second one has arrived. It was
/// interrupted nevertheless, so it must restart.
#[test]
fn drivers_replaced_during_poll_restart_task() {
    explore_with_pools(|| {
        let (w, stage) = (Weight::new(Tracked::new(1.0)), Arc::new(AtomicUsize::new(0)));
        let tape = five_times(&w).forward().wait().expect("nothing fails");
        let effects = tape.backward(Do::from_fn({
            let stage = stage.clone();
            move || {
                let stage = stage.clone();
                async move {
                    if stage.fetch_max(POLLED, Ordering::SeqCst) < POLLED {
                        eventually(|| stage.load(Ordering::SeqCst) == ARRIVED);
                    }
                    Ok(Tracked::new(1.0))
                }
            }
        }));
        let mut first = effects.step(&Sgd::new(1.0)).run();
        let _ = Pin::new(&mut first).poll(&mut Context::from_waker(Waker::noop()));
        eventually(|| stage.load(Ordering::SeqCst) == POLLED);
        drop(first);
        let mut second = effects.step(&Sgd::new(1.0)).run();
        let ended = Pin::new(&mut second).poll(&mut Context::from_waker(Waker::noop()));
        stage.store(ARRIVED, Ordering::SeqCst);
        if ended.is_pending() {
            foreign_block_on(second).expect("a pass with a driver continues");
        }
        assert_eq!(w.value().number(), -4.0);
    });
}

const POLLED: usize = 1;
const ARRIVED: usize = 2;

#[test]
fn drivers_joining_and_leaving_complete_step() {
    explore_with_pools(|| {
        let (w, gate) = (Weight::new(Tracked::new(1.0)), Gate::new());
        let effects = gated_backward(&w, &gate);
        let leavers = [(); 2].map(|()| {
            let leaves = effects.clone();
            thread::spawn(move || start_and_leave(&leaves))
        });
        gate.open();
        effects.step(&Sgd::new(1.0)).wait().expect("a pass with a driver continues");
        let ended = leavers.map(|leaver| leaver.join().expect("no panic")).into_iter().filter(|&ended| ended).count();
        assert_eq!(w.value().number(), -4.0 - 5.0 * ended as f64);
    });
}

#[test]
fn concurrent_passes_over_shared_layers_compute_same_value() {
    explore_with_pools(|| {
        let w = Weight::new(Tracked::new(1.0));
        let shared = five_times(&w);
        let twice = plus(shared.clone(), shared);
        let again = twice.clone();
        together([
            Box::new(move || assert_eq!(number(twice.predict().wait()), 10.0)) as Part,
            Box::new(move || assert_eq!(number(again.predict().wait()), 10.0)),
        ]);
    });
}

#[test]
fn prediction_during_step_sees_weight_before_or_after() {
    explore_with_pools(|| {
        let w = Weight::new(Tracked::new(1.0));
        let shared = plus(w.layer(), w.layer());
        let twice = plus(shared.clone(), shared);
        let again = twice.clone();
        together([
            Box::new(move || assert_eq!(number(twice.train(&Sgd::new(1.0)).wait()), 4.0)) as Part,
            Box::new(move || {
                let seen = number(again.predict().wait());
                assert!(seen == 4.0 || seen == -12.0, "{seen}");
            }),
        ]);
        assert_eq!(w.value().number(), -3.0);
    });
}

#[test]
fn nested_wait_in_body_completes() {
    explore_with_pools(|| {
        let w = Weight::new(Tracked::new(1.0));
        let body = |w: Weight<Tracked>| {
            Layer::dynamic(move || {
                let inner = number(five_times(&w).predict().wait());
                let outer = times(inner, w.layer());
                async move { Ok(outer) }
            })
        };
        let both = plus(body(w.clone()), body(w.clone()));
        assert_eq!(number(both.predict().wait()), 10.0);
    });
}

#[test]
fn run_dropped_while_workers_compute_releases_all_values() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let w = Weight::new(value);
        let layer = five_times(&w);
        let again = layer.clone();
        together([
            Box::new(move || {
                let mut run = layer.predict().run();
                let _ = Pin::new(&mut run).poll(&mut Context::from_waker(Waker::noop()));
                drop(run);
            }) as Part,
            Box::new(move || drop((w, again))),
        ]);
        eventually(|| copies.left() == 0);
    });
}

/// Slots are freed while others are being evaluated.
#[test]
fn swept_extract_loops_release_all_values() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let w = Weight::new(value);
        let counts = |w: Weight<Tracked>| {
            Layer::dynamic(move || {
                let w = w.clone();
                async move {
                    let mut sum = w.layer();
                    for _ in 0..3 {
                        // no run waits for this one, whose kernel may be running when its slot is
                        // looked at
                        let mut given_up = times(7.0, w.layer()).extract();
                        poll_fn(|cx| Poll::Ready(drop(Pin::new(&mut given_up).poll(cx)))).await;
                        drop(given_up);
                        let bang = five_times(&w).extract().await?;
                        sum = plus(sum, times(bang.number(), w.layer()));
                    }
                    Ok(sum)
                }
            })
        };
        let both = plus(counts(w.clone()), counts(w.clone()));
        assert_eq!(number(both.predict().wait()), 32.0);
        drop((both, w));
        eventually(|| copies.left() == 0);
    });
}

#[test]
fn tape_dropped_during_backward_completes_step() {
    explore_with_pools(|| {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let w = Weight::new(value);
        let tape = five_times(&w).forward().wait().expect("nothing fails");
        let effects = tape.backward(Do::from_fn(|| async { Ok(Tracked::new(1.0)) }));
        let ours = w.clone();
        together([
            Box::new(move || {
                effects.step(&Sgd::new(1.0)).wait().expect("nothing fails");
                assert_eq!(ours.value().number(), -4.0);
            }) as Part,
            Box::new(move || drop(tape)),
        ]);
        drop(w);
        assert_eq!(copies.left(), 0);
    });
}

#[test]
fn joined_predictions_complete() {
    explore_with_pools(|| {
        let w = Weight::new(Tracked::new(1.0));
        let (left, right) = (times(2.0, w.layer()), times(3.0, w.layer()));
        let joined = left.predict().zip(right.predict()).map(|(a, b)| a.number() + b.number());
        assert_eq!(joined.wait().expect("nothing fails"), 5.0);
    });
}
