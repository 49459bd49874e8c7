//! The gradients of a backward pass as a value that can be added and scaled: the paper's
//! `UpdateWeights`. The methods that evaluate and apply it are in `api/gradients.rs`.

use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::optional_cotangent;
use crate::error::direction::Direction;
use crate::error::{Error, Result};
use crate::exec::computation::PassChoice;
use crate::exec::extract::ExtractAll;
use crate::exec::run::Run;
use crate::exec::{self, Owner, Pass, PassRef, Purpose, Settings};
use crate::graph::node_ref::NodeRef;
use crate::graph::participant::Participant;
use dl_parallel::sync::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;
use std::ops::{Add, AddAssign, Mul};
use std::sync::{Arc, PoisonError};

/// Deferred gradients of weights: the effect of a training step that has not been taken.
///
/// They form a vector space: `f + g` has the joint effect of `f` and `g`, and `2.0 * f` has twice
/// the effect of `f`. Nothing is computed and nothing changes before [`step`](SideEffects::step) is
/// awaited. Then all weights change at once, or none does.
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
    parts: Vec<PassGradients>,
    fault: Option<Error>,
    /// Each once.
    participants: Vec<Arc<dyn Participant>>,
}

/// The gradients of one backward pass.
#[derive(Clone)]
struct PassGradients {
    /// The pass that retains the forward values which the deltas refer to.
    pass: PassRef,
    deltas: WeightDeltas,
    /// The same deltas, rewritten to accumulate in place. Made once, so that repeated requests
    /// evaluate the same layers.
    accumulated: Arc<Mutex<Option<WeightDeltas>>>,
}

impl PassGradients {
    fn new(pass: PassRef, deltas: WeightDeltas) -> PassGradients {
        PassGradients { pass, deltas, accumulated: Arc::default() }
    }

    /// The deltas to be evaluated in this pass.
    fn to_evaluate(&self, pass: &Pass) -> WeightDeltas {
        if pass.is_watched() {
            return self.deltas.clone(); // a recorder must see each operation
        }
        let accumulated = || {
            let mut deltas = self.deltas.clone();
            deltas.iter_mut().for_each(|(_, delta)| delta.accumulated());
            deltas
        };
        self.lock_accumulated().get_or_insert_with(accumulated).clone()
    }

    fn lock_accumulated(&self) -> MutexGuard<'_, Option<WeightDeltas>> {
        self.accumulated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Distinct weights and their deltas.
pub(crate) type WeightDeltas = Vec<(NodeRef, AnyDelta)>;

impl SideEffects {
    /// Gradients of no weights.
    ///
    /// ```
    /// let nothing = dl_core::SideEffects::none();
    /// assert!(nothing.is_none());
    /// ```
    pub fn none() -> Self {
        SideEffects { parts: Vec::new(), fault: None, participants: Vec::new() }
    }

    /// Whether there are no gradients.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// let w = Weight::new(1.0_f64);
    /// assert!(Layer::constant(2.0).backward().wait()?.is_none());
    /// assert!(!(&w * 2.0).backward().wait()?.is_none());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn is_none(&self) -> bool {
        self.parts.iter().all(|part| part.deltas.is_empty()) && self.fault.is_none() && self.participants.is_empty()
    }

