//! How weights learn from their deltas.
//!
//! An optimizer is a rule over the numbers of one weight. The runtime calls it when forward and *all*
//! deltas have succeeded; it works on fresh copies, which take their place only when the rule has
//! succeeded for every weight. So a rule may fail, or panic, at any weight, and nothing has
//! changed.
//!
//! ```
//! use dl_core::{Differentiable, Optimizer, Weight};
//! use dl_optim::{OptimizerExt, AdamW, schedule::Cosine};
//! let w = Weight::new(1.0_f64);
//! let optimizer = AdamW::new(Cosine::new(0.1, 100)).clip_norm(1.0).refuse_non_finite();
//! (&w * &w).train(&optimizer).wait()?;
//! assert!(w.value() < 1.0);
//! # dl_core::Result::Ok(())
//! ```
//!
//! # State
//!
//! What an optimizer remembers of each weight is in its [`Memory`], together with the number of
//! training steps, by which a schedule of the learning rate goes. All of it changes with a step or not at all,
//! is shared by the clones of the optimizer, and can be [taken](Optimizer::state) and [put
//! back](Optimizer::load_state): a run that goes on so is bit-identical to one that never stopped.

use crate::step::memory::{Memory, Notes, Slot};
use crate::step::state::{NewState, OptimizerState};
use crate::step::training_step::{Chunk, Step};

use crate::api::weight::{WeightHandle, WeightId};
use crate::error::Result;
use crate::step::state;
use std::sync::Arc;

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
    /// use dl_core::Optimizer;
    /// use dl_optim::Sgd;
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
    /// use dl_core::Optimizer;
    /// use dl_optim::{Adam, Sgd};
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
    /// use dl_core::{Chunk, Differentiable, Optimizer, Result, Step, Weight};
    /// use dl_optim::Sgd;
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
    /// use dl_core::{Optimizer, Weight};
    /// use dl_optim::{Groups, Sgd};
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
    /// use dl_core::Optimizer;
    /// use dl_optim::{Adam, Sgd};
    /// assert!(matches!(Sgd::new(0.1).descent(), Some(Ok(0.1))));
    /// assert!(Sgd::new(0.1).momentum(0.9).descent().is_none());
    /// assert!(Adam::new(0.1).descent().is_none());
    /// ```
    fn descent(&self) -> Option<Result<f64>> {
        None
    }

    /// The same rate, which is finite, if nothing else need be asked of it: it begins no step,
    /// treats all weights alike and remembers nothing. A step of a few plain numbers is then taken
    /// at once. Others are not, so [`descent`](Optimizer::descent) and [`step`](Optimizer::step)
    /// have to do the same. An optimizer around another one may hand it on if it adds nothing.
    ///
    /// ```
    /// use dl_core::Optimizer;
    /// use dl_optim::{OptimizerExt, Sgd};
    /// assert_eq!(Sgd::new(0.1).plain_descent(), Some(0.1));
    /// assert_eq!(Sgd::new(0.1).clip_norm(1.0).plain_descent(), None);
    /// assert_eq!(Sgd::new(|step: u64| 0.1 / (step + 1) as f64).plain_descent(), None);
    /// ```
    fn plain_descent(&self) -> Option<f64> {
        None
    }

    /// Whether its steps take away from the weights themselves, beside what they do with the
    /// deltas: a decoupled weight decay. An L2 penalty around it,
    /// [`weight_decay`](Optimizer::weight_decay), then refuses to begin a step.
    ///
    /// ```
    /// use dl_core::Optimizer;
    /// use dl_optim::{OptimizerExt, Adam, AdamW};
    /// assert!(AdamW::new(0.1).clip_norm(1.0).decays_weights());
    /// assert!(!AdamW::new(0.1).weight_decay(0.0).decays_weights() && !Adam::new(0.1).decays_weights());
    /// ```
    fn decays_weights(&self) -> bool {
        false
    }

    /// The numbers, by key, that it remembers beside the memory.
    ///
    /// ```
    /// use dl_core::Optimizer;
    /// use dl_optim::{Sgd, schedule::Plateau};
    /// assert!(Sgd::new(0.1).notes().is_empty());
    /// assert!(!Sgd::new(Plateau::new(0.1)).notes().is_empty());
    /// ```
    fn notes(&self) -> Vec<(String, Notes)> {
        Vec::new()
    }

    /// What it is called in a saved state. Parts that remember nothing have no name.
    ///
    /// ```
    /// use dl_core::Optimizer;
    /// use dl_optim::{OptimizerExt, Adam};
    /// assert_eq!(Adam::new(0.1).weight_decay(0.01).ema(0.99).kind(), "Ema(Adam)");
    /// ```
    fn kind(&self) -> String {
        let name = std::any::type_name::<Self>();
        let name = name.split('<').next().unwrap_or(name);
        name.rsplit("::").next().unwrap_or(name).to_owned()
    }

    /// All that it remembers, with the names of these weights.
    ///
    /// ```
    /// use dl_core::{Differentiable, Optimizer, Weight};
    /// use dl_optim::Adam;
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
    /// use dl_core::{Differentiable, Optimizer, Weight};
    /// use dl_optim::Adam;
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
    /// use dl_core::{Optimizer, OptimizerState, Weight};
    /// use dl_optim::Adam;
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

            fn plain_descent(&self) -> Option<f64> {
                (**self).plain_descent()
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
