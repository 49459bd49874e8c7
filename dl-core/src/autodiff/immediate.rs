//! Immediate-mode pullbacks: rules that compute cotangents without layers.
//!
//! A training step evaluates small cotangents where they arrive (see `eager.rs`). To emit a layer
//! for each operation of a rule, evaluate it and drop it costs more than the operation itself. An
//! operation may therefore implement its rule on values (`Primitive::pull_back_now`), as scalar
//! arithmetic does on numbers. The results, which must have the same bits, are added to the
//! accumulators of the operands. A part of a tensor is added in its place, without padding by
//! zeros.
//!
//! A rule that does not support its operands must return false before it has added anything. The
//! layer rule is called then.

use crate::autodiff::cotangent::{AnyDelta, Arrived, Total};
use crate::graph::data::Data;
use crate::graph::inline_box::Kept;
use crate::graph::layer::Layer;
use crate::graph::node::DataKind;
use crate::graph::op::Few;
use crate::graph::value::Value;

/// The sink of an immediate-mode pullback: the accumulators of the operands.
#[doc(hidden)]
pub struct Sums<'a> {
    pub(super) arrived: &'a mut [Arrived],
    pub(super) operands: &'a [Operand],
    /// The cotangent of the operation.
    pub(super) delta: &'a Value,
    /// Operations with a higher cost, in nanoseconds, are left to the executor.
    pub(super) longest: f64,
    /// Cotangents to be added after the rule, in this order: layers that are still to be evaluated,
    /// and all that the rule added after the first of them.
    pub(super) later: Few<(usize, AnyDelta)>,
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
    pub(super) kind: &'static DataKind,
}

impl Sums<'_> {
    /// Whether the cotangent of this operand is needed.
    #[must_use]
    pub fn wants(&self, which: usize) -> bool {
        self.operands[which].wanted
    }

    /// Whether this operand is a weight. A product then need not be evaluated, as the step
    /// accumulates it into the weight.
    #[must_use]
    pub fn is_weight(&self, which: usize) -> bool {
        self.operands[which].is_weight
    }

    /// Whether an operation with this estimated cost may be run inline.
    #[must_use]
    pub fn is_short(&self, nanoseconds: f64) -> bool {
        nanoseconds < self.longest
    }

    /// Counts evaluated operations: as many as there would have been layers.
    pub fn count(&mut self, evaluations: usize) {
        self.evaluations += evaluations;
    }

    /// Adds a cotangent to an operand.
    pub fn add<T: Data>(&mut self, which: usize, delta: T) {
        self.arrives(which, AnyDelta::Ready(delta.into_value()));
    }

    /// Adds the cotangent of the operation itself.
    pub fn pass_on(&mut self, which: usize) {
        self.arrives(which, AnyDelta::Ready(self.delta.clone()));
    }

    /// Adds a cotangent that is a layer. It is evaluated inline after the rule if possible, unless
    /// a step accumulates it into a weight.
    pub fn add_layer<T: Data>(&mut self, which: usize, delta: Layer<T>) {
        self.later.push((which, AnyDelta::Lazy(delta.into_any())));
    }

    /// Adds to a part of the cotangent of an operand; if none has arrived, of zeros. Counts as one
    /// operation, together with the sum of all cotangents that arrive there.
    ///
    /// A sum of layers with parts among its terms starts with zeros, so that −0 becomes 0 also
    /// outside of the parts, and the result has the layout of zeros. For the same bits, the
    /// cotangents that arrived before the first part are added to zeros, by `add_whole`.
    pub fn add_part<T: Data>(
        &mut self,
        which: usize,
        zeros: impl FnOnce() -> T,
        add_whole: impl FnOnce(&mut T, &T),
        add: impl FnOnce(&mut T),
    ) {
        let arrived = &mut self.arrived[self.operands[which].place as usize];
        match arrived {
            Arrived::Total(total) if self.later.is_empty() => {
                if !std::mem::replace(&mut total.has_part, true) {
                    let mut whole = zeros();
                    add_whole(&mut whole, total.value.get());
                    total.value = whole.into_value();
                }
                total.value.change(add);
                self.evaluations += usize::from(!std::mem::replace(&mut total.is_sum, true));
            }
            _ => {
                let mut whole = zeros();
                add(&mut whole);
                self.evaluations += 1;
                match arrived {
                    Arrived::Nothing if self.later.is_empty() => {
                        let total = Total { value: whole.into_value(), is_sum: true, has_part: true };
                        *arrived = Arrived::Total(Kept::new(total));
                    }
                    _ => self.add(which, whole),
                }
            }
        }
    }

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
