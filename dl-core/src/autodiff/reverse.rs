//! The reverse pass: from the cotangent of a root to lazy cotangents of the weights.
//!
//! It traverses the evaluated graph from the root to the weights, visits each node once, and emits
//! cotangents as graph nodes. The cotangents that a node receives from its consumers are summed in
//! visit order. Invariant: this order depends on the graph alone, not on timing. Where node and
//! cotangent are plain numbers, the cotangents are computed inline (the numeric reading of the
//! rules of [`dl_math`]). Elsewhere they are layers, which the executor evaluates like any others.
//!
//! Lock rule: the state lock is held during the traversal. Pullback rules run under it, as they
//! only build nodes. It is released before a hand-written backward is called, as that is user code
//! which may use the pass.

use crate::autodiff::accumulator::{self, Accumulator};
use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::custom_backward;
use crate::autodiff::eager::Eager;
use crate::autodiff::gradients::{SideEffects, WeightDeltas};
use crate::autodiff::remat_group::Groups;
use crate::autodiff::scalar::{in_layers, in_numbers, walk_back_in_numbers};
use crate::error::call_context::enter_user_code;
use crate::error::direction::Direction;
use crate::error::{Error, Result};
use crate::exec::{Keep, NONE, Pass, PassState, Status, user_code, vec_pool};
use crate::graph::node::{Node, NodeOp};
use crate::graph::node_ref::{NodePtr, NodeRef};
use crate::graph::op::{AnyAt, OperandVec};
use crate::graph::postorder::postorder;
use crate::graph::scalar::Scalar;
use crate::graph::value::Value;
use crate::record::{SpanWork, TraceNodeId};
use dl_parallel::sync::MutexGuard;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// The cotangent that a backward pass starts with.
pub(crate) fn one(root: &Node, value: &Value) -> Result<Value> {
    user_code::run(|| (root.vtable.one)(value)).map_err(|error| error.at(root.name(), root.site()))
}

/// When cotangents are evaluated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// On demand.
    Asked,
    /// Inline if they are cheap: all of them are needed.
    AtOnce,
}

/// The cotangents of all weights that `root`, which must have been evaluated in `pass`, depends on.
///
/// # Errors
/// A panic in the rule of a user operation; a pass that does not keep its values.
pub(crate) fn side_effects(pass: &Arc<Pass>, root: &NodeRef, delta: AnyDelta, when: When) -> Result<SideEffects> {
    let mut effects = SideEffects::none();
    let deltas = walking(pass, Some(root), || walk_to_weights(pass, root, delta, when, &mut effects))?;
    effects.push(pass, deltas);
    Ok(effects)
}

/// The lazy cotangents of `targets`, given those of `roots`, which must have been evaluated in
/// `pass`. None for a target that no cotangent reaches. The layers in `known` do not depend on the
/// targets. Also returns a layer below the roots with a hand-written backward, if there is one.
///
/// # Errors
/// As [`side_effects`].
pub(crate) fn deltas_of(
    pass: &Arc<Pass>,
    roots: &[(NodeRef, NodeRef)],
    targets: &[NodeRef],
    known: &[NodeRef],
) -> Result<(Vec<Option<NodeRef>>, Option<NodeRef>)> {
    let mut effects = SideEffects::none();
    let targets = unmarked(&mut *kept(pass)?, targets);
    let first = roots.first().map(|(root, _)| root);
    let walk = || walk_towards(pass, roots, &targets, known, false, &mut effects);
    let (deltas, hand_written) = walking(pass, first, walk)?;
    effects.push(pass, deltas);
    Ok((effects.deltas_of(&targets)?, hand_written))
}

/// As [`deltas_of`], for derivatives with respect to `targets` that user code has requested.
///
/// # Errors
/// If a target has no derivative, but a hand-written backward may be the reason.
pub(crate) fn derivatives_of(
    pass: &Arc<Pass>,
    roots: &[(NodeRef, NodeRef)],
    targets: &[NodeRef],
    known: &[NodeRef],
) -> Result<Vec<Option<NodeRef>>> {
    let (found, hand_written) = deltas_of(pass, roots, targets, known)?;
    check_reached(targets.iter().zip(&found).map(|(target, delta)| (target, delta.is_some())), hand_written)?;
    Ok(found)
}

