//! The optimizer interface.
//!
//! An optimizer is an update rule for the elements of one weight. It runs after forward and *all*
//! deltas have succeeded, on fresh copies, which replace the weights only when the rule has
//! succeeded for all of them. If the rule fails or panics, nothing has changed.
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
//! The state of each weight is in the [`Memory`] of the optimizer, together with the number of
//! training steps, which is the position of its learning rate schedule. Each step changes all of it or none.
//! Clones of the optimizer share it. It can be [saved](Optimizer::state) and
//! [restored](Optimizer::load_state); a run that continues from a restored state is bit-identical
//! to an uninterrupted one.

use crate::error::{Error, Result};
use crate::graph::chunk::Chunk;
use crate::graph::lazy_chunk::LazyChunk;
use crate::graph::training_step::Step;
use crate::graph::weight::{Slot, WeightHandle, WeightId};
use crate::step::memory::{Memory, Notes};
use crate::step::state::{self, NewState, OptimizerState};
use std::sync::Arc;

/// The rule that updates weights in a training step.
///
/// An optimizer is a handle: it is cheap to clone, and clones share their state.
///
/// A user-defined optimizer implements [`step`](Optimizer::step), and [`slots`](Optimizer::slots)
/// and [`memory`](Optimizer::memory) if it has state. For weights on a device it implements
/// [`step_lazy`](Optimizer::step_lazy), too.
///
/// A wrapper around another optimizer must forward `slots`, `memory`, [`begin`](Optimizer::begin),
/// [`for_weight`](Optimizer::for_weight), `step`, `step_lazy`,
/// [`decays_weights`](Optimizer::decays_weights) and [`notes`](Optimizer::notes), with its own
/// additions. It may forward [`descent`](Optimizer::descent) only if its `step` adds nothing,
/// because `descent` replaces `step`.
///
/// ```
/// use dl_core::{Chunk, Differentiable, Optimizer, Result, Weight};
///
/// /// Updates of constant size, against the sign of the delta.
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
    label = "expected for instance `&Sgd::new(0.01)`",
    note = "`Groups` are complete after `.rest(…)?`; `Lbfgs` takes its steps itself: `.minimize(&loss).wait()?`"
)]
pub trait Optimizer: Send + Sync {
    /// The state buffers that each weight needs. They have the shape of the weight.
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

    /// The storage of the state buffers and of the step count. Required if there are
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

    /// Inspects a training step before any weight changes, and may return another optimizer to take
    /// it, with the learning rate of this step or the norm of its deltas, for instance. `None`
    /// means this optimizer.
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
    /// An error fails the whole training step: no weight and no state changes.
    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        let _ = step;
        Ok(None)
    }

    /// The optimizer of this weight, if it is a different one.
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

    /// Updates the elements of one weight, or of a part of it. `steps` is the number of steps of
    /// this weight including this one. It is counted with the state buffers; without state it is
    /// always 1.
    ///
    /// It runs under the locks of the weights of the step, so it must not
    /// [`set`](crate::Weight::set) them. It may take nested steps on other weights. A nested step
    /// never waits for a lock: if another step holds the lock of such a weight, the nested step
    /// fails.
    ///
    /// # Errors
    /// An error fails the whole training step: no weight and no state changes.
    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()>;

    /// The same for a weight whose numbers lie on a device: replaces the value and the state
    /// buffers by formulas, which become one kernel. The default is plain gradient descent if there
    /// is a [`descent`](Optimizer::descent), and otherwise an error.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_nd::device::{Device, Dry};
    /// use dl_nd::{MoveModule, Nd, ops::*};
    /// use dl_optim::Adam;
    ///
    /// let dry = Dry::new();
    /// let w = Weight::new(Nd::<f32, _>::full([4, 4], 0.5));
    /// w.move_to(&dry)?;
    /// let adam = Adam::new(0.1);
    /// w.square().sum().train(&adam).wait()?;
    /// let deltas = w.square().sum().backward().wait()?.evaluate().wait()?;
    /// let before = dry.counters().launches;
    /// deltas.step(&adam).wait()?;
    /// assert_eq!(dry.counters().launches - before, 1); // the value, and both means of Adam
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// An error fails the whole training step: no weight and no state changes.
    fn step_lazy(&self, chunk: &mut LazyChunk, steps: u64) -> Result<()> {
        let _ = steps;
        let Some(rate) = self.descent().transpose()? else {
            return Err(Error::invalid(format!(
                "this weight lies on a device, where {} cannot update it: implement `Optimizer::step_lazy`, or call \
                 `move_to_host` before the step",
                self.kind()
            )));
        };
        chunk.value = &chunk.value - rate * &chunk.delta;
        Ok(())
    }

    /// The learning rate, if every update is exactly `w ← w − rate · delta`. The commit may then
    /// skip [`step`](Optimizer::step): it updates values in place, and accumulates a delta that is
    /// a product into its weight without a temporary.
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

    /// Whether the updates shrink the weights independently of their deltas: decoupled weight
    /// decay. If so, `OptimizerExt::weight_decay` (an L2 penalty) around this
    /// optimizer fails each step.
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

    /// Numbers by key that are kept in addition to the memory.
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

    /// The name in a saved state. Stateless transformations are omitted.
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

    /// The whole state of the optimizer, with these names of weights.
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
    /// If two weights have the same name, a weight occurs twice, or the optimizer has state for a
    /// weight that is not in the list.
    fn state<N: AsRef<str>>(&self, named: &[(N, WeightHandle)]) -> Result<OptimizerState>
    where
        Self: Sized,
    {
        state::save(self, &state::distinct(named)?)
    }

    /// Replaces the state of these weights. Training then continues as if it had not been
    /// interrupted after the state was saved.
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
    /// If the state is that of another kind of optimizer, has other weight names, slots or keys, or
    /// has values that do not fit their weights; and during a step. Then nothing has changed.
    fn load_state<N: AsRef<str>>(&self, state: &OptimizerState, named: &[(N, WeightHandle)]) -> Result<()>
    where
        Self: Sized,
    {
        self.check_state(state, named)?.set()
    }

    /// The first half of [`load_state`](Optimizer::load_state): validates a state without applying
    /// it. The second half is [`NewState::set`].
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
    /// Those of [`load_state`](Optimizer::load_state).
    fn check_state<N: AsRef<str>>(&self, state: &OptimizerState, named: &[(N, WeightHandle)]) -> Result<NewState>
    where
        Self: Sized,
    {
        state::validate(self, state, &state::distinct(named)?)
    }
}

