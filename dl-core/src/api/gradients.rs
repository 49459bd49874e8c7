//! What a backward pass would do to the weights: the paper's `UpdateWeights`.

use crate::api::deferred::{Belongs, Do};
use crate::api::extract::ExtractAll;
use crate::api::weight::Weight;
use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::optional_cotangent;
use crate::error::{Error, Result};
use crate::exec;
use crate::exec::{Holder, Owner, Pass, Purpose, Settings};
use crate::graph::data::Trainable;
use crate::graph::node_ref::AnyLayer;
use crate::parallel::sync::{Mutex, MutexGuard};
use crate::record::Direction;
use crate::step::commit::{commit, commit_and_end};
use crate::step::optimizer::Optimizer;
use rustc_hash::FxHashMap;
use std::ops::{Add, AddAssign, Mul};
use std::sync::{Arc, PoisonError};

/// Lazy deltas of weights: what a training step will do, before it is done.
///
/// They form a vector space: `f + g` does to the weights what `f` and `g` do together, `2.0 * f`
/// does twice as much. Nothing is computed and nothing changes before [`step`](SideEffects::step)
/// is awaited; then all weights change at once, or none.
///
/// ```
/// use dl_core::{Differentiable, Do, Weight};
/// use dl_optim::Sgd;
/// let w = Weight::new(1.0_f64);
/// let f = (&w * 2.0).forward().wait()?.backward(Do::now(1.0));
/// let g = (&w * 3.0).forward().wait()?.backward(Do::now(1.0));
/// (f + 10.0 * g).step(&Sgd::new(1.0)).wait()?;
/// assert_eq!(w.value(), 1.0 - 32.0);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone)]
#[must_use = "lazy deltas do nothing until `.step(&optimizer)` is awaited"]
pub struct SideEffects {
    parts: Vec<Part>,
    fault: Option<Error>,
}

/// What one backward does.
#[derive(Clone)]
struct Part {
    /// The pass that holds the forward values which the deltas mention.
    pass: Holder,
    deltas: Deltas,
    /// The same once they are evaluated: sums as they are added up, so that whoever asks again
    /// finds them.
    accumulated: Arc<Mutex<Option<Deltas>>>,
}

impl Part {
    fn new(pass: Holder, deltas: Deltas) -> Part {
        Part { pass, deltas, accumulated: Arc::default() }
    }

    /// The deltas, to be evaluated in this pass.
    fn to_evaluate(&self, pass: &Pass) -> Deltas {
        if pass.is_watched() {
            return self.deltas.clone(); // who watches sees each operation
        }
        let accumulated = || {
            let mut deltas = self.deltas.clone();
            deltas.iter_mut().for_each(|(_, delta)| delta.accumulated());
            deltas
        };
        self.known().get_or_insert_with(accumulated).clone()
    }

    fn known(&self) -> MutexGuard<'_, Option<Deltas>> {
        self.accumulated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Weights, each once, and their deltas.
pub(crate) type Deltas = Vec<(AnyLayer, AnyDelta)>;

impl SideEffects {
    /// The deltas that nobody asked anything of.
    ///
    /// ```
    /// let nothing = dl_core::SideEffects::none();
    /// assert!(nothing.is_none());
    /// ```
    pub fn none() -> Self {
        SideEffects { parts: Vec::new(), fault: None }
    }

    /// Whether no weight is touched.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// let w = Weight::new(1.0_f64);
    /// assert!(Layer::constant(2.0).backward().wait()?.is_none());
    /// assert!(!(&w * 2.0).backward().wait()?.is_none());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn is_none(&self) -> bool {
        self.parts.iter().all(|part| part.deltas.is_empty()) && self.fault.is_none()
    }

    pub(crate) fn failed(error: Error) -> Self {
        SideEffects { parts: Vec::new(), fault: Some(error) }
    }

    /// Adds the deltas of weights that are different from one another. Also without any, a step
    /// writes the buffers of the pass.
    pub(crate) fn push(&mut self, pass: &Arc<Pass>, deltas: Deltas) {
        if !deltas.is_empty() || pass.has_updates() {
            self.parts.push(Part::new(Holder::of(pass), deltas));
        }
    }

