//! Derivatives of evaluated layers, as layers.
//!
//! They are built from the values of a pass, so they need a pass that retains its values. A pass
//! that does not begins a nested one.

use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::gradients::SideEffects;
use crate::autodiff::reverse;
use crate::error::direction::Direction;
use crate::error::{Error, Result};
use crate::exec::computation::PassChoice;
use crate::exec::extract::{ExtractAll, ExtractValue, settle};
use crate::exec::run::Run;
use crate::exec::{self, Keep, PassRef, Purpose, user_code};
use crate::graph::data::Data;
use crate::graph::delta::Nothing;
use crate::graph::layer::{BodyKind, Layer};
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::OperandVec;
use crate::graph::value::Value;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

/// Root layers and the deltas that the backward pass starts with. An empty `deltas` means 1.
pub(crate) struct Derivation {
    pub(super) roots: Vec<NodeRef>,
    pub(super) deltas: Vec<NodeRef>,
    /// Layers known not to depend on the variables. The traversal stops at these.
    pub(super) known: Vec<NodeRef>,
}

/// The value of the first root, and its derivatives: layers, or values if the layers would refer to
/// values that their pass has released.
#[derive(Clone, Default)]
pub(crate) struct Derivatives(Arc<[AnyDelta]>);

impl Data for Derivatives {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }
}

/// Derivative layers, built in a pass.
pub(crate) struct BuiltDerivatives {
    layers: Vec<NodeRef>,
    /// The operands of the first layer, if its value is [computed
    /// together](crate::BuiltIn::CAN_DEFER_VALUE) with those of the other layers.
    deferred_root: Option<Vec<Value>>,
}

impl From<Vec<NodeRef>> for BuiltDerivatives {
    fn from(layers: Vec<NodeRef>) -> Self {
        BuiltDerivatives { layers, deferred_root: None }
    }
}

/// The form in which derivatives are requested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Layers,
    /// Values only. The first value may be computed after the others.
    Values,
}

/// A layer of derivatives, built in a pass that retains its values: the current pass if it does,
/// otherwise a nested one.
pub(crate) fn derivatives<F, Fut>(place: &'static Location<'static>, build: F) -> Layer<Derivatives>
where
    F: Fn(Form) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<BuiltDerivatives>> + Send + 'static,
{
    let build = Arc::new(build);
    Layer::dynamic_of_kind(BodyKind::Derivatives, place, move || {
        let build = build.clone();
        async move {
            let derivatives = match exec::current().map(|pass| pass.keep()) {
                // The derivatives of this pass may be differentiated again.
                Some(Keep::Values) => build(Form::Layers).await?.layers.into_iter().map(AnyDelta::Lazy).collect(),
                // This pass releases its values, so the derivatives need a nested pass that retains
                // them.
                _ => {
                    let evaluated = move || evaluated(build(Form::Values));
                    let (built, values) = Run::from_fn(PassChoice::New(Purpose::Derive), evaluated).await?;
                    // The nested pass has ended, so values need no link to it.
                    realize_all(built, values)?.into_iter().map(AnyDelta::Ready).collect()
                }
            };
            Ok(Layer::constant_at(Derivatives(derivatives), place))
        }
    })
}

