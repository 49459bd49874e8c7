//! A group of calls: calls of one function with the same weights, none of which depends on another,
//! as one node. The pass forms groups before anything runs (`exec/groups.rs`).
//!
//! Operands that the members do not share are stacked, row below row, and the function runs once. If
//! that is not possible, or fails, the members run one by one, so that an error is that of one call.
//! A delta that may be differentiated again is built from the ordinary nodes of each member.

use crate::error::call_context::Site;
use crate::error::{Error, Result};
use crate::exec::{self, INLINE_BACKWARD_NS};
use crate::graph::data::{Data, ShapeList};
use crate::graph::inline_box::InlineBox;
use crate::graph::node::{DataVTable, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{
    AnyAlong, AnyAt, AnyImmediate, AnyPrimitive, CotangentSink, GroupKey, Groupable, InnerOperand, InnerOperation,
    OperandVec,
};
use crate::graph::value::Value;
use crate::plan::backward::{Case, DeltaOfUse};
use crate::plan::call::{Call, CallValue, deferred, of_result};
use crate::plan::call_delta::{CallDelta, Components, components, packed};
use crate::plan::function::Function;
use crate::plan::group_back::{DeltaOfGroup, RunBack, stacked_deltas};
use crate::plan::grouping::{Grouping, Place};
use crate::plan::program::Rebase;
use smallvec::{SmallVec, smallvec};
use std::any::Any;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

impl Groupable for Call {
    fn key(&self) -> GroupKey {
        let shared = grouping(&self.function).places.iter().zip(&self.operands);
        let shared = shared.filter(|(place, _)| matches!(place, Place::Shared(_))).map(|(_, weight)| weight.identity());
        std::iter::once(Arc::as_ptr(&self.function).addr()).chain(shared).collect()
    }

    fn group(&self, calls: &[NodeRef]) -> NodeRef {
        let Grouping { places, shared, .. } = grouping(&self.function);
        let calls_of: Vec<&Call> = calls.iter().map(call_of).collect();
        let uses = |call: &Call, is_shared: bool| {
            let uses = places.iter().zip(call.operands.clone());
            uses.filter(move |(place, _)| matches!(place, Place::Shared(_)) == is_shared).map(|(_, operand)| operand)
        };
        let mut operands: Vec<NodeRef> = uses(self, true).collect();
        debug_assert_eq!(operands.len(), *shared);
        calls_of.iter().for_each(|call| operands.extend(uses(call, false)));
        let sites = calls_of.iter().map(|call| call.site).collect();
        let group = Group { function: self.function.clone(), operands, sites };
        let _context = calls[0].enter_at(calls[0].site());
        NodeRef::new::<GroupValue>(NodeOp::Primitive(InlineBox::operation(group)), calls[0].place)
    }

    fn result(&self, group: &NodeRef, member: usize, which: usize, result: &NodeRef) -> NodeRef {
        let at = MemberResult { member, which, results: self.function.types.len() };
        let op = GroupResult { name: self.function.name, at, group: [group.clone()], _stands_for: result.clone() };
        let _context = result.enter_at(result.site());
        NodeRef::of_type(result.vtable, NodeOp::Primitive(InlineBox::operation(op)), result.place)
    }
}

fn call_of(node: &NodeRef) -> &Call {
    let NodeOp::Primitive(op) = &node.op else { unreachable!("a call is a primitive") };
    op.op().downcast_ref().expect("it is a call")
}

pub(super) fn grouping(function: &Function) -> &Grouping {
    function.grouping.as_ref().expect("its calls are grouped")
}

/// The values of the members.
#[derive(Clone)]
pub(super) enum GroupValue {
    Batch(Batch),
    /// They did not run together.
    Each(Vec<Result<CallValue>>),
}

/// The value of a call with stacked operands.
#[derive(Clone)]
pub(super) struct Batch {
    call: CallValue,
    /// The operands, one for each use; none if there will be no backward.
    pub(super) operands: Vec<Value>,
    /// The number of rows of a member.
    rows: usize,
}

impl Batch {
    pub(super) fn rows_of(&self, member: usize) -> Range<usize> {
        member * self.rows..(member + 1) * self.rows
    }

    pub(super) fn step(&self, step: u32) -> Option<&Value> {
        self.call.steps[step as usize].as_ref()
    }
}

impl Data for GroupValue {
    type Delta = CallDelta;

    fn one(&self) -> CallDelta {
        CallDelta::all(std::iter::empty())
    }

    fn bytes(&self) -> usize {
        match self {
            GroupValue::Batch(batch) => batch.call.bytes(),
            GroupValue::Each(each) => each.iter().flatten().map(Data::bytes).sum(),
        }
    }

    fn describe(&self) -> String {
        "results of several calls".to_owned()
    }
}

pub(super) struct Group {
    pub(super) function: Arc<Function>,
    /// The uses that the members share, then those of each member.
    pub(super) operands: Vec<NodeRef>,
    /// Where the calls were written.
    sites: Vec<Site>,
}

impl Group {
    pub(super) fn members(&self) -> usize {
        self.sites.len()
    }

    pub(super) fn grouping(&self) -> &Grouping {
        grouping(&self.function)
    }

    /// For an error in a batch, as in the first call.
    pub(super) fn rebase(&self) -> Rebase {
        self.function.rebase(self.sites[0])
    }

    /// What a member has of these, one for each use.
    fn of<'a, T>(&'a self, member: usize, of_operands: &'a [T]) -> impl Iterator<Item = &'a T> {
        self.grouping().places.iter().map(move |&place| &of_operands[self.grouping().operand(place, member)])
    }

    /// A member as a call of its own.
    fn call(&self, member: usize) -> Call {
        let operands = self.of(member, &self.operands).cloned().collect();
        Call { function: self.function.clone(), operands, site: self.sites[member], is_result: false }
    }

    /// The value of all members together; `None` if they must run one by one.
    fn batch(&self, operands: &[&Value], reads: Option<&Arc<[bool]>>, discards: bool) -> Option<Batch> {
        let (function, Grouping { shared, own, places, .. }) = (&self.function, self.grouping());
        let kinds: SmallVec<[&DataVTable; 16]> =
            self.operands[*shared..][..*own].iter().map(|node| node.vtable).collect();
        let shapes = |values: &[&Value]| {
            let mut shapes = ShapeList::default();
            kinds.iter().zip(values).all(|(kind, value)| (kind.shape)(value, &mut shapes)).then_some(shapes)
        };
        let mut members = operands[*shared..].chunks_exact(*own);
        let first = members.next()?;
        let shapes_of_first = shapes(first)?;
        if !members.all(|member| shapes(member).as_ref() == Some(&shapes_of_first)) {
            return None;
        }
        let rows = (kinds[0].rows)(first[0])?;
        if rows == 0 || kinds.iter().zip(first).any(|(kind, value)| (kind.rows)(value) != Some(rows)) {
            return None;
        }
        let of_first: SmallVec<[&Value; 16]> = self.of(0, operands).copied().collect();
        if !self.grouping().is_by_rows(function, function.shapes(&of_first)?, &of_first, rows) {
            return None;
        }
        // An operand that is used several times is stacked once.
        let mut stacked: SmallVec<[Option<Value>; 16]> = smallvec![None; *own];
        for at in 0..*own {
            stacked[at] = match self.grouping().same[at] {
                other if other < at => stacked[other].clone(),
                _ => {
                    let parts: SmallVec<[&Value; 32]> =
                        (0..self.members()).map(|member| operands[shared + member * own + at]).collect();
                    Some((kinds[at].stacked)(&parts)?)
                }
            };
        }
        let operand = |place: &Place| match *place {
            Place::Shared(at) => Some(operands[at].clone()),
            Place::Own(at) => stacked[at].clone(),
        };
        let all: Vec<Value> = places.iter().map(operand).collect::<Option<_>>()?;
        let values: SmallVec<[&Value; 16]> = all.iter().collect();
        let ran = function.run_forward(&values, self.rebase(), reads, discards).ok()?;
        let call = CallValue::of(function, &values, ran);
        for (which, kind) in function.types.iter().enumerate() {
            (kind.settle)(&[call.result(which)]);
        }
        self.grouping().note(self.members(), function.forward_cost(&values));
        drop(values);
        let operands = if discards { Vec::new() } else { all };
        Some(Batch { call, operands, rows })
    }

    /// The case of a backward of a batch.
    fn case(&self, operands: &[&Value], deltas: &[bool], wants: impl Fn(usize) -> bool) -> Case {
        let grouping = self.grouping();
        let wanted = |&place: &Place| (0..self.members()).any(|member| wants(grouping.operand(place, member)));
        let is_weight = |place: &Place| match *place {
            Place::Shared(at) => matches!(self.operands[at].op, NodeOp::Weight(..)),
            Place::Own(_) => false,
        };
        Case {
            shapes: self.function.shapes(operands).map(Arc::new),
            deltas: deltas.iter().copied().collect(),
            wanted: grouping.places.iter().map(wanted).collect(),
            weights: grouping.places.iter().map(is_weight).collect(),
        }
    }

    /// For each result, whether it has deltas; `None` if some members have one, and others do not.
    fn present(&self, of_members: impl Iterator<Item = usize>) -> Option<SmallVec<[bool; 4]>> {
        let results = self.function.types.len();
        let mut counts: SmallVec<[usize; 4]> = smallvec![0; results];
        of_members.for_each(|flat| counts[flat % results] += 1);
        counts
            .iter()
            .all(|&count| count == 0 || count == self.members())
            .then(|| counts.iter().map(|&n| n > 0).collect())
    }
}

impl AnyPrimitive for Group {
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
        let discards = exec::discards_values();
        let reads = if discards { Some(self.function.reads_nothing.clone()) } else { self.function.backwards.reads() };
        if let Some(batch) = self.batch(operands, reads.as_ref(), discards) {
            return Ok(GroupValue::Batch(batch).into_value());
        }
        let one = |member: usize| {
            let own: SmallVec<[&Value; 16]> = self.of(member, operands).copied().collect();
            let rebase = self.function.rebase(self.sites[member]);
            let ran = self.function.run_forward(&own, rebase, reads.as_ref(), discards)?;
            Ok(CallValue::of(&self.function, &own, ran))
        };
        Ok(GroupValue::Each((0..self.members()).map(one).collect()).into_value())
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        self.grouping().cost(self.members(), &self.function)
    }

    fn is_pure(&self) -> bool {
        self.function.is_pure()
    }

    /// The operations, as those of the first call.
    fn inner(&self, _: &Value) -> (Vec<InnerOperation>, Vec<InnerOperand>) {
        let (mut operations, mut results) = self.function.forward.inner(self.rebase());
        let operands = operations.iter_mut().flat_map(|operation| operation.operands.iter_mut());
        for operand in operands.chain(&mut results) {
            if let InnerOperand::Outer(at) = operand {
                *at = self.grouping().operand(self.grouping().places[*at as usize], 0) as u32;
            }
        }
        (operations, results)
    }

    fn immediate_pullback(&self, at: AnyImmediate<'_>, sink: &mut dyn CotangentSink) -> bool {
        let GroupValue::Batch(batch) = at.value.get() else { return false };
        let deltas = at.delta.get::<CallDelta>();
        let Some(present) = self.present(deltas.each().map(|(flat, _)| flat)) else { return false };
        let operands: SmallVec<[&Value; 16]> = batch.operands.iter().collect();
        let case = self.case(&operands, &present, |operand| sink.wants(operand));
        // An error is reported by the layers that are emitted instead.
        let Ok(Ok(backward)) = self.function.backward(case, &operands, &batch.call.steps, self.rebase()) else {
            return false;
        };
        if !backward.program.is_pure || backward.cost().is_some_and(|cost| cost > INLINE_BACKWARD_NS) {
            return false;
        }
        let Some(deltas) = stacked_deltas(&self.function, self.members(), deltas) else { return false };
        let run =
            RunBack { function: &self.function, batch, operands: &operands, deltas: &deltas, calls: self.rebase() };
        let Ok(deltas) = run.run(&backward, self.members(), &self.operands) else { return false };
        let grouping = self.grouping();
        for (&place, delta) in grouping.places.iter().zip(&deltas.0) {
            match (place, delta) {
                (Place::Own(_), DeltaOfGroup::Rows(rows)) => {
                    for (member, delta) in rows.iter().enumerate() {
                        let operand = grouping.operand(place, member);
                        if sink.wants(operand) {
                            sink.add(operand, delta.clone());
                        }
                    }
                }
                (Place::Shared(operand), DeltaOfGroup::Whole(delta)) => sink.add(operand, delta.clone()),
                _ => {}
            }
        }
        for ((&place, delta), of) in grouping.places.iter().zip(&deltas.0).zip(&backward.deltas) {
            if let (Place::Shared(operand), DeltaOfGroup::Factors(factors), Some(DeltaOfUse::Deferred(step))) =
                (place, delta, of)
            {
                sink.add_layer(operand, deferred(&backward, *step, factors.iter().cloned(), at.node.place));
            }
        }
        sink.count(backward.program.steps.len());
        true
    }

    fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        let of_results = components(&at.delta);
        if !at.may_differentiate
            && let GroupValue::Batch(batch) = at.value.get()
            && let Some(present) = self.present(of_results.iter().map(|(flat, _)| *flat))
        {
            let operands: SmallVec<[&Value; 16]> = batch.operands.iter().collect();
            let case = self.case(&operands, &present, |_| true);
            if let Ok(Ok(backward)) = self.function.backward(case, &operands, &batch.call.steps, self.rebase()) {
                return self.picked(&backward, &at);
            }
        }
        let results = self.function.types.len();
        let mut all: OperandVec<SmallVec<[NodeRef; 1]>> = smallvec![SmallVec::new(); self.operands.len()];
        for member in 0..self.members() {
            let own = of_results.iter().filter(|(flat, _)| flat / results == member);
            let own: Components = own.map(|(flat, delta)| (flat % results, delta.clone())).collect();
            if own.is_empty() {
                continue;
            }
            let values: SmallVec<[&Value; 16]> = self.of(member, at.values).copied().collect();
            let deltas = self.call(member).pull_back(&values, &[], own, &|_| None);
            for (&place, delta) in self.grouping().places.iter().zip(deltas) {
                all[self.grouping().operand(place, member)].extend(delta);
            }
        }
        let sum = |mut terms: SmallVec<[NodeRef; 1]>| match terms.len() {
            0 | 1 => terms.pop(),
            _ => Some((terms[0].vtable.sum_deltas)(terms.into_vec())),
        };
        all.into_iter().map(sum).collect()
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
        let (results, place) = (self.function.types.len(), along.output.place);
        let mut pushed = Components::new();
        for member in 0..self.members() {
            let tangents: Vec<Option<NodeRef>> = self.of(member, along.tangents).cloned().collect();
            let values: SmallVec<[&Value; 16]> = self.of(member, along.values).copied().collect();
            let own = self.call(member).push_forward(&values, &tangents, place);
            pushed.extend(own.into_iter().map(|(which, tangent)| (member * results + which, tangent)));
        }
        (!pushed.is_empty()).then(|| packed(pushed, place))
    }
}

