//! Gradient transformations: they change the deltas before an optimizer receives them. The paper
//! calls them hyperparameter plug-ins.
//!
//! The methods of [`OptimizerExt`](crate::OptimizerExt) are the short form;
//! [`plug`](crate::OptimizerExt::plug) takes any transformation.
//!
//! ```
//! use dl_core::{Differentiable, Number, Optimizer, Result, Weight};
//! use dl_optim::{OptimizerExt, Sgd, plugins::Plugin};
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
pub(crate) mod ext;

pub use clip_norm::ClipNorm;

use crate::validate::{Allowed, check};
use dl_core::{
    Chunk, ChunkElement, ChunkVisitor, Error, Number, Optimizer, Result, Step, WeightId, forward_optimizer, in_numbers,
};
use std::borrow::Cow;

/// A gradient transformation that is applied elementwise.
pub trait Plugin: Clone + Send + Sync {
    /// Changes the deltas of these values. It is called for each chunk of each weight.
    ///
    /// ```
    /// use dl_optim::plugins::{ClipValue, Plugin};
    /// let mut deltas = vec![1.0, -7.0].into();
    /// ClipValue(5.0).change(&[0.0, 0.0], &mut deltas)?;
    /// assert_eq!(*deltas, [1.0, -5.0]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Any error makes the whole training step fail: no weight is changed.
    fn change<A: Number>(&self, values: &[A], deltas: &mut Cow<'_, [A]>) -> Result<()>;

    /// Checks the inner optimizer when a step begins. The default accepts all optimizers.
    ///
    /// ```
    /// use dl_optim::plugins::{Plugin, WeightDecay};
    /// assert!(WeightDecay(0.1).begin(&dl_optim::Sgd::new(0.1)).is_ok());
    /// assert!(WeightDecay(0.1).begin(&dl_optim::AdamW::new(0.1)).is_err());
    /// ```
    ///
    /// # Errors
    /// Any error makes the whole training step fail: no weight is changed.
    fn begin(&self, inner: &dyn Optimizer) -> Result<()> {
        let _ = inner;
        Ok(())
    }
}

/// An optimizer with a transformation of its deltas. See
/// [`OptimizerExt::plug`](crate::OptimizerExt::plug).
///
/// ```
/// use dl_optim::plugins::{Part, WeightDecay};
/// use dl_core::Optimizer;
/// use dl_optim::{OptimizerExt, Sgd};
/// let sgd: Part<WeightDecay, Sgd> = Sgd::new(0.1).weight_decay(0.01);
/// ```
#[derive(Clone, Debug)]
pub struct Part<P, O> {
    pub(crate) plugin: P,
    pub(crate) inner: O,
}

impl<P: Plugin, O: Optimizer> Optimizer for Part<P, O> {
    forward_optimizer!(this => this.inner; slots memory decays_weights notes kind);

    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        self.plugin.begin(&self.inner)?;
        let begun = behind(step, &self.plugin, |step| self.inner.begin(step))?;
        Ok(begun.map(|inner| self.wrap(inner)))
    }

    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        self.inner.for_weight(weight).map(|inner| self.wrap(inner))
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        with_changed_deltas(chunk, &self.plugin, &mut |chunk| self.inner.step(chunk, steps))
    }
}

impl<P: Plugin, O> Part<P, O> {
    fn wrap<'o>(&'o self, inner: Box<dyn Optimizer + 'o>) -> Box<dyn Optimizer + 'o> {
        Box::new(Part { plugin: self.plugin.clone(), inner })
    }
}

/// Adds x · w: see [`OptimizerExt::weight_decay`](crate::OptimizerExt::weight_decay).
///
/// ```
/// use dl_optim::plugins::{Plugin, WeightDecay};
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
                "an L2 penalty (`weight_decay` on a wrapped optimizer) is combined with the weight decay of the optimizer itself: call `weight_decay` on `AdamW` or `Lion` before it is wrapped, or set its weight decay to 0",
            ));
        }
        Ok(())
    }
}

/// Adds x · sign(w): see [`OptimizerExt::l1`](crate::OptimizerExt::l1).
///
/// ```
/// use dl_optim::plugins::{L1, Plugin};
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

/// Clamps deltas to the range from −x to x: see
/// [`OptimizerExt::clip_value`](crate::OptimizerExt::clip_value). NaN stays NaN.
///
/// ```
/// use dl_optim::plugins::{ClipValue, Plugin};
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

/// Fails a step with deltas that are not all finite: see
/// [`OptimizerExt::refuse_non_finite`](crate::OptimizerExt::refuse_non_finite).
///
/// ```
/// use dl_optim::plugins::{Plugin, RefuseNonFinite};
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

/// Calls `rule` with the same chunk, except for the deltas, which `plugin` has changed.
fn with_changed_deltas<P: Plugin>(
    chunk: Chunk<'_>,
    plugin: &P,
    rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
) -> Result<()> {
    fn change<A: ChunkElement, P: Plugin>(
        (values, deltas, slots): (&mut [A], &[A], &mut [&mut [A]]),
        plugin: &P,
        rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut deltas = Cow::Borrowed(deltas);
        plugin.change(values, &mut deltas)?;
        let mut slots: Vec<&mut [A]> = slots.iter_mut().map(|slot| &mut **slot).collect();
        rule(A::chunk(values, &deltas, &mut slots))
    }
    if chunk.is_norm() {
        return Err(Error::invalid(
            "weights on other ranks have only the norm of their deltas here, which no transformation can be applied to: call `clip_norm` last, after all transformations",
        ));
    }
    in_numbers!(chunk, |values, deltas, slots| change((values, deltas, slots), plugin, rule))
}

/// The training step as the optimizer behind `plugin` sees it.
fn behind<P: Plugin, T>(step: &Step<'_>, plugin: &P, then: impl FnOnce(&Step<'_>) -> T) -> T {
    let deltas = |look: &mut ChunkVisitor<'_>| {
        step.each_delta(&mut |weight, chunk| with_changed_deltas(chunk, plugin, &mut |chunk| look(weight, chunk)))
    };
    then(&Step::new(step.steps(), &deltas))
}

/// Changes each delta, given its value.
fn each<A: Number>(values: &[A], deltas: &mut Cow<'_, [A]>, change: impl Fn(A, A) -> A) {
    for (&w, d) in values.iter().zip(deltas.to_mut()) {
        *d = change(w, *d);
    }
}

/// −1, 0 or 1; NaN of NaN.
pub(super) fn sign<A: Number>(x: A) -> A {
    if x == A::zero() { A::zero() } else { x.signum() }
}
