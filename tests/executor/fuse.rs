//! A fuse that every piece of user code in a training step burns down a little: whoever comes k-th
//! fails, or is held.

use dl::{At, Chunk, Data, Error, Layer, Memory, Optimizer, Primitive, Result, Slot};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::nets::Witness;

/// What happens to the k-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Error,
    Panic,
    /// It is held until it is released, so that its run can be dropped meanwhile. Rules and
    /// optimizers, which work under locks, do not count.
    Hold,
    /// Only bodies count, and the k-th never goes on.
    Pend,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Site {
    Forward,
    Backward,
    Rule,
    Body,
    HandWritten,
    Commit,
}

/// One for each step: what is left of a step that was dropped must not burn the next one's.
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
    /// The k-th fails; with a k that nobody reaches, they are only counted.
    pub(crate) fn armed(k: usize, fault: Fault) -> Self {
        let state = State { armed: Some((k, fault)), ..State::default() };
        Fuse(Arc::new((Mutex::new(state), Condvar::new())))
    }

    /// How many have burnt it, and where.
    pub(crate) fn burnt(&self) -> (usize, BTreeSet<Site>) {
        let state = self.0.0.lock().unwrap();
        (state.burnt, state.sites.clone())
    }

    /// Where the k-th was.
    pub(crate) fn hit(&self) -> Option<Site> {
        self.0.0.lock().unwrap().hit
    }

    /// Lets go of whoever is held.
    pub(crate) fn release(&self) {
        self.0.0.lock().unwrap().released = true;
        self.0.1.notify_all();
    }

    /// Counts; what the k-th has to suffer.
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

    /// For a backward that is written by hand, which has no result but a panic.
    pub(crate) fn burn_by_hand(&self) {
        self.burn(Site::HandWritten).unwrap();
    }

    /// x, whose evaluation, rule and delta burn the fuse.
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

/// Momentum that has written the numbers of its weight when it burns the fuse.
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
