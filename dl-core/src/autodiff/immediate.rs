//! Deltas that are computed without being written down.
//!
//! A training step computes small deltas where they arrive (see `eager.rs`). To write down a layer
//! for each operation of a rule, to compute it, and to drop it again costs more than the operation
//! does. So an operation may read its rule in the values themselves, as scalar arithmetic does in
//! numbers (`Primitive::pull_back_now`): what it comes to is the same to the bit, and is added to
//! what has arrived at the operands. A part of a tensor is added in its place there, and not padded
//! with zeros before.
//!
//! A rule that does not know how, for these operands, says so before it has added anything, and is
//! asked for layers as ever.

use crate::autodiff::cotangent::{AnyDelta, Arrived, Total};
use crate::graph::data::Data;
use crate::graph::inline_box::Kept;
use crate::graph::layer::Layer;
use crate::graph::node::DataKind;
use crate::graph::op::Few;
use crate::graph::value::Value;

/// What has arrived at the operands of an operation, to which a rule adds.
#[doc(hidden)]
pub struct Sums<'a> {
    pub(super) arrived: &'a mut [Arrived],
    pub(super) operands: &'a [Operand],
    /// The delta that the rule is asked about.
    pub(super) delta: &'a Value,
    /// Dearer operations are left to the executor.
    pub(super) longest: f64,
    /// What comes later, in this order: layers that are still to be computed, and what is added
    /// after them.
    pub(super) later: Few<(usize, AnyDelta)>,
    /// The operations that were evaluated.
    pub(super) evaluations: usize,
}

/// An operand of an operation on the way back.
pub(super) struct Operand {
    /// Its entry, or that of what it marks.
    pub(super) place: u32,
    /// Whether somebody wants its delta.
    pub(super) wanted: bool,
    pub(super) is_weight: bool,
    pub(super) kind: &'static DataKind,
}

impl Sums<'_> {
    /// Whether the delta of this operand is wanted.
    #[must_use]
    pub fn wants(&self, which: usize) -> bool {
        self.operands[which].wanted
    }

    /// Whether this operand is a weight, into which a product may go without being made.
    #[must_use]
    pub fn is_weight(&self, which: usize) -> bool {
        self.operands[which].is_weight
    }

    /// Whether an operation of about so many nanoseconds may be run now.
    #[must_use]
    pub fn is_short(&self, nanoseconds: f64) -> bool {
        nanoseconds < self.longest
    }

    /// So many operations were evaluated: as many as the layers would have been.
    pub fn count(&mut self, evaluations: usize) {
        self.evaluations += evaluations;
    }

    /// Adds a delta.
    pub fn add<T: Data>(&mut self, which: usize, delta: T) {
        self.arrives(which, AnyDelta::Ready(delta.into_value()));
    }

    /// Adds the very delta that the rule is asked about.
    pub fn pass_on(&mut self, which: usize) {
        self.arrives(which, AnyDelta::Ready(self.delta.clone()));
    }

    /// Adds what is written down after all: it is computed now, if that is possible, unless a step
    /// takes it as it is.
    pub fn add_layer<T: Data>(&mut self, which: usize, delta: Layer<T>) {
        self.later.push((which, AnyDelta::Lazy(delta.into_any())));
    }

    /// Adds something to a part of what has arrived, or of zeros where nothing has. It is counted
    /// as one operation, together with the sum of all that arrives there.
    ///
    /// A sum of layers that has parts among its terms begins with zeros, so that −0 becomes 0 even
    /// where no part is, and the layout is that of zeros. So what has arrived before the first part
    /// is added to zeros, too, by `add_whole`.
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