/// An error if one of these layers was not reached, but a hand-written backward may be the reason.
fn check_reached<'a>(
    mut targets: impl Iterator<Item = (&'a NodeRef, bool)>,
    hand_written: Option<NodeRef>,
) -> Result<()> {
    match hand_written {
        Some(at) if targets.any(|(target, reached)| !reached && target.variable().is_none()) => {
            Err(for_weights_only(&at))
        }
        _ => Ok(()),
    }
}

/// The error that a derivative with respect to a layer was requested across this one, which has a
/// hand-written backward.
pub(crate) fn for_weights_only(hand_written: &NodeRef) -> Error {
    Error::invalid(FOR_WEIGHTS_ONLY).at(hand_written.name(), hand_written.site())
}

pub(crate) const FOR_WEIGHTS_ONLY: &str = "a hand-written backward hands derivatives to weights only, but one with respect to another layer was requested: \
     write the operation as a `Primitive` or `with_rule`";

/// The cotangents of all trained weights and of these layers, in one traversal.
///
/// # Errors
/// Those of [`side_effects`] and of [`derivatives_of`].
pub(crate) fn pull(
    pass: &Arc<Pass>,
    root: (NodeRef, NodeRef),
    targets: &[NodeRef],
) -> Result<(SideEffects, Vec<NodeRef>)> {
    let mut effects = SideEffects::none();
    let targets = unmarked(&mut *kept(pass)?, targets);
    let roots = [root];
    let walk = || walk_towards(pass, &roots, &targets, &[], true, &mut effects);
    let (deltas, hand_written) = walking(pass, Some(&roots[0].0), walk)?;
    effects.push(pass, deltas);
    check_reached(targets.iter().map(|target| (target, effects.reaches(target))), hand_written)?;
    Ok((effects, targets))
}

/// Runs a traversal from this root, and records it.
pub(crate) fn walking<R>(pass: &Pass, root: Option<&NodeRef>, walk: impl FnOnce() -> R) -> R {
    let at = || root.map_or(TraceNodeId::NONE, |root| pass.told_layer(root));
    pass.during(SpanWork::Backward, root.map(|root| &**root), at, walk)
}

/// The same layers; a checkpoint boundary is replaced by the layer that it marks.
fn unmarked(state: &mut PassState, layers: &[NodeRef]) -> Vec<NodeRef> {
    let mut unmarked = |layer: &NodeRef| match state.find(layer).filter(|_| layer.is_checkpoint()) {
        Some(mark) => state.handle(state.unmarked(mark)),
        None => layer.clone(),
    };
    layers.iter().map(&mut unmarked).collect()
}

/// The cotangents of all weights, from a root that is a number, in a pass without checkpoints that
/// no other thread uses.
pub(crate) fn deltas_of_number(state: &mut PassState, root: u32, number: Scalar) -> Vec<(NodePtr, Value)> {
    debug_assert!(state.in_order(), "scalar arithmetic has no dynamic nodes");
    if !state.trained(root) {
        return Vec::new();
    }
    let mut arrived = accumulator::take_table(state.slots());
    arrived[root as usize] = number.one().into();
    let mut deltas = vec_pool::spare();
    deltas.reserve(state.weights_met().min(FEW_DELTAS));
    walk_back_in_numbers(state, root, &mut arrived, &mut deltas);
    accumulator::keep_table(arrived);
    deltas
}

/// The targets of a reverse traversal.
pub(crate) trait Targets {
    /// Whether a target is reachable from this slot, so that its cotangent is needed.
    fn wants(&self, state: &PassState, index: u32) -> bool;

    /// Whether this slot is a target.
    fn is_at(&self, index: u32, is_weight: bool) -> bool;
}

/// All trained weights.
struct Trained;

impl Targets for Trained {
    #[inline(always)]
    fn wants(&self, state: &PassState, index: u32) -> bool {
        state.trained(index)
    }

    #[inline(always)]
    fn is_at(&self, _: u32, is_weight: bool) -> bool {
        is_weight
    }
}

/// No targets: all cotangents are needed.
pub(crate) struct Everywhere;

impl Targets for Everywhere {
    fn wants(&self, _: &PassState, _: u32) -> bool {
        true
    }

    fn is_at(&self, _: u32, _: bool) -> bool {
        false
    }
}

