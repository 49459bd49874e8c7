//! Immediate-mode pullbacks: rules that compute cotangents without layers.
//!
//! A training step evaluates small cotangents where they arrive (see `eager.rs`). To emit a layer
//! for each operation of a rule, evaluate it and drop it costs more than the operation itself. An
//! operation may therefore implement its rule on values (`BuiltIn::immediate_pullback`), as scalar
//! arithmetic does on numbers. The results, which must have the same bits, are added to the
//! accumulators of the operands. A part of a tensor is added in its place, without padding by
//! zeros.
//!
//! A rule that does not support its operands must return false before it has added anything. The
//! layer rule is called then.

use crate::autodiff::accumulator::{Accumulator, Total};
use crate::autodiff::cotangent::AnyDelta;
use crate::graph::inline_box::InlineBox;
use crate::graph::node::DataVTable;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{CotangentPart, CotangentSink, OperandVec};
use crate::graph::value::Value;

/// The cotangent accumulators of the operands of one operation.
pub(super) struct Sums<'a> {
    pub(super) arrived: &'a mut [Accumulator],
    pub(super) operands: &'a [Operand],
    /// The cotangent of the operation.
    pub(super) delta: &'a Value,
    /// Operations with a higher cost, in nanoseconds, are left to the executor.
    pub(super) longest: f64,
    /// Cotangents to be added after the rule, in this order: layers that are still to be evaluated,
    /// and all that the rule added after the first of them.
    pub(super) later: OperandVec<(usize, AnyDelta)>,
    /// The number of evaluated operations.
    pub(super) evaluations: usize,
}

/// An operand of the operation.
pub(super) struct Operand {
    /// Its slot, or the slot that it marks if it is a checkpoint boundary.
    pub(super) place: u32,
    /// Whether its cotangent is needed.
    pub(super) wanted: bool,
    pub(super) is_weight: bool,
    pub(super) kind: &'static DataVTable,
}

impl CotangentSink for Sums<'_> {
    fn wants(&self, which: usize) -> bool {
        self.operands[which].wanted
    }

    fn is_weight(&self, which: usize) -> bool {
        self.operands[which].is_weight
    }

    fn is_short(&self, nanoseconds: f64) -> bool {
        nanoseconds < self.longest
    }

    fn count(&mut self, evaluations: usize) {
        self.evaluations += evaluations;
    }

    fn add(&mut self, which: usize, delta: Value) {
        self.arrives(which, AnyDelta::Ready(delta));
    }

    fn pass_on(&mut self, which: usize) {
        self.arrives(which, AnyDelta::Ready(self.delta.clone()));
    }

    fn add_layer(&mut self, which: usize, delta: NodeRef) {
        self.later.push((which, AnyDelta::Lazy(delta)));
    }

    fn add_part(&mut self, which: usize, part: &dyn CotangentPart) {
        let arrived = &mut self.arrived[self.operands[which].place as usize];
        match arrived {
            Accumulator::Total(total) if self.later.is_empty() => {
                if !std::mem::replace(&mut total.has_part, true) {
                    let mut whole = part.zeros();
                    part.add_whole(&mut whole, &total.value);
                    total.value = whole;
                }
                part.add(&mut total.value);
                self.evaluations += usize::from(!std::mem::replace(&mut total.is_sum, true));
            }
            _ => {
                let mut value = part.zeros();
                part.add(&mut value);
                self.evaluations += 1;
                match arrived {
                    Accumulator::Nothing if self.later.is_empty() => {
                        *arrived = Accumulator::Total(InlineBox::new(Total { value, is_sum: true, has_part: true }));
                    }
                    _ => self.arrives(which, AnyDelta::Ready(value)),
                }
            }
        }
    }
}

impl Sums<'_> {
    fn arrives(&mut self, which: usize, delta: AnyDelta) {
        let Operand { place, kind, .. } = self.operands[which];
        if self.later.is_empty() {
            let makes_a_sum = self.arrived[place as usize].add_in_place(delta, kind);
            self.evaluations += usize::from(makes_a_sum);
        } else {
            self.later.push((which, delta));
        }
    }
}
