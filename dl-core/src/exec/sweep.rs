//! Frees the slots of unreachable nodes, so that a loop of a million bangs takes constant memory.

use crate::exec::node_table::{NONE, SlotState};
use crate::exec::state::PassState;
use crate::exec::user_code;
use crate::graph::identity::Effect;
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;

impl PassState {
    /// Frees the slots of all nodes with these properties: the pass has the only handle, no dynamic
    /// node has resolved to the node, and it has no dependents. The operands of such a node get
    /// root handles first, and are examined in turn.
    ///
    /// Called each time the number of slots has doubled, so the cost is a constant per slot.
    pub(super) fn sweep(&mut self) {
        let mut suspects: Vec<u32> = self.nodes.rooted().collect();
        while let Some(index) = suspects.pop() {
            let Some(node) = self.entry(index).node.filter(|node| node.handles() == 1) else { continue };
            if self.is_in_use(index) {
                continue;
            }
            if matches!(node.op, NodeOp::Dynamic(_)) && self.source(index) != NONE {
                let source = self.source(index);
                self.nodes.ext_or_new(source).aliases -= 1;
                suspects.push(source);
            }
            for which in 0..node.operands().len() {
                let operand = self.operand(index, which);
                if self.nodes.is_scheduled(operand) {
                    let ext = self.nodes.ext_mut(operand);
                    ext.uses = ext.uses.saturating_sub(1);
                }
                self.root(operand);
                suspects.push(operand);
            }
            let handle = self.free(index);
            // A destructor of user code may run here. Its panic could not be reported to any
            // caller.
            user_code::ignore_panic(|| drop(handle));
        }
        self.discovery.sweep_when(2 * self.nodes.live());
    }

    fn is_in_use(&self, index: u32) -> bool {
        let slot = self.entry(index);
        let node = slot.held();
        // The weight may be inserted again under another replica.
        node.as_variable().is_some()
            || node.effect() == Some(Effect::Update)
            || slot.state == SlotState::Pending
            || self.nodes.ext(index).is_some_and(|ext| ext.aliases > 0 || ext.has_dependents())
            || self.tasks.is_awaited(index)
    }

    /// Frees the slot of a root. Returns the last handle to its node.
    fn free(&mut self, index: u32) -> NodeRef {
        self.tell_gone(index);
        self.discard_value(index);
        let handle = self.nodes.remove(index);
        self.index.remove(handle.address());
        self.tasks.remove(index);
        self.retention.remove(index);
        self.discovery.lose_order();
        handle
    }
}
