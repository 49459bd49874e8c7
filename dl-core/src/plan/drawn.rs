//! The random numbers of a call.

use crate::error::Result;
use crate::graph::data::Data;
use crate::graph::inline_box::InlineBox;
use crate::graph::node::{DataVTable, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyAlong, AnyAt, AnyPrimitive, OperandVec};
use crate::graph::seed::{ModeAndSeed, Seed};
use crate::graph::value::Value;
use smallvec::smallvec;
use std::any::{Any, TypeId};

/// What `seed`, a node with a position, reads of the pass, as a function of what the call reads
/// there: `distance` positions later.
pub(super) fn drawn(seed: &NodeRef, distance: u64, call: NodeRef) -> NodeRef {
    let is_seed = (seed.vtable.id)() == TypeId::of::<Seed>();
    let op = NodeOp::Primitive(InlineBox::operation(Drawn { distance, is_seed, call: [call] }));
    let _context = seed.enter();
    NodeRef::of_type(seed.vtable, op, seed.place)
}

/// The type of what a call reads of its pass.
pub(super) fn mode_and_seed() -> &'static DataVTable {
    DataVTable::of::<ModeAndSeed>()
}

struct Drawn {
    distance: u64,
    /// Whether the value is a seed. A call inside of the function reads the mode, too.
    is_seed: bool,
    call: [NodeRef; 1],
}

impl AnyPrimitive for Drawn {
    fn name(&self) -> &'static str {
        "seed"
    }

    fn operands(&self) -> &[NodeRef] {
        &self.call
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        let here = operands[0].get::<ModeAndSeed>().after(self.distance);
        if self.is_seed { here.seed().map(Data::into_value) } else { Ok(here.into_value()) }
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        20.0
    }

    fn is_pure(&self) -> bool {
        true
    }

    fn bound_to(&self, operands: &[NodeRef]) -> Option<InlineBox<dyn AnyPrimitive>> {
        Some(InlineBox::operation(Drawn {
            distance: self.distance,
            is_seed: self.is_seed,
            call: [operands[0].clone()],
        }))
    }

    fn pullback(&self, _: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        smallvec![None]
    }

    fn pushforward(&self, _: AnyAlong<'_>) -> Option<NodeRef> {
        None
    }
}
