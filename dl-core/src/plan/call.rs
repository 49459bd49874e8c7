//! A call of a compiled function: a node with all its results, and a node for each result.
//!
//! A call is its own result if there is one result, and no backward reads another value of the
//! forward, as far as backwards are known when the call is built.

use crate::error::call_context::Site;
use crate::error::call_stack::Calls;
use crate::error::{Error, Result};
use crate::exec::{self, INLINE_BACKWARD_NS};
use crate::graph::data::Data;
use crate::graph::delta::Delta;
use crate::graph::inline_box::InlineBox;
use crate::graph::layer::Layer;
use crate::graph::node::{DataVTable, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{
    AnyAlong, AnyAt, AnyImmediate, AnyPrimitive, CotangentSink, InnerOperand, InnerOperation, OperandVec,
};
use crate::graph::seed::Position;
use crate::graph::value::Value;
use crate::plan::backward::{Backward, BackwardInput, Case, DeltaOfUse};
use crate::plan::failed::Failed;
use crate::plan::function::Function;
use crate::plan::program::{Rebase, Source, StepValues};
use crate::plan::updates::read_from;
use smallvec::{SmallVec, smallvec};
use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

/// The results of a call, and the values that its backward reads.
#[derive(Clone)]
pub(crate) struct CallValue {
    /// The values of the steps, and after them the results that are values of no step.
    steps: StepValues,
    function: Arc<Function>,
}

/// The deltas of the results of a call, as far as there are any, with the types of the results.
#[derive(Clone)]
pub(crate) struct CallDelta(SmallVec<[Option<(Value, &'static DataVTable)>; 2]>);

impl CallValue {
    fn each(&self) -> impl Iterator<Item = (&Value, &'static DataVTable)> {
        self.function.types.iter().enumerate().map(|(which, &kind)| (self.result(which), kind))
    }

    fn result(&self, which: usize) -> &Value {
        self.steps[self.function.result_places[which] as usize].as_ref().expect("results are kept")
    }
}

impl Data for CallValue {
    type Delta = CallDelta;

    fn one(&self) -> CallDelta {
        CallDelta(self.each().map(|(value, kind)| Some(((kind.one)(value), kind))).collect())
    }

    fn non_finite(&self) -> Option<f64> {
        self.each().find_map(|(value, kind)| (kind.non_finite)(value))
    }

    fn bytes(&self) -> usize {
        self.function.bytes_of(&self.steps)
    }

    fn describe(&self) -> String {
        self.each().map(|(value, kind)| (kind.describe)(value)).collect::<Vec<_>>().join(", ")
    }
}

impl Data for CallDelta {
    type Delta = CallDelta;

    fn one(&self) -> CallDelta {
        self.clone()
    }
}

impl Delta for CallDelta {
    #[track_caller]
    fn sum(terms: Vec<Layer<CallDelta>>) -> Layer<CallDelta> {
        let place = Location::caller();
        let terms = terms.iter().map(|term| components(term.any())).collect::<Vec<_>>();
        let most = terms.iter().map(|term| term.len()).max().unwrap_or(0);
        let sum = |which: usize| {
            let mut present: Vec<NodeRef> = terms.iter().filter_map(|term| term.get(which)?.clone()).collect();
            match present.len() {
                0 | 1 => present.pop(),
                _ => Some((present[0].vtable.sum_deltas)(present)),
            }
        };
        Layer::from_any(packed((0..most).map(sum).collect(), place))
    }

    fn add_in_place(&mut self, other: &CallDelta) -> bool {
        let collide = |(a, b): (&Option<_>, &Option<_>)| a.is_some() && b.is_some();
        if self.0.iter().zip(&other.0).any(collide) {
            return false;
        }
        for (which, delta) in other.0.iter().enumerate() {
            match self.0.get_mut(which) {
                Some(own) => *own = own.take().or_else(|| delta.clone()),
                None => self.0.push(delta.clone()),
            }
        }
        true
    }

    fn scale(layer: &Layer<CallDelta>, factor: f64) -> Layer<CallDelta> {
        let scaled = |delta: NodeRef| (delta.vtable.scale_delta)(&delta, factor);
        let deltas = components(layer.any()).into_iter().map(|delta| delta.map(scaled)).collect();
        Layer::from_any(packed(deltas, layer.any().place))
    }

    fn squared_norm(&self) -> f64 {
        self.0.iter().flatten().map(|(delta, kind)| (kind.squared_norm)(delta)).sum()
    }
}

/// The deltas of results, as layers.
type Components = SmallVec<[Option<NodeRef>; 2]>;

/// The deltas that a layer of [`CallDelta`] consists of. Such a layer is a constant, or was built
/// by [`packed`].
fn components(layer: &NodeRef) -> Components {
    match &layer.op {
        NodeOp::Primitive(op) => match op.op().downcast_ref::<Pack>() {
            Some(pack) => {
                let mut operands = pack.deltas.iter().cloned();
                pack.present.iter().map(|&present| if present { operands.next() } else { None }).collect()
            }
            None => unreachable!("deltas of a call are packed"),
        },
        op => {
            let value = op.as_constant().expect("deltas of a call are packed, or a constant");
            let constant = |(delta, kind): &(Value, &'static DataVTable)| {
                (kind.delta_layer)(NodeOp::constant(delta.clone()), layer.place)
            };
            value.get::<CallDelta>().0.iter().map(|delta| delta.as_ref().map(constant)).collect()
        }
    }
}

/// A layer of these deltas.
fn packed(deltas: Components, place: &'static Location<'static>) -> NodeRef {
    let present = deltas.iter().map(Option::is_some).collect();
    let pack = Pack { present, deltas: deltas.into_iter().flatten().collect() };
    NodeRef::new::<CallDelta>(NodeOp::Primitive(InlineBox::operation(pack)), place)
}

/// Deltas of results as one layer.
struct Pack {
    present: SmallVec<[bool; 8]>,
    deltas: SmallVec<[NodeRef; 2]>,
}

impl AnyPrimitive for Pack {
    fn name(&self) -> &'static str {
        "deltas of a call"
    }

    fn operands(&self) -> &[NodeRef] {
        &self.deltas
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn value(&self, deltas: &[&Value]) -> Result<Value> {
        let mut deltas = deltas.iter().zip(&self.deltas);
        let mut next = || deltas.next().map(|(&delta, node)| (delta.clone(), node.vtable));
        let deltas = self.present.iter().map(|&present| if present { next() } else { None });
        Ok(CallDelta(deltas.collect()).into_value())
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        20.0
    }

    fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        let deltas = components(&at.delta);
        let of = |(which, _): (usize, &bool)| deltas.get(which).cloned().flatten();
        self.present.iter().enumerate().filter(|(_, present)| **present).map(of).collect()
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
        let mut tangents = along.tangents.iter().cloned();
        let next = |&present: &bool| if present { tangents.next().flatten() } else { None };
        Some(packed(self.present.iter().map(next).collect(), along.output.place))
    }
}

/// A call: a function and its operands, one for each use.
pub(crate) struct Call {
    function: Arc<Function>,
    operands: Vec<NodeRef>,
    /// Where the call was written.
    site: Site,
    /// Whether the value is the only result, instead of a [`CallValue`].
    is_result: bool,
}

/// The layers of the results of a call with these operands, at this random position.
pub(crate) fn call(
    function: &Arc<Function>,
    operands: &[NodeRef],
    begin: Position,
    place: &'static Location<'static>,
) -> SmallVec<[NodeRef; 2]> {
    let (used, site) = (function.used(operands, begin, place), Site { place, calls: Calls::here() });
    let is_result = function.is_result();
    let call = Call { function: function.clone(), operands: used, site, is_result };
    let call = NodeOp::Primitive(InlineBox::operation(call));
    if is_result {
        return smallvec![NodeRef::of_type(function.types[0], call, place)];
    }
    let call = NodeRef::new::<CallValue>(call, place);
    let updates = function.updates(&call, operands, begin, function.rebase(site));
    let results = function.types.len() - function.forward.updates.len();
    let result = |which| result_of(&read_from(&call, &updates, which), which, function.types[which], place);
    (0..results).map(result).collect()
}

/// A result of a call, or the new value of a buffer.
pub(super) fn result_of(
    call: &NodeRef,
    which: usize,
    kind: &'static DataVTable,
    place: &'static Location<'static>,
) -> NodeRef {
    let result = CallResult { which, call: [call.clone()] };
    NodeRef::of_type(kind, NodeOp::Primitive(InlineBox::operation(result)), place)
}

impl Call {
    /// The case of a backward with these deltas.
    fn case(&self, values: &[&Value], deltas: impl Iterator<Item = bool>) -> Case {
        let uses = self.operands.len();
        let shapes = self.function.shapes(values);
        Case { shapes, deltas: deltas.collect(), wanted: smallvec![true; uses], weights: smallvec![false; uses] }
    }

    fn rebase(&self) -> Rebase {
        self.function.rebase(self.site)
    }

    /// The ordinary nodes of the forward.
    fn forward_nodes(&self, function: &Function) -> Vec<NodeRef> {
        let nodes = function.forward.bound_to(&self.operands, self.rebase());
        nodes.unwrap_or_else(|_| unreachable!("the operations were bound before"))
    }

    /// The value of a step of the forward, if the value of the call has it.
    fn kept<'a>(&self, value: &'a Value, step: u32) -> Option<&'a Value> {
        match self.is_result {
            true => (self.function.forward.results[0] == Source::Step(step)).then_some(value),
            false => value.get::<CallValue>().steps[step as usize].as_ref(),
        }
    }

    /// The values of the steps that the value of the call has.
    fn steps<'a>(&self, value: &'a Value) -> &'a [Option<Value>] {
        if self.is_result { &[] } else { &value.get::<CallValue>().steps }
    }
}