/// The methods of an [`Optimizer`] that calls those of another one.
///
/// ```
/// use dl_core::{Chunk, Optimizer, Result, Weight};
///
/// /// Counts the chunks of the steps of another optimizer.
/// struct Counted<O>(O, std::sync::atomic::AtomicUsize);
///
/// impl<O: Optimizer> Optimizer for Counted<O> {
///     dl_core::forward_optimizer!(this => this.0; slots memory begin for_weight decays_weights notes kind);
///
///     fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
///         self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///         self.0.step(chunk, steps)
///     }
/// }
///
/// let counted = Counted(dl_optim::Adam::new(0.1), Default::default());
/// assert_eq!((counted.slots().len(), counted.kind()), (2, "Adam".to_owned()));
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! forward_optimizer {
    ($this:ident => $inner:expr; $($method:ident)*) => {
        $($crate::forward_optimizer! { @$method $this $inner })*
    };
    (@slots $this:ident $inner:expr) => {
        fn slots(&self) -> &[$crate::Slot] {
            let $this = self;
            $inner.slots()
        }
    };
    (@memory $this:ident $inner:expr) => {
        fn memory(&self) -> ::core::option::Option<&$crate::Memory> {
            let $this = self;
            $inner.memory()
        }
    };
    (@begin $this:ident $inner:expr) => {
        fn begin<'o>(
            &'o self,
            step: &$crate::Step<'_>,
        ) -> $crate::Result<::core::option::Option<::std::boxed::Box<dyn $crate::Optimizer + 'o>>> {
            let $this = self;
            $inner.begin(step)
        }
    };
    (@for_weight $this:ident $inner:expr) => {
        fn for_weight<'o>(
            &'o self,
            weight: $crate::WeightId,
        ) -> ::core::option::Option<::std::boxed::Box<dyn $crate::Optimizer + 'o>> {
            let $this = self;
            $inner.for_weight(weight)
        }
    };
    (@step $this:ident $inner:expr) => {
        fn step(&self, chunk: $crate::Chunk<'_>, steps: u64) -> $crate::Result<()> {
            let $this = self;
            $inner.step(chunk, steps)
        }

        fn step_lazy(&self, chunk: &mut $crate::LazyChunk, steps: u64) -> $crate::Result<()> {
            let $this = self;
            $inner.step_lazy(chunk, steps)
        }
    };
    (@descent $this:ident $inner:expr) => {
        fn descent(&self) -> ::core::option::Option<$crate::Result<f64>> {
            let $this = self;
            $inner.descent()
        }
    };
    (@decays_weights $this:ident $inner:expr) => {
        fn decays_weights(&self) -> bool {
            let $this = self;
            $inner.decays_weights()
        }
    };
    (@notes $this:ident $inner:expr) => {
        fn notes(&self) -> ::std::vec::Vec<(::std::string::String, $crate::Notes)> {
            let $this = self;
            $inner.notes()
        }
    };
    (@kind $this:ident $inner:expr) => {
        fn kind(&self) -> ::std::string::String {
            let $this = self;
            $inner.kind()
        }
    };
}

/// Optimizers behind pointers.
macro_rules! pointer {
    ($($Pointer:ty),*) => {$(
        impl<O: Optimizer + ?Sized> Optimizer for $Pointer {
            forward_optimizer!(this => (**this); slots memory begin for_weight step descent decays_weights notes kind);
        }
    )*};
}

pointer!(&O, Box<O>, Arc<O>);
