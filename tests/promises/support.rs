//! Operations that count, wait or call a function.

use dl::{At, Error, Layer, Primitive, Result};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

pub(crate) use test_support::{on_threads, watched};

/// x ↦ factor · x, with counts of its evaluations, forward and backward.
#[derive(Clone)]
pub(crate) struct Counted {
    pub(crate) factor: f64,
    pub(crate) forward: Arc<AtomicUsize>,
    pub(crate) backward: Arc<AtomicUsize>,
    /// The declared cost.
    pub(crate) nanoseconds: f64,
}

impl Counted {
    pub(crate) fn new(factor: f64) -> Self {
        Counted { factor, forward: Arc::default(), backward: Arc::default(), nanoseconds: 100.0 }
    }

    #[track_caller]
    pub(crate) fn of(&self, x: &Layer<f64>) -> Layer<f64> {
        Layer::apply(self.clone(), (x.clone(),))
    }

    /// The number of evaluations of the value and of the delta.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.forward.load(SeqCst), self.backward.load(SeqCst))
    }
}

impl Primitive for Counted {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "counted"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        self.forward.fetch_add(1, SeqCst);
        Ok(self.factor * x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        let delta = Counted { forward: self.backward.clone(), ..self.clone() };
        (Some(delta.of(at.delta)),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        self.nanoseconds
    }
}

/// A barrier with a timeout.
pub(crate) struct Meeting {
    arrived: Mutex<usize>,
    all_here: Condvar,
    size: usize,
}

impl Meeting {
    pub(crate) fn of(size: usize) -> Arc<Self> {
        Arc::new(Meeting { arrived: Mutex::new(0), all_here: Condvar::new(), size })
    }

    pub(crate) fn join(&self) -> Result<()> {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        let round = (*arrived - 1) / self.size;
        self.all_here.notify_all();
        let deadline = Instant::now() + Duration::from_secs(60);
        while *arrived < (round + 1) * self.size {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::invalid("no other operation ran at the same time"));
            }
            arrived = self.all_here.wait_timeout(arrived, left).unwrap().0;
        }
        Ok(())
    }
}

/// x ↦ x; its kernel waits until another one runs, forward and backward.
#[derive(Clone)]
pub(crate) struct Together {
    pub(crate) forward: Arc<Meeting>,
    pub(crate) backward: Arc<Meeting>,
}

impl Together {
    #[track_caller]
    pub(crate) fn of(&self, x: &Layer<f64>) -> Layer<f64> {
        Layer::apply(self.clone(), (x.clone(),))
    }
}

impl Primitive for Together {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "together"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        self.forward.join()?;
        Ok(*x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        let delta = Together { forward: self.backward.clone(), backward: self.backward.clone() };
        (Some(delta.of(at.delta)),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        1e6
    }
}

/// x ↦ f(x).
pub(crate) struct Custom<F>(pub(crate) F);

impl<F: Fn(f64) -> Result<f64> + Send + Sync + 'static> Custom<F> {
    #[track_caller]
    pub(crate) fn of(self, x: &Layer<f64>) -> Layer<f64> {
        Layer::apply(self, (x.clone(),))
    }
}

impl<F: Fn(f64) -> Result<f64> + Send + Sync + 'static> Primitive for Custom<F> {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "custom"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        (self.0)(*x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(at.delta.clone()),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        1e6
    }
}
