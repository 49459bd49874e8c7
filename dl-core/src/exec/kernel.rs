//! Running kernels without the state lock, one at a time or as a chain.

use crate::error::Result;
use crate::exec::context::computing;
use crate::exec::dispatch::{CHAIN_NS, prefers_driver};
use crate::exec::state::PassState;
use crate::exec::{Keep, Pass, user_code};
use crate::graph::identity::Effect;
use crate::graph::node::{Node, NodeOp};
use crate::graph::node_ref::NodePtr;
use crate::graph::op::{AnyPrimitive, OperandVec};
use crate::graph::value::{Repr, Value};
use crate::record::SpanWork;
use dl_parallel::sync::MutexGuard;
use std::sync::Arc;

/// A chain that a worker is running. Its vectors are reused.
#[derive(Default)]
pub(super) struct ChainRun {
    kernels: Vec<Kernel>,
    /// The operands of all kernels. `None` stands for the result of the kernel before.
    operands: Vec<Option<Value>>,
    /// The results of the kernels that have run. `None` if the next kernel, the last consumer, took
    /// the result.
    results: Vec<Option<Result<Value>>>,
    followers: Vec<u32>,
    /// Whether the first job was local, so that no worker was invited. An expensive follower then
    /// returns to the queue.
    is_local: bool,
}

const GIVEN: &str = "an operand is ready, or is the result of the operation before";

#[derive(Clone, Copy)]
struct Kernel {
    index: u32,
    /// Kept alive by the table: pending slots are not swept.
    node: NodePtr,
    /// The estimated cost. The cost of a follower is unknown until its input has been computed.
    nanoseconds: Option<f64>,
    /// The index of its first operand in `ChainRun::operands`.
    operands: usize,
    /// Whether it is the last consumer of the result of the kernel before.
    is_last: bool,
}

impl PassState {
    /// Takes the chain of an operation whose job has left the queue. Of a local job, only the
    /// followers that are local, too, will run.
    pub(super) fn take_chain_to_run(&mut self, index: u32, (nanoseconds, is_local): (f64, bool), run: &mut ChainRun) {
        run.is_local = is_local;
        let mut followers = std::mem::take(&mut run.followers);
        self.take_chain(index, &mut followers);
        self.take_kernel(index, Some(nanoseconds), run);
        for &follower in &followers {
            let before = run.kernels.last().expect("the first is there").index;
            self.take_kernel(follower, None, run);
            run.kernels.last_mut().expect("it was taken").is_last = self.is_used_once(before);
        }
        run.followers = followers;
    }

    fn take_kernel(&mut self, index: u32, nanoseconds: Option<f64>, run: &mut ChainRun) {
        let node = self.node(index);
        let first = run.operands.len();
        run.kernels.push(Kernel { index, node, nanoseconds, operands: first, is_last: false });
        if nanoseconds.is_some() {
            self.record_effects(index, &node);
            run.operands.extend((0..node.operands().len()).map(|which| Some(self.take_operand(index, which))));
            return;
        }
        let mut trained = false;
        for which in 0..node.operands().len() {
            let operand = self.operand(index, which);
            trained |= self.trained(operand);
            // It must be retained until this kernel is completed.
            run.operands.push(self.outcome(operand).and_then(Result::ok));
        }
        self.nodes.slot_mut(index).trained = trained;
    }

    /// Called before the kernel of this node runs, when its operands are ready.
    fn record_effects(&mut self, index: u32, node: &Node) {
        if self.env.keep() == Keep::Nothing || self.is_rematerialized(index) {
            return;
        }
        match node.effect() {
            Some(Effect::Update) => {
                self.retention.add_update(index);
                self.keep_value(self.operand(index, Effect::NEW_VALUE));
            }
            Some(Effect::Checkpoint) => self.close_segment(self.operand(index, 0)),
            None => {}
        }
    }
}

impl ChainRun {
    /// Completes the nodes whose kernels have run. The rest of the chain returns to the end of the
    /// queue that it was taken from.
    fn complete(&mut self, state: &mut PassState, helps: bool) {
        let done = self.results.len();
        for (kernel, result) in self.kernels.iter().zip(self.results.drain(..)) {
            match result {
                Some(result) => state.complete(kernel.index, result),
                None => state.complete_released(kernel.index),
            }
        }
        if let Some(rest) = self.kernels.get(done..).filter(|rest| !rest.is_empty()) {
            self.followers.clear();
            self.followers.extend(rest.iter().map(|kernel| kernel.index));
            state.put_back(&self.followers, helps || self.is_local);
        }
        self.kernels.clear();
        self.operands.clear();
    }
}