    /// The deltas of these layers, as layers; nothing where they are not touched.
    pub(crate) fn deltas_of(self, layers: &[AnyLayer]) -> Result<Vec<Option<AnyLayer>>> {
        if let Some(error) = self.fault {
            return Err(error);
        }
        let all = by_weight(self.parts.into_iter().map(|part| part.deltas)).into_iter();
        let all: FxHashMap<usize, _> = all.map(|(layer, delta)| (layer.identity(), (layer, delta))).collect();
        let delta = |layer: &AnyLayer| all.get(&layer.identity()).map(|(of, delta)| delta.clone().into_layer(of));
        Ok(layers.iter().map(delta).collect())
    }

    /// The delta of this weight; none if it is not touched. It is computed where its forward values
    /// are, once, and what else is done with these side effects finds it there.
    ///
    /// # Errors
    /// Those of the deltas.
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
        let (this, identity) = (self.clone(), weight.to_layer().any().identity());
        Do::from_fn(move || {
            let this = this.clone();
            async move {
                let delta = this.by_pass_of(|other| other.identity() == identity).await?.pop();
                Ok(delta.map(|(_, delta)| delta.expect_ready().get::<T::Delta>().clone()))
            }
        })
    }

    /// The same side effects with all deltas computed, which lets go of the forward values: to
    /// accumulate over many losses takes the memory of one.
    ///
    /// # Errors
    /// Those of the deltas.
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
        let this = self.clone();
        Do::from_fn(move || {
            let this = this.clone();
            async move {
                // what a pass writes into buffers it writes when the step is taken
                let writes = this.passes().into_iter().filter(|pass| pass.has_updates());
                let mut parts: Vec<Part> = writes.map(|pass| Part::new(Holder::of(&pass), Vec::new())).collect();
                let deltas = this.by_pass().await?;
                parts.push(Part::new(Holder::Strong(new_pass()), deltas));
                Ok(SideEffects { parts, fault: None })
            }
        })
    }

    /// The norm of all deltas together: the root of the sum of the squares of all their numbers.
    ///
    /// # Errors
    /// Those of the deltas.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
    /// let effects = (3.0 * &a + 4.0 * &b).backward().wait()?;
    /// assert_eq!(effects.norm().wait()?, 5.0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn norm(&self) -> Do<f64> {
        let this = self.clone();
        Do::from_fn(move || {
            let this = this.clone();
            async move { Ok(norm(&this.by_pass().await?)) }
        })
    }

    /// The same side effects, scaled so that their [`norm`](SideEffects::norm) is `max` at most, as
    /// PyTorch's `clip_grad_norm_` does it: times `max / (norm + 1e-6)`, if that is less than 1.
    ///
    /// # Errors
    /// Those of the deltas; a norm that is not finite; a `max` that is negative or not a number.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::{OptimizerExt, Sgd};
    /// let w = Weight::new(1.0_f64);
    /// let (easy, hard) = (2.0 * &w, 100.0 * &w);
    /// // in parts: accumulate over several losses, clip, look, and step once
    /// let effects = easy.backward().wait()? + hard.backward().wait()?;
    /// let clipped = effects.clip_norm(1.0).wait()?;
    /// assert!(clipped.norm().wait()? <= 1.0);
    /// clipped.step(&Sgd::new(0.5)).wait()?;
    /// assert!((w.value() - 0.5).abs() < 1e-6);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn clip_norm(&self, max: f64) -> Do<SideEffects> {
        let this = self.clone();
        Do::from_fn(move || {
            let this = this.clone();
            async move {
                if max.is_nan() || max < 0.0 {
                    return Err(Error::invalid(format!(
                        "the greatest norm of the deltas is {max}; it has to be 0 or more"
                    )));
                }
                let norm = norm(&this.clone().by_pass().await?);
                if !norm.is_finite() {
                    return Err(Error::not_finite(format!("the norm of the deltas is {norm}: it cannot be clipped")));
                }
                let factor = max / (norm + 1e-6);
                Ok(if factor < 1.0 { factor * this } else { this })
            }
        })
    }

    /// Computes all deltas and lets the optimizer step the weights, all or none.
    ///
    /// # Errors
    /// Those of the deltas and of the optimizer.
    pub fn step<O: Optimizer + Clone + 'static>(&self, optimizer: &O) -> Do<()> {
        let (this, optimizer) = (self.clone(), optimizer.clone());
        Do::from_fn(move || {
            let (this, optimizer) = (this.clone(), optimizer.clone());
            async move {
                let passes = this.passes();
                commit(&optimizer, this.by_pass().await?, &passes)
            }
        })
    }

    /// The same, inside the pass that all parts belong to.
    pub(crate) async fn take(self, pass: &Arc<Pass>, optimizer: &(dyn Optimizer + 'static)) -> Result<()> {
        pass.forget_deltas();
        let here = self.fault.is_none() && self.parts.iter().all(|part| part.pass.is(pass));
        if !here {
            let mut passes = self.passes();
            if !passes.iter().any(|known| Arc::ptr_eq(known, pass)) {
                passes.push(pass.clone().into());
            }
            return commit(optimizer, self.by_pass().await?, &passes);
        }
        let deltas = by_weight(self.parts.into_iter().map(|part| part.deltas));
        pass.forget_the_past();
        let deltas = values(deltas, optimizer.descent().is_some()).await?;
        commit_and_end(optimizer, deltas, pass)
    }

    /// The passes of all parts, each once, as far as they are there.
    fn passes(&self) -> Vec<Owner> {
        let mut passes: Vec<Owner> = Vec::new();
        for part in &self.parts {
            if !passes.iter().any(|known| part.pass.is(known)) {
                passes.extend(part.pass.pass());
            }
        }
        passes
    }

    /// Evaluates every delta in the pass that it belongs to, and adds up those of the same weight.
    async fn by_pass(self) -> Result<Deltas> {
        self.by_pass_of(|_| true).await
    }

    /// The same for some weights only.
    async fn by_pass_of(self, wanted: impl Fn(&AnyLayer) -> bool) -> Result<Deltas> {
        if let Some(error) = self.fault {
            return Err(error);
        }
        let mut passes: Vec<(Owner, Vec<Deltas>)> = Vec::new();
        for part in self.parts {
            let pass = part.pass.pass().ok_or_else(|| Error::invalid(MADE_IN_A_BODY))?;
            let mut deltas = part.to_evaluate(&pass);
            deltas.retain(|(weight, _)| wanted(weight));
            match passes.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &pass)) {
                Some((_, parts)) => parts.push(deltas),
                None => passes.push((pass, vec![deltas])),
            }
        }
        let mut computed = Vec::with_capacity(passes.len());
        for (pass, parts) in passes {
            computed.push(run_on(&pass, by_weight(parts.into_iter())).await?);
        }
        if computed.len() <= 1 {
            return Ok(computed.pop().unwrap_or_default());
        }
        run_on(&new_pass(), by_weight(computed.into_iter())).await
    }
}

