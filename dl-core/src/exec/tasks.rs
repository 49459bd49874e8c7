//! The dynamic nodes of a pass: their futures, their results, and wakers.

use crate::exec::body_cost;
use crate::exec::later::Reads;
use crate::exec::ready_queue::Work;
use crate::exec::state::PassState;
use crate::exec::worker::Task;
use crate::graph::node::AnyBackward;
use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use rustc_hash::FxHashMap;
use std::task::Waker;

/// The dynamic nodes of a pass.
#[derive(Default)]
pub(super) struct TaskTable {
    /// Futures that wait, or that are being polled after they have waited.
    waiting: FxHashMap<u32, Task>,
    /// Nodes whose futures were dropped when the last driver left.
    interrupted: Vec<u32>,
    /// The hand-written backwards of dynamic nodes.
    backwards: FxHashMap<u32, AnyBackward>,
    /// The wakers to be called when a slot, of any node, is completed.
    wakers: FxHashMap<u32, Vec<Waker>>,
    /// The nodes whose values a device computes.
    pub(super) reads: Reads,
}

impl TaskTable {
    pub(super) fn reset(&mut self) {
        self.waiting.clear();
        self.interrupted.clear();
        self.backwards.clear();
        self.wakers.clear();
        self.reads = Reads::default();
    }

    pub(super) fn get(&self, index: u32) -> Option<&Task> {
        self.waiting.get(&index)
    }

    pub(super) fn backward(&self, index: u32) -> Option<&AnyBackward> {
        self.backwards.get(&index)
    }

    /// Called when the slot of this node becomes free.
    pub(super) fn remove(&mut self, index: u32) {
        self.backwards.remove(&index);
    }

    /// The body of this node restarts when the next driver arrives.
    pub(super) fn interrupt(&mut self, index: u32) {
        self.interrupted.push(index);
    }

    pub(super) fn is_awaited(&self, index: u32) -> bool {
        self.wakers.contains_key(&index)
    }

    /// Takes the wakers of this slot, which is completed.
    #[cold]
    pub(super) fn take_wakers(&mut self, index: u32) -> Vec<Waker> {
        self.wakers.remove(&index).unwrap_or_default()
    }
}

impl PassState {
    pub(super) fn queue_task(&mut self, index: u32) {
        let nanoseconds = body_cost::guess(self.node(index).place);
        self.ready.push(Work::Task(index), nanoseconds);
    }

    /// A dynamic node has resolved to this layer, which has the slot `source`.
    pub(super) fn follow(&mut self, index: u32, source: u32, layer: NodeRef) {
        // A checkpoint boundary above a number has no slot of its own.
        self.nodes.add_root(source, |node| if node.address() == layer.address() { layer } else { node.handle() });
        self.rematerialize(source);
        let ext = self.nodes.ext_or_new(source);
        ext.pending_uses += 1;
        ext.aliases += 1;
        self.nodes.slot_mut(index).operands[0] = source;
        if self.is_completed(source) {
            self.on_inputs_ready(index);
            self.notify_dependents();
        } else {
            self.nodes.add_dependent(source, index);
        }
    }

    /// A dynamic node has resolved to a value, with a hand-written backward if it has one.
    pub(super) fn complete_tape(&mut self, index: u32, value: Value, backward: Option<AnyBackward>) {
        if let Some(backward) = backward {
            self.nodes.slot_mut(index).trained = true;
            self.tasks.backwards.insert(index, backward);
        }
        // Only the body could recompute the value.
        self.nodes.ext_mut(index).discards = false;
        self.complete(index, Ok(value));
    }

    pub(crate) fn wake_when_done(&mut self, index: u32, waker: &Waker) {
        self.nodes.ext_or_new(index).awaited = true;
        let wakers = self.tasks.wakers.entry(index).or_default();
        // A future that is polled repeatedly usually has the same waker.
        if !wakers.last().is_some_and(|last| last.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    /// The future of a dynamic node, if it has waited before.
    #[inline]
    pub(super) fn task(&mut self, index: u32) -> Option<&mut Task> {
        if self.nodes.ext_mut(index).task { self.tasks.waiting.get_mut(&index) } else { None }
    }

    pub(super) fn keep_task(&mut self, index: u32, task: Task) {
        self.nodes.ext_mut(index).task = true;
        self.tasks.waiting.insert(index, task);
    }

    pub(super) fn forget_task(&mut self, index: u32) {
        if std::mem::take(&mut self.nodes.ext_mut(index).task) {
            self.tasks.waiting.remove(&index);
        }
    }

    /// The last driver has left: takes all futures out, and schedules all wakers.
    pub(super) fn rest(&mut self) -> Vec<Task> {
        self.drivers.rest();
        self.deferred.wake_all(self.tasks.wakers.drain().flat_map(|(_, wakers)| wakers));
        let (indices, tasks): (Vec<u32>, Vec<Task>) = self.tasks.waiting.drain().unzip();
        self.ready.forget_tasks(&indices);
        let from = self.tasks.interrupted.len();
        for (index, task) in indices.into_iter().zip(&tasks) {
            self.nodes.ext_mut(index).task = false;
            if task.waits() {
                self.tasks.interrupted.push(index);
            }
        }
        self.tasks.interrupted[from..].sort_unstable();
        tasks
    }

    /// A driver has arrived: the interrupted bodies restart.
    pub(super) fn resume(&mut self) {
        for index in std::mem::take(&mut self.tasks.interrupted) {
            if !self.is_completed(index) {
                self.queue_task(index);
            }
        }
    }
}
