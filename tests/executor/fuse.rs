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

/// Each step has its own fuse: calls of a dropped step must not count for the next one.
#[derive(Clone, Default)]
pub(crate) struct Fuse(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    armed: Option<(usize, Fault)>,
    burnt: usize,
    hit: Option<Site>,
    released: bool,
    sites: BTreeSet<Site>,
}

impl Fuse {
    /// The k-th call fails. With a large k, calls are only counted.
    pub(crate) fn armed(k: usize, fault: Fault) -> Self {
        let state = State { armed: Some((k, fault)), ..State::default() };
        Fuse(Arc::new((Mutex::new(state), Condvar::new())))
    }

    /// The number of calls, and their sites.
    pub(crate) fn burnt(&self) -> (usize, BTreeSet<Site>) {
        let state = self.0.0.lock().unwrap();
        (state.burnt, state.sites.clone())
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
    fn strike(&self, site: Site) -> Option<Fault> {
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
        state.burnt += 1;
        if state.burnt - 1 != k {
            return None;
        }
        state.hit = Some(site);
        Some(fault)
    }

    fn burn(&self, site: Site) -> Result<()> {
        match self.strike(site) {
            None => Ok(()),
            Some(Fault::Panic) => panic!("blown in {site:?}"),
            Some(Fault::Error) => Err(Error::invalid(format!("blown in {site:?}"))),
            Some(Fault::Hold | Fault::Pend) => {
                let state = self.0.0.lock().unwrap();
                let wait = self.0.1.wait_timeout_while(state, Duration::from_secs(20), |state| !state.released);
                assert!(!wait.unwrap().1.timed_out(), "held for ever");
                Ok(())
            }
        }
    }

    pub(crate) async fn burn_in_body(&self) -> Result<()> {
        match self.strike(Site::Body) {
            None => Ok(()),
            Some(Fault::Panic) => panic!("blown in {:?}", Site::Body),
            Some(Fault::Error) => Err(Error::invalid(format!("blown in {:?}", Site::Body))),
            Some(Fault::Hold | Fault::Pend) => std::future::pending().await,
        }
    }

    /// For a hand-written backward, which can only fail by a panic.
    pub(crate) fn burn_by_hand(&self) {
        self.burn(Site::HandWritten).unwrap();
    }

    /// x; its evaluation, its rule and its delta burn the fuse.
    #[track_caller]
    pub(crate) fn of<T: Data>(&self, x: &Layer<T>) -> Layer<T> {
        self.at(Site::Forward, x)
    }

    #[track_caller]
    fn at<T: Data>(&self, site: Site, x: &Layer<T>) -> Layer<T> {
        Layer::apply(Burning { fuse: self.clone(), site, data: PhantomData }, (x.clone(),))
    }
}

struct Burning<T> {
    fuse: Fuse,
    site: Site,
    data: PhantomData<fn() -> T>,
}

impl<T: Data> Primitive for Burning<T> {
    type Operands = (Layer<T>,);
    type Output = T;

    fn name(&self) -> &'static str {
        "burning"
    }

    fn value(&self, (x,): (&T,)) -> Result<T> {
        self.fuse.burn(self.site)?;
        Ok(x.clone())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<T::Delta>>,) {
        self.fuse.burn(Site::Rule).unwrap();
        (Some(self.fuse.at(Site::Backward, at.delta)),)
    }

    fn cost(&self, _: (&T,)) -> f64 {
        20_000.0
    }
}

/// Momentum that burns the fuse after the update of a weight.
#[derive(Clone)]
pub(crate) struct BurningOptimizer {
    pub(crate) witness: Witness,
    pub(crate) fuse: Fuse,
}

impl Optimizer for BurningOptimizer {
    fn slots(&self) -> &[Slot] {
        self.witness.slots()
    }

    fn memory(&self) -> Option<&Memory> {
        self.witness.memory()
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        self.witness.step(chunk, steps)?;
        self.fuse.burn(Site::Commit)
    }
}
