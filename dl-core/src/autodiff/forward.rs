//! Forward mode: derivatives along a direction (Jacobian-vector products).
//!
//! It traverses the evaluated graph from the variables to the root, operands before consumers, and
//! emits the *tangent* of each node that depends on the variables, as a layer. It needs no further
//! rules: a pointwise operation has a diagonal Jacobian, so its tangent is its pullback rule
//! applied to the tangent instead of the cotangent. The tangent of any other operation is the
//! transpose of its pullback, or the result of
//! [`Primitive::pushforward`](crate::Primitive::pushforward).

use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::derivatives::{BuiltDerivatives, Derivation, Derivatives, derivative_at, derivatives, zero};
use crate::autodiff::scalar::one_side;
use crate::autodiff::{custom_backward, reverse};
use crate::error::call_context::enter_user_code;
use crate::error::direction::Direction;
use crate::error::{Error, Result};
use crate::exec::extract::ExtractAll;
use crate::exec::{self, NONE, Pass, PassState, RetainGuard, ValueRef, user_code};
use crate::graph::data::Data;
use crate::graph::delta::{Delta, Rule, checked};
use crate::graph::layer::Layer;
use crate::graph::node::{AnyBackward, Node, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyAlong, AnyPrimitive, OperandVec};
use crate::graph::pointwise::Pointwise;
use crate::graph::value::Value;
use dl_math::{Number, Term};
use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::Location;
use std::sync::Arc;

/// The derivatives of some layers along a direction, preceded by the value of the first layer.
pub(crate) fn tangents(
    place: &'static Location<'static>,
    roots: Vec<NodeRef>,
    variables: Vec<NodeRef>,
    directions: Vec<NodeRef>,
) -> Layer<Derivatives> {
    let along = Arc::new((roots, variables, directions));
    derivatives(place, move |_| derive(along.clone()))
}

/// Evaluates the roots in the current pass and emits their tangents.
async fn derive(along: Arc<(Vec<NodeRef>, Vec<NodeRef>, Vec<NodeRef>)>) -> Result<BuiltDerivatives> {
    let (roots, variables, directions) = &*along;
    if variables.len() != directions.len() {
        let (variables, directions) = (variables.len(), directions.len());
        return Err(Error::invalid(format!("a direction of {directions} layers was given for {variables} variables")));
    }
    ExtractAll::new(roots.clone()).await?;
    let pass = exec::current().expect("an extract completes in its pass");
    let _hold = hold(&pass, roots).await?;
    let mut layers: Vec<NodeRef> = roots.first().cloned().into_iter().collect();
    let tangents = reverse::walking(&pass, roots.first(), || tangents_of(&pass, roots, variables, directions));
    for (root, tangent) in roots.iter().zip(tangents?) {
        layers.push(match tangent {
            Some(tangent) => tangent,
            None => zero(root).await?,
        });
    }
    Ok(layers.into())
}

/// Retains all values below the roots; discarded values are rematerialized.
pub(crate) async fn hold(pass: &Arc<Pass>, roots: &[NodeRef]) -> Result<Option<RetainGuard>> {
    let mut hold = {
        let state = reverse::kept(pass)?;
        if !state.has_forgotten() {
            return Ok(None);
        }
        let places: Vec<u32> = roots.iter().map(|root| reverse::evaluated(&state, root)).collect::<Result<_>>()?;
        let order = reverse::order(&state, places, |_, _, _| true);
        pass.hold(state, order)
    };
    poll_fn(|cx| hold.poll(cx)).await?;
    Ok(Some(hold))
}

/// A hand-written backward below the roots.
struct HandWritten {
    layer: NodeRef,
    value: Value,
    backward: AnyBackward,
}

