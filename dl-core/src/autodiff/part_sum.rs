//! The computed gradients and buffer updates of a part of a batch, and their sum over parts.

use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::gradients::{SideEffects, WeightDeltas, by_weight, enlist, evaluate_in, new_pass};
use crate::autodiff::tree_sum::TreeNode;
use crate::error::Result;
use crate::exec::buffer_update::Update;
use crate::exec::computation::PassChoice;
use crate::exec::extract::ExtractAll;
use crate::exec::run::Run;
use crate::exec::{Owner, Pass, Purpose, Settings};
use crate::graph::data::Data;
use crate::graph::identity::{Effect, with_effect_at};
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;
use crate::graph::participant::Participant;
use crate::graph::training_step::{ChunkVisitor, Step};
use crate::graph::value::Value;
use crate::graph::weight::WeightId;
use std::any::TypeId;
use std::panic::Location;
use std::sync::Arc;

/// The sum of the deltas of some parts, and the mean of their buffer updates. All of them have been
/// computed.
#[derive(Clone, Default)]
#[doc(hidden)]
pub struct PartSum {
    pub(crate) deltas: WeightDeltas,
    pub(crate) updates: Vec<MeanUpdate>,
    pub(crate) participants: Vec<Arc<dyn Participant>>,
}

/// The sums of some nodes of the tree over the parts.
#[doc(hidden)]
pub type NodeSums = Vec<(TreeNode, PartSum)>;

/// The mean of the new values of a buffer.
#[derive(Clone)]
pub(crate) struct MeanUpdate {
    pub(crate) buffer: NodeRef,
    pub(crate) value: Value,
    /// How many parts wrote the buffer.
    pub(crate) parts: usize,
    pub(crate) place: &'static Location<'static>,
}

impl MeanUpdate {
    /// The mean with further new values, as a layer: `a + (b − a) · w`, which is `a` if both are
    /// equal. `None` for data that are not their own derivatives, as there is no arithmetic on them.
    fn with(&self, other: &MeanUpdate) -> Option<NodeRef> {
        let kind = self.buffer.vtable;
        let layer = |value: &Value| (kind.delta_layer)(NodeOp::constant(value.clone()), self.place);
        let (a, b) = (layer(&self.value), layer(&other.value));
        if (a.vtable.id)() != (kind.id)() {
            return None;
        }
        let weight = other.parts as f64 / (self.parts + other.parts) as f64;
        let difference = (kind.sum_deltas)(vec![b, (kind.scale_delta)(&a, -1.0)]);
        Some((kind.sum_deltas)(vec![a, (kind.scale_delta)(&difference, weight)]))
    }
}

impl PartSum {
    /// The gradients of one part and its buffer updates, computed in its pass, which releases all
    /// values that no delta needs.
    pub(crate) async fn of_part(mut effects: SideEffects, pass: &Arc<Pass>) -> Result<PartSum> {
        let participants = effects.take_participants();
        let mut passes: Vec<Owner> = effects.passes();
        let deltas = if effects.is_of(pass) {
            effects.evaluate_last(pass, false).await?
        } else {
            effects.evaluate_by_pass().await?
        };
        if !passes.iter().any(|known| Arc::ptr_eq(known, pass)) {
            passes.push(pass.clone().into());
        }
        PartSum::with_updates(deltas, &passes, participants)
    }

    /// These gradients and the buffer updates of their passes, computed.
    pub(crate) async fn of_effects(mut effects: SideEffects) -> Result<PartSum> {
        let (participants, passes) = (effects.take_participants(), effects.passes());
        PartSum::with_updates(effects.evaluate_by_pass().await?, &passes, participants)
    }

    fn with_updates(
        deltas: WeightDeltas,
        passes: &[Owner],
        participants: Vec<Arc<dyn Participant>>,
    ) -> Result<PartSum> {
        let mut written = Vec::new();
        for pass in passes {
            pass.before_commit(&mut written)?;
            pass.after_commit();
        }
        let update =
            |update: Update| MeanUpdate { buffer: update.buffer, value: update.value, parts: 1, place: update.place };
        Ok(PartSum { deltas, updates: written.into_iter().map(update).collect(), participants })
    }

    /// The sum of what several uses of the same weights contribute, in this order.
    pub(crate) async fn of_uses(uses: Vec<PartSum>) -> Result<PartSum> {
        let (mut deltas, mut sum) = (Vec::with_capacity(uses.len()), PartSum::default());
        for mut of_use in uses {
            deltas.push(std::mem::take(&mut of_use.deltas));
            sum = sum.joined(of_use).await?;
        }
        sum.deltas = evaluate_in(&new_pass(), by_weight(deltas.into_iter())).await?;
        Ok(sum)
    }

    /// The sum with all deltas multiplied by a factor.
    pub(crate) async fn scaled(mut self, factor: f64) -> Result<PartSum> {
        let mut effects = SideEffects::none();
        effects.push(&new_pass(), self.deltas);
        self.deltas = (factor * effects).evaluate_by_pass().await?;
        Ok(self)
    }

