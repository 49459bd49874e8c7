//! Parts that change the deltas on their way to an optimizer. The paper calls them hyperparameter
//! plug-ins.
//!
//! The methods of [`Optimizer`] write them more shortly; [`Optimizer::plug`] takes one of your own.
//!
//! ```
//! use dl_core::{Differentiable, Number, Optimizer, Result, Sgd, Weight, plugins::Plugin};
//! use std::borrow::Cow;
//!
//! /// Deltas below a threshold count as zero.
//! #[derive(Clone)]
//! struct Threshold(f64);
//!
//! impl Plugin for Threshold {
//!     fn change<A: Number>(&self, _: &[A], deltas: &mut Cow<'_, [A]>) -> Result<()> {
//!         let small = A::of(self.0);
//!         deltas.to_mut().iter_mut().filter(|d| d.abs() < small).for_each(|d| *d = A::of(0.0));
//!         Ok(())
//!     }
//! }
//!
//! let w = [1.0, 2.0].map(Weight::<f64>::new);
//! (&w[0] * 0.1 + &w[1] * 10.0).train(&Sgd::new(0.1).plug(Threshold(1.0))).wait()?;
//! assert_eq!(w.map(|w| w.value()), [1.0, 1.0]);
//! # Result::Ok(())
//! ```

pub(crate) mod clip_norm;

pub use clip_norm::ClipNorm;

use crate::api::weight::WeightId;
use crate::error::{Error, Result};
use crate::math::number::Number;
use crate::optim::validate::Allowed;
use crate::step::memory::{Memory, Notes, Slot};
use crate::step::optimizer::{Optimizer, check};
use crate::step::training_step::{Chunk, Step};
use std::borrow::Cow;

/// A change of deltas, number by number.
pub trait Plugin: Clone + Send + Sync {
    /// Changes the deltas of these values; it is called for each run of numbers of each weight.
    ///
    /// ```
    /// use dl_core::plugins::{ClipValue, Plugin};
    /// let mut deltas = vec![1.0, -7.0].into();
    /// ClipValue(5.0).change(&[0.0, 0.0], &mut deltas)?;
    /// assert_eq!(*deltas, [1.0, -5.0]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Any error refuses the whole training step.
    fn change<A: Number>(&self, values: &[A], deltas: &mut Cow<'_, [A]>) -> Result<()>;

    /// Looks at the optimizer behind it when a step begins. Most have nothing against any.
    ///
    /// ```
    /// use dl_core::plugins::{Plugin, WeightDecay};
    /// assert!(WeightDecay(0.1).begin(&dl_core::Sgd::new(0.1)).is_ok());
    /// assert!(WeightDecay(0.1).begin(&dl_core::AdamW::new(0.1)).is_err());
    /// ```
    ///
    /// # Errors
    /// Any error refuses the whole training step.
    fn begin(&self, inner: &dyn Optimizer) -> Result<()> {
        let _ = inner;
        Ok(())
    }
}

/// An optimizer with a part around it, which the deltas pass first. See [`Optimizer::plug`].
///
/// ```
/// use dl_core::plugins::{Part, WeightDecay};
/// use dl_core::{Optimizer, Sgd};
/// let sgd: Part<WeightDecay, Sgd> = Sgd::new(0.1).weight_decay(0.01);
/// ```
#[derive(Clone, Debug)]
pub struct Part<P, O> {
    pub(crate) plugin: P,
    pub(crate) inner: O,
}

impl<P: Plugin, O: Optimizer> Optimizer for Part<P, O> {
    fn slots(&self) -> &[Slot] {
        self.inner.slots()
    }

    fn memory(&self) -> Option<&Memory> {
        self.inner.memory()
    }

    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        self.plugin.begin(&self.inner)?;
        let begun = step.transformed(&self.plugin, |step| self.inner.begin(step))?;
        Ok(begun.map(|inner| self.around(inner)))
    }

    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        self.inner.for_weight(weight).map(|inner| self.around(inner))
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        chunk.transformed_by(&self.plugin, &mut |chunk| self.inner.step(chunk, steps))
    }

    fn decays_weights(&self) -> bool {
        self.inner.decays_weights()
    }

    fn notes(&self) -> Vec<(String, Notes)> {
        self.inner.notes()
    }

    fn kind(&self) -> String {
        self.inner.kind()
    }
}