impl AnyPrimitive for Call {
    fn name(&self) -> &'static str {
        self.function.name
    }

    fn operands(&self) -> &[NodeRef] {
        &self.operands
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        let function = self.function.in_pass(operands);
        let discards = self.is_result || exec::discards_values();
        let reads = if discards { Some(function.reads_nothing.clone()) } else { function.backwards.reads() };
        let mut steps = function.run_forward(operands, self.rebase(), reads.as_ref(), discards)?;
        if self.is_result {
            return Ok(function.forward.value(function.forward.results[0], operands, &steps).clone());
        }
        for &result in &function.forward.results {
            if !matches!(result, Source::Step(_)) {
                steps.push(Some(function.forward.value(result, operands, &steps).clone()));
            }
        }
        Ok(CallValue { steps, function: function.clone() }.into_value())
    }

    fn cost(&self, operands: &[&Value]) -> f64 {
        self.function.in_pass(operands).forward_cost(operands)
    }

    fn is_pure(&self) -> bool {
        self.function.is_pure()
    }

    fn inner(&self, value: &Value) -> (Vec<InnerOperation>, Vec<InnerOperand>) {
        let function = if self.is_result { &self.function } else { &value.get::<CallValue>().function };
        function.forward.inner(self.rebase())
    }

    fn bound_to(&self, operands: &[NodeRef]) -> Option<InlineBox<dyn AnyPrimitive>> {
        let (function, site) = (self.function.clone(), Site { calls: Calls::here(), ..self.site });
        let (operands, is_result) = (operands.to_vec(), self.is_result);
        Some(InlineBox::operation(Call { function, operands, site, is_result }))
    }

    fn immediate_pullback(&self, at: AnyImmediate<'_>, sink: &mut dyn CotangentSink) -> bool {
        let function = self.function.in_pass(at.values);
        if 2.0 * function.forward_cost(at.values) > INLINE_BACKWARD_NS {
            return false;
        }
        let delta = |which: usize| match self.is_result {
            true => Some(at.delta),
            false => at.delta.get::<CallDelta>().0.get(which)?.as_ref().map(|(delta, _)| delta),
        };
        let is_present = |which| delta(which).is_some();
        let mut case = self.case(at.values, (0..function.types.len()).map(is_present));
        let uses = 0..self.operands.len();
        case.wanted = uses.clone().map(|which| sink.wants(which)).collect();
        case.weights = uses.map(|which| sink.is_weight(which)).collect();
        if case.shapes.is_none() {
            return false; // such a backward is not kept
        }
        // An error is reported by the layers that are emitted instead.
        let Ok(Ok(backward)) = function.backward(case, at.values, self.steps(at.value), self.rebase()) else {
            return false;
        };
        if !backward.program.is_pure || backward.cost().is_some_and(|cost| cost > INLINE_BACKWARD_NS) {
            return false;
        }
        self.run_back(&backward, &at, delta, sink).is_some()
    }

    fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        let function = self.function.in_pass(at.values);
        let mut deltas = if self.is_result { smallvec![Some(at.delta)] } else { components(&at.delta) };
        deltas.resize(function.types.len(), None);
        let case = self.case(at.values, deltas.iter().map(Option::is_some));
        let forward = std::cell::OnceCell::new();
        let forward = |step: u32| forward.get_or_init(|| self.forward_nodes(function))[step as usize].clone();
        let place = at.output.place;
        let built = function.backward(case, at.values, self.steps(at.value), self.rebase()).and_then(|backward| {
            let backward = backward.map_err(|refusal| Error::invalid(refusal.why).at(refusal.name, refusal.site))?;
            let input = |input: &BackwardInput| match *input {
                BackwardInput::Use(which) => self.operands[which as usize].clone(),
                BackwardInput::Delta(which) => deltas[which as usize].clone().expect("the case has this delta"),
                BackwardInput::Forward(step) => match self.kept(at.value, step) {
                    Some(_) if !at.may_differentiate && self.is_result => at.output.clone(),
                    Some(_) if !at.may_differentiate => residual(function, step, at.output, place),
                    _ => forward(step),
                },
            };
            let inputs: Vec<NodeRef> = backward.inputs.iter().map(input).collect();
            let nodes = backward.program.bound_to(&inputs, self.rebase());
            let nodes = nodes.map_err(|refusal| Error::invalid(refusal.why).at(refusal.name, refusal.site))?;
            let delta = |delta: &Option<DeltaOfUse>| match *delta {
                Some(DeltaOfUse::Value(source)) => Some(backward.program.node(source, &inputs, &nodes)),
                Some(DeltaOfUse::Deferred(step)) => Some(nodes[step as usize].clone()),
                None => None,
            };
            Ok(backward.deltas.iter().map(delta).collect())
        });
        built.unwrap_or_else(|error| self.failed(&error))
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
        let uses = (along.operands, along.tangents);
        let function = self.function.in_pass(along.values);
        let pushed = function.push_forward(&self.forward_nodes(function), along.values, uses, self.rebase());
        let place = along.output.place;
        let tangents = pushed.unwrap_or_else(|error| {
            let failed = |kind: &&'static DataVTable| Some(Failed::layer(kind, &error, place));
            self.function.types.iter().map(failed).collect()
        });
        if self.is_result {
            return tangents.into_iter().next().flatten();
        }
        tangents.iter().any(Option::is_some).then(|| packed(tangents.into(), place))
    }
}

