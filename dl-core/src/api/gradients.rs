//! Gradients: inspect, clip and apply them.

use crate::api::deferred::Do;
use crate::api::weight::Weight;
use crate::autodiff::gradients::{SideEffects, norm};
use crate::error::{Error, Result};
use crate::exec::Pass;
use crate::exec::snapshot::Snapshot;
use crate::graph::data::Trainable;
use crate::step::commit::{commit, commit_and_end, preview};
use crate::step::optimizer::Optimizer;
use std::sync::Arc;

impl SideEffects {
    /// The delta of this weight, or `None` if it has no gradient. It is computed once, in the pass
    /// of its forward values, and later uses of these gradients share it.
    ///
    /// # Errors
    /// The errors of the deltas.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// let (w, other) = (Weight::new(3.0_f64), Weight::new(1.0_f64));
    /// let effects = (&w * &w).backward().wait()?;
    /// assert_eq!(effects.delta(&w).wait()?, Some(6.0));
    /// assert_eq!(effects.delta(&other).wait()?, None);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn delta<T: Trainable>(&self, weight: &Weight<T>) -> Do<Option<T::Delta>> {
        let identity = weight.to_layer().any().identity();
        self.deferred(move |this| async move {
            let delta = this.evaluate_selected(|other| other.identity() == identity).await?.pop();
            Ok(delta.map(|(_, delta)| delta.expect_ready().get::<T::Delta>().clone()))
        })
    }

    /// The same gradients with all deltas computed, which releases the forward values. Accumulating
    /// over many losses then takes the memory of one.
    ///
    /// # Errors
    /// The errors of the deltas.
    ///
    /// ```
    /// use dl_core::{Differentiable, SideEffects, Weight};
    /// use dl_optim::Sgd;
    /// let w = Weight::new(1.0_f64);
    /// let mut all = SideEffects::none();
    /// for x in [1.0, 2.0, 3.0] {
    ///     all = (all + (x * &w).backward().wait()?).evaluate().wait()?;
    /// }
    /// all.step(&Sgd::new(0.1)).wait()?;
    /// assert!((w.value() - 0.4).abs() < 1e-12);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn evaluate(&self) -> Do<SideEffects> {
        self.deferred(SideEffects::evaluated)
    }

    /// The norm of all deltas together: the square root of the sum of the squares of their
    /// elements.
    ///
    /// # Errors
    /// The errors of the deltas.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
    /// let effects = (3.0 * &a + 4.0 * &b).backward().wait()?;
    /// assert_eq!(effects.norm().wait()?, 5.0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn norm(&self) -> Do<f64> {
        self.deferred(|this| async move { Ok(norm(&this.evaluate_by_pass().await?)) })
    }

    /// The same gradients, scaled so that their [`norm`](SideEffects::norm) is at most `max`, as by
    /// PyTorch's `clip_grad_norm_`: multiplied by `max / (norm + 1e-6)` if that is less than 1.
    ///
    /// # Errors
    /// The errors of the deltas; a norm that is not finite; a `max` that is negative or NaN.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::{OptimizerExt, Sgd};
    /// let w = Weight::new(1.0_f64);
    /// let (easy, hard) = (2.0 * &w, 100.0 * &w);
    /// // accumulate over several losses, clip, inspect, and step once
    /// let effects = easy.backward().wait()? + hard.backward().wait()?;
    /// let clipped = effects.clip_norm(1.0).wait()?;
    /// assert!(clipped.norm().wait()? <= 1.0);
    /// clipped.step(&Sgd::new(0.5)).wait()?;
    /// assert!((w.value() - 0.5).abs() < 1e-6);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn clip_norm(&self, max: f64) -> Do<SideEffects> {
        self.deferred(move |this| async move {
            if max.is_nan() || max < 0.0 {
                return Err(Error::invalid(format!("the maximum norm of the deltas is {max}; it must be 0 or more")));
            }
            let norm = norm(&this.clone().evaluate_by_pass().await?);
            if !norm.is_finite() {
                return Err(Error::not_finite(format!("the norm of the deltas is {norm}: it cannot be clipped")));
            }
            let factor = max / (norm + 1e-6);
            Ok(if factor < 1.0 { factor * this } else { this })
        })
    }

    /// Computes all deltas and lets the optimizer update the weights: all of them, or none.
    ///
    /// # Errors
    /// The errors of the deltas and of the optimizer.
    pub fn step<O: Optimizer + Clone + 'static>(&self, optimizer: &O) -> Do<()> {
        let optimizer = optimizer.clone();
        self.deferred(move |this| {
            let optimizer = optimizer.clone();
            async move { this.apply(&optimizer).await }
        })
    }

    /// The weights as [`step`](SideEffects::step) would leave them: a snapshot that passes can run
    /// [on](Do::on). No weight, buffer or optimizer state changes, and no participant votes.
    ///
    /// # Errors
    /// The errors of the deltas and of the optimizer.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// let w = Weight::new(3.0_f64);
    /// let loss = &w * &w;
    /// // a step that is halved until it helps
    /// let (effects, now) = (loss.backward().wait()?, loss.predict().wait()?);
    /// let mut rate = 4.0;
    /// while loss.predict().on(&effects.preview(&Sgd::new(rate)).wait()?).wait()? >= now {
    ///     rate /= 2.0;
    /// }
    /// assert_eq!((rate, w.value()), (0.5, 3.0));
    /// effects.step(&Sgd::new(rate)).wait()?;
    /// assert_eq!(w.value(), 0.0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn preview<O: Optimizer + Clone + 'static>(&self, optimizer: &O) -> Do<Snapshot> {
        let optimizer = optimizer.clone();
        self.deferred(move |this| {
            let optimizer = optimizer.clone();
            async move { preview(&optimizer, this.evaluate_by_pass().await?) }
        })
    }

    fn deferred<T, Fut>(&self, run: impl Fn(SideEffects) -> Fut + Send + Sync + 'static) -> Do<T>
    where
        T: Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        let this = self.clone();
        Do::from_fn(move || run(this.clone()))
    }

    /// Takes the step.
    pub(crate) async fn apply(mut self, optimizer: &(dyn Optimizer + 'static)) -> Result<()> {
        let (passes, participants) = (self.passes(), self.take_participants());
        commit(optimizer, self.evaluate_by_pass().await?, &passes, &participants)
    }

    /// Takes the step within this pass, the pass of the training step.
    pub(crate) async fn apply_in(mut self, pass: &Arc<Pass>, optimizer: &(dyn Optimizer + 'static)) -> Result<()> {
        pass.forget_deltas();
        let participants = self.take_participants();
        if self.is_of(pass) {
            let deltas = self.evaluate_last(pass, optimizer.descent().is_some()).await?;
            return commit_and_end(optimizer, deltas, pass, &participants);
        }
        let mut passes = self.passes();
        if !passes.iter().any(|known| Arc::ptr_eq(known, pass)) {
            passes.push(pass.clone().into());
        }
        commit(optimizer, self.evaluate_by_pass().await?, &passes, &participants)
    }
}