impl<P: Plugin, O> Part<P, O> {
    fn around<'o>(&'o self, inner: Box<dyn Optimizer + 'o>) -> Box<dyn Optimizer + 'o> {
        Box::new(Part { plugin: self.plugin.clone(), inner })
    }
}

/// Adds x · w: see [`Optimizer::weight_decay`].
///
/// ```
/// use dl_core::plugins::{Plugin, WeightDecay};
/// let mut deltas = vec![1.0].into();
/// WeightDecay(0.5).change(&[4.0], &mut deltas)?;
/// assert_eq!(*deltas, [3.0]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WeightDecay(pub f64);

impl Plugin for WeightDecay {
    fn change<A: Number>(&self, values: &[A], deltas: &mut Cow<'_, [A]>) -> Result<()> {
        check("the weight decay", self.0, Allowed::FiniteFromZero)?;
        each(values, deltas, |w, d| d + A::of(self.0) * w);
        Ok(())
    }

    fn begin(&self, inner: &dyn Optimizer) -> Result<()> {
        if self.0 != 0.0 && inner.decays_weights() {
            return Err(Error::invalid(
                "an L2 penalty (`weight_decay` around an optimizer) and a weight decay of the optimizer's own: call `weight_decay` on `AdamW` or `Lion` itself, before other parts are put around it, or set its own to 0",
            ));
        }
        Ok(())
    }
}

/// Adds x · sign(w): see [`Optimizer::l1`].
///
/// ```
/// use dl_core::plugins::{L1, Plugin};
/// let mut deltas = vec![1.0, 1.0].into();
/// L1(0.5).change(&[4.0, 0.0], &mut deltas)?;
/// assert_eq!(*deltas, [1.5, 1.0]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct L1(pub f64);

impl Plugin for L1 {
    fn change<A: Number>(&self, values: &[A], deltas: &mut Cow<'_, [A]>) -> Result<()> {
        check("the L1 penalty", self.0, Allowed::FiniteFromZero)?;
        each(values, deltas, |w, d| d + A::of(self.0) * sign(w));
        Ok(())
    }
}

/// Brings numbers into the range from −x to x: see [`Optimizer::clip_value`]. NaN stays.
///
/// ```
/// use dl_core::plugins::{ClipValue, Plugin};
/// let mut deltas = vec![f64::NEG_INFINITY].into();
/// ClipValue(0.5).change(&[4.0], &mut deltas)?;
/// assert_eq!(*deltas, [-0.5]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClipValue(pub f64);

impl Plugin for ClipValue {
    fn change<A: Number>(&self, values: &[A], deltas: &mut Cow<'_, [A]>) -> Result<()> {
        check("the greatest value of a delta", self.0, Allowed::AtLeastZero)?;
        let most = A::of(self.0);
        let clipped = |d: A| if d.abs() > most { most * sign(d) } else { d };
        each(values, deltas, |_, d| clipped(d));
        Ok(())
    }
}

/// Refuses a step: see [`Optimizer::refuse_non_finite`].
///
/// ```
/// use dl_core::plugins::{Plugin, RefuseNonFinite};
/// let mut deltas = vec![f64::NAN].into();
/// assert!(RefuseNonFinite.change(&[0.0], &mut deltas).unwrap_err().is_not_finite());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RefuseNonFinite;

impl Plugin for RefuseNonFinite {
    fn change<A: Number>(&self, _: &[A], deltas: &mut Cow<'_, [A]>) -> Result<()> {
        match deltas.iter().find(|d| !d.is_finite()) {
            Some(number) => {
                Err(Error::not_finite(format!("the step was refused: the delta of this weight contains {number}")))
            }
            None => Ok(()),
        }
    }
}

fn each<A: Number>(values: &[A], deltas: &mut Cow<'_, [A]>, change: impl Fn(A, A) -> A) {
    for (&w, d) in values.iter().zip(deltas.to_mut()) {
        *d = change(w, *d);
    }
}

/// −1, 0 or 1; NaN of NaN.
pub(super) fn sign<A: Number>(x: A) -> A {
    if x == A::zero() { A::zero() } else { x.signum() }
}