    /// These gradients, with a [`Participant`] in the step that applies them. A participant that is
    /// enlisted several times, also in gradients that are added, votes once.
    ///
    /// ```
    /// use dl_core::{Differentiable, Participant, Result, Step, Weight};
    /// use dl_optim::Sgd;
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}};
    ///
    /// #[derive(Default)]
    /// struct Count(AtomicU32);
    ///
    /// impl Participant for Count {
    ///     fn vote<'a>(&'a self, _: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
    ///         Ok(Box::new(|| drop(self.0.fetch_add(1, Relaxed))))
    ///     }
    /// }
    ///
    /// let (w, count) = (Weight::new(1.0_f64), Arc::new(Count::default()));
    /// let effects = || Result::Ok(w.layer().backward().wait()?.enlist(count.clone()));
    /// (effects()? + effects()?).step(&Sgd::new(0.25)).wait()?;
    /// assert_eq!((w.value(), count.0.load(Relaxed)), (0.5, 1));
    /// # Result::Ok(())
    /// ```
    pub fn enlist(mut self, participant: Arc<dyn Participant>) -> Self {
        enlist(&mut self.participants, [participant]);
        self
    }

    /// Takes the participants, for the step.
    pub(crate) fn take_participants(&mut self) -> Vec<Arc<dyn Participant>> {
        std::mem::take(&mut self.participants)
    }

    pub(crate) fn failed(error: Error) -> Self {
        SideEffects { fault: Some(error), ..SideEffects::none() }
    }

    /// Gradients of distinct weights that have been computed.
    pub(crate) fn of_computed(deltas: WeightDeltas) -> SideEffects {
        let mut effects = SideEffects::none();
        effects.push(&new_pass(), deltas);
        effects
    }

    /// Adds the deltas of distinct weights. An empty part is added if the pass has buffer updates,
    /// which the step must write.
    pub(crate) fn push(&mut self, pass: &Arc<Pass>, deltas: WeightDeltas) {
        if !deltas.is_empty() || pass.has_updates() {
            self.parts.push(PassGradients::new(PassRef::of(pass), deltas));
        }
    }

    /// Whether this layer has a gradient.
    pub(crate) fn reaches(&self, layer: &NodeRef) -> bool {
        self.parts.iter().flat_map(|part| &part.deltas).any(|(other, _)| other.identity() == layer.identity())
    }

    /// The gradients of the weights that are trained.
    pub(crate) fn of_trained(&self) -> SideEffects {
        let mut trained = self.clone();
        for part in &mut trained.parts {
            part.deltas.retain(|(layer, _)| layer.as_variable().is_some_and(|variable| !variable.frozen()));
            *part = PassGradients::new(part.pass.clone(), std::mem::take(&mut part.deltas));
        }
        trained
    }

    /// The deltas of these layers, as layers; `None` where there is no gradient.
    pub(crate) fn deltas_of(self, layers: &[NodeRef]) -> Result<Vec<Option<NodeRef>>> {
        if let Some(error) = self.fault {
            return Err(error);
        }
        let all = by_weight(self.parts.into_iter().map(|part| part.deltas)).into_iter();
        let all: FxHashMap<usize, _> = all.map(|(layer, delta)| (layer.identity(), (layer, delta))).collect();
        let delta = |layer: &NodeRef| all.get(&layer.identity()).map(|(of, delta)| delta.clone().into_layer(of));
        Ok(layers.iter().map(delta).collect())
    }

    /// The same gradients with all deltas computed.
    pub(crate) async fn evaluated(mut self) -> Result<SideEffects> {
        let participants = self.take_participants();
        // Buffer updates of a pass are written when the step is taken.
        let writes = self.passes().into_iter().filter(|pass| pass.has_updates());
        let mut parts: Vec<PassGradients> =
            writes.map(|pass| PassGradients::new(PassRef::of(&pass), Vec::new())).collect();
        let deltas = self.evaluate_by_pass().await?;
        parts.push(PassGradients::new(PassRef::Strong(new_pass()), deltas));
        Ok(SideEffects { parts, fault: None, participants })
    }

    /// Whether all gradients are those of this pass, without an error.
    pub(crate) fn is_of(&self, pass: &Arc<Pass>) -> bool {
        self.fault.is_none() && self.parts.iter().all(|part| part.pass.is(pass))
    }

    /// Evaluates gradients that [are all of](SideEffects::is_of) the current pass. The pass releases
    /// the values that no delta needs. With `late`, only as far as an in-place gradient-descent update
    /// needs them.
    pub(crate) async fn evaluate_last(self, pass: &Arc<Pass>, late: bool) -> Result<WeightDeltas> {
        let deltas = by_weight(self.parts.into_iter().map(|part| part.deltas));
        pass.forget_the_past();
        evaluate_deltas(deltas, late).await
    }

    /// The distinct passes of all parts that are still alive.
    pub(crate) fn passes(&self) -> Vec<Owner> {
        let mut passes: Vec<Owner> = Vec::new();
        for part in &self.parts {
            if !passes.iter().any(|known| part.pass.is(known)) {
                passes.extend(part.pass.pass());
            }
        }
        passes
    }

    /// Evaluates each delta in its pass, and sums the deltas of the same weight.
    pub(crate) async fn evaluate_by_pass(self) -> Result<WeightDeltas> {
        self.evaluate_selected(|_| true).await
    }

    /// Does so for the selected weights only.
    pub(crate) async fn evaluate_selected(self, selected: impl Fn(&NodeRef) -> bool) -> Result<WeightDeltas> {
        if let Some(error) = self.fault {
            return Err(error);
        }
        let mut passes: Vec<(Owner, Vec<WeightDeltas>)> = Vec::new();
        for part in self.parts {
            let pass = part.pass.pass().ok_or_else(|| Error::invalid(PASS_ENDED))?;
            let mut deltas = part.to_evaluate(&pass);
            deltas.retain(|(weight, _)| selected(weight));
            match passes.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &pass)) {
                Some((_, parts)) => parts.push(deltas),
                None => passes.push((pass, vec![deltas])),
            }
        }
        let mut computed = Vec::with_capacity(passes.len());
        for (pass, parts) in passes {
            computed.push(evaluate_in(&pass, by_weight(parts.into_iter())).await?);
        }
        if computed.len() <= 1 {
            return Ok(computed.pop().unwrap_or_default());
        }
        evaluate_in(&new_pass(), by_weight(computed.into_iter())).await
    }
}