impl Pass {
    pub(super) fn run_one<'a>(
        self: &'a Arc<Self>,
        index: u32,
        mut state: MutexGuard<'a, PassState>,
    ) -> MutexGuard<'a, PassState> {
        state.close_chain(index);
        let result = self.run_kernel(index, state);
        let mut state = self.state();
        state.complete(index, result);
        state
    }

    /// Runs the kernel of this node.
    pub(super) fn run_kernel(self: &Arc<Self>, index: u32, mut state: MutexGuard<'_, PassState>) -> Result<Value> {
        // Kept alive by the table: pending slots are not swept.
        let node = state.node(index);
        state.record_effects(index, &node);
        match node.operands().len() {
            1 => {
                let mut operands = [state.take_operand(index, 0)];
                self.release(state);
                computing(self, || self.run(index, &node, &mut operands))
            }
            2 => {
                let mut operands = [state.take_operand(index, 0), state.take_operand(index, 1)];
                self.release(state);
                computing(self, || self.run(index, &node, &mut operands))
            }
            n => {
                let mut operands: Vec<Value> = (0..n).map(|which| state.take_operand(index, which)).collect();
                self.release(state);
                computing(self, || self.run(index, &node, &mut operands))
            }
        }
    }

    pub(super) fn run_chain<'a>(
        self: &'a Arc<Self>,
        run: &mut ChainRun,
        helps: bool,
        state: MutexGuard<'a, PassState>,
    ) -> MutexGuard<'a, PassState> {
        self.release(state);
        computing(self, || self.run_kernels(run));
        let mut state = self.state();
        run.complete(&mut state, helps);
        state
    }

    /// Runs the first kernel of a chain, and its followers while they fit into the budget.
    fn run_kernels(self: &Arc<Self>, run: &mut ChainRun) {
        let mut spent = 0.0;
        for &Kernel { index, node, nanoseconds, operands, is_last } in &run.kernels {
            let operands = &mut run.operands[operands..][..node.operands().len()];
            let follows = nanoseconds.is_none();
            let before = match run.results.last() {
                Some(Some(before)) if follows => match before {
                    Ok(before) => Some(before),
                    Err(error) => {
                        // Only this operand can have failed: a node with another failed input is in
                        // no chain.
                        let failed = Err(error.clone());
                        run.results.push(Some(failed));
                        continue;
                    }
                },
                _ => None,
            };
            let nanoseconds = match nanoseconds {
                Some(nanoseconds) => Ok(nanoseconds),
                None => {
                    let operands = operands.iter().map(|operand| operand.as_ref().or(before).expect(GIVEN));
                    cost(&node, &operands.collect::<OperandVec<&Value>>())
                }
            };
            let result = match nanoseconds {
                Ok(nanoseconds) => {
                    if follows
                        && (run.is_local && !prefers_driver(operation(&node), nanoseconds)
                            || spent + nanoseconds > CHAIN_NS)
                    {
                        return;
                    }
                    spent += nanoseconds;
                    let mut before = match is_last {
                        true => run.results.last_mut().and_then(Option::take).and_then(Result::ok),
                        false => before.cloned(),
                    };
                    let mut given = |operand: &mut Option<Value>| match operand.take() {
                        None if is_last => before.take().expect(GIVEN),
                        operand => operand.or_else(|| before.clone()).expect(GIVEN),
                    };
                    self.run(index, &node, &mut operands.iter_mut().map(&mut given).collect::<OperandVec<Value>>())
                }
                Err(error) => Err(error),
            };
            run.results.push(Some(result));
        }
    }

    /// Runs a kernel and drops its operands. An error or a panic becomes an error that names the
    /// operation.
    #[inline]
    fn run(self: &Arc<Self>, index: u32, node: &Node, operands: &mut [Value]) -> Result<Value> {
        let op = operation(node);
        if self.steps {
            for operand in op.operands() {
                if let NodeOp::Weight(variable, _) = &operand.op {
                    variable.meet();
                }
            }
        }
        let _built = node.enter();
        let value = || match &operands[..] {
            [a] => op.value(&[a]),
            [a, b] => op.value(&[a, b]),
            many => op.value(&many.iter().collect::<OperandVec<_>>()),
        };
        let value = || self.during(SpanWork::Kernel, Some(node), || self.traced(index), value);
        let result = user_code::run_fallible(|| value().map_err(|error| error.at(op.name(), node.site())));
        for (which, operand) in operands.iter_mut().enumerate() {
            if let Value(Repr::Any(_)) = operand {
                let value = std::mem::replace(operand, Value(Repr::F64(0.0)));
                self.discard(value, op.operands()[which].place);
            }
        }
        result.map_err(|error| error.at(op.name_or_panic(), node.site()))
    }
}

fn operation(node: &Node) -> &dyn AnyPrimitive {
    let NodeOp::Primitive(op) = &node.op else { unreachable!("kernels belong to operations") };
    &**op
}

/// The estimated cost of the kernel of this node with these operands.
fn cost(node: &Node, operands: &[&Value]) -> Result<f64> {
    let op = operation(node);
    user_code::run(|| op.cost(operands)).map_err(|error| error.at(op.name_or_panic(), node.site()))
}