impl Call {
    /// Runs a backward, and adds the deltas to `sink`. `None` if an operation failed; then nothing
    /// has been added.
    fn run_back<'a>(
        &self,
        backward: &Backward,
        at: &AnyImmediate<'a>,
        delta: impl Fn(usize) -> Option<&'a Value>,
        sink: &mut dyn CotangentSink,
    ) -> Option<()> {
        let complete;
        let is_missing = |input: &BackwardInput| matches!(*input, BackwardInput::Forward(step) if self.kept(at.value, step).is_none());
        let again = if backward.inputs.iter().any(is_missing) {
            let forward = &self.function.in_pass(at.values).forward;
            complete = forward.run(at.values, self.rebase(), |_| false, |_| true).ok()?;
            Some(&complete)
        } else {
            None
        };
        let input = |input: &BackwardInput| match *input {
            BackwardInput::Use(which) => Some(at.values[which as usize]),
            BackwardInput::Forward(step) => match again {
                Some(steps) => steps[step as usize].as_ref(),
                None => self.kept(at.value, step),
            },
            BackwardInput::Delta(which) => delta(which as usize),
        };
        let inputs: SmallVec<[&Value; 16]> = backward.inputs.iter().map(input).collect::<Option<_>>()?;
        let program = &backward.program;
        let values = backward.run(&inputs, self.rebase()).ok()?;
        for (which, delta) in backward.deltas.iter().enumerate() {
            match *delta {
                Some(DeltaOfUse::Value(source)) => sink.add(which, program.value(source, &inputs, &values).clone()),
                Some(DeltaOfUse::Deferred(step)) => {
                    let step = &program.steps[step as usize];
                    let constant = |(&input, operand): (&_, &NodeRef)| {
                        let value = program.value(input, &inputs, &values).clone();
                        NodeRef::of_type(operand.vtable, NodeOp::constant(value), at.node.place)
                    };
                    let operands: OperandVec<NodeRef> =
                        step.inputs.iter().zip(step.node.operands()).map(constant).collect();
                    let op = step.node.op.bound_to(&operands).expect("it accumulates, so it is of the library");
                    sink.add_layer(which, NodeRef::of_type(step.node.vtable, op, at.node.place));
                }
                None => {}
            }
        }
        sink.count(program.steps.len());
        Some(())
    }

    /// Deltas of the operands that fail with this error.
    #[cold]
    fn failed(&self, error: &Error) -> OperandVec<Option<NodeRef>> {
        let failed = |operand: &NodeRef| Some(Failed::layer(operand.vtable, error, operand.place));
        self.operands.iter().map(failed).collect()
    }
}

