//! Wakes of a task: during its poll, while it waits, after it has ended, and in a suspended pass.

use super::tracked::{Tracked, plus};
use super::{Part, explore, together};
use crate::api::differentiable::Differentiable;
use crate::graph::layer::Layer;
use dl_parallel::sync::checker::sync::Mutex;
use dl_parallel::sync::checker::thread;
use dl_parallel::sync::pool;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A future waits before it until it is opened.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    open: bool,
    /// The number of bodies that have started to wait at it.
    runs: usize,
    wakers: Vec<Waker>,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) async fn passed(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock().expect("no panic");
            if state.open {
                return Poll::Ready(());
            }
            state.wakers.push(cx.waker().clone());
            drop(state);
            // It may be opened, and the future woken, during this poll.
            thread::yield_now();
            Poll::Pending
        })
        .await;
    }

    /// Opens it. Returns the wakers of the futures that waited, which are not called.
    pub(super) fn open_quietly(&self) -> Vec<Waker> {
        let mut state = self.0.lock().expect("no panic");
        state.open = true;
        std::mem::take(&mut state.wakers)
    }

    fn runs(&self) -> usize {
        self.0.lock().expect("no panic").runs
    }

    pub(super) fn open(&self) {
        self.open_quietly().into_iter().for_each(Waker::wake);
    }
}

/// A layer that waits at the gate.
fn gated(gate: &Gate) -> Layer<Tracked> {
    let gate = gate.clone();
    Layer::dynamic(move || {
        let gate = gate.clone();
        async move {
            gate.0.lock().expect("no panic").runs += 1;
            gate.passed().await;
            Ok(Layer::constant(Tracked::new(1.0)))
        }
    })
}

#[test]
fn task_woken_during_or_after_poll_completes() {
    explore(|| {
        let gate = Gate::new();
        let asked = gate.clone();
        let layer = gated(&gate);
        together([
            Box::new(move || assert_eq!(layer.predict().wait().expect("no error").number(), 1.0)) as Part,
            Box::new(move || gate.open()),
        ]);
        assert_eq!(asked.runs(), 1, "each body runs once");
    });
}

#[test]
fn task_woken_twice_by_two_threads_runs_once() {
    explore(|| {
        let gate = Gate::new();
        let asked = gate.clone();
        let layer = plus(gated(&gate), gated(&gate));
        let (one, other) = (gate.clone(), gate);
        together([
            Box::new(move || assert_eq!(layer.predict().wait().expect("no error").number(), 2.0)) as Part,
            Box::new(move || {
                let wakers = one.open_quietly();
                wakers.iter().for_each(Waker::wake_by_ref);
                wakers.into_iter().for_each(Waker::wake);
            }),
            Box::new(move || other.open()),
        ]);
        assert_eq!(asked.runs(), 2, "each body runs once");
    });
}

#[test]
fn task_woken_spuriously_waits_again() {
    explore(|| {
        let gate = Gate::new();
        let asked = gate.clone();
        let layer = gated(&gate);
        together([
            Box::new(move || assert_eq!(layer.predict().wait().expect("no error").number(), 1.0)) as Part,
            Box::new(move || {
                let wakers = std::mem::take(&mut gate.0.lock().expect("no panic").wakers);
                wakers.iter().for_each(Waker::wake_by_ref); // it is not open: they wait again
                gate.open();
                wakers.into_iter().for_each(Waker::wake); // the task may have ended
            }),
        ]);
        assert_eq!(asked.runs(), 1, "each body runs once");
    });
}

#[test]
fn task_woken_in_suspended_pass_is_ignored() {
    explore(|| {
        let gate = Gate::new();
        let layer = gated(&gate);
        together([
            Box::new(move || {
                let mut run = layer.predict().run();
                let _ = Pin::new(&mut run).poll(&mut Context::from_waker(Waker::noop()));
                drop(run);
            }) as Part,
            Box::new(move || gate.open()),
        ]);
    });
}

/// A foreign executor: it polls when it is woken, and runs no jobs of a pass.
struct Foreign {
    thread: thread::Thread,
}

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.thread.unpark();
    }
}

pub(super) fn foreign_block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    let waker = Waker::from(Arc::new(Foreign { thread: thread::current() }));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

/// A stale waker is called while the pass that it belonged to is reused.
#[test]
fn stale_waker_called_after_pass_reuse_is_ignored() {
    explore(|| {
        let gate = Gate::new();
        let (first, second) = (gated(&gate), gated(&gate));
        together([
            Box::new(move || {
                let mut run = first.predict().run();
                let _ = Pin::new(&mut run).poll(&mut Context::from_waker(Waker::noop()));
                drop((run, first));
                for _ in 0..2 {
                    assert_eq!(second.predict().wait().expect("no error").number(), 1.0);
                }
            }) as Part,
            Box::new(move || gate.open()),
        ]);
    });
}

/// An extract is moved out of the body that polled it first, and polled to completion by another
/// thread.
#[test]
fn extract_polled_after_its_pass_completes_or_is_cancelled() {
    explore(|| {
        let (gate, taken) = (Gate::new(), Arc::new(Mutex::new(None)));
        let body = Layer::dynamic({
            let (inner, taken) = (gated(&gate), taken.clone());
            move || {
                let (mut extract, taken) = (inner.extract(), taken.clone());
                async move {
                    let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut extract).poll(cx))).await;
                    if first.is_pending() {
                        *taken.lock().expect("no panic") = Some(extract);
                    }
                    Ok(Layer::constant(Tracked::new(1.0)))
                }
            }
        });
        together([
            Box::new(move || assert_eq!(body.predict().wait().expect("no error").number(), 1.0)) as Part,
            Box::new(move || {
                let extract = taken.lock().expect("no panic").take();
                if let Some(extract) = extract {
                    match foreign_block_on(extract) {
                        Ok(value) => assert_eq!(value.number(), 1.0),
                        Err(error) => assert!(error.is_cancelled(), "{error}"),
                    }
                }
            }),
            Box::new(move || gate.open()),
        ]);
    });
}

#[test]
fn foreign_executor_drives_pass_to_completion() {
    for size in [1, 2] {
        explore(move || drive_pass_by_foreign_executor(size));
    }
}

fn drive_pass_by_foreign_executor(size: usize) {
    pool::of_size(size);
    let gate = Gate::new();
    let layer = plus(gated(&gate), gated(&gate));
    together([
        Box::new(move || {
            let value = foreign_block_on(layer.predict().run());
            assert_eq!(value.expect("no error").number(), 2.0);
        }) as Part,
        Box::new(move || gate.open()),
    ]);
}
