//! The transformations as methods of every optimizer.

use crate::ema::Ema;
use crate::transform::clip_norm::ClipNorm;
use crate::transform::{ClipValue, L1, Part, Plugin, RefuseNonFinite, WeightDecay};
use dl_core::Optimizer;

/// Transformations of the deltas on their way to an optimizer, as methods of every optimizer.
///
/// Each method makes an optimizer that contains the one it is called on. A delta passes the
/// outermost transformation first, which is the one that is written last, and the rule comes at the
/// end. So `Sgd::new(0.1).weight_decay(1e-4).clip_norm(1.0)` clips the deltas and then adds the
/// decay, as a program in PyTorch usually does, and
/// `Sgd::new(0.1).clip_norm(1.0).weight_decay(1e-4)` clips the sum of both.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::{OptimizerExt, Sgd};
/// let w = Weight::new(0.0_f64);
/// (&w * 5.0).train(&Sgd::new(1.0).weight_decay(0.1).clip_value(2.0)).wait()?;
/// assert_eq!(w.value(), -2.0);
/// # dl_core::Result::Ok(())
/// ```
pub trait OptimizerExt: Optimizer + Sized {
    /// This optimizer with a gradient transformation, which the deltas pass first.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::{OptimizerExt, Sgd, plugins::ClipValue};
    /// let w = Weight::new(0.0_f64);
    /// (&w * 5.0).train(&Sgd::new(1.0).plug(ClipValue(2.0))).wait()?;
    /// assert_eq!(w.value(), -2.0);
    /// # dl_core::Result::Ok(())
    /// ```
    fn plug<P: Plugin>(self, plugin: P) -> Part<P, Self> {
        Part { plugin, inner: self }
    }

    /// This optimizer with an L2 penalty: it uses the gradient `d + x · w` instead of `d`. On a
    /// sparse delta only the touched rows decay.
    ///
    /// [`AdamW`](crate::AdamW) and [`Lion`](crate::Lion) have a method of the same name for
    /// decoupled weight decay, which bypasses the update rule and must be called before other
    /// transformations are added. This one fails each step of an optimizer that [decays its weights
    /// itself](Optimizer::decays_weights), unless x is 0.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::{OptimizerExt, Sgd};
    /// let w = Weight::new(2.0_f64);
    /// (&w * 3.0).train(&Sgd::new(0.5).weight_decay(0.5)).wait()?;
    /// assert_eq!(w.value(), 2.0 - 0.5 * (3.0 + 0.5 * 2.0));
    /// # dl_core::Result::Ok(())
    /// ```
    fn weight_decay(self, weight_decay: f64) -> Part<WeightDecay, Self> {
        self.plug(WeightDecay(weight_decay))
    }

    /// This optimizer with an L1 penalty: it uses the gradient `d + x · sign(w)` instead of `d`. On
    /// a sparse delta only the touched rows are penalized.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::{OptimizerExt, Sgd};
    /// let w = Weight::new(-2.0_f64);
    /// (&w * 3.0).train(&Sgd::new(1.0).l1(0.5)).wait()?;
    /// assert_eq!(w.value(), -2.0 - (3.0 - 0.5));
    /// # dl_core::Result::Ok(())
    /// ```
    fn l1(self, l1: f64) -> Part<L1, Self> {
        self.plug(L1(l1))
    }

    /// This optimizer with the elements of each delta clipped to the range from −x to x. PyTorch's
    /// `clip_grad_value_`.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::{OptimizerExt, Sgd};
    /// let w = Weight::new(0.0_f64);
    /// (&w * -5.0).train(&Sgd::new(1.0).clip_value(2.0)).wait()?;
    /// assert_eq!(w.value(), 2.0);
    /// # dl_core::Result::Ok(())
    /// ```
    fn clip_value(self, clip_value: f64) -> Part<ClipValue, Self> {
        self.plug(ClipValue(clip_value))
    }

    /// This optimizer with the deltas of a step scaled so that their joint norm is at most x.
    /// PyTorch's `clip_grad_norm_`; a norm that is not finite fails the step, as with
    /// `error_if_nonfinite`.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::{OptimizerExt, Sgd};
    /// let (a, b) = (Weight::new(0.0_f64), Weight::new(0.0_f64));
    /// (&a * 30.0 + &b * 40.0).train(&Sgd::new(1.0).clip_norm(5.0)).wait()?;
    /// assert!((a.value() + 3.0).abs() < 1e-6 && (b.value() + 4.0).abs() < 1e-6);
    /// # dl_core::Result::Ok(())
    /// ```
    fn clip_norm(self, max_norm: f64) -> ClipNorm<Self> {
        ClipNorm::new(self, max_norm)
    }

    /// This optimizer, except that a step with a non-finite delta fails.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::{OptimizerExt, Sgd};
    /// let w = Weight::new(0.0_f64);
    /// let error = w.sqrt().train(&Sgd::new(0.1).refuse_non_finite()).wait().unwrap_err();
    /// assert!(error.is_not_finite());
    /// assert_eq!(w.value(), 0.0);
    /// ```
    fn refuse_non_finite(self) -> Part<RefuseNonFinite, Self> {
        self.plug(RefuseNonFinite)
    }

    /// This optimizer with an exponential moving average of each weight: see [`Ema`].
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::{OptimizerExt, Sgd};
    /// let (w, sgd) = (Weight::new(1.0_f64), Sgd::new(0.5).ema(0.75));
    /// w.train(&sgd).wait()?;
    /// assert_eq!(sgd.average(&w)?, Some(0.75 * 1.0 + 0.25 * 0.5));
    /// # dl_core::Result::Ok(())
    /// ```
    fn ema(self, decay: f64) -> Ema<Self> {
        Ema::new(self, decay)
    }
}

impl<O: Optimizer> OptimizerExt for O {}
