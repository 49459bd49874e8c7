//! A tracing subscriber that panics where a thread begins to help. Other threads may still use data
//! that the kernel has borrowed, so the kernel must not return before they have finished.

#![cfg(feature = "tracing")]

use dl_core::parallel::for_each;
use dl_core::{At, Deltas, Differentiable, Layer, Primitive, Result};
use rayon::ThreadPoolBuilder;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static CALLER: Mutex<Option<ThreadId>> = Mutex::new(None);

/// A subscriber that panics when the caller of the kernel begins to help.
struct Breaks;

impl Subscriber for Breaks {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let here = Some(thread::current().id());
        assert!(attributes.metadata().name() != "help" || *CALLER.lock().unwrap() != here, "the subscriber breaks");
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A kernel. Its caller finishes first and waits for the other thread, which divides its piece.
struct Kernel(Arc<AtomicUsize>);

impl Primitive for Kernel {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "kernel"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        let here = thread::current().id();
        *CALLER.lock().unwrap() = Some(here);
        let begun = AtomicUsize::new(0);
        for_each(2, 1e9, |_| {
            begun.fetch_add(1, SeqCst);
            while begun.load(SeqCst) < 2 {
                thread::yield_now();
            }
            if thread::current().id() != here {
                self.0.fetch_add(1, SeqCst);
                thread::sleep(Duration::from_millis(5));
                for_each(2, 1e9, |_| thread::sleep(Duration::from_millis(50)));
                self.0.fetch_sub(1, SeqCst);
            }
        });
        Ok(x + self.0.load(SeqCst) as f64)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()),)
    }
}

#[test]
fn kernel_with_panicking_subscriber_returns_after_helpers() {
    tracing::subscriber::set_global_default(Breaks).expect("there is no other");
    let pool = ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
    let running = Arc::new(AtomicUsize::new(0));
    for _ in 0..5 {
        let kernel = Layer::apply(Kernel(running.clone()), (Layer::constant(1.0),));
        assert_eq!(pool.install(|| kernel.predict().wait()).expect("a panic of the subscriber is ignored"), 1.0);
        assert_eq!(running.load(SeqCst), 0);
    }
}
