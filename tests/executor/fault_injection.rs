//! Fault injection: user code of a training step counts its calls, and the k-th call fails or
//! blocks.

use dl::{At, Chunk, Data, Error, Layer, Memory, Optimizer, Primitive, Result, Slot};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::nets::Witness;

/// The effect on the k-th call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Error,
    Panic,
    /// It blocks until it is released, so that its run can be dropped meanwhile. Rules and
    /// optimizers are not counted: they run under locks.
    Hold,
    /// It never resumes. Only bodies are counted.
    Pend,
}

/// The kind of user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Site {
    Forward,
    Backward,
    Rule,
    Body,
    HandWritten,
    Commit,
}

/// Each step has its own injector: calls of a dropped step must not count for the next one.
#[derive(Clone, Default)]
pub(crate) struct FaultInjector(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    armed: Option<(usize, Fault)>,
    calls: usize,
    hit: Option<Site>,
    released: bool,
    sites: BTreeSet<Site>,
}

impl FaultInjector {
    /// The k-th call fails. With a large k, calls are only counted.
    pub(crate) fn armed(k: usize, fault: Fault) -> Self {
        let state = State { armed: Some((k, fault)), ..State::default() };
        FaultInjector(Arc::new((Mutex::new(state), Condvar::new())))
    }

    /// The number of calls, and their sites.
    pub(crate) fn calls(&self) -> (usize, BTreeSet<Site>) {
        let state = self.0.0.lock().unwrap();
        (state.calls, state.sites.clone())
    }

    /// The site of the k-th call.
    pub(crate) fn hit(&self) -> Option<Site> {
        self.0.0.lock().unwrap().hit
    }

    /// Resumes the blocked call.
    pub(crate) fn release(&self) {
        self.0.0.lock().unwrap().released = true;
        self.0.1.notify_all();
    }

    /// Counts a call. Returns the fault of the k-th call.
    fn count_call(&self, site: Site) -> Option<Fault> {
        let mut state = self.0.0.lock().unwrap();
        let (k, fault) = state.armed?;
        let counts = match fault {
            Fault::Error | Fault::Panic => true,
            Fault::Hold => matches!(site, Site::Forward | Site::Backward | Site::Body),
            Fault::Pend => site == Site::Body,
        };
        if !counts {
            return None;
        }
        state.sites.insert(site);
        state.calls += 1;
        if state.calls - 1 != k {
            return None;
        }
        state.hit = Some(site);
        Some(fault)
    }

    fn reach(&self, site: Site) -> Result<()> {
        match self.count_call(site) {
            None => Ok(()),
            Some(Fault::Panic) => panic!("injected fault in {site:?}"),
            Some(Fault::Error) => Err(Error::invalid(format!("injected fault in {site:?}"))),
            Some(Fault::Hold | Fault::Pend) => {
                let state = self.0.0.lock().unwrap();
                let wait = self.0.1.wait_timeout_while(state, Duration::from_secs(20), |state| !state.released);
                assert!(!wait.unwrap().1.timed_out(), "the call was never released");
                Ok(())
            }
        }
    }

    pub(crate) async fn reach_body(&self) -> Result<()> {
        match self.count_call(Site::Body) {
            None => Ok(()),
            Some(Fault::Panic) => panic!("injected fault in {:?}", Site::Body),
            Some(Fault::Error) => Err(Error::invalid(format!("injected fault in {:?}", Site::Body))),
            Some(Fault::Hold | Fault::Pend) => std::future::pending().await,
        }
    }

    /// For a hand-written backward, which can only fail by a panic.
    pub(crate) fn reach_hand_written(&self) {
        self.reach(Site::HandWritten).unwrap();
    }

    /// x; its evaluation, its rule and its delta are fault sites.
    #[track_caller]
    pub(crate) fn of<T: Data>(&self, x: &Layer<T>) -> Layer<T> {
        self.at(Site::Forward, x)
    }

    #[track_caller]
    fn at<T: Data>(&self, site: Site, x: &Layer<T>) -> Layer<T> {
        Layer::apply(FaultyOp { injector: self.clone(), site, data: PhantomData }, (x.clone(),))
    }
}

struct FaultyOp<T> {
    injector: FaultInjector,
    site: Site,
    data: PhantomData<fn() -> T>,
}

impl<T: Data> Primitive for FaultyOp<T> {
    type Operands = (Layer<T>,);
    type Output = T;

    fn name(&self) -> &'static str {
        "faulty"
    }

    fn value(&self, (x,): (&T,)) -> Result<T> {
        self.injector.reach(self.site)?;
        Ok(x.clone())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<T::Delta>>,) {
        self.injector.reach(Site::Rule).unwrap();
        (Some(self.injector.at(Site::Backward, at.delta)),)
    }

    fn cost(&self, _: (&T,)) -> f64 {
        20_000.0
    }
}

/// Momentum with a fault site after the update of each weight.
#[derive(Clone)]
pub(crate) struct FaultyOptimizer {
    pub(crate) witness: Witness,
    pub(crate) injector: FaultInjector,
}

impl Optimizer for FaultyOptimizer {
    fn slots(&self) -> &[Slot] {
        self.witness.slots()
    }

    fn memory(&self) -> Option<&Memory> {
        self.witness.memory()
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        self.witness.step(chunk, steps)?;
        self.injector.reach(Site::Commit)
    }
}