/// A layer of the derivatives of a tape with respect to `targets`, some of the `effects` of its
/// backward, after the `value` of the tape. In the pass of the tape they are layers, which can be
/// differentiated again; elsewhere they are values, which are computed in the pass of the tape.
pub(crate) fn pulled(
    place: &'static Location<'static>,
    value: Value,
    effects: Result<(SideEffects, Vec<NodeRef>)>,
    tape: Option<PassRef>,
) -> Layer<Derivatives> {
    Layer::dynamic_of_kind(BodyKind::Derivatives, place, move || {
        let (value, effects, tape) = (value.clone(), effects.clone(), tape.clone());
        async move {
            let (effects, targets) = effects?;
            let is_within = exec::current().is_some_and(|pass| effects.is_of(&pass) && pass.keep() == Keep::Values);
            let found: Vec<Option<AnyDelta>> = if is_within {
                effects.deltas_of(&targets)?.into_iter().map(|delta| delta.map(AnyDelta::Lazy)).collect()
            } else {
                let wanted: Vec<usize> = targets.iter().map(|target| target.identity()).collect();
                let computed = effects.evaluate_selected(|layer| wanted.contains(&layer.identity())).await?;
                let delta = |wanted: &usize| computed.iter().find(|(layer, _)| layer.identity() == *wanted);
                wanted.iter().map(|wanted| Some(delta(wanted)?.1.clone())).collect()
            };
            let mut all = vec![AnyDelta::Ready(value)];
            for (target, delta) in targets.into_iter().zip(found) {
                all.push(match (delta, tape.as_ref().and_then(PassRef::pass)) {
                    (Some(delta), _) => delta,
                    (None, Some(pass)) => {
                        let zero = move || zero_value(target.clone());
                        AnyDelta::Ready(Run::from_fn(PassChoice::Existing(pass), zero).await?)
                    }
                    (None, None) => AnyDelta::Ready(zero_value(target).await?),
                });
            }
            Ok(Layer::constant_at(Derivatives(all.into()), place))
        }
    })
}

async fn zero_value(layer: NodeRef) -> Result<Value> {
    ExtractValue::new(zero(&layer).await?).await
}

/// The values of all layers, except for a first layer that is computed after the others.
async fn evaluated(built: impl Future<Output = Result<BuiltDerivatives>>) -> Result<(BuiltDerivatives, Vec<Value>)> {
    let built = built.await?;
    let evaluated = &built.layers[usize::from(built.deferred_root.is_some())..];
    let values = ExtractAll::unsettled(evaluated.to_vec()).await?;
    Ok((built, values))
}

fn realize_all(
    BuiltDerivatives { layers, deferred_root }: BuiltDerivatives,
    mut values: Vec<Value>,
) -> Result<Vec<Value>> {
    if let (Some(operands), NodeOp::Primitive(op)) = (deferred_root, &layers[0].op) {
        let operands: Vec<&Value> = operands.iter().collect();
        let _built = layers[0].enter();
        let fused = || exec::computing_in_task(|| op.value_fused_with(&operands, &values));
        let value = user_code::run_fallible(fused).map_err(|error| error.at(op.name_or_panic(), layers[0].site()))?;
        values.insert(0, value);
    }
    settle(&layers, &values)?;
    Ok(values)
}

impl Derivation {
    /// Of some roots. No `deltas` means 1.
    pub(crate) fn of(roots: Vec<NodeRef>, deltas: Vec<NodeRef>) -> Self {
        Derivation { roots, deltas, known: Vec::new() }
    }

    /// The layer that holds all derivatives, and the result of `map`, which lists the variables and
    /// may make layers of their [derivatives](derivative_at) in this order, from 1 on.
    pub(crate) fn build<G>(
        self,
        place: &'static Location<'static>,
        map: impl FnOnce(&Layer<Derivatives>, &mut Vec<NodeRef>) -> G,
    ) -> (Layer<Derivatives>, G) {
        let (this, variables) = (Arc::new(self), Arc::new(OnceLock::new()));
        let known = variables.clone();
        let derivatives =
            derivatives(place, move |form| this.clone().derive(known.get().cloned().unwrap_or_default(), form));
        let mut list = Vec::new();
        let mapped = map(&derivatives, &mut list);
        let _ = variables.set(list);
        (derivatives, mapped)
    }

    /// Evaluates the roots in the current pass and builds the derivatives.
    async fn derive(self: Arc<Self>, variables: Vec<NodeRef>, form: Form) -> Result<BuiltDerivatives> {
        let defers = form == Form::Values && self.may_defer_root(&variables);
        let inputs = if defers { self.root_inputs().await? } else { None };
        let (roots, deferred_root) = match inputs {
            Some((operands, slopes)) => (slopes, Some(operands)),
            None => (self.with_deltas().await?, None),
        };
        let pass = exec::current().expect("an extract ends in its pass");
        let mut found = reverse::derivatives_of(&pass, &roots, &variables, &self.known)?;
        for (variable, delta) in variables.iter().zip(&mut found) {
            if delta.is_none() {
                *delta = Some(zero(variable).await?);
            }
        }
        // The root may have been evaluated meanwhile, for a variable that depends on it, for
        // instance.
        let is_evaluated =
            deferred_root.is_some() && reverse::evaluated(&*reverse::kept(&pass)?, &self.roots[0]).is_ok();
        let deferred_root = deferred_root.filter(|_| !is_evaluated);
        let first = self.roots.first().cloned();
        Ok(BuiltDerivatives { layers: first.into_iter().chain(found.into_iter().flatten()).collect(), deferred_root })
    }

