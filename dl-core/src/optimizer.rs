//! How weights learn from their deltas.
//!
//! An optimizer is a rule over the numbers of one weight. The runtime calls it when forward and *all*
//! deltas have succeeded; it works on fresh copies, which take their place only when the rule has
//! succeeded for every weight. So a rule may fail, or panic, at any weight, and nothing has
//! changed.
//!
//! ```
//! use dl_core::{AdamW, Differentiable, Optimizer, Weight, schedule::Cosine};
//! let w = Weight::new(1.0_f64);
//! let optimizer = AdamW::new(Cosine::new(0.1, 100)).clip_norm(1.0).refuse_non_finite();
//! (&w * &w).train(&optimizer).wait()?;
//! assert!(w.value() < 1.0);
//! # dl_core::Result::Ok(())
//! ```
//!
//! # Parts
//!
//! `.clip_norm(…)`, `.weight_decay(…)` and the other methods of [`Optimizer`] make an optimizer
//! that contains the one they are called on. A delta passes the outermost part first, which is the
//! one that is written last, and the rule comes at the end. So
//! `Sgd::new(0.1).weight_decay(1e-4).clip_norm(1.0)` clips the deltas and then adds the decay, as a
//! program in PyTorch usually does, and `Sgd::new(0.1).clip_norm(1.0).weight_decay(1e-4)` clips the
//! sum of both.
//!
//! # State
//!
//! What an optimizer remembers of each weight is in its [`Memory`], together with the number of
//! training steps, which is where its [`Schedule`] is. All of it changes with a step or not at all,
//! is shared by the clones of the optimizer, and can be [taken](Optimizer::state) and [put
//! back](Optimizer::load_state): a run that goes on so is bit-identical to one that never stopped.

mod adadelta;
mod adagrad;
mod adam;
mod ema;
mod groups;
mod lion;
mod memory;
mod nadam;
pub mod plugins;
mod radam;
mod rms_prop;
mod rule;
mod sgd;
mod state;
mod step;

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::{Adam, AdamW};
pub use ema::Ema;
pub use groups::{ByPath, Groups};
pub use lion::Lion;
pub use memory::{Memory, Notes, Slot};
pub(crate) use memory::{Shelf, Shelves, Start};
pub use nadam::NAdam;
pub use radam::RAdam;
pub use rms_prop::RmsProp;
pub use sgd::Sgd;
pub(crate) use state::AnyState;
pub use state::{NewState, OptimizerState};
pub use step::{Chunk, Step};
pub(crate) use step::{Look, in_numbers};

#[cfg(doc)]
use crate::schedule::Schedule;

use crate::error::Result;
use crate::setting;
pub(crate) use crate::setting::Allowed;
use crate::weight::{WeightHandle, WeightId};
use plugins::{ClipNorm, ClipValue, L1, Part, Plugin, RefuseNonFinite, WeightDecay};
use std::sync::Arc;

/// An error, unless this setting of an optimizer is what it may be.
#[inline]
pub(crate) fn check(setting: &str, number: f64, allowed: Allowed) -> Result<()> {
    setting::check("optimizer", setting, number, allowed)
}

/// The rule by which weights are changed in a training step.
///
/// A handle: it is cheap to clone, and clones share their state.
///
/// A rule of your own needs [`step`](Optimizer::step), and [`slots`](Optimizer::slots) and
/// [`memory`](Optimizer::memory) if it remembers something.
///
/// One that contains another optimizer hands on `slots`, `memory`, [`begin`](Optimizer::begin),
/// [`for_weight`](Optimizer::for_weight), `step`, [`decays_weights`](Optimizer::decays_weights) and
/// [`notes`](Optimizer::notes), each with what it adds. [`descent`](Optimizer::descent) it hands on
/// only if its `step` adds nothing: it is what the runtime does instead of `step`.
///
/// ```
/// use dl_core::{Chunk, Differentiable, Optimizer, Result, Weight};
///
/// /// Steps of one size, in the direction against the delta.
/// #[derive(Clone)]
/// struct SignDescent(f64);
///
/// impl Optimizer for SignDescent {
///     fn step(&self, chunk: Chunk<'_>, _: u64) -> Result<()> {
///         let Chunk::F64 { values, deltas, .. } = chunk else { unreachable!("no weights in single precision") };
///         for (w, d) in values.iter_mut().zip(deltas) {
///             *w -= self.0 * d.signum();
///         }
///         Ok(())
///     }
/// }
///
/// let w = Weight::new(1.0_f64);
/// (&w * 100.0).train(&SignDescent(0.25)).wait()?;
/// assert_eq!(w.value(), 0.75);
/// # Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an optimizer",
    label = "expected for instance `&Sgd::new(0.01)`"
)]
pub trait Optimizer: Send + Sync {
    /// The state buffers of its own size that a weight needs.
    ///
    /// ```
    /// use dl_core::{Optimizer, Sgd};
    /// assert!(Sgd::new(0.1).slots().is_empty());
    /// assert_eq!(Sgd::new(0.1).momentum(0.9).slots()[0].name(), "momentum_buffer");
    /// ```
    fn slots(&self) -> &[Slot] {
        &[]
    }

