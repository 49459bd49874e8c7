//! Gradient transformations: they change the deltas before an optimizer receives them. The paper
//! calls them hyperparameter plug-ins.
//!
//! The methods of [`OptimizerExt`](crate::OptimizerExt) are the short form;
//! [`plug`](crate::OptimizerExt::plug) takes any transformation.
//!
//! ```
//! use dl_core::{Algebra, Differentiable, Result, Term, Weight};
//! use dl_optim::{OptimizerExt, Sgd, plugins::Plugin};
//!
//! /// Deltas below a threshold count as zero.
//! #[derive(Clone)]
//! struct Threshold(f64);
//!
//! impl Plugin for Threshold {
//!     fn formula<A: Algebra>(&self, _: &Term<A>, delta: &Term<A>) -> Option<Term<A>> {
//!         Some(delta.gate(&(delta.abs() - self.0)))
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
    Algebra, Binary, Chunk, ChunkElement, ChunkVisitor, Error, LazyChunk, Number, Optimizer, PlacedChunk, Result, Step,
    Term, WeightId, forward_optimizer, in_numbers,
};
use std::borrow::Cow;

/// A gradient transformation that is applied elementwise. It implements
/// [`formula`](Plugin::formula), or [`change`](Plugin::change) if it cannot be written as one; then
/// it is for weights on the host only.
pub trait Plugin: Clone + Send + Sync {
    /// The new delta of an element, from its value and its delta.
    ///
    /// ```
    /// use dl_core::Term;
    /// use dl_optim::plugins::{ClipValue, Plugin};
    /// assert_eq!(ClipValue(5.0).formula(&Term(0.0), &Term(-7.0)).unwrap().0, -5.0);
    /// ```
    fn formula<A: Algebra>(&self, value: &Term<A>, delta: &Term<A>) -> Option<Term<A>> {
        let _ = (value, delta);
        None
    }

    /// Changes the deltas of these values. It is called for each chunk of each weight. The default
    /// applies the formula to each element.
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
    fn change<A: Number>(&self, values: &[A], deltas: &mut Cow<'_, [A]>) -> Result<()> {
        for (&w, d) in values.iter().zip(deltas.to_mut()) {
            let Some(Term(changed)) = self.formula(&Term(w), &Term(*d)) else { return Err(no_formula::<Self>()) };
            *d = changed;
        }
        Ok(())
    }

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

    /// Looks at the deltas of a step, before the inner optimizer begins.
    #[doc(hidden)]
    fn look(&self, step: &Step<'_>) -> Result<()> {
        let _ = step;
        Ok(())
    }
}

#[cold]
fn no_formula<P>() -> Error {
    let name = std::any::type_name::<P>();
    let name = name.rsplit("::").next().unwrap_or(name);
    Error::invalid(format!(
        "the transformation {name} has no formula, which a weight on a device needs: implement `Plugin::formula`, or \
         call `move_to_host` before the step"
    ))
}

/// Changes the delta of a lazy chunk.
fn record<P: Plugin>(plugin: &P, chunk: &mut LazyChunk) -> Result<()> {
    chunk.delta = plugin.formula(&chunk.value, &chunk.delta).ok_or_else(no_formula::<P>)?;
    Ok(())
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
        self.plugin.look(step)?;
        let begun = behind(step, &self.plugin, |step| self.inner.begin(step))?;
        Ok(begun.map(|inner| self.wrap(inner)))
    }

    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        self.inner.for_weight(weight).map(|inner| self.wrap(inner))
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        with_changed_deltas(chunk, &self.plugin, &mut |chunk| self.inner.step(chunk, steps))
    }

    fn step_lazy(&self, chunk: &mut LazyChunk, steps: u64) -> Result<()> {
        record(&self.plugin, chunk)?;
        self.inner.step_lazy(chunk, steps)
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
    #[inline(always)]
    fn formula<A: Algebra>(&self, value: &Term<A>, delta: &Term<A>) -> Option<Term<A>> {
        Some(delta + self.0 * value)
    }

    fn begin(&self, inner: &dyn Optimizer) -> Result<()> {
        check("the weight decay", self.0, Allowed::FiniteFromZero)?;
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
    #[inline(always)]
    fn formula<A: Algebra>(&self, value: &Term<A>, delta: &Term<A>) -> Option<Term<A>> {
        Some(delta + self.0 * sign(value))
    }

    fn begin(&self, _: &dyn Optimizer) -> Result<()> {
        check("the L1 penalty", self.0, Allowed::FiniteFromZero)
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
    #[inline(always)]
    fn formula<A: Algebra>(&self, _: &Term<A>, delta: &Term<A>) -> Option<Term<A>> {
        let bounded = |op, x: &Term<A>, bound| Term(A::with_number(op, &x.0, bound, false));
        Some(bounded(Binary::Min, &bounded(Binary::Max, delta, -self.0), self.0))
    }

    fn begin(&self, _: &dyn Optimizer) -> Result<()> {
        check("the greatest value of a delta", self.0, Allowed::AtLeastZero)
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
    fn formula<A: Algebra>(&self, _: &Term<A>, delta: &Term<A>) -> Option<Term<A>> {
        Some(delta.clone())
    }

    fn change<A: Number>(&self, _: &[A], deltas: &mut Cow<'_, [A]>) -> Result<()> {
        deltas.iter().find(|d| !d.is_finite()).map_or(Ok(()), |number| Err(refused(number)))
    }

    /// The norm of a delta is not finite if an element is not.
    fn look(&self, step: &Step<'_>) -> Result<()> {
        step.each_lazy_norm(&mut |_, norm| if norm.is_finite() { Ok(()) } else { Err(refused(norm)) })
    }
}

#[cold]
fn refused(number: impl std::fmt::Display) -> Error {
    Error::not_finite(format!("the step was refused: the delta of this weight contains {number}"))
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
    let chunks = |only_lazy: bool, look: &mut ChunkVisitor<'_>| {
        step.each_chunk(only_lazy, &mut |weight, chunk| match chunk {
            PlacedChunk::Host(chunk) => with_changed_deltas(chunk, plugin, &mut |chunk| look(weight, chunk.into())),
            PlacedChunk::Lazy(mut chunk) => {
                record(plugin, &mut chunk)?;
                look(weight, PlacedChunk::Lazy(chunk))
            }
        })
    };
    then(&Step::new(step.steps(), &chunks))
}

/// −1, 0 or 1; NaN of NaN.
#[inline(always)]
pub(super) fn sign<A: Algebra>(x: &Term<A>) -> Term<A> {
    // the sign of −0 is −0
    x.sign() + 0.0
}
