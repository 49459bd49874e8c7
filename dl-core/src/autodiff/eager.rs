//! Immediate evaluation of cotangents in a training step.
//!
//! A training step needs every cotangent that it emits, at once and only once. A small built-in
//! operation on ready values is therefore evaluated inline where its cotangent arrives. Its layer
//! is dropped without having been inserted into the pass, and its value is dropped as soon as the
//! traversal has passed it. Expensive operations are left to the executor, which runs them in
//! parallel. So are operations that fail: they fail there again, together with all others that
//! fail.
//!
//! Operations with an immediate-mode pullback do not even emit layers: see `immediate.rs`.
//!
//! Cotangents that lead to no trained weight are not evaluated. A product that arrives at a weight
//! is not evaluated either: the step accumulates it into the weight.
//!
//! Lock rule: this code runs under the state lock, so it must not run or drop user code. Only
//! operations with `IS_PURE` are evaluated; their operands and values hold built-in data.

use crate::autodiff::accumulator::Accumulator;
use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::immediate::{Operand, Sums};
use crate::autodiff::reverse::Targets;
use crate::error::Result;
use crate::exec::{self, Pass, PassState, Status, user_code};
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyImmediate, OperandVec};
use crate::graph::scalar::Scalar;
use crate::graph::value::{Repr, Value};
use dl_parallel::sync::current_num_threads;
use smallvec::SmallVec;
use std::sync::Arc;

/// Maximum depth of the expression that a rule emits, for inline evaluation.
const DEEPEST: usize = 32;

pub(super) struct Eager<'a> {
    pass: &'a Arc<Pass>,
    /// Operations with a higher cost, in nanoseconds, are left to the executor.
    longest: f64,
    /// Values of layers that several operands of the current rule share, by address. The addresses
    /// are unique until the next rule is called: until then only constants are allocated.
    shared: Vec<(usize, Value)>,
}

impl<'a> Eager<'a> {
    /// For a step in this pass. None if the pass is traced, as each operation must then be
    /// recorded, or if residuals were discarded, as a rule may read them.
    pub(super) fn of(pass: &'a Arc<Pass>, state: &PassState) -> Option<Self> {
        if pass.is_watched() || state.has_forgotten() {
            return None;
        }
        let threads = current_num_threads();
        let alone = threads == 1;
        Some(Eager { pass, longest: exec::inline_limit(alone, threads), shared: Vec::new() })
    }

    /// The value of a sum of arrived cotangents, if it can be evaluated inline.
    pub(super) fn sum(&mut self, state: &mut PassState, sum: &NodeRef) -> Option<Value> {
        // A layer of the previous rule may have had the same address.
        self.shared.clear();
        exec::computing(self.pass, || self.below(state, sum, 0))
    }

    /// The same cotangent, on arrival at this slot: evaluated, if possible inline.
    fn arriving(&mut self, state: &mut PassState, delta: NodeRef, place: u32) -> AnyDelta {
        let node = state.node(place);
        let value = match &node.op {
            NodeOp::Weight(..) if delta.accumulates().is_some() => None,
            _ => exec::computing(self.pass, || self.below(state, &delta, 0)),
        };
        match value {
            Some(value @ Value(Repr::Any(_))) => AnyDelta::Ready(value),
            // A scalar stays a layer, so that it is counted like the layers of the staged pass.
            Some(number) => AnyDelta::Lazy(AnyDelta::Ready(number).into_layer(&node)),
            None => AnyDelta::Lazy(delta),
        }
    }

    /// Adds this cotangent to the accumulator of this slot, evaluated if possible inline.
    pub(super) fn add(&mut self, state: &mut PassState, delta: NodeRef, place: u32, arrived: &mut Accumulator) {
        let delta = self.arriving(state, delta, place);
        self.add_computed(state, delta, place, arrived);
    }

    fn add_computed(&mut self, state: &mut PassState, delta: AnyDelta, place: u32, arrived: &mut Accumulator) {
        if arrived.add_in_place(delta, state.node(place).vtable) {
            state.note_evaluation();
        }
    }

