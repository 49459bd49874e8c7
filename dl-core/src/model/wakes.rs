//! Wakes: of a task that is being polled, that waits, that has ended, whose pass rests.

use super::tracked::{Tracked, plus};
use super::{Part, explore, together};
use crate::{Differentiable, Layer};
use shuttle::sync::Mutex;
use shuttle::thread;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A future waits before it until somebody opens it.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    open: bool,
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
            // it may be opened, and the future woken, while it is still being polled
            thread::yield_now();
            Poll::Pending
        })
        .await;
    }

    /// Opens it. What comes back are the wakers of those who waited, which are not called.
    pub(super) fn open_quietly(&self) -> Vec<Waker> {
        let mut state = self.0.lock().expect("no panic");
        state.open = true;
        std::mem::take(&mut state.wakers)
    }

    pub(super) fn open(&self) {
        self.open_quietly().into_iter().for_each(Waker::wake);
    }
}

/// A layer that waits before the gate.
fn gated(gate: &Gate) -> Layer<Tracked> {
    let gate = gate.clone();
    Layer::dynamic(move || {
        let gate = gate.clone();
        async move {
            gate.passed().await;
            Ok(Layer::constant(Tracked::new(1.0)))
        }
    })
}

#[test]
fn a_task_is_woken_while_it_is_polled_or_after() {
    explore(|| {
        let gate = Gate::new();
        let layer = gated(&gate);
        together([
            Box::new(move || assert_eq!(layer.predict().wait().expect("no error").number(), 1.0)) as Part,
            Box::new(move || gate.open()),
        ]);
    });
}

#[test]
fn a_task_is_woken_twice_and_by_two_threads() {
    explore(|| {
        let gate = Gate::new();
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
    });
}

#[test]
fn a_task_is_woken_for_nothing() {
    explore(|| {
        let gate = Gate::new();
        let layer = gated(&gate);
        together([
            Box::new(move || assert_eq!(layer.predict().wait().expect("no error").number(), 1.0)) as Part,
            Box::new(move || {
                let wakers = std::mem::take(&mut gate.0.lock().expect("no panic").wakers);
                wakers.iter().for_each(Waker::wake_by_ref); // it is not open: they wait anew
                gate.open();
                wakers.into_iter().for_each(Waker::wake); // maybe it has ended
            }),
        ]);
    });
}

#[test]
fn a_task_is_woken_when_its_pass_rests() {
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

/// What a foreign executor does: it polls when it is woken, and does no work of ours.
struct Foreign {
    thread: thread::Thread,
}

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.thread.unpark();
    }
}

fn foreign_block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    let waker = Waker::from(Arc::new(Foreign { thread: thread::current() }));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_foreign_executor_drives_a_pass() {
    explore(|| {
        let gate = Gate::new();
        let layer = plus(gated(&gate), gated(&gate));
        together([
            Box::new(move || {
                let value = foreign_block_on(layer.predict().run());
                assert_eq!(value.expect("no error").number(), 2.0);
            }) as Part,
            Box::new(move || gate.open()),
        ]);
    });
}