    /// The roots, evaluated, with the deltas that the backward pass starts with.
    async fn with_deltas(&self) -> Result<Vec<(NodeRef, NodeRef)>> {
        let values = ExtractAll::new(self.roots.clone()).await?;
        let mut deltas = self.deltas.clone();
        if deltas.is_empty() {
            for (root, value) in self.roots.iter().zip(&values) {
                let _rule = root.enter_rule(Direction::Backward);
                deltas.push(AnyDelta::Ready(reverse::one(root, value)?).into_layer(root));
            }
        }
        Ok(self.roots.iter().cloned().zip(deltas).collect())
    }

    /// Whether the value of the root can be computed after its derivatives: there is one root, its
    /// op permits that, and it is not one of the variables.
    fn may_defer_root(&self, variables: &[NodeRef]) -> bool {
        let [root] = &self.roots[..] else { return false };
        let can_defer = matches!(&root.op, NodeOp::Primitive(op) if op.can_defer_value());
        can_defer && self.deltas.is_empty() && !variables.iter().any(|variable| variable.identity() == root.identity())
    }

    /// The operand values of a root that is computed after its derivatives, and its operands with
    /// the deltas that the backward pass starts with. `None` if this does not pay off, or if a
    /// recorder is attached, which must see every operation.
    async fn root_inputs(&self) -> Result<Option<(Vec<Value>, Vec<(NodeRef, NodeRef)>)>> {
        let root = &self.roots[0];
        let NodeOp::Primitive(op) = &root.op else { return Ok(None) };
        if exec::current().is_none_or(|pass| pass.is_watched()) {
            return Ok(None);
        }
        let values = ExtractAll::unsettled(op.operands().to_vec()).await?;
        let slopes = {
            let _rule = root.enter_rule(Direction::Backward);
            let slopes = || op.unit_cotangents(&values.iter().collect::<Vec<_>>());
            user_code::run(slopes).map_err(|error| error.at(op.name_or_panic(), root.site()))?
        };
        let with_slopes = |slopes: OperandVec<Option<NodeRef>>| {
            let with_slope = |(operand, slope): (&NodeRef, Option<NodeRef>)| Some((operand.clone(), slope?));
            op.operands().iter().zip(slopes).filter_map(with_slope).collect()
        };
        Ok(slopes.map(|slopes| (values, with_slopes(slopes))))
    }
}

/// The derivative with respect to a layer that the root does not depend on.
pub(crate) async fn zero(layer: &NodeRef) -> Result<NodeRef> {
    let values = ExtractAll::new(vec![layer.clone()]).await?;
    let _rule = layer.enter_rule(Direction::Backward);
    let one = AnyDelta::Ready(reverse::one(layer, &values[0])?).into_layer(layer);
    Ok((layer.vtable.scale_delta)(&one, 0.0))
}

/// One of several derivatives.
pub(crate) fn derivative_at<T: Data>(
    derivatives: &Layer<Derivatives>,
    which: usize,
    place: &'static Location<'static>,
) -> Layer<T> {
    let derivatives = derivatives.any().clone();
    Layer::dynamic_of_kind(BodyKind::Derivative, place, move || {
        let derivatives = ExtractValue::new(derivatives.clone());
        async move {
            Ok(Layer::from_any(match derivatives.await?.get::<Derivatives>().0.get(which).cloned() {
                Some(AnyDelta::Lazy(layer)) => layer,
                Some(AnyDelta::Ready(value)) => NodeRef::new::<T>(NodeOp::constant(value), place),
                Some(_) => unreachable!("derivatives are summed and evaluated"),
                None => return Err(Error::invalid("`Variables::map` must visit the same variables each time")),
            }))
        }
    })
}
