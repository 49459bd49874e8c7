//! A call of a compiled function: a node with all its results, and a node for each result.
//!
//! A call is its own result if there is one result, and no backward reads another value of the
//! forward, as far as backwards are known when the call is built.

use crate::error::call_context::Site;
use crate::error::call_stack::Calls;
use crate::error::{Error, Result};
use crate::exec::groups::look_for_groups;
use crate::exec::{self, INLINE_BACKWARD_NS};
use crate::graph::data::Data;
use crate::graph::inline_box::InlineBox;
use crate::graph::node::{DataVTable, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{
    AnyAlong, AnyAt, AnyImmediate, AnyPrimitive, CotangentSink, Groupable, InnerOperand, InnerOperation, OperandVec,
};
use crate::graph::seed::Position;
use crate::graph::value::Value;
use crate::plan::backward::{Backward, BackwardInput, Case, DeltaOfUse};
use crate::plan::call_delta::{CallDelta, Components, components, packed};
use crate::plan::failed::Failed;
use crate::plan::function::{Function, Known};
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
    pub(super) steps: StepValues,
    function: Arc<Function>,
    /// Of a forward that has run by a schedule.
    known: Option<Known>,
}

impl CallValue {
    /// The value, given what has run.
    pub(super) fn of(
        function: &Arc<Function>,
        operands: &[&Value],
        (mut steps, known): (StepValues, Option<Known>),
    ) -> CallValue {
        for &result in &function.forward.results {
            if !matches!(result, Source::Step(_)) {
                steps.push(Some(function.forward.value(result, operands, &steps).clone()));
            }
        }
        CallValue { steps, function: function.clone(), known }
    }

    fn each(&self) -> impl Iterator<Item = (&Value, &'static DataVTable)> {
        self.function.types.iter().enumerate().map(|(which, &kind)| (self.result(which), kind))
    }

    /// The type of a result.
    pub(super) fn kind(&self, which: usize) -> &'static DataVTable {
        self.function.types[which]
    }

    pub(super) fn result(&self, which: usize) -> &Value {
        self.steps[self.function.result_places[which] as usize].as_ref().expect("results are kept")
    }
}

impl Data for CallValue {
    type Delta = CallDelta;

    fn one(&self) -> CallDelta {
        CallDelta::all(self.each().map(|(value, kind)| ((kind.one)(value), kind)))
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

/// A call: a function and its operands, one for each use.
pub(crate) struct Call {
    pub(super) function: Arc<Function>,
    pub(super) operands: Vec<NodeRef>,
    /// Where the call was written.
    pub(super) site: Site,
    /// Whether the value is the only result, instead of a [`CallValue`].
    pub(super) is_result: bool,
}

/// The layers of the results of a call with these operands, at this random position.
pub(crate) fn call(
    function: &Arc<Function>,
    operands: &[NodeRef],
    begin: Position,
    place: &'static Location<'static>,
) -> SmallVec<[NodeRef; 2]> {
    if function.grouping.is_some() {
        look_for_groups();
    }
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
    /// What is known of the forward with this value.
    fn known<'a>(&self, value: &'a Value) -> Option<&'a Known> {
        if self.is_result { None } else { value.get::<CallValue>().known.as_ref() }
    }

    /// The case of a backward with these deltas.
    fn case(&self, values: &[&Value], known: Option<&Known>, deltas: impl Iterator<Item = bool>) -> Case {
        let uses = self.operands.len();
        let shapes = known.map(|known| known.shapes.clone()).or_else(|| self.function.shapes(values).map(Arc::new));
        Case { shapes, deltas: deltas.collect(), wanted: smallvec![true; uses], weights: smallvec![false; uses] }
    }

    pub(super) fn rebase(&self) -> Rebase {
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
        let ran = function.run_forward(operands, self.rebase(), reads.as_ref(), discards)?;
        if self.is_result {
            return Ok(function.forward.value(function.forward.results[0], operands, &ran.0).clone());
        }
        Ok(CallValue::of(function, operands, ran).into_value())
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
        let known = self.known(at.value);
        let forward_cost = known.map_or_else(|| function.forward_cost(at.values), |known| known.nanoseconds);
        if 2.0 * forward_cost > INLINE_BACKWARD_NS {
            return false;
        }
        let delta = |which: usize| match self.is_result {
            true => Some(at.delta),
            false => at.delta.get::<CallDelta>().get(which),
        };
        let is_present = |which| delta(which).is_some();
        let mut case = self.case(at.values, known, (0..function.types.len()).map(is_present));
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
        let place = at.output.place;
        let kept = |step: u32| match self.kept(at.value, step) {
            Some(_) if !at.may_differentiate && self.is_result => Some(at.output.clone()),
            Some(_) if !at.may_differentiate => {
                Some(residual(self.function.in_pass(at.values), step, at.output, place))
            }
            _ => None,
        };
        let deltas = if self.is_result { smallvec![(0, at.delta)] } else { components(&at.delta) };
        self.pull_back(at.values, self.steps(at.value), deltas, &kept)
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
        let tangents = self.push_forward(along.values, along.tangents, along.output.place);
        if self.is_result {
            return of_result(tangents, 0);
        }
        (!tangents.is_empty()).then(|| packed(tangents, along.output.place))
    }