/// The value of a step of the forward, which the value of the call has.
fn residual(function: &Function, step: u32, call: &NodeRef, place: &'static Location<'static>) -> NodeRef {
    let kind = function.forward.steps[step as usize].node.vtable;
    let residual = Residual { step, call: [call.clone()] };
    NodeRef::of_type(kind, NodeOp::Primitive(InlineBox::operation(residual)), place)
}

/// A result of a call.
struct CallResult {
    which: usize,
    call: [NodeRef; 1],
}

impl AnyPrimitive for CallResult {
    fn name(&self) -> &'static str {
        "result"
    }

    fn operands(&self) -> &[NodeRef] {
        &self.call
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        Ok(operands[0].get::<CallValue>().result(self.which).clone())
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        20.0
    }

    fn is_pure(&self) -> bool {
        true
    }

    fn bound_to(&self, operands: &[NodeRef]) -> Option<InlineBox<dyn AnyPrimitive>> {
        Some(InlineBox::operation(CallResult { which: self.which, call: [operands[0].clone()] }))
    }

    fn immediate_pullback(&self, at: AnyImmediate<'_>, sink: &mut dyn CotangentSink) -> bool {
        if sink.wants(0) {
            let mut delta: SmallVec<[_; 2]> = smallvec![None; self.which];
            delta.push(Some((at.delta.clone(), at.node.vtable)));
            sink.add(0, CallDelta(delta).into_value());
        }
        true
    }

    fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        smallvec![Some(self.alone(at.delta))]
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
        components(along.tangents[0].as_ref()?).get(self.which).cloned().flatten()
    }
}

impl CallResult {
    /// The deltas of a call of which only this result has one.
    fn alone(&self, delta: NodeRef) -> NodeRef {
        let place = delta.place;
        let mut deltas: Components = smallvec![None; self.which];
        deltas.push(Some(delta));
        packed(deltas, place)
    }
}

/// The value of a step, which the value of the call has for its backward. It is read by deltas that
/// are not differentiated again.
struct Residual {
    step: u32,
    call: [NodeRef; 1],
}

impl AnyPrimitive for Residual {
    fn name(&self) -> &'static str {
        "residual"
    }

    fn operands(&self) -> &[NodeRef] {
        &self.call
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        let value = operands[0].get::<CallValue>().steps.get(self.step as usize).cloned().flatten();
        value.ok_or_else(|| Error::invalid("a value of a compiled function was discarded before its backward"))
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        20.0
    }

    fn is_pure(&self) -> bool {
        true
    }

    fn pullback(&self, _: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        smallvec![None]
    }

    fn pushforward(&self, _: AnyAlong<'_>) -> Option<NodeRef> {
        None
    }
}