/// These layers.
struct Towards {
    targets: FxHashSet<u32>,
    /// For each slot, whether a target is reachable from it.
    leads: Vec<bool>,
    /// Whether all trained weights are targets, too.
    trained: bool,
}

impl Targets for Towards {
    fn wants(&self, state: &PassState, index: u32) -> bool {
        self.leads[index as usize] || self.trained && state.trained(index)
    }

    fn is_at(&self, index: u32, is_weight: bool) -> bool {
        self.trained && is_weight || self.targets.contains(&index)
    }
}

/// The slot of a layer that has been evaluated in this pass.
pub(crate) fn evaluated(state: &PassState, layer: &NodeRef) -> Result<u32> {
    let done = |&index: &u32| matches!(state.status(index), Status::Ready(_));
    state.find(layer).filter(done).ok_or_else(Error::cancelled)
}

/// The locked state of a pass, which must keep its values.
pub(crate) fn kept(pass: &Pass) -> Result<MutexGuard<'_, PassState>> {
    let state = pass.state();
    if state.keep() == Keep::Nothing {
        let why = "a backward inside `predict`, which discards the values: run it in `train`, or in a pass of its own";
        return Err(Error::invalid(why));
    }
    Ok(state)
}

/// The cotangents of all trained weights. If the traversal has called a hand-written backward,
/// those before the last such call, and its side effects, are added to `effects`; the rest is
/// returned.
fn walk_to_weights(
    pass: &Arc<Pass>,
    root: &NodeRef,
    delta: AnyDelta,
    when: When,
    effects: &mut SideEffects,
) -> Result<WeightDeltas> {
    let state = kept(pass)?;
    let root = evaluated(&state, root)?;
    if !state.trained(root) {
        return Ok(Vec::new());
    }
    let order = if state.in_order() { None } else { Some(order(&state, [root], |state, _, x| state.trained(x))) };
    let mut arrived = accumulator::take_table(state.slots());
    arrived[state.unmarked(root) as usize].add(delta);
    let steps = order.as_ref().map_or(root as usize + 1, Vec::len);
    let step = |step: usize| order.as_ref().map_or(step as u32, |order| order[step]);
    walk_back(pass, state, (0..steps).rev().map(step), &Trained, when, arrived, effects)
}

/// As [`walk_to_weights`], for `targets`, given the cotangents of `roots`; with `trained`, also for
/// all trained weights. Also returns a layer with a hand-written backward in between, if there is
/// one. All cotangents are layers here, not numbers.
fn walk_towards(
    pass: &Arc<Pass>,
    roots: &[(NodeRef, NodeRef)],
    targets: &[NodeRef],
    known: &[NodeRef],
    trained: bool,
    effects: &mut SideEffects,
) -> Result<(WeightDeltas, Option<NodeRef>)> {
    let mut state = kept(pass)?;
    let places: Vec<u32> = roots.iter().map(|(root, _)| evaluated(&state, root)).collect::<Result<_>>()?;
    let known: FxHashSet<u32> = known.iter().filter_map(|layer| state.find_any_replica(layer)).collect();
    let targets_met: FxHashSet<u32> = targets.iter().filter_map(|target| state.find_any_replica(target)).collect();
    // what is below the only target does not matter: in a loop of gradients that is all that came
    // before
    let last = |index: u32| !trained && targets_met.len() == 1 && targets_met.contains(&index);
    let order = order(&state, places.iter().copied(), |_, from, to| !last(from) && !known.contains(&to));
    let mut arrived = accumulator::take_table(state.slots());
    let mut goal = Towards { targets: targets_met, leads: vec![false; arrived.len()], trained };
    // A hand-written backward may have any side effects, but on weights only.
    let weights = targets.iter().any(|target| target.variable().is_some());
    for &index in &order {
        let node = state.node(index);
        goal.leads[index as usize] = goal.targets.contains(&index)
            || match &node.op {
                NodeOp::Dynamic(_) => match state.source(index) {
                    NONE => weights && state.backward(index).is_some(),
                    source => goal.leads[source as usize],
                },
                _ => (0..node.operands().len()).any(|which| goal.leads[state.operand(index, which) as usize]),
            };
    }
    for (&place, (_, delta)) in places.iter().zip(roots) {
        let place = state.unmarked(place);
        if goal.wants(&state, place) {
            arrived[place as usize].add(AnyDelta::Lazy(delta.clone()));
        }
    }
    let hand_written = order.iter().find(|&&index| state.backward(index).is_some()).map(|&index| state.handle(index));
    Ok((walk_back(pass, state, order.into_iter().rev(), &goal, When::Asked, arrived, effects)?, hand_written))
}

