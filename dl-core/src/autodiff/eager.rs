//! Deltas that are computed as they are written down.
//!
//! What a training step writes down on its way back it is going to need, at once and nobody else
//! ever. So a small operation of the library, on values that are there, is computed where its delta
//! arrives: its layer goes again without having been in the books, and its value as soon as the
//! walk is past it. What is dear is left to the executor, which has it done in parallel; and so is
//! what fails, which fails there once more, with all that fails beside it.
//!
//! Where an operation knows how, nothing is written down at all: see `now.rs`.
//!
//! A delta that arrives where nobody trains is not looked at, as ever. A product that arrives at a
//! weight is not made: it goes into the weight.
//!
//! Nothing of the user's is dropped meanwhile, under the lock of the books: operands and values of
//! plain operations hold plain data.

use crate::autodiff::cotangent::{AnyDelta, Arrived};
use crate::autodiff::immediate::{Operand, Sums};
use crate::autodiff::reverse::Goal;
use crate::error::Result;
use crate::exec;
use crate::exec::{Pass, PassState, Status, user_code};
use crate::graph::node::Expression;
use crate::graph::node_ref::AnyLayer;
use crate::graph::op::{AnyNow, Few};
use crate::graph::scalar::Scalar;
use crate::graph::value::{Repr, Value};
use crate::parallel::sync::current_num_threads;
use std::sync::Arc;

/// A rule that writes down more than this, one on top of the other, is not followed.
const DEEPEST: usize = 32;

pub(super) struct Eager<'a> {
    pass: &'a Arc<Pass>,
    /// Dearer operations are left to the executor.
    longest: f64,
    /// What the rule at hand has written down for several operands, by address; nothing new comes
    /// to lie there before the next rule is asked, but constants.
    shared: Vec<(usize, Value)>,
}

impl<'a> Eager<'a> {
    /// For a step in this pass, unless somebody wants to see each operation, or values are gone
    /// that a rule may look at.
    pub(super) fn of(pass: &'a Arc<Pass>, state: &PassState) -> Option<Self> {
        if pass.is_watched() || state.has_forgotten() {
            return None;
        }
        let threads = current_num_threads();
        let alone = threads == 1;
        Some(Eager { pass, longest: exec::inline_limit(alone, threads), shared: Vec::new() })
    }

    /// The value of a sum of deltas that have arrived, if it can be had at once.
    pub(super) fn sum(&mut self, state: &mut PassState, sum: &AnyLayer) -> Option<Value> {
        // it may lie where something of the last rule has lain
        self.shared.clear();
        exec::computing(self.pass, || self.below(state, sum, 0))
    }

    /// The same delta, which arrives at this entry, computed if it can be had at once.
    fn arriving(&mut self, state: &mut PassState, delta: AnyLayer, place: u32) -> AnyDelta {
        let node = state.node(place);
        let value = match &node.expression {
            Expression::Weight(..) if delta.accumulates().is_some() => None,
            _ => exec::computing(self.pass, || self.below(state, &delta, 0)),
        };
        match value {
            Some(value @ Value(Repr::Any(_))) => AnyDelta::Ready(value),
            // what is computed with numbers is counted as what layers come to
            Some(number) => AnyDelta::Lazy(AnyDelta::Ready(number).into_layer(&node)),
            None => AnyDelta::Lazy(delta),
        }
    }

    /// Adds this delta to what has arrived at this entry, computed if it can be had at once.
    pub(super) fn add(&mut self, state: &mut PassState, delta: AnyLayer, place: u32, arrived: &mut Arrived) {
        let delta = self.arriving(state, delta, place);
        self.add_computed(state, delta, place, arrived);
    }

    fn add_computed(&mut self, state: &mut PassState, delta: AnyDelta, place: u32, arrived: &mut Arrived) {
        if arrived.add_in_place(delta, state.node(place).kind_of_data) {
            state.note_evaluation();
        }
    }

    /// Adds what this delta of an entry comes to to what has arrived at its operands, without
    /// layers. Says whether the operation knows how.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn pull_back(
        &mut self,
        state: &mut PassState,
        index: u32,
        delta: &AnyDelta,
        goal: &impl Goal,
        arrived: &mut [Arrived],
    ) -> Result<bool> {
        let node = state.node(index);
        let (AnyDelta::Ready(delta), Expression::Primitive(op)) = (delta, &node.expression) else { return Ok(false) };
        if !op.is_plain() {
            return Ok(false);
        }
        let mut operands: Few<Operand> = Few::new();
        for which in 0..op.operands().len() {
            let entry = state.operand(index, which);
            state.stamp_unique(entry); // the rule may hand it out
            let place = state.unmarked(entry);
            let (wanted, node) = (goal.wants(state, place), state.node(place));
            let is_weight = matches!(node.expression, Expression::Weight(..));
            operands.push(Operand { place, wanted, is_weight, kind: node.kind_of_data });
        }
        let (longest, later) = (self.longest, Few::new());
        let mut sums = Sums { arrived: &mut *arrived, operands: &operands, delta, longest, later, evaluations: 0 };
        let rule = || {
            let (operands, value) = (op.operands(), state.value(index));
            state.with_operands(index, operands.len(), |values| {
                let now = AnyNow { node: &node, operands, values, value: value.as_value(), delta };
                op.pull_back_now(now, &mut sums)
            })
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

    /// A rule is asked about this delta. Says whether what it writes down can be computed at once:
    /// not if the delta could not.
    pub(super) fn next_rule(&mut self, delta: &AnyDelta) -> bool {
        self.shared.clear();
        match delta {
            AnyDelta::Lazy(layer) => layer.expression.as_constant().is_some(),
            _ => true,
        }
    }

    fn below(&mut self, state: &mut PassState, layer: &AnyLayer, depth: usize) -> Option<Value> {
        if let Some(value) = layer.expression.as_constant() {
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
        let value = match &layer.expression {
            Expression::Primitive(op) if op.is_plain() => {
                let operands = op.operands().iter().map(|operand| self.below(state, operand, depth + 1));
                let operands = operands.collect::<Option<Few<Value>>>()?;
                exec::evaluate_inline(&**op, &operands.iter().collect::<Few<&Value>>(), self.longest)?
            }
            Expression::Primitive(_) => return None,
            expression => {
                let operands = layer.operands();
                let number = |at: usize| Scalar::of(&self.below(state, &operands[at], depth + 1)?);
                exec::arithmetic(expression, number)?.0.into()
            }
        };
        state.note_evaluation();
        if !layer.is_lone() {
            self.shared.push((layer.address(), value.clone()));
        }
        Some(value)
    }
}
