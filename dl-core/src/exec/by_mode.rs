//! A choice between two layers by the mode of the pass.

use crate::error::Result;
use crate::exec::Mode;
use crate::graph::inline_box::{InlineBox, InlineFuture};
use crate::graph::node::{DynamicBody, NodeOp, Outcome};
use crate::graph::node_ref::NodeRef;
use crate::graph::seed::Position;

/// A layer that resolves to the first one of these in training mode, and to the second one otherwise.
pub(crate) fn by_mode(layers: [NodeRef; 2], position: Position) -> NodeOp {
    NodeOp::Dynamic(InlineBox::body(ByMode(layers, position)))
}

struct ByMode([NodeRef; 2], Position);

impl DynamicBody for ByMode {
    fn run(&self) -> InlineFuture<Result<Outcome>> {
        let picked = self.0[usize::from(Mode::current() != Some(Mode::Train))].clone();
        InlineBox::future(async { Ok(Outcome::Layer(picked)) })
    }

    fn name(&self) -> &'static str {
        "differentiable function"
    }

    fn position(&self) -> Position {
        self.1
    }

    fn by_mode(&self) -> Option<&[NodeRef; 2]> {
        Some(&self.0)
    }
}