/// Initial capacity of a table of weight cotangents.
const FEW_DELTAS: usize = 16;

/// Propagates the accumulated cotangents of these slots, consumers before operands, to the targets.
fn walk_back<'a, G: Targets>(
    pass: &'a Arc<Pass>,
    mut state: MutexGuard<'a, PassState>,
    steps: impl Iterator<Item = u32>,
    goal: &G,
    when: When,
    mut arrived: Vec<Accumulator>,
    effects: &mut SideEffects,
) -> Result<WeightDeltas> {
    let mut deltas: WeightDeltas = vec_pool::spare();
    deltas.reserve(state.weights_met().min(FEW_DELTAS));
    let mut eager = if when == When::AtOnce { Eager::of(pass, &state) } else { None };
    // A constant stays a layer, as a second derivative may be taken with respect to it, unless a
    // step uses it.
    let at_weight = |delta: AnyDelta| if when == When::AtOnce { delta.at_hand() } else { delta };
    for index in steps {
        let numeric = match &arrived[index as usize] {
            Accumulator::Nothing => continue,
            &Accumulator::F32(d) => in_numbers(&state, index, d, &mut arrived),
            &Accumulator::F64(d) => in_numbers(&state, index, d, &mut arrived),
            Accumulator::One(_) | Accumulator::Total(_) | Accumulator::Many(_) => false,
        };
        if numeric {
            // A number has no destructor.
            std::mem::forget(std::mem::take(&mut arrived[index as usize]));
            continue;
        }
        let node = state.node(index);
        let is_weight = matches!(node.op, NodeOp::Weight(..));
        // A weight has no operands, and no rule is called.
        if is_weight
            && goal.is_at(index, true)
            && !state.has_forgotten()
            && let Some(delta) = arrived[index as usize].take_one()
        {
            vec_pool::push(&mut deltas, (node.handle(), at_weight(delta)));
            continue;
        }
        let _rule = node.enter_rule(Direction::Backward);
        let mut is_told = false;
        if state.has_forgotten() {
            let groups = Groups::of(pass);
            if goal.is_at(index, false) {
                let sum = groups.sum(&mut state, index, &mut arrived);
                vec_pool::push(&mut deltas, (node.handle(), AnyDelta::Lazy(sum)));
                is_told = true;
            }
            if groups.take(&mut state, index, &mut arrived, |state, index| goal.wants(state, index)) {
                continue;
            }
        }
        let delta = match arrived[index as usize].take_one() {
            Some(delta) => delta,
            None => {
                let sum = take_sum(&mut arrived[index as usize], node)?;
                match (&mut eager, &sum) {
                    (Some(eager), AnyDelta::Lazy(layer)) if !is_weight => {
                        eager.sum(&mut state, layer).map_or(sum, AnyDelta::Ready)
                    }
                    _ => sum,
                }
            }
        };
        if is_weight {
            if !is_told && goal.is_at(index, true) {
                vec_pool::push(&mut deltas, (node.handle(), at_weight(delta)));
            }
            continue; // a weight has no operands
        }
        if !is_told && goal.is_at(index, false) {
            vec_pool::push(&mut deltas, (node.handle(), delta.clone()));
        }
        match &node.op {
            NodeOp::Dynamic(recipe) => match (state.source(index), state.backward(index)) {
                (NONE, Some(backward)) => {
                    // User code, which may use this pass: it must run without the lock.
                    let (delta, name, site) = (delta.into_layer(&node), recipe.name(), node.site());
                    drop(state);
                    let own_places = enter_user_code();
                    let theirs = user_code::run(|| custom_backward::call(&backward, delta));
                    drop(own_places);
                    effects.push(pass, std::mem::take(&mut deltas));
                    *effects += theirs.map_err(|error| error.at(name, site))?;
                    state = pass.state();
                }
                (NONE, None) => {}
                (source, _) => {
                    let source = state.unmarked(source);
                    if goal.wants(&state, source) {
                        arrived[source as usize].add(delta);
                    }
                }
            },
            NodeOp::Weight(..) | NodeOp::Seed(_) => {}
            NodeOp::F32(_) | NodeOp::F64(_) | NodeOp::Plain(_) => {}
            _ => {
                let mut eager = eager.as_mut().and_then(|eager| eager.next_rule(&delta).then_some(eager));
                if let Some(eager) = &mut eager
                    && eager.pull_back(&mut state, index, &delta, goal, &mut arrived)?
                {
                    continue;
                }
                for (which, delta) in
                    pull_back(&mut state, index, delta, when == When::Asked, goal)?.into_iter().enumerate()
                {
                    let Some(delta) = delta else { continue };
                    let place = state.unmarked(state.operand(index, which));
                    if goal.wants(&state, place) {
                        let arrived = &mut arrived[place as usize];
                        match &mut eager {
                            Some(eager) => eager.add(&mut state, delta, place, arrived),
                            None => arrived.add(AnyDelta::Lazy(delta)),
                        }
                    }
                }
            }
        }
    }
    accumulator::keep_table(arrived);
    Ok(deltas)
}