    /// Where the state buffers are kept, and training steps are counted; needed when there are
    /// [`slots`](Optimizer::slots).
    ///
    /// ```
    /// use dl_core::{Adam, Optimizer, Sgd};
    /// assert!(Sgd::new(0.1).memory().is_none() && Adam::new(0.1).memory().is_some());
    /// ```
    fn memory(&self) -> Option<&Memory> {
        None
    }

    /// Looks at a training step before any weight changes, and says which optimizer takes it:
    /// another one that knows the learning rate of this step or the norm of its deltas, for
    /// instance, or this one itself, `None`.
    ///
    /// ```
    /// use dl_core::{Chunk, Differentiable, Optimizer, Result, Sgd, Step, Weight};
    ///
    /// /// A learning rate that depends on the norm of all deltas.
    /// #[derive(Clone)]
    /// struct Normalized(f64);
    ///
    /// impl Optimizer for Normalized {
    ///     fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
    ///         let mut squares = 0.0;
    ///         step.each_delta(&mut |_, chunk| {
    ///             if let Chunk::F64 { deltas, .. } = chunk {
    ///                 squares += deltas.iter().map(|d| d * d).sum::<f64>();
    ///             }
    ///             Ok(())
    ///         })?;
    ///         Ok(Some(Box::new(Sgd::new(self.0 / squares.sqrt()))))
    ///     }
    ///     fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
    ///         unreachable!("another optimizer takes the steps")
    ///     }
    /// }
    ///
    /// let w = Weight::new(1.0_f64);
    /// (&w * 100.0).train(&Normalized(0.25)).wait()?;
    /// assert_eq!(w.value(), 0.75);
    /// # Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Any error refuses the whole training step: no weight and no state changes.
    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        let _ = step;
        Ok(None)
    }

    /// The optimizer for this weight, if that is another one.
    ///
    /// ```
    /// use dl_core::{Groups, Optimizer, Sgd, Weight};
    /// let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
    /// let groups = Groups::new(Sgd::new(0.1)).with([&b], Sgd::new(0.5));
    /// assert!(groups.for_weight(b.id()).is_some());
    /// ```
    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        let _ = weight;
        None
    }

    /// Changes the numbers of one weight, or of a part of it. This is step number `steps` of the
    /// weight, counted from 1 beside its state buffers; where there are none, nobody counts, and it
    /// is 1.
    ///
    /// It runs while the weights of the step are locked: it must not [`set`](crate::Weight::set)
    /// them. It may take steps of its own on other weights; those wait for nobody, so if another
    /// step holds such a weight, they fail.
    ///
    /// # Errors
    /// Any error refuses the whole training step: no weight and no state changes.
    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()>;

    /// The learning rate, if every step is `w ← w − rate · delta` and nothing else. The runtime may
    /// then do without [`step`](Optimizer::step): it changes values in place, and a delta that is a
    /// product goes into its weight without being made.
    ///
    /// ```
    /// use dl_core::{Adam, Optimizer, Sgd};
    /// assert!(matches!(Sgd::new(0.1).descent(), Some(Ok(0.1))));
    /// assert!(Sgd::new(0.1).momentum(0.9).descent().is_none());
    /// assert!(Adam::new(0.1).descent().is_none());
    /// ```
    fn descent(&self) -> Option<Result<f64>> {
        None
    }

    /// Whether its steps take away from the weights themselves, beside what they do with the
    /// deltas: a decoupled weight decay. An L2 penalty around it,
    /// [`weight_decay`](Optimizer::weight_decay), then refuses to begin a step.
    ///
    /// ```
    /// use dl_core::{Adam, AdamW, Optimizer};
    /// assert!(AdamW::new(0.1).clip_norm(1.0).decays_weights());
    /// assert!(!AdamW::new(0.1).weight_decay(0.0).decays_weights() && !Adam::new(0.1).decays_weights());
    /// ```
    fn decays_weights(&self) -> bool {
        false
    }

    /// The numbers, by key, that it remembers beside the memory.
    ///
    /// ```
    /// use dl_core::{Optimizer, Sgd, schedule::Plateau};
    /// assert!(Sgd::new(0.1).notes().is_empty());
    /// assert!(!Sgd::new(Plateau::new(0.1)).notes().is_empty());
    /// ```
    fn notes(&self) -> Vec<(String, Notes)> {
        Vec::new()
    }

    /// What it is called in a saved state. Parts that remember nothing have no name.
    ///
    /// ```
    /// use dl_core::{Adam, Optimizer};
    /// assert_eq!(Adam::new(0.1).weight_decay(0.01).ema(0.99).kind(), "Ema(Adam)");
    /// ```
    fn kind(&self) -> String {
        let name = std::any::type_name::<Self>();
        let name = name.split('<').next().unwrap_or(name);
        name.rsplit("::").next().unwrap_or(name).to_owned()
    }

    /// The same optimizer with this part around it: the deltas pass the part first.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Sgd, Weight, plugins::ClipValue};
    /// let w = Weight::new(0.0_f64);
    /// (&w * 5.0).train(&Sgd::new(1.0).plug(ClipValue(2.0))).wait()?;
    /// assert_eq!(w.value(), -2.0);
    /// # dl_core::Result::Ok(())
    /// ```
    fn plug<P: Plugin>(self, plugin: P) -> Part<P, Self>
    where
        Self: Sized,
    {
        Part { plugin, inner: self }
    }

    /// The same optimizer, which learns from `d + x · w` instead of `d`: an L2 penalty. On a sparse
    /// delta it is lazy: only rows that are touched decay.
    ///
    /// [`AdamW`] and [`Lion`] have a weight decay of their own, of the same name, which does not
    /// pass through the rule: it is set before other parts are put around them. This one refuses
    /// every step of an optimizer that [decays its weights itself](Optimizer::decays_weights),
    /// unless x is 0.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Sgd, Weight};
    /// let w = Weight::new(2.0_f64);
    /// (&w * 3.0).train(&Sgd::new(0.5).weight_decay(0.5)).wait()?;
    /// assert_eq!(w.value(), 2.0 - 0.5 * (3.0 + 0.5 * 2.0));
    /// # dl_core::Result::Ok(())
    /// ```
    fn weight_decay(self, weight_decay: f64) -> Part<WeightDecay, Self>
    where
        Self: Sized,
    {
        self.plug(WeightDecay(weight_decay))
    }

    /// The same optimizer, which learns from `d + x · sign(w)` instead of `d`: an L1 penalty. On a
    /// sparse delta it is lazy.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Sgd, Weight};
    /// let w = Weight::new(-2.0_f64);
    /// (&w * 3.0).train(&Sgd::new(1.0).l1(0.5)).wait()?;
    /// assert_eq!(w.value(), -2.0 - (3.0 - 0.5));
    /// # dl_core::Result::Ok(())
    /// ```
    fn l1(self, l1: f64) -> Part<L1, Self>
    where
        Self: Sized,
    {
        self.plug(L1(l1))
    }

    /// The same optimizer, which brings every number of a delta into the range from −x to x.
    /// PyTorch's `clip_grad_value_`.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Sgd, Weight};
    /// let w = Weight::new(0.0_f64);
    /// (&w * -5.0).train(&Sgd::new(1.0).clip_value(2.0)).wait()?;
    /// assert_eq!(w.value(), 2.0);
    /// # dl_core::Result::Ok(())
    /// ```
    fn clip_value(self, clip_value: f64) -> Part<ClipValue, Self>
    where
        Self: Sized,
    {
        self.plug(ClipValue(clip_value))
    }

    /// The same optimizer, which scales the deltas of a step so that the norm of all of them
    /// together is at most x. PyTorch's `clip_grad_norm_`; a norm that is not finite refuses the
    /// step, as with `error_if_nonfinite`.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Sgd, Weight};
    /// let (a, b) = (Weight::new(0.0_f64), Weight::new(0.0_f64));
    /// (&a * 30.0 + &b * 40.0).train(&Sgd::new(1.0).clip_norm(5.0)).wait()?;
    /// assert!((a.value() + 3.0).abs() < 1e-6 && (b.value() + 4.0).abs() < 1e-6);
    /// # dl_core::Result::Ok(())
    /// ```
    fn clip_norm(self, max_norm: f64) -> ClipNorm<Self>
    where
        Self: Sized,
    {
        ClipNorm::new(self, max_norm)
    }

    /// The same optimizer, which refuses a step in which any delta is not finite.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Sgd, Weight};
    /// let w = Weight::new(0.0_f64);
    /// let error = w.sqrt().train(&Sgd::new(0.1).refuse_non_finite()).wait().unwrap_err();
    /// assert!(error.is_not_finite());
    /// assert_eq!(w.value(), 0.0);
    /// ```
    fn refuse_non_finite(self) -> Part<RefuseNonFinite, Self>
    where
        Self: Sized,
    {
        self.plug(RefuseNonFinite)
    }

    /// The same optimizer, which keeps an exponential moving average of every weight: see [`Ema`].
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Sgd, Weight};
    /// let (w, sgd) = (Weight::new(1.0_f64), Sgd::new(0.5).ema(0.75));
    /// w.train(&sgd).wait()?;
    /// assert_eq!(sgd.average(&w)?, Some(0.75 * 1.0 + 0.25 * 0.5));
    /// # dl_core::Result::Ok(())
    /// ```
    fn ema(self, decay: f64) -> Ema<Self>
    where
        Self: Sized,
    {
        Ema::new(self, decay)
    }

    /// All that it remembers, with the names of these weights.
    ///
    /// ```
    /// use dl_core::{Adam, Differentiable, Optimizer, Weight};
    /// let (w, adam) = (Weight::new(3.0_f64), Adam::new(0.1));
    /// (&w * &w).train(&adam).wait()?;
    /// let state = adam.state(&[("w", (&w).into())])?;
    /// assert_eq!(state.number("steps"), Some(1.0));
    /// assert!((state.slot::<f64>("w", "exp_avg").unwrap() - 0.6).abs() < 1e-15);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When two weights have the same name, a weight comes twice, or it remembers a weight that is
    /// not among these.
    fn state<N: AsRef<str>>(&self, named: &[(N, WeightHandle)]) -> Result<OptimizerState>
    where
        Self: Sized,
    {
        state::taken_from(self, &state::names(named)?)
    }

    /// Forgets what it remembers of these weights, and remembers this state instead: what follows
    /// is as if it had gone on from where the state was taken.
    ///
    /// ```
    /// use dl_core::{Adam, Differentiable, Optimizer, Weight};
    /// let (w, adam) = (Weight::new(3.0_f64), Adam::new(0.1));
    /// let train = |optimizer: &Adam| (&w * &w).train(optimizer).wait();
    /// train(&adam)?;
    /// let (value, state) = (w.value(), adam.state(&[("w", (&w).into())])?);
    /// train(&adam)?;
    /// let went_on = w.value();
    ///
    /// let resumed = Adam::new(0.1);
    /// resumed.load_state(&state, &[("w", (&w).into())])?;
    /// w.set(value);
    /// train(&resumed)?;
    /// assert_eq!(w.value(), went_on);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the state is that of another kind of optimizer, has other names of weights or slots,
    /// other keys, or values that do not fit their weights; and in the middle of a step. Then
    /// nothing has changed.
    fn load_state<N: AsRef<str>>(&self, state: &OptimizerState, named: &[(N, WeightHandle)]) -> Result<()>
    where
        Self: Sized,
    {
        self.check_state(state, named)?.set()
    }

    /// The first half of [`load_state`](Optimizer::load_state): a state that fits, which is not put
    /// back yet. The second half is [`NewState::set`].
    ///
    /// ```
    /// use dl_core::{Adam, Optimizer, OptimizerState, Weight};
    /// let (w, adam) = (Weight::new(3.0_f64), Adam::new(0.1));
    /// let state = adam.state(&[("w", (&w).into())])?;
    /// assert!(adam.check_state(&OptimizerState::new("Lion"), &[("w", (&w).into())]).is_err());
    /// adam.check_state(&state, &[("w", (&w).into())])?.set()?;
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`load_state`](Optimizer::load_state).
    fn check_state<N: AsRef<str>>(&self, state: &OptimizerState, named: &[(N, WeightHandle)]) -> Result<NewState>
    where
        Self: Sized,
    {
        state::checked(self, state, &state::names(named)?)
    }
}

/// A pointer to an optimizer is one.
macro_rules! pointer {
    ($($Pointer:ty),*) => {$(
        impl<O: Optimizer + ?Sized> Optimizer for $Pointer {
            fn slots(&self) -> &[Slot] {
                (**self).slots()
            }

            fn memory(&self) -> Option<&Memory> {
                (**self).memory()
            }

            fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
                (**self).begin(step)
            }

            fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
                (**self).for_weight(weight)
            }

            fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
                (**self).step(chunk, steps)
            }

            fn descent(&self) -> Option<Result<f64>> {
                (**self).descent()
            }

            fn decays_weights(&self) -> bool {
                (**self).decays_weights()
            }

            fn notes(&self) -> Vec<(String, Notes)> {
                (**self).notes()
            }

            fn kind(&self) -> String {
                (**self).kind()
            }
        }
    )*};
}

pointer!(&O, Box<O>, Arc<O>);
