//! Running kernels, outside the lock of the books.

use super::books::Books;
use super::context::computing;
use super::schedule::stays;
use super::{Keep, Pass};
use crate::error::{Error, Result};
use crate::node::{Expression, Held, Node};
use crate::primitive::{AnyPrimitive, Few};
use crate::record::SpanWork;
use crate::sync::MutexGuard;
use crate::value::{Repr, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A worker runs about so much of a chain before it takes the lock again: others may wait for what
/// it has computed. The rest goes back to the queue.
const CHAIN_NANOSECONDS: f64 = 50_000.0;

/// A chain that is being run. The tables are reused.
#[derive(Default)]
pub(super) struct ChainRun {
    kernels: Vec<Kernel>,
    /// What they need; none where that is the result of the kernel before.
    operands: Vec<Option<Value>>,
    /// Those of the kernels that have been run; none where the next one was the last that needed
    /// it.
    results: Vec<Option<Result<Value>>>,
    followers: Vec<u32>,
    /// Whether no other thread was invited for it: then an operation that is worth that goes back
    /// to the queue.
    stays: bool,
}

const GIVEN: &str = "what an operation needs is there, or comes from the one that it follows";

#[derive(Clone, Copy)]
struct Kernel {
    index: u32,
    /// Alive: what is pending is not swept.
    node: Held,
    /// How long it takes; of those that follow another it is not known before that has been run.
    nanoseconds: Option<f64>,
    /// Where its operands are.
    operands: usize,
    /// Whether nobody else needs the result of the kernel before.
    is_last: bool,
}

impl Books {
    /// Takes a chain whose first operation has left the queue. If that stays (see `queue.rs`) only
    /// what is small is run.
    pub(super) fn take_chain_to_run(&mut self, index: u32, (nanoseconds, stays): (f64, bool), batch: &mut ChainRun) {
        batch.stays = stays;
        let mut followers = std::mem::take(&mut batch.followers);
        self.take_chain(index, &mut followers);
        self.take_kernel(index, Some(nanoseconds), batch);
        for &follower in &followers {
            let before = batch.kernels.last().expect("the first is there").index;
            self.take_kernel(follower, None, batch);
            batch.kernels.last_mut().expect("it was taken").is_last = self.goes_with_next(before);
        }
        batch.followers = followers;
    }

    fn take_kernel(&mut self, index: u32, nanoseconds: Option<f64>, batch: &mut ChainRun) {
        let node = self.node(index);
        let first = batch.operands.len();
        batch.kernels.push(Kernel { index, node, nanoseconds, operands: first, is_last: false });
        if nanoseconds.is_some() {
            self.note_effects(index, &node);
            batch.operands.extend((0..node.operands().len()).map(|which| Some(self.take_operand(index, which))));
            return;
        }
        let mut trained = false;
        for which in 0..node.operands().len() {
            let operand = self.operand(index, which);
            trained |= self.trained(operand);
            // the books keep it until this kernel is written down
            batch.operands.push(self.outcome(operand).and_then(Result::ok));
        }
        self.entries[index as usize].trained = trained;
    }

    /// The kernel of this entry is about to run, and its operands are there.
    fn note_effects(&mut self, index: u32, node: &Node) {
        if self.keep == Keep::Nothing || self.is_evaluated_again(index) {
            return;
        }
        if let Expression::Primitive(op) = &node.expression
            && let Some(update) = op.update()
        {
            self.updates.push(index);
            let new = self.operand(index, update.new);
            self.keep_value(new);
        }
        if node.is_mark() {
            self.close_segment(self.operand(index, 0));
        }
    }
}

impl ChainRun {
    /// Writes down what has been run. The rest of a chain goes back to where it was taken from.
    fn write_down(&mut self, books: &mut Books, helps: bool) {
        let done = self.results.len();
        for (kernel, result) in self.kernels.iter().zip(self.results.drain(..)) {
            match result {
                Some(result) => books.finish(kernel.index, result),
                None => books.finish_and_let_go(kernel.index),
            }
        }
        if let Some(rest) = self.kernels.get(done..).filter(|rest| !rest.is_empty()) {
            self.followers.clear();
            self.followers.extend(rest.iter().map(|kernel| kernel.index));
            books.put_back(&self.followers, helps || self.stays);
        }
        self.kernels.clear();
        self.operands.clear();
    }
}

impl Pass {
    pub(super) fn run_one<'a>(
        self: &'a Arc<Self>,
        index: u32,
        mut books: MutexGuard<'a, Books>,
    ) -> MutexGuard<'a, Books> {
        books.close_chain(index);
        let result = self.run_kernel(index, books);
        let mut books = self.books();
        books.finish(index, result);
        books
    }

    /// Runs the kernel of this entry.
    pub(super) fn run_kernel(self: &Arc<Self>, index: u32, mut books: MutexGuard<'_, Books>) -> Result<Value> {
        // alive: what is pending is not swept
        let node = books.node(index);
        books.note_effects(index, &node);
        match node.operands().len() {
            1 => {
                let mut operands = [books.take_operand(index, 0)];
                self.release(books);
                computing(self, || self.run(index, &node, &mut operands))
            }
            2 => {
                let mut operands = [books.take_operand(index, 0), books.take_operand(index, 1)];
                self.release(books);
                computing(self, || self.run(index, &node, &mut operands))
            }
            n => {
                let mut operands: Vec<Value> = (0..n).map(|which| books.take_operand(index, which)).collect();
                self.release(books);
                computing(self, || self.run(index, &node, &mut operands))
            }
        }
    }

    pub(super) fn run_chain<'a>(
        self: &'a Arc<Self>,
        batch: &mut ChainRun,
        helps: bool,
        books: MutexGuard<'a, Books>,
    ) -> MutexGuard<'a, Books> {
        self.release(books);
        computing(self, || self.run_kernels(batch));
        let mut books = self.books();
        batch.write_down(&mut books, helps);
        books
    }

    /// Runs the first kernel of a chain, and others as far as they fit into the budget.
    fn run_kernels(self: &Arc<Self>, batch: &mut ChainRun) {
        let mut spent = 0.0;
        for &Kernel { index, node, nanoseconds, operands, is_last } in &batch.kernels {
            let operands = &mut batch.operands[operands..][..node.operands().len()];
            let follows = nanoseconds.is_none();
            let before = match batch.results.last() {
                Some(Some(before)) if follows => match before {
                    Ok(before) => Some(before),
                    Err(error) => {
                        // nothing else of what it needs can have failed
                        let failed = Err(error.clone());
                        batch.results.push(Some(failed));
                        continue;
                    }
                },
                _ => None,
            };
            let nanoseconds = match nanoseconds {
                Some(nanoseconds) => Ok(nanoseconds),
                None => {
                    let operands = operands.iter().map(|operand| operand.as_ref().or(before).expect(GIVEN));
                    cost(&node, &operands.collect::<Few<&Value>>())
                }
            };
            let result = match nanoseconds {
                Ok(nanoseconds) => {
                    if follows
                        && (batch.stays && !stays(operation(&node), nanoseconds)
                            || spent + nanoseconds > CHAIN_NANOSECONDS)
                    {
                        return;
                    }
                    spent += nanoseconds;
                    let mut before = match is_last {
                        true => batch.results.last_mut().and_then(Option::take).and_then(Result::ok),
                        false => before.cloned(),
                    };
                    let mut given = |operand: &mut Option<Value>| match operand.take() {
                        None if is_last => before.take().expect(GIVEN),
                        operand => operand.or_else(|| before.clone()).expect(GIVEN),
                    };
                    self.run(index, &node, &mut operands.iter_mut().map(&mut given).collect::<Few<Value>>())
                }
                Err(error) => Err(error),
            };
            batch.results.push(Some(result));
        }
    }

    /// Runs a kernel and lets go of its operands. Whatever goes wrong is an error, which points to
    /// the operation.
    #[inline]
    fn run(self: &Arc<Self>, index: u32, node: &Node, operands: &mut [Value]) -> Result<Value> {
        let op = operation(node);
        if self.steps {
            for operand in op.operands() {
                if let Expression::Weight(variable, _) = &operand.expression {
                    variable.meet();
                }
            }
        }
        let _built = node.enter();
        let value = || match &operands[..] {
            [a] => op.value(&[a]),
            [a, b] => op.value(&[a, b]),
            many => op.value(&many.iter().collect::<Few<_>>()),
        };
        let value = || self.during(SpanWork::Kernel, Some(node), || self.told(index), value);
        let result = catch_unwind(AssertUnwindSafe(|| value().map_err(|error| error.at(op.name(), node.site()))));
        for (which, operand) in operands.iter_mut().enumerate() {
            // in the usual case somebody else has it still
            if let Value(Repr::Any(_)) = operand {
                let value = std::mem::replace(operand, Value(Repr::F64(0.0)));
                self.discard(value, op.operands()[which].place);
            }
        }
        result.unwrap_or_else(|payload| Err(Error::panic(payload).at(op.name_or_panic(), node.site())))
    }
}

fn operation(node: &Node) -> &dyn AnyPrimitive {
    let Expression::Primitive(op) = &node.expression else { unreachable!("kernels belong to operations") };
    &**op
}

/// How long the kernel of this node takes with these operands, or the panic of whoever was asked.
fn cost(node: &Node, operands: &[&Value]) -> Result<f64> {
    let op = operation(node);
    catch_unwind(AssertUnwindSafe(|| op.cost(operands)))
        .map_err(|payload| Error::panic(payload).at(op.name_or_panic(), node.site()))
}