/// The sum of the cotangents that have arrived at this node. The sum of user data may panic. Not
/// inlined: the loop over plain numbers is faster this way.
#[inline(never)]
fn take_sum(arrived: &mut Accumulator, node: NodePtr) -> Result<AnyDelta> {
    let Accumulator::Many(deltas) = std::mem::take(arrived) else {
        unreachable!("a single delta is taken by `take_one`")
    };
    sum(node, *deltas)
}

/// The sum of some cotangents of this node.
pub(crate) fn sum(node: NodePtr, deltas: Vec<AnyDelta>) -> Result<AnyDelta> {
    user_code::run(|| AnyDelta::sum(&node, deltas)).map_err(|error| error.at(node.name(), node.site()))
}

/// The cotangents of the operands of a slot, by the pullback rule of its operation. A cotangent
/// that is not needed may be left out.
pub(crate) fn pull_back(
    state: &mut PassState,
    index: u32,
    delta: AnyDelta,
    may_differentiate: bool,
    goal: &dyn Targets,
) -> Result<OperandVec<Option<NodeRef>>> {
    let node = state.node(index);
    Ok(match &node.op {
        NodeOp::Primitive(op) => {
            let places: OperandVec<u32> = (0..op.operands().len()).map(|which| state.operand(index, which)).collect();
            for &place in &places {
                state.stamp_unique(place); // the rule may hand them out
            }
            let (output, value) = (state.handle(index), state.value(index));
            let delta = delta.into_layer(&node);
            let _places = (!op.is_own()).then(enter_user_code);
            let deltas = state.with_operands(index, places.len(), |values| {
                let value = value.as_value();
                let at = AnyAt { values, output: &output, value, delta, may_differentiate };
                user_code::run(|| op.pullback(at)).map_err(|error| error.at(op.name_or_panic(), node.site()))
            })?;
            if deltas.len() != places.len() {
                let why = format!("the rule returns {} deltas for {} operands", deltas.len(), places.len());
                return Err(Error::invalid(why).at(op.name_or_panic(), node.site()));
            }
            deltas
        }
        _ if node.vtable.is_single => in_layers::<f32>(state, index, delta, goal).into_iter().collect(),
        _ => in_layers::<f64>(state, index, delta, goal).into_iter().collect(),
    })
}

/// The slots below some roots along the edges that `follows` accepts, operands before consumers.
///
/// The order depends on the graph alone, not on the order in which the pass discovered its parts.
pub(crate) fn order(
    state: &PassState,
    roots: impl IntoIterator<Item = u32>,
    follows: impl Fn(&PassState, u32, u32) -> bool,
) -> Vec<u32> {
    let mut seen = vec![false; state.slots()];
    let below = |index: u32, which: usize| {
        let node = state.node(index);
        match &node.op {
            NodeOp::Dynamic(_) => Some(state.source(index)).filter(|&source| source != NONE && which == 0),
            _ => (which < node.operands().len()).then(|| state.operand(index, which)),
        }
    };
    postorder(roots, below, |from, to| {
        from.is_none_or(|from| follows(state, from, to)) && !std::mem::replace(&mut seen[to as usize], true)
    })
}
