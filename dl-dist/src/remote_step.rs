//! A step of another rank on the weights of this one.

use crate::communication::lock;
use crate::turn::own_step;
use dl_core::{Chunk, ChunkVisitor, Error, Optimizer, Participant, Result, Step, WeightId, forward_optimizer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

/// The optimizer of this rank in a step of another one: it sees the count of steps of that rank, and
/// the norms of all deltas of the step.
pub(crate) struct Asked {
    pub(crate) optimizer: Arc<dyn Optimizer>,
    pub(crate) steps: u64,
    pub(crate) norms: Option<Vec<f64>>,
    /// Some weight of the step.
    pub(crate) any_weight: Option<WeightId>,
}

impl Optimizer for Asked {
    forward_optimizer!(this => this.optimizer; slots memory for_weight step descent decays_weights notes kind);

    fn begin<'o>(&'o self, _: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        let deltas = |only_lazy: bool, visit: &mut ChunkVisitor<'_>| {
            if only_lazy {
                return Ok(()); // the caller has norms alone
            }
            let norms = self.norms.as_ref().ok_or_else(|| {
                Error::invalid("the optimizer of this rank reads the deltas of a step, and that of the caller does not")
            })?;
            let Some(weight) = self.any_weight else { return Ok(()) };
            norms.iter().try_for_each(|&norm| Chunk::with_norm(norm, |chunk| visit(weight, chunk.into())))
        };
        self.optimizer.begin(&Step::new(self.steps, &deltas))
    }
}

/// Sends an answer to the rank that takes the step.
type Answer = Box<dyn Fn(Result<()>) + Send + Sync>;

/// Votes for this rank, and waits for the decision of the rank that takes the step.
pub(crate) struct Deciding {
    answer: Answer,
    decision: Mutex<Receiver<bool>>,
    answered: Arc<AtomicBool>,
    was_agreed: AtomicBool,
    optimizer: Mutex<Option<Arc<Asked>>>,
}

impl Deciding {
    pub(crate) fn new(
        answer: impl Fn(Result<()>) + Send + Sync + 'static,
        answered: Arc<AtomicBool>,
        decision: Receiver<bool>,
    ) -> Self {
        Deciding {
            answer: Box::new(answer),
            decision: Mutex::new(decision),
            answered,
            was_agreed: AtomicBool::new(false),
            optimizer: Mutex::new(None),
        }
    }

    pub(crate) fn set_optimizer(&self, optimizer: Arc<Asked>) {
        *lock(&self.optimizer) = Some(optimizer);
    }

    /// Answers that the step is refused, unless this rank has answered before.
    pub(crate) fn refuse(&self, error: &Error) {
        if !self.answered.swap(true, Ordering::Relaxed) {
            (self.answer)(Err(error.clone()));
        }
    }

    /// Whether the step is decided.
    pub(crate) fn was_agreed(&self) -> bool {
        self.was_agreed.load(Ordering::Relaxed)
    }
}

// Relaxed: one thread takes the step and asks the questions; `answered` only decides who answers.
impl Participant for Deciding {
    fn vote<'a>(&'a self, _: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
        if self.answered.swap(true, Ordering::Relaxed) {
            return Err(own_step());
        }
        (self.answer)(Ok(()));
        if lock(&self.decision).recv() != Ok(true) {
            return Err(Error::invalid("the rank that takes the step has not agreed to it"));
        }
        self.was_agreed.store(true, Ordering::Relaxed);
        Ok(Box::new(|| {
            if let Some(asked) = lock(&self.optimizer).take()
                && let Some(memory) = asked.memory()
            {
                // The count of the rank that takes the step is that of the run.
                drop(memory.set_steps(asked.steps + 1));
            }
        }))
    }
}
