//! The backward of a group of calls that ran as one: see `group.rs`.

use crate::error::{Error, Result};
use crate::graph::data::Data;
use crate::graph::inline_box::InlineBox;
use crate::graph::node::{DataVTable, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyAlong, AnyAt, AnyPrimitive, OperandVec};
use crate::graph::value::Value;
use crate::plan::backward::{Backward, DeltaOfUse};
use crate::plan::call_delta::CallDelta;
use crate::plan::function::Function;
use crate::plan::group::{Batch, Group, GroupValue, grouping};
use crate::plan::grouping::Place;
use crate::plan::program::{Rebase, Source, StepValues};
use smallvec::{SmallVec, smallvec};
use std::any::Any;
use std::sync::Arc;

/// The deltas of a batch, one for each result that has deltas. All members must have them, or none.
pub(super) fn stacked_deltas(function: &Function, members: usize, deltas: &CallDelta) -> Option<Vec<Option<Value>>> {
    let results = function.types.len();
    let mut each: Vec<Option<&Value>> = vec![None; members * results];
    deltas.each().for_each(|(flat, delta)| each[flat] = Some(delta));
    let stacked = |(which, kind): (usize, &&'static DataVTable)| {
        let of: SmallVec<[&Value; 32]> = (0..members).filter_map(|member| each[member * results + which]).collect();
        if of.is_empty() { Some(None) } else { (kind.stacked_deltas)(&of).map(Some) }
    };
    function.types.iter().enumerate().map(stacked).collect()
}

impl Group {
    /// The deltas of the operands, as layers that pick them from those of a batch.
    pub(super) fn picked(&self, backward: &Arc<Backward>, at: &AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        let place = at.output.place;
        let back = GroupBack {
            function: self.function.clone(),
            backward: backward.clone(),
            members: self.members(),
            operands: [at.output.clone(), at.delta.clone()],
            calls: self.rebase(),
            of: self.operands.clone(),
        };
        let back = NodeRef::new::<GroupDeltas>(NodeOp::Primitive(InlineBox::operation(back)), place);
        let pick = |which: usize, part: usize| {
            NodeOp::Primitive(InlineBox::operation(Pick { which, part, back: [back.clone()] }))
        };
        let mut deltas: OperandVec<Option<NodeRef>> = smallvec![None; self.operands.len()];
        for (which, (&of_use, delta)) in self.grouping().places.iter().zip(&backward.deltas).enumerate() {
            let Some(delta) = delta else { continue };
            let parts = if matches!(of_use, Place::Own(_)) { self.members() } else { 1 };
            for part in 0..parts {
                let operand = self.grouping().operand(of_use, part);
                deltas[operand] = Some(match *delta {
                    DeltaOfUse::Value(_) => (self.operands[operand].vtable.delta_layer)(pick(which, part), place),
                    DeltaOfUse::Deferred(step) => {
                        let step = &backward.program.steps[step as usize];
                        let factors = step.node.operands().iter().enumerate();
                        let factors: OperandVec<NodeRef> = factors
                            .map(|(at, factor)| NodeRef::of_type(factor.vtable, pick(which, at), place))
                            .collect();
                        let op = step.node.op.bound_to(&factors).expect("it accumulates, so it is of the library");
                        NodeRef::of_type(step.node.vtable, op, place)
                    }
                });
            }
        }
        deltas
    }
}

/// The deltas of the uses of a batch.
#[derive(Clone)]
pub(super) struct GroupDeltas(pub(super) Vec<DeltaOfGroup>);

#[derive(Clone)]
pub(super) enum DeltaOfGroup {
    Nothing,
    /// That of each member.
    Rows(Vec<Value>),
    Whole(Value),
    /// The operands of a step that is left to the step that changes the weight.
    Factors(OperandVec<Value>),
}

impl Data for GroupDeltas {
    type Delta = CallDelta;

    fn one(&self) -> CallDelta {
        CallDelta::all(std::iter::empty())
    }
}