    /// Adds the cotangents of the operands of this slot to their accumulators, without layers.
    /// Returns whether the operation has an immediate-mode pullback for these operands.
    ///
    /// # Errors
    /// If the rule panics.
    pub(super) fn pull_back(
        &mut self,
        state: &mut PassState,
        index: u32,
        delta: &AnyDelta,
        goal: &impl Targets,
        arrived: &mut [Accumulator],
    ) -> Result<bool> {
        let node = state.node(index);
        let (AnyDelta::Ready(delta), NodeOp::Primitive(op)) = (delta, &node.op) else { return Ok(false) };
        if !op.is_pure() {
            return Ok(false);
        }
        let mut operands: SmallVec<[Operand; 12]> = SmallVec::new();
        let count = op.operands().len();
        let many = (count > 3).then(|| state.places(index, count));
        for which in 0..count {
            let entry = many.as_ref().map_or_else(|| state.operand(index, which), |places| places[which]);
            state.stamp_unique(entry); // the rule may hand it out
            let place = state.unmarked(entry);
            let (wanted, node) = (goal.wants(state, place), state.node(place));
            let is_weight = matches!(node.op, NodeOp::Weight(..));
            operands.push(Operand { place, wanted, is_weight, kind: node.vtable });
        }
        let (longest, later) = (self.longest, OperandVec::new());
        let mut sums = Sums { arrived: &mut *arrived, operands: &operands, delta, longest, later, evaluations: 0 };
        let rule = || {
            let (operands, value) = (op.operands(), state.value(index));
            let pull_back = |values: &[&Value]| {
                let at = AnyImmediate { node: &node, operands, values, value: value.as_value(), delta };
                op.immediate_pullback(at, &mut sums)
            };
            match &many {
                Some(places) => state.with_values(places, pull_back),
                None => state.with_operands(index, count, pull_back),
            }
        };
        let knows_how = exec::computing(self.pass, || user_code::run(rule))
            .map_err(|error| error.at(op.name_or_panic(), node.site()))?;
        let Sums { later, evaluations, .. } = sums;
        for _ in 0..evaluations {
            state.note_evaluation();
        }
        for (which, delta) in later {
            let place = operands[which].place;
            let arrived = &mut arrived[place as usize];
            match delta {
                AnyDelta::Lazy(layer) => self.add(state, layer, place, arrived),
                computed => self.add_computed(state, computed, place, arrived),
            }
        }
        Ok(knows_how)
    }

    /// Must be called before each rule. Returns whether the layers that the rule emits can be
    /// evaluated inline: only if the cotangent itself is ready.
    pub(super) fn next_rule(&mut self, delta: &AnyDelta) -> bool {
        self.shared.clear();
        match delta {
            AnyDelta::Lazy(layer) => layer.op.as_constant().is_some(),
            _ => true,
        }
    }

    /// The value of a layer that a rule emitted at this depth, if it can be evaluated inline.
    fn below(&mut self, state: &mut PassState, layer: &NodeRef, depth: usize) -> Option<Value> {
        if let Some(value) = layer.op.as_constant() {
            return Some(value);
        }
        if let Some(index) = state.find_any_replica(layer) {
            return match state.status(index) {
                Status::Ready(value) => Some(value.to_value()),
                _ => None,
            };
        }
        if let Some((_, value)) = self.shared.iter().find(|(address, _)| *address == layer.address()) {
            return Some(value.clone());
        }
        if depth == DEEPEST {
            return None;
        }
        let value = match &layer.op {
            NodeOp::Primitive(op) if op.is_pure() => {
                let operands = op.operands().iter().map(|operand| self.below(state, operand, depth + 1));
                let operands = operands.collect::<Option<OperandVec<Value>>>()?;
                exec::evaluate_inline(&**op, &operands.iter().collect::<OperandVec<&Value>>(), self.longest)?
            }
            NodeOp::Primitive(_) => return None,
            op => {
                let operands = layer.operands();
                let number = |at: usize| Scalar::of(&self.below(state, &operands[at], depth + 1)?);
                exec::arithmetic(op, number)?.0.into()
            }
        };
        state.note_evaluation();
        if !layer.is_unique() {
            self.shared.push((layer.address(), value.clone()));
        }
        Some(value)
    }
}
