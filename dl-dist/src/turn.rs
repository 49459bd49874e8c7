//! Whose step this rank takes part in.
//!
//! A step holds the locks of its weights while it asks the owners of placed modules. If two ranks
//! took steps on modules of both at once, each would hold locks that the request of the other needs.
//! So a rank that asks for its own step refuses the steps of higher ranks, unless it has voted for
//! them: then they hold their locks already. Of ranks that wait for each other in a circle, one is
//! asked by a higher one.

use crate::communication::lock;
use dl_core::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub(crate) struct Turn(Mutex<State>);

#[derive(Default)]
struct State {
    /// How many own steps ask other ranks.
    asking: usize,
    /// The step of another rank that waits for its decision.
    undecided: Option<Undecided>,
}

/// A step of another rank.
pub(crate) struct Undecided {
    /// The number of the request.
    pub(crate) id: u64,
    pub(crate) from: usize,
    pub(crate) decide: Sender<bool>,
    /// Whether the request has its answer.
    pub(crate) answered: Arc<AtomicBool>,
}

impl Turn {
    /// Begins a step of another rank.
    ///
    /// # Errors
    /// If it must not wait for the steps of this rank.
    pub(crate) fn begin(&self, rank: usize, step: Undecided) -> Result<()> {
        let mut state = lock(&self.0);
        if let Some(other) = &state.undecided {
            return Err(taken(format_args!("takes part in another step of rank {}", other.from)));
        }
        if state.asking > 0 && step.from > rank {
            return Err(own_step());
        }
        state.undecided = Some(step);
        Ok(())
    }

    /// Takes the undecided step.
    pub(crate) fn take(&self, is_meant: impl FnOnce(&Undecided) -> bool) -> Option<Undecided> {
        lock(&self.0).undecided.take_if(|step| is_meant(step))
    }

    /// Begins to ask other ranks for a step of this one. Returns the step that is refused for that.
    pub(crate) fn ask(&self, rank: usize) -> (Asking<'_>, Option<Undecided>) {
        let mut state = lock(&self.0);
        state.asking += 1;
        // Relaxed: it only decides who answers.
        let refused = state.undecided.take_if(|step| step.from > rank && !step.answered.swap(true, Ordering::Relaxed));
        (Asking(self), refused)
    }
}

/// Asks other ranks while it exists.
pub(crate) struct Asking<'a>(&'a Turn);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        lock(&self.0.0).asking -= 1;
    }
}

/// The refusal of a step of a higher rank.
pub(crate) fn own_step() -> Error {
    taken(format_args!("takes a step by itself"))
}

fn taken(what: std::fmt::Arguments<'_>) -> Error {
    Error::invalid(format!("this rank {what}: a cluster takes one step at a time"))
}