/// The tangents of some layers that have been evaluated in `pass`, as the variables move along the
/// directions. None for a layer that does not depend on the variables.
///
/// # Errors
/// A panic in the rule of a user operation; a pass that does not keep its values; a hand-written
/// backward between a root and one of the variables.
fn tangents_of(
    pass: &Arc<Pass>,
    roots: &[NodeRef],
    variables: &[NodeRef],
    directions: &[NodeRef],
) -> Result<Vec<Option<NodeRef>>> {
    let mut state = reverse::kept(pass)?;
    let places: Vec<u32> = roots.iter().map(|root| reverse::evaluated(&state, root)).collect::<Result<_>>()?;
    let mut given: HashMap<u32, Vec<NodeRef>> = HashMap::new();
    for (variable, direction) in variables.iter().zip(directions) {
        if let Some(place) = state.find_any_replica(variable).map(|place| state.unmarked(place)) {
            given.entry(place).or_default().push(checked(variable, direction, None));
        }
    }
    // Nothing below the only variable depends on it.
    let last = |index: u32| given.len() == 1 && given.contains_key(&index);
    let order = reverse::order(&state, places.iter().copied(), |_, from, _| !last(from));
    let (mut tangents, mut hand_written) = (HashMap::new(), Vec::new());
    for index in order {
        let node = state.node(index);
        let _rule = node.enter_rule(Direction::Forward);
        let of_operands = || -> Option<Vec<Option<NodeRef>>> {
            let each = (0..node.operands().len()).map(|which| tangents.get(&state.operand(index, which)).cloned());
            let each: Vec<Option<NodeRef>> = each.collect();
            each.iter().any(Option::is_some).then_some(each)
        };
        let tangent = match &node.op {
            NodeOp::Unary(..) | NodeOp::WithNumber(..) | NodeOp::Binary(..) => {
                of_operands().and_then(|tangents| match node.vtable.is_single {
                    true => of_arithmetic::<f32>(&mut state, index, tangents),
                    false => of_arithmetic::<f64>(&mut state, index, tangents),
                })
            }
            NodeOp::Primitive(op) => match of_operands() {
                Some(tangents) => of_primitive(&mut state, index, &**op, &tangents)?,
                None => None,
            },
            NodeOp::Dynamic(_) => match (state.source(index), state.backward(index)) {
                (NONE, Some(backward)) => {
                    let (layer, value) = (state.handle(index), state.value(index).to_value());
                    hand_written.push(HandWritten { layer, value, backward });
                    None
                }
                (NONE, None) => None,
                (source, _) => tangents.get(&source).cloned(),
            },
            NodeOp::Weight(..) | NodeOp::Seed(_) => None,
            NodeOp::F32(_) | NodeOp::F64(_) | NodeOp::Plain(_) => None,
        };
        // A variable may depend on other variables: its tangent is the sum of both.
        let mut terms = given.remove(&index).unwrap_or_default();
        terms.extend(tangent);
        if let Some(tangent) = sum(&node, terms)? {
            tangents.insert(index, tangent);
        }
    }
    let of_roots: Vec<_> = places.iter().map(|place| tangents.get(place).cloned()).collect();
    drop(state);
    // The hand-written backward may be the reason that a root has no tangent. A gradient gives the
    // same error.
    if let Some(HandWritten { layer, .. }) = hand_written.first()
        && of_roots.iter().any(Option::is_none)
        && variables.iter().any(|layer| layer.variable().is_none())
    {
        return Err(reverse::for_weights_only(layer));
    }
    refuse(hand_written, variables)?;
    Ok(of_roots)
}

/// The sum of some tangents of a node. The sum of user data may panic.
fn sum(node: &Node, mut terms: Vec<NodeRef>) -> Result<Option<NodeRef>> {
    if terms.len() < 2 {
        return Ok(terms.pop());
    }
    user_code::run(|| Some((node.vtable.sum_deltas)(terms))).map_err(|error| error.at(node.name(), node.site()))
}

/// The rules of scalar arithmetic, applied to tangents instead of cotangents.
fn of_arithmetic<T: Number + Pointwise + Delta>(
    state: &mut PassState,
    index: u32,
    tangents: Vec<Option<NodeRef>>,
) -> Option<NodeRef> {
    let (node, y) = (state.node(index), state.handle(index));
    let operand = |which| {
        let operand = state.operand(index, which);
        state.handle(operand)
    };
    tangent_of_arithmetic::<T>(&node.op, y, tangents, operand)
}

