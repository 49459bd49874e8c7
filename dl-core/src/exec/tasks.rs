//! The dynamic nodes of a pass: their futures, what they turn out to be, and who is woken when.

use crate::api::tape::AnyBackward;
use crate::exec::bodies;
use crate::exec::books::Books;
use crate::exec::queue::Work;
use crate::exec::work::Task;
use crate::graph::node_ref::AnyLayer;
use crate::graph::value::Value;
use std::sync::Arc;
use std::task::Waker;

impl Books {
    pub(super) fn queue_task(&mut self, index: u32) {
        let nanoseconds = bodies::guess(self.node(index).place);
        self.queue.push(Work::Task(index), nanoseconds);
    }

    /// A dynamic node turned out to be this layer, which has this entry.
    pub(super) fn follow(&mut self, index: u32, source: u32, layer: AnyLayer) {
        // a mark of a number has no entry of its own
        self.root_with(source, |node| if node.address() == layer.address() { layer } else { node.handle() });
        self.evaluate_again(source);
        let links = self.links(source);
        links.unfinished += 1;
        links.followers += 1;
        self.entries[index as usize].operands[0] = source;
        if self.ended(source) {
            self.ready(index);
            self.settle();
        } else {
            self.wait_for(source, index);
        }
    }

    /// A dynamic node ended with a value, and perhaps with a backward of its own.
    pub(super) fn finish_tape(&mut self, index: u32, value: Value, backward: Option<Arc<dyn AnyBackward>>) {
        if let Some(backward) = backward {
            self.entries[index as usize].trained = true;
            self.backwards.insert(index, backward);
        }
        // only its body could compute it again
        self.linked(index).forgets = false;
        self.finish(index, Ok(value));
    }

    pub(crate) fn wake_when_done(&mut self, index: u32, waker: &Waker) {
        self.links(index).awaited = true;
        let wakers = self.wakers.entry(index).or_default();
        // whoever polls again and again is mostly the last one who did
        if !wakers.last().is_some_and(|last| last.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    /// The future of a dynamic node, if it has waited before.
    #[inline]
    pub(super) fn task(&mut self, index: u32) -> Option<&mut Task> {
        if self.linked(index).task { self.tasks.get_mut(&index) } else { None }
    }

    pub(super) fn keep_task(&mut self, index: u32, task: Task) {
        self.linked(index).task = true;
        self.tasks.insert(index, task);
    }

    pub(super) fn forget_task(&mut self, index: u32) {
        if std::mem::take(&mut self.linked(index).task) {
            self.tasks.remove(&index);
        }
    }

    /// Nobody drives the pass any more: takes all futures away, and has everybody woken who waits.
    pub(super) fn rest(&mut self) -> Vec<Task> {
        self.rests += 1;
        self.woken.extend(self.wakers.drain().flat_map(|(_, wakers)| wakers));
        let (indices, tasks): (Vec<u32>, Vec<Task>) = self.tasks.drain().unzip();
        self.queue.forget_tasks(&indices);
        let from = self.interrupted.len();
        for (index, task) in indices.into_iter().zip(&tasks) {
            self.linked(index).task = false;
            if task.waits() {
                self.interrupted.push(index);
            }
        }
        self.interrupted[from..].sort_unstable();
        tasks
    }

    /// The opposite: what was interrupted begins anew.
    pub(super) fn resume(&mut self) {
        for index in std::mem::take(&mut self.interrupted) {
            if !self.ended(index) {
                self.queue_task(index);
            }
        }
    }
}