    /// The sum with the parts to the right.
    pub(crate) async fn joined(self, right: PartSum) -> Result<PartSum> {
        let PartSum { deltas, mut updates, mut participants } = self;
        enlist(&mut participants, right.participants);
        let mut means: Vec<(usize, NodeRef)> = Vec::new();
        for new in right.updates {
            let known = updates.iter().position(|known| known.buffer.identity() == new.buffer.identity());
            match known.and_then(|at| Some((at, updates[at].with(&new)?))) {
                Some(mean) => {
                    updates[mean.0].parts += new.parts;
                    means.push(mean);
                }
                None => updates.push(new), // if it is written twice, the commit refuses that
            }
        }
        let mut sums = by_weight([deltas, right.deltas].into_iter());
        let weights = sums.len();
        sums.extend(means.iter().map(|(at, mean)| (updates[*at].buffer.clone(), AnyDelta::Lazy(mean.clone()))));
        let mut deltas = evaluate_in(&new_pass(), sums).await?;
        for ((at, _), (_, mean)) in means.iter().zip(deltas.split_off(weights.min(deltas.len()))) {
            updates[*at].value = mean.expect_ready().clone();
        }
        Ok(PartSum { deltas, updates, participants })
    }

    /// The sum as gradients, with the buffer updates as the side effects of a pass.
    pub(crate) async fn into_effects(mut self) -> Result<SideEffects> {
        // The order in which weights were made does not depend on which part met them first.
        self.deltas.sort_by_key(|(weight, _)| weight.variable().map_or(0, |variable| variable.id()));
        // A pass that predicts would not record the updates.
        let pass: Owner = Pass::new(Purpose::Train, &Settings::default()).into();
        if !self.updates.is_empty() {
            let update = |update: MeanUpdate| {
                let new = NodeRef::of_type(update.buffer.vtable, NodeOp::constant(update.value), update.place);
                with_effect_at(Effect::Update, [new.clone(), new, update.buffer], update.place)
            };
            let layers: Vec<NodeRef> = self.updates.into_iter().map(update).collect();
            let evaluated = move || ExtractAll::new(layers.clone());
            Run::from_fn(PassChoice::Existing(pass.clone()), evaluated).await?;
        }
        let mut effects = SideEffects::none();
        effects.push(&pass, self.deltas);
        Ok(self.participants.into_iter().fold(effects, SideEffects::enlist))
    }
}

#[doc(hidden)]
impl PartSum {
    /// Takes out the deltas of all weights that hold this type.
    pub fn take<T: Data>(&mut self) -> Vec<T::Delta> {
        let is_taken = |weight: &NodeRef| (weight.vtable.id)() == TypeId::of::<T>();
        let taken = self.deltas.extract_if(.., |(weight, _)| is_taken(weight));
        taken.map(|(_, delta)| delta.expect_ready().get::<T::Delta>().clone()).collect()
    }

    /// Takes out the deltas and the updates of the weights and buffers with selected
    /// [ids](crate::Entry::id).
    pub fn take_selected(&mut self, selected: impl Fn(u64) -> bool) -> PartSum {
        let is_selected = |layer: &NodeRef| layer.variable().is_some_and(|variable| selected(variable.id()));
        PartSum {
            deltas: self.deltas.extract_if(.., |(weight, _)| is_selected(weight)).collect(),
            updates: self.updates.extract_if(.., |update| is_selected(&update.buffer)).collect(),
            participants: Vec::new(),
        }
    }

    /// Adds the deltas, the updates and the participants for other weights and buffers.
    pub fn extend(&mut self, other: PartSum) {
        self.deltas.extend(other.deltas);
        self.updates.extend(other.updates);
        enlist(&mut self.participants, other.participants);
    }

    /// The norms of the deltas of the weights with selected ids, one for each chunk, in the order in
    /// which the weights were made.
    ///
    /// # Errors
    /// If a delta does not fit its weight.
    pub fn norms(&self, selected: impl Fn(u64) -> bool) -> Result<Vec<f64>> {
        let mut norms = Vec::new();
        let chunks = |only_lazy: bool, visit: &mut ChunkVisitor<'_>| self.each_chunk(&selected, only_lazy, visit);
        Step::new(0, &chunks).each_norm(&mut |_, norm| {
            norms.push(norm);
            Ok(())
        })?;
        Ok(norms)
    }

    /// Passes the deltas of the weights with selected ids to `visit`, in the order in which the
    /// weights were made, as a step does. Frozen weights are left out, and if `only_lazy` those on
    /// the host.
    ///
    /// # Errors
    /// If a delta does not fit its weight, and those of `visit`.
    pub fn each_chunk(
        &self,
        selected: impl Fn(u64) -> bool,
        only_lazy: bool,
        visit: &mut ChunkVisitor<'_>,
    ) -> Result<()> {
        let mut deltas: Vec<_> =
            self.deltas.iter().filter_map(|(weight, delta)| Some((weight.variable()?, delta.expect_ready()))).collect();
        deltas.retain(|(variable, _)| selected(variable.id()) && !variable.frozen());
        deltas.sort_by_key(|(variable, _)| variable.id());
        for (variable, delta) in deltas {
            let id = WeightId(variable.id());
            variable.weight().visit_chunks(&variable, delta, only_lazy, &mut |chunk| visit(id, chunk))?;
        }
        Ok(())
    }
}
