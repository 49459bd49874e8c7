//! The order in which the steps of a program run, with small operations together as basic blocks.
//!
//! A schedule is made from the values of a first run, for operands of their shapes.

use crate::error::Result;
use crate::exec::user_code;
use crate::graph::basic_block::{BlockOp, ElementType, Part};
use crate::graph::node::NodeOp;
use crate::graph::value::Value;
use crate::plan::lowering::{BlockTask, OpOfStep};
use crate::plan::program::{Program, Rebase, Source, StepValues, number};
use smallvec::SmallVec;
use std::fmt::Write;

pub(super) struct Schedule {
    tasks: Vec<Task>,
    /// The estimated time of a run.
    pub(super) nanoseconds: f64,
}

/// The part of the estimated time of an operation that it does not take in a block: a new tensor,
/// and checks of the operands.
const OVERHEAD_NS: f64 = 150.0;
/// The least time of an operation in a block.
const IN_BLOCK_NS: f64 = 20.0;

struct Task {
    work: Work,
    /// The steps with values that no later task reads.
    last_reads: SmallVec<[u32; 4]>,
}

enum Work {
    Step(u32),
    Block(BlockTask),
}

impl Schedule {
    /// The schedule of a program, given its values for some inputs. Deferred steps are left out. The
    /// values of results, and of steps in `keeps`, are returned.
    pub(super) fn of(
        program: &Program,
        inputs: &[&Value],
        values: &StepValues,
        is_deferred: &[bool],
        keeps: &[bool],
    ) -> Schedule {
        let keeps: Vec<bool> = keeps.iter().zip(&program.is_result).map(|(&kept, &result)| kept || result).collect();
        let block_op = |at: usize| {
            let step = &program.steps[at];
            let NodeOp::Primitive(op) = &step.node.op else { return None };
            let operands: SmallVec<[&Value; 8]> =
                step.inputs.iter().map(|&input| program.value(input, inputs, values)).collect();
            let value = values[at].as_ref()?;
            let whole = || Some(BlockOp::Part(Part::whole((step.node.vtable.elements)(value)?.len())));
            let op = if op.is_identity() { whole() } else { op.block_op(&operands, value) };
            Some((op?, step.node.vtable.element?))
        };
        let mut ops: Vec<_> = (0..program.steps.len()).map(|at| block_op(at).filter(|_| !is_deferred[at])).collect();
        // A block copies a part with gaps. Operations that depend on the layout must not read the copy.
        let has_gaps = |op: &OpOfStep| matches!(op, Some((BlockOp::Part(part), _)) if part.range().is_none());
        for at in (0..ops.len()).filter(|&at| has_gaps(&ops[at])).collect::<Vec<_>>() {
            let mut readers =
                program.steps.iter().zip(&ops).filter(|(step, _)| step.inputs.contains(&Source::Step(number(at))));
            let is_pointwise = |op: &OpOfStep| op.as_ref().is_some_and(|(op, _)| op.is_pointwise());
            if keeps[at] || !readers.all(|(_, op)| is_pointwise(op)) {
                ops[at] = None;
            }
        }
        // A step belongs to a phase: those of blocks to odd ones, and others to even ones. All that
        // it reads belongs to the same phase or an earlier one.
        let mut phases: Vec<usize> = Vec::with_capacity(program.steps.len());
        for (step, op) in program.steps.iter().zip(&ops) {
            let phase_of = |input: &Source| match *input {
                Source::Step(read) => phases[read as usize],
                Source::Input(_) | Source::Constant(_) => 0,
            };
            let last = step.inputs.iter().map(phase_of).max().unwrap_or(0);
            phases.push(last + usize::from((last % 2 == 1) != op.is_some()));
        }
        let mut order: Vec<usize> = (0..program.steps.len()).filter(|&at| !is_deferred[at]).collect();
        order.sort_by_key(|&at| phases[at]);
        let cost = |at: usize| program.cost(at, inputs, values);
        let (mut works, mut nanoseconds) = (Vec::new(), 0.0);
        for phase in order.chunk_by(|&a, &b| phases[a] == phases[b]) {
            for element in [Some(ElementType::F32), Some(ElementType::F64), None] {
                let of = |&&at: &&usize| ops[at].as_ref().map(|&(_, element)| element) == element;
                let members: Vec<usize> = phase.iter().filter(of).copied().collect();
                let block = match members[..] {
                    [] | [_] => None,
                    _ => BlockTask::of(program, &members, &ops, (inputs, values), &keeps),
                };
                match block {
                    Some(block) => {
                        let in_block = |&at: &usize| (cost(at) - OVERHEAD_NS).max(IN_BLOCK_NS);
                        nanoseconds += OVERHEAD_NS + members.iter().map(in_block).sum::<f64>();
                        works.push(Work::Block(block));
                    }
                    None => {
                        nanoseconds += members.iter().map(|&at| cost(at)).sum::<f64>();
                        works.extend(members.into_iter().map(|at| Work::Step(number(at))));
                    }
                }
            }
        }
        Schedule { tasks: with_last_reads(program, works, &keeps), nanoseconds }
    }

    /// Runs the program.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub(super) fn run(&self, program: &Program, inputs: &[&Value], calls: Rebase) -> Result<StepValues> {
        let mut values: StepValues = vec![None; program.steps.len()];
        for Task { work, last_reads } in &self.tasks {
            let steps = match work {
                Work::Step(at) => std::slice::from_ref(at),
                Work::Block(block) if runs(|| block.run(program, inputs, &mut values)) => &[],
                Work::Block(block) => &block.members[..],
            };
            for &at in steps {
                match program.step_value(&program.steps[at as usize], inputs, &values, calls) {
                    Ok(value) => values[at as usize] = Some(value),
                    // In the order of the function another step may fail first.
                    failed => return program.run(inputs, calls, |_| false, |_| false).and(failed.map(|_| values)),
                }
            }
            if let (Work::Block(block), [_, ..]) = (work, steps) {
                block.keep_results(&mut values);
            }
            for &read in last_reads {
                values[read as usize] = None;
            }
        }
        Ok(values)
    }

    /// One line for each block.
    pub(super) fn print(&self, text: &mut String) {
        for task in &self.tasks {
            if let Work::Block(block) = &task.work {
                let members: Vec<String> = block.members.iter().map(|member| format!("%{member}")).collect();
                let _ = writeln!(text, "  one kernel, {} bytes: {}", block.bytes, members.join(", "));
            }
        }
    }
}

/// Whether a block runs. If its kernel panics, its steps must run one by one, to find the one that
/// fails.
fn runs(block: impl FnOnce() -> bool) -> bool {
    user_code::run(block).unwrap_or(false)
}

/// The tasks, each with the steps that it is the last to read.
fn with_last_reads(program: &Program, works: Vec<Work>, keeps: &[bool]) -> Vec<Task> {
    let mut is_read = keeps.to_vec();
    let mut tasks: Vec<Task> = Vec::with_capacity(works.len());
    for work in works.into_iter().rev() {
        let mut last_reads = SmallVec::new();
        let mut read = |source: &Source| {
            if let &Source::Step(step) = source
                && !std::mem::replace(&mut is_read[step as usize], true)
            {
                last_reads.push(step);
            }
        };
        match &work {
            Work::Step(at) => program.steps[*at as usize].inputs.iter().for_each(&mut read),
            Work::Block(block) => block.inputs.iter().for_each(|input| read(&input.source)),
        }
        tasks.push(Task { work, last_reads });
    }
    tasks.reverse();
    tasks
}