/// The same for the value `y` and these operands.
pub(crate) fn tangent_of_arithmetic<T: Number + Pointwise + Delta>(
    op: &NodeOp,
    y: NodeRef,
    tangents: Vec<Option<NodeRef>>,
    mut operand: impl FnMut(usize) -> NodeRef,
) -> Option<NodeRef> {
    let mut tangents = tangents.into_iter().map(|tangent| tangent.map(Layer::<T>::from_any));
    let mut tangent = || tangents.next().flatten();
    let y = Layer::<T>::from_any(y);
    let mut operand = |which| Layer::<T>::from_any(operand(which));
    match op {
        NodeOp::Unary(op, _) => op.pullback(&Term(operand(0)), &Term(y), &Term(tangent()?)).map(|t| t.0),
        NodeOp::WithNumber(op, side, number, _) => {
            one_side(*op, *side, [Layer::constant(T::of(*number)), operand(0), y, tangent()?])
        }
        NodeOp::Binary(op, _) => {
            let [a, b, y] = [operand(0), operand(1), y].map(Term);
            let left = tangent().and_then(|d| op.pullback_left(&a, &b, &y, &Term(d)));
            let right = tangent().and_then(|d| op.pullback_right(&a, &b, &y, &Term(d)));
            let terms: Vec<Layer<T>> = [left, right].into_iter().flatten().map(|t| t.0).collect();
            if terms.is_empty() { None } else { Some(T::sum(terms)) }
        }
        _ => unreachable!("only called for scalar arithmetic"),
    }
    .map(Layer::into_any)
}

/// The tangent of an operation, by its pushforward.
fn of_primitive(
    state: &mut PassState,
    index: u32,
    op: &dyn AnyPrimitive,
    tangents: &[Option<NodeRef>],
) -> Result<Option<NodeRef>> {
    let operands = op.operands();
    let places: Vec<u32> = (0..operands.len()).map(|which| state.operand(index, which)).collect();
    for &place in &places {
        state.stamp_unique(place); // the rule may hand them out
    }
    let (output, node) = (&state.handle(index), state.node(index));
    let values: Vec<ValueRef<'_>> = places.iter().map(|&x| state.value(x)).collect();
    let values: &[&Value] = &values.iter().map(ValueRef::as_value).collect::<Vec<_>>();
    let value = state.value(index);
    let along = AnyAlong { operands, values, output, value: value.as_value(), tangents };
    let _places = (!op.is_own()).then(enter_user_code);
    let tangent =
        user_code::run(|| op.pushforward(along)).map_err(|error| error.at(op.name_or_panic(), node.site()))?;
    Ok(match tangent {
        Some(tangent) if !op.is_own() => Some(checked(output, &tangent, Some((output, Rule::Pushforward)))),
        tangent => tangent,
    })
}

/// The pushforward of any operation: `u ↦ pullback(u)` is linear, so `J · v` is the gradient of
/// `⟨pullback(u), v⟩` with respect to `u`.
pub(crate) fn transposed<T: Data>(
    along: &AnyAlong<'_>,
    pullback: impl FnOnce(&Layer<T::Delta>) -> OperandVec<Option<NodeRef>>,
) -> Option<Layer<T::Delta>> {
    let u = Layer::constant(along.value.get::<T>().one());
    let deltas = pullback(&u);
    assert_eq!(deltas.len(), along.operands.len(), "a rule must return one delta per operand");
    let both = deltas.into_iter().zip(along.tangents);
    let (roots, deltas): (Vec<_>, Vec<_>) = both.filter_map(|(delta, v)| Some((delta?, v.clone()?))).unzip();
    if roots.is_empty() {
        return None;
    }
    let known = along.operands.iter().chain([along.output]).cloned().collect();
    let derivation = Derivation { roots, deltas, known };
    let place = along.output.place;
    let (derivatives, ()) = derivation.build(place, |_, variables| variables.push(u.into_any()));
    Some(derivative_at(&derivatives, 1, place))
}

/// An error if one of these backwards has a delta for one of the variables.
fn refuse(hand_written: Vec<HandWritten>, variables: &[NodeRef]) -> Result<()> {
    let weights: Vec<NodeRef> = variables.iter().filter(|layer| layer.variable().is_some()).cloned().collect();
    if weights.is_empty() {
        return Ok(());
    }
    for HandWritten { layer, value, backward } in hand_written {
        let at = |error: Error| error.at(layer.name(), layer.site());
        let delta = AnyDelta::Ready(reverse::one(&layer, &value)?).into_layer(&layer);
        let effects = user_code::run(|| custom_backward::call(&backward, delta)).map_err(at)?;
        if effects.deltas_of(&weights)?.iter().any(Option::is_some) {
            let why = "a hand-written backward cannot be differentiated in forward mode. \
                       Take a gradient, or write it as a `Primitive` or `with_rule`";
            return Err(at(Error::invalid(why)));
        }
    }
    Ok(())
}