const MADE_IN_A_BODY: &str =
    "side effects that were made in a body are gone with its pass: use them there, or take `evaluate()` of them along";

/// The norm of deltas that are computed.
fn norm(deltas: &Deltas) -> f64 {
    let squares = deltas.iter().map(|(weight, delta)| (weight.kind_of_data.squared_norm)(delta.expect_ready()));
    squares.fold(0.0, |sum, square| sum + square).sqrt()
}

/// One delta for each weight, in the order of first mention: the sum of its deltas, in their order.
fn by_weight(mut parts: impl ExactSizeIterator<Item = Deltas>) -> Deltas {
    if parts.len() <= 1 {
        return parts.next().unwrap_or_default();
    }
    let mut place: FxHashMap<usize, usize> = FxHashMap::default();
    let mut groups: Vec<(AnyLayer, Vec<AnyDelta>)> = Vec::new();
    for (weight, delta) in parts.flatten() {
        let group = *place.entry(weight.identity()).or_insert_with(|| {
            groups.push((weight, Vec::new()));
            groups.len() - 1
        });
        groups[group].1.push(delta);
    }
    let sum = |(weight, deltas): (AnyLayer, Vec<AnyDelta>)| {
        let _rule = weight.enter_rule(Direction::Backward);
        let perhaps = |delta: &AnyDelta| matches!(delta, AnyDelta::Lazy(layer) if layer.may_be_absent());
        let sum = if deltas.len() > 1 && deltas.iter().any(perhaps) {
            AnyDelta::Lazy(optional_cotangent::sum(&weight, deltas, 1.0))
        } else {
            AnyDelta::sum(&weight, deltas)
        };
        (weight, sum)
    };
    groups.into_iter().map(sum).collect()
}

