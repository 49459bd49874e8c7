//! Participants: what changes together with the weights of a training step, or not at all.

use crate::error::Result;
use crate::graph::training_step::Step;
use std::any::Any;

/// Something besides weights that a training step changes: a store, a log, the weights of another
/// process. [`SideEffects::enlist`](crate::SideEffects::enlist) adds it to a step.
///
/// A step has two phases. In the first one everything that can be refused is computed: the deltas,
/// the new weights and the new state of the optimizer, as copies. Then each participant votes, in
/// the order in which they were enlisted. If all agree, the weights change, and then the
/// participants: this second phase cannot fail. Otherwise no weight, buffer, optimizer state or
/// count of steps changes, and the step returns the error of the first participant that refused.
///
/// ```
/// use dl_core::{Differentiable, Error, Participant, Result, Step, Weight};
/// use dl_optim::Sgd;
/// use std::sync::{Arc, Mutex};
///
/// /// An account that pays for every step.
/// struct Account(Mutex<u32>);
///
/// impl Participant for Account {
///     fn vote<'a>(&'a self, _: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
///         match *self.0.lock().unwrap() {
///             0 => Err(Error::invalid("the account is empty")),
///             _ => Ok(Box::new(|| *self.0.lock().unwrap() -= 1)),
///         }
///     }
/// }
///
/// let (w, account) = (Weight::new(1.0_f64), Arc::new(Account(Mutex::new(1))));
/// let step = || w.layer().backward().wait()?.enlist(account.clone()).step(&Sgd::new(0.25)).wait();
/// step()?;
/// assert_eq!((w.value(), *account.0.lock().unwrap()), (0.75, 0));
/// assert!(step().unwrap_err().to_string().contains("the account is empty"));
/// assert_eq!(w.value(), 0.75);
/// # Result::Ok(())
/// ```
pub trait Participant: Send + Sync {
    /// Votes on a step before any weight has changed. `Ok` is a yes, and the promise that the
    /// returned function will succeed; an error or a panic is a no.
    ///
    /// The function is called after the weights have changed, before the next step on them begins.
    /// It is dropped without a call if a later participant refuses the step. A panic in it is not
    /// reported, because the step has been taken.
    ///
    /// Both run on the thread that takes the step, which holds the locks of its weights: other
    /// steps on these weights wait. A step on them from here, or from a thread that this call waits
    /// for, fails or does not end.
    fn vote<'a>(&'a self, step: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>>;

    /// The participant, for the weights of a step that share it: see `Trainable::enlist`.
    #[doc(hidden)]
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}