/// A run of a backward of a batch.
pub(super) struct RunBack<'a> {
    pub(super) function: &'a Function,
    pub(super) batch: &'a Batch,
    pub(super) operands: &'a [&'a Value],
    pub(super) deltas: &'a [Option<Value>],
    pub(super) calls: Rebase,
}

impl RunBack<'_> {
    pub(super) fn run(&self, backward: &Backward, members: usize, of: &[NodeRef]) -> Result<GroupDeltas> {
        let grouping = grouping(self.function);
        let kept = |step: u32| self.batch.step(step);
        let delta = |which: usize| self.deltas[which].as_ref();
        let collect = |inputs: &[&Value], values: &StepValues| {
            let value = |source: Source| backward.program.value(source, inputs, values);
            let of_use = |(&place, delta): (&Place, &Option<DeltaOfUse>)| {
                Some(match (*delta, place) {
                    (None, _) => DeltaOfGroup::Nothing,
                    (Some(DeltaOfUse::Value(source)), Place::Shared(_)) => DeltaOfGroup::Whole(value(source).clone()),
                    (Some(DeltaOfUse::Value(source)), Place::Own(_)) => {
                        let split = of[grouping.operand(place, 0)].vtable.rows_in_delta;
                        let rows = |member| split(value(source), self.batch.rows_of(member));
                        DeltaOfGroup::Rows((0..members).map(rows).collect::<Option<_>>()?)
                    }
                    (Some(DeltaOfUse::Deferred(step)), _) => {
                        let inputs = &backward.program.steps[step as usize].inputs;
                        DeltaOfGroup::Factors(inputs.iter().map(|&input| value(input).clone()).collect())
                    }
                })
            };
            grouping.places.iter().zip(&backward.deltas).map(of_use).collect::<Option<Vec<_>>>()
        };
        let found = backward.run_on(self.function, self.operands, &kept, &delta, self.calls, collect)?;
        found.map(GroupDeltas).ok_or_else(|| Error::invalid("a delta of a group of calls has no rows"))
    }
}

/// The backward of a batch, as an operation on its value and the deltas of the results.
struct GroupBack {
    function: Arc<Function>,
    backward: Arc<Backward>,
    members: usize,
    operands: [NodeRef; 2],
    calls: Rebase,
    /// The operands of the group.
    of: Vec<NodeRef>,
}

impl AnyPrimitive for GroupBack {
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
        let GroupValue::Batch(batch) = operands[0].get() else { unreachable!("it was built for a batch") };
        let deltas = stacked_deltas(&self.function, self.members, operands[1].get());
        let deltas = deltas.ok_or_else(|| Error::invalid("deltas of a group of calls have no rows"))?;
        let of_uses: SmallVec<[&Value; 16]> = batch.operands.iter().collect();
        let run = RunBack { function: &self.function, batch, operands: &of_uses, deltas: &deltas, calls: self.calls };
        Ok(run.run(&self.backward, self.members, &self.of)?.into_value())
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        let unknown = || 2.0 * grouping(&self.function).cost(self.members, &self.function);
        self.backward.cost().unwrap_or_else(unknown)
    }

    fn is_pure(&self) -> bool {
        self.backward.program.is_pure
    }

    fn pullback(&self, _: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        smallvec![None, None]
    }

    fn pushforward(&self, _: AnyAlong<'_>) -> Option<NodeRef> {
        None
    }
}

/// The delta of a use of a batch: that of a member, or all of it; or a factor of it.
struct Pick {
    which: usize,
    part: usize,
    back: [NodeRef; 1],
}

impl AnyPrimitive for Pick {
    fn name(&self) -> &'static str {
        "delta of a group"
    }

    fn operands(&self) -> &[NodeRef] {
        &self.back
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        Ok(match &operands[0].get::<GroupDeltas>().0[self.which] {
            DeltaOfGroup::Rows(rows) => rows[self.part].clone(),
            DeltaOfGroup::Whole(delta) => delta.clone(),
            DeltaOfGroup::Factors(factors) => factors[self.part].clone(),
            DeltaOfGroup::Nothing => unreachable!("the backward has this delta"),
        })
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