/// A pass for deltas that belong to several passes, or to none any more.
fn new_pass() -> Owner {
    Pass::new(Purpose::Predict, &Settings::default()).into()
}

async fn run_on(pass: &Owner, deltas: Deltas) -> Result<Deltas> {
    pass.forget_deltas();
    Do::starting(Belongs::To(pass.clone()), {
        let deltas = Arc::new(deltas);
        move || {
            let deltas = deltas.clone();
            async move { values(deltas.to_vec(), false).await }
        }
    })
    .await
}

/// The deltas, evaluated in the pass that this runs in; with `late`, as far as a step of plain
/// gradient descent needs it.
async fn values(mut deltas: Deltas, late: bool) -> Result<Deltas> {
    // who watches sees each operation
    if !exec::with_current(|pass| pass.is_some_and(|pass| pass.is_watched())) {
        deltas.iter_mut().for_each(|(_, delta)| delta.accumulated());
    }
    let layers: Vec<AnyLayer> = deltas.iter().flat_map(|(_, delta)| delta.needs(late)).cloned().collect();
    if layers.is_empty() {
        return Ok(deltas);
    }
    let mut computed = ExtractAll::new(layers).await?.into_iter();
    // a segment that was evaluated again may hand nothing on
    let absent = |delta: &AnyDelta| matches!(delta, AnyDelta::Lazy(layer) if layer.is_absent());
    let given = deltas.into_iter().filter_map(|(weight, delta)| {
        let absent = absent(&delta);
        let delta = delta.given(late, &mut computed);
        (!absent).then_some((weight, delta))
    });
    Ok(given.collect())
}

impl AddAssign for SideEffects {
    fn add_assign(&mut self, other: SideEffects) {
        self.parts.extend(other.parts);
        self.fault = self.fault.take().or(other.fault);
    }
}

impl Add for SideEffects {
    type Output = SideEffects;

    /// (f₀ + f₁)(x) = f₀(x) + f₁(x)
    fn add(mut self, other: SideEffects) -> SideEffects {
        self += other;
        self
    }
}

impl Mul<SideEffects> for f64 {
    type Output = SideEffects;

    /// (x₀f)(x₁) = f(x₀x₁)
    fn mul(self, mut effects: SideEffects) -> SideEffects {
        for part in &mut effects.parts {
            let deltas = part.known().clone().unwrap_or_else(|| part.deltas.clone());
            *part = Part::new(part.pass.clone(), deltas);
        }
        for (weight, delta) in effects.parts.iter_mut().flat_map(|part| &mut part.deltas) {
            let _rule = weight.enter_rule(Direction::Backward);
            let lazy = delta.clone().into_layer(weight);
            *delta = AnyDelta::Lazy(match lazy.may_be_absent() {
                true => optional_cotangent::sum(weight, vec![AnyDelta::Lazy(lazy)], self),
                false => (weight.kind_of_data.scale_delta)(&lazy, self),
            });
        }
        effects
    }
}

impl std::iter::Sum for SideEffects {
    fn sum<I: Iterator<Item = SideEffects>>(all: I) -> SideEffects {
        all.fold(SideEffects::none(), Add::add)
    }
}

impl std::fmt::Debug for SideEffects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let weights: usize = self.parts.iter().map(|part| part.deltas.len()).sum();
        f.debug_struct("SideEffects").field("weights", &weights).field("fault", &self.fault).finish()
    }
}