/// A result of a member of a group. In a pass it stands for the result of the call.
struct GroupResult {
    name: &'static str,
    at: MemberResult,
    group: [NodeRef; 1],
    /// The pass knows the slot of this node by its stamp, so it must live as long.
    _stands_for: NodeRef,
}

#[derive(Clone, Copy)]
struct MemberResult {
    member: usize,
    which: usize,
    /// How many results each member has.
    results: usize,
}

impl MemberResult {
    /// Its number among the results of all members.
    fn flat(self) -> usize {
        self.member * self.results + self.which
    }
}

impl AnyPrimitive for GroupResult {
    fn name(&self) -> &'static str {
        self.name
    }

    fn operands(&self) -> &[NodeRef] {
        &self.group
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        let MemberResult { member, which, .. } = self.at;
        match operands[0].get() {
            GroupValue::Batch(batch) => {
                let (value, kind) = (batch.call.result(which), batch.call.kind(which));
                (kind.rows_in)(value, batch.rows_of(member)).ok_or_else(|| Error::invalid("a result has no rows"))
            }
            GroupValue::Each(each) => each[member].clone().map(|call| call.result(which).clone()),
        }
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        50.0
    }

    fn is_pure(&self) -> bool {
        true
    }

    fn immediate_pullback(&self, at: AnyImmediate<'_>, sink: &mut dyn CotangentSink) -> bool {
        if sink.wants(0) {
            sink.add(0, CallDelta::of(self.at.flat(), at.delta.clone(), at.node.vtable).into_value());
        }
        true
    }

    fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        let place: &'static Location<'static> = at.delta.place;
        smallvec![Some(packed(smallvec![(self.at.flat(), at.delta)], place))]
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
        of_result(components(along.tangents[0].as_ref()?), self.at.flat())
    }
}
