//! Gradient clipping by the norm of all deltas of a step.

use crate::rule::not_begun;
use crate::transform::{Part, Plugin, behind};
use crate::validate::{Allowed, check};
use dl_core::{Algebra, Chunk, Error, Number, Optimizer, Result, Step, Term, WeightId, forward_optimizer};
use std::borrow::Cow;

/// An optimizer with deltas of a limited norm. See
/// [`OptimizerExt::clip_norm`](crate::OptimizerExt::clip_norm).
///
/// The norm is that of the deltas after the transformations around this one. Rows that a sparse
/// delta leaves out count as zeros. The norms of weights on a device are computed there, and a step
/// waits for them once. Inside of [`Groups`](crate::Groups), the norm is that of the
/// weights of the group.
///
/// ```
/// use dl_optim::{OptimizerExt, plugins::ClipNorm};
/// use dl_core::{Differentiable, Optimizer, Weight};
/// use dl_optim::Sgd;
/// let (w, sgd) = (Weight::new(1.0_f64), Sgd::new(0.5));
/// let clipped: ClipNorm<Sgd> = sgd.clip_norm(1.0);
/// (&w * 100.0).train(&clipped).wait()?;
/// assert!((w.value() - 0.5).abs() < 1e-6);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct ClipNorm<O> {
    inner: O,
    max_norm: f64,
}

impl<O: Optimizer> ClipNorm<O> {
    pub(crate) fn new(inner: O, max_norm: f64) -> Self {
        ClipNorm { inner, max_norm }
    }
}

impl<O: Optimizer> Optimizer for ClipNorm<O> {
    forward_optimizer!(this => this.inner; slots memory decays_weights notes kind);

    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        check("the greatest norm of the deltas", self.max_norm, Allowed::AtLeastZero)?;
        let norm = norm(step)?;
        if !norm.is_finite() {
            return Err(Error::not_finite(format!("the step was refused: the norm of its deltas is {norm}")));
        }
        // as in PyTorch: 1e-6 prevents 0 / 0
        let plugin = Scale((self.max_norm / (norm + 1e-6)).min(1.0));
        let inner = behind(step, &plugin, |step| self.inner.begin(step))?.unwrap_or_else(|| Box::new(&self.inner));
        Ok(Some(Box::new(Part { plugin, inner })))
    }

    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        let inner = self.inner.for_weight(weight)?;
        Some(Box::new(ClipNorm { inner, max_norm: self.max_norm }))
    }

    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        Err(not_begun("clips the norm of all deltas"))
    }
}

#[derive(Clone, Copy)]
struct Scale(f64);

impl Plugin for Scale {
    fn formula<A: Algebra>(&self, _: &Term<A>, delta: &Term<A>) -> Option<Term<A>> {
        Some(if self.0 < 1.0 { delta * self.0 } else { delta.clone() })
    }

    fn change<A: Number>(&self, _: &[A], deltas: &mut Cow<'_, [A]>) -> Result<()> {
        if self.0 < 1.0 {
            deltas.to_mut().iter_mut().for_each(|d| *d = *d * A::of(self.0));
        }
        Ok(())
    }
}

/// The Euclidean norm of all deltas together.
fn norm(step: &Step<'_>) -> Result<f64> {
    let mut total = 0.0_f64;
    step.each_norm(&mut |_, norm| {
        // `hypot` of infinity and NaN is infinity, so a NaN is not passed to it
        total = if total.is_nan() || norm.is_nan() { f64::NAN } else { libm::hypot(total, norm) };
        Ok(())
    })?;
    Ok(total)
}