    fn groupable(&self) -> Option<&dyn Groupable> {
        self.function.grouping.as_ref().is_some_and(|grouping| grouping.refusal().is_none()).then_some(self)
    }
}

/// The delta of this result.
pub(super) fn of_result(deltas: Components, which: usize) -> Option<NodeRef> {
    deltas.into_iter().find(|(known, _)| *known == which).map(|(_, delta)| delta)
}

impl Call {
    /// The deltas of the operands as layers. `steps` are values of the forward, or none; `kept` is
    /// the layer of a step with a value that may be read.
    pub(super) fn pull_back(
        &self,
        values: &[&Value],
        steps: &[Option<Value>],
        of_results: Components,
        kept: &dyn Fn(u32) -> Option<NodeRef>,
    ) -> OperandVec<Option<NodeRef>> {
        let function = self.function.in_pass(values);
        let mut deltas: OperandVec<Option<NodeRef>> = smallvec![None; function.types.len()];
        of_results.into_iter().for_each(|(which, delta)| deltas[which] = Some(delta));
        let case = self.case(values, None, deltas.iter().map(Option::is_some));
        let forward = std::cell::OnceCell::new();
        let forward = |step: u32| forward.get_or_init(|| self.forward_nodes(function))[step as usize].clone();
        let built = function.backward(case, values, steps, self.rebase()).and_then(|backward| {
            let backward = backward.map_err(|refusal| Error::invalid(refusal.why).at(refusal.name, refusal.site))?;
            let input = |input: &BackwardInput| match *input {
                BackwardInput::Use(which) => self.operands[which as usize].clone(),
                BackwardInput::Delta(which) => deltas[which as usize].clone().expect("the case has this delta"),
                BackwardInput::Forward(step) => kept(step).unwrap_or_else(|| forward(step)),
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

    /// The tangents of the results as layers.
    pub(super) fn push_forward(
        &self,
        values: &[&Value],
        tangents: &[Option<NodeRef>],
        place: &'static Location<'static>,
    ) -> Components {
        let function = self.function.in_pass(values);
        let uses = (&self.operands[..], tangents);
        let pushed = function.push_forward(&self.forward_nodes(function), values, uses, self.rebase());
        let pushed = pushed.unwrap_or_else(|error| {
            let failed = |kind: &&'static DataVTable| Some(Failed::layer(kind, &error, place));
            self.function.types.iter().map(failed).collect()
        });
        pushed.into_iter().enumerate().filter_map(|(which, tangent)| Some((which, tangent?))).collect()
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
        let function = self.function.in_pass(at.values);
        let kept = |step: u32| self.kept(at.value, step);
        backward
            .run_on(function, at.values, &kept, &delta, self.rebase(), |inputs, values| {
                let program = &backward.program;
                for (which, delta) in backward.deltas.iter().enumerate() {
                    match *delta {
                        Some(DeltaOfUse::Value(source)) => {
                            sink.add(which, program.value(source, inputs, values).clone())
                        }
                        Some(DeltaOfUse::Deferred(step)) => {
                            let factors = program.steps[step as usize].inputs.iter();
                            let factors = factors.map(|&source| program.value(source, inputs, values).clone());
                            sink.add_layer(which, deferred(backward, step, factors, at.node.place));
                        }
                        None => {}
                    }
                }
                sink.count(program.steps.len());
            })
            .ok()
    }

    /// Deltas of the operands that fail with this error.
    #[cold]
    fn failed(&self, error: &Error) -> OperandVec<Option<NodeRef>> {
        let failed = |operand: &NodeRef| Some(Failed::layer(operand.vtable, error, operand.place));
        self.operands.iter().map(failed).collect()
    }
}

/// The operation of a deferred step, with constants as operands.
pub(super) fn deferred(
    backward: &Backward,
    step: u32,
    factors: impl Iterator<Item = Value>,
    place: &'static Location<'static>,
) -> NodeRef {
    let step = &backward.program.steps[step as usize];
    let constant =
        |(value, operand): (Value, &NodeRef)| NodeRef::of_type(operand.vtable, NodeOp::constant(value), place);
    let operands: OperandVec<NodeRef> = factors.zip(step.node.operands()).map(constant).collect();
    let op = step.node.op.bound_to(&operands).expect("it accumulates, so it is of the library");
    NodeRef::of_type(step.node.vtable, op, place)
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
    fn result_of_call(&self) -> Option<usize> {
        Some(self.which)
    }

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
            sink.add(0, CallDelta::of(self.which, at.delta.clone(), at.node.vtable).into_value());
        }
        true
    }

    fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        let place = at.delta.place;
        smallvec![Some(packed(smallvec![(self.which, at.delta)], place))]
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
        of_result(components(along.tangents[0].as_ref()?), self.which)
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