/// Adds the participants that are new.
pub(super) fn enlist(
    participants: &mut Vec<Arc<dyn Participant>>,
    others: impl IntoIterator<Item = Arc<dyn Participant>>,
) {
    for other in others {
        if !participants.iter().any(|known| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(&other))) {
            participants.push(other);
        }
    }
}

const PASS_ENDED: &str =
    "the pass of these side effects has ended: use them in the body that made them, or return their `evaluate()`";

/// The norm of computed deltas.
pub(crate) fn norm(deltas: &WeightDeltas) -> f64 {
    let squares = deltas.iter().map(|(weight, delta)| (weight.vtable.squared_norm)(delta.expect_ready()));
    squares.fold(0.0, |sum, square| sum + square).sqrt()
}

/// One delta per weight, in the order of first occurrence: the sum of its deltas, in their order.
pub(super) fn by_weight(mut parts: impl ExactSizeIterator<Item = WeightDeltas>) -> WeightDeltas {
    if parts.len() <= 1 {
        return parts.next().unwrap_or_default();
    }
    let mut place: FxHashMap<usize, usize> = FxHashMap::default();
    let mut groups: Vec<(NodeRef, Vec<AnyDelta>)> = Vec::new();
    for (weight, delta) in parts.flatten() {
        let group = *place.entry(weight.identity()).or_insert_with(|| {
            groups.push((weight, Vec::new()));
            groups.len() - 1
        });
        groups[group].1.push(delta);
    }
    let sum = |(weight, deltas): (NodeRef, Vec<AnyDelta>)| {
        let _rule = weight.enter_rule(Direction::Backward);
        let conditional = |delta: &AnyDelta| matches!(delta, AnyDelta::Lazy(layer) if layer.may_be_absent());
        let sum = if deltas.len() > 1 && deltas.iter().any(conditional) {
            AnyDelta::Lazy(optional_cotangent::sum(&weight, deltas, 1.0))
        } else {
            AnyDelta::sum(&weight, deltas)
        };
        (weight, sum)
    };
    groups.into_iter().map(sum).collect()
}

/// A pass for deltas of several passes, or of none that is still alive.
pub(super) fn new_pass() -> Owner {
    Pass::new(Purpose::Predict, &Settings::default()).into()
}

pub(super) async fn evaluate_in(pass: &Owner, deltas: WeightDeltas) -> Result<WeightDeltas> {
    pass.forget_deltas();
    let evaluated = move || evaluate_deltas(deltas.clone(), false);
    Run::from_fn(PassChoice::Existing(pass.clone()), evaluated).await
}

/// The deltas, evaluated in the current pass. With `late`, only as far as an in-place
/// gradient-descent update needs them.
async fn evaluate_deltas(mut deltas: WeightDeltas, late: bool) -> Result<WeightDeltas> {
    // A recorder must see each operation.
    if !exec::with_current(|pass| pass.is_some_and(|pass| pass.is_watched())) {
        deltas.iter_mut().for_each(|(_, delta)| delta.accumulated());
    }
    let layers: Vec<NodeRef> = deltas.iter().flat_map(|(_, delta)| delta.needs(late)).cloned().collect();
    if layers.is_empty() {
        return Ok(deltas);
    }
    let mut computed = ExtractAll::new(layers).await?.into_iter();
    // A recomputed segment may pass on no delta.
    let absent = |delta: &AnyDelta| matches!(delta, AnyDelta::Lazy(layer) if layer.is_absent());
    let evaluated = deltas.into_iter().filter_map(|(weight, delta)| {
        let absent = absent(&delta);
        // The rule of a user operation may have built it: see `check_deltas`.
        let unchecked = match &delta {
            AnyDelta::Lazy(layer) if !late => layer.accumulates().map(|_| layer.clone()),
            _ => None,
        };
        let delta = delta.given(late, &mut computed);
        if let (Some(by), Some(variable)) = (unchecked, weight.as_variable())
            && let Err(error) = variable.check_delta(delta.expect_ready())
        {
            return Some(Err(error.at(by.name(), by.site())));
        }
        (!absent).then_some(Ok((weight, delta)))
    });
    evaluated.collect()
}

impl AddAssign for SideEffects {
    fn add_assign(&mut self, other: SideEffects) {
        self.parts.extend(other.parts);
        self.fault = self.fault.take().or(other.fault);
        enlist(&mut self.participants, other.participants);
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
            let deltas = part.lock_accumulated().clone().unwrap_or_else(|| part.deltas.clone());
            *part = PassGradients::new(part.pass.clone(), deltas);
        }
        for (weight, delta) in effects.parts.iter_mut().flat_map(|part| &mut part.deltas) {
            let _rule = weight.enter_rule(Direction::Backward);
            let lazy = delta.clone().into_layer(weight);
            *delta = AnyDelta::Lazy(match lazy.may_be_absent() {
                true => optional_cotangent::sum(weight, vec![AnyDelta::Lazy(lazy)], self),
                false => (weight.vtable.scale_delta)(&lazy, self),
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
