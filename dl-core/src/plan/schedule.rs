//! The order in which the steps of a program run, with runs of pointwise operations as one kernel.
//!
//! A schedule is made from the values of a first run: their shapes say which operations can be run
//! together. Operands of other shapes are no error: such a group runs step by step.

use crate::error::Result;
use crate::graph::data::ShapeList;
use crate::graph::node::{DataVTable, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::pointwise::{PointwiseInstruction, PointwiseOp};
use crate::graph::value::Value;
use crate::plan::program::{Program, Rebase, Source, Step, StepValues, number};
use dl_math::Binary;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::any::TypeId;
use std::fmt::Write;

pub(super) struct Schedule {
    tasks: Vec<Task>,
    /// For each step, whether its value is returned.
    keeps: Vec<bool>,
}

struct Task {
    work: Work,
    /// The steps with values that no later task reads.
    last_reads: SmallVec<[u32; 4]>,
}

enum Work {
    Step(u32),
    Group(Group),
}

/// Pointwise operations on values of one type and shape.
struct Group {
    vtable: &'static DataVTable,
    /// The steps, in order.
    members: Vec<u32>,
    inputs: Vec<Source>,
    instructions: Vec<PointwiseInstruction>,
    /// The registers that are read outside of the group, and their steps.
    results: Vec<usize>,
    steps_of_results: Vec<u32>,
}

/// The type and the shape of a value.
type Kind = (TypeId, ShapeList);

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
        let kind = |source: Source, vtable: &DataVTable| -> Option<Kind> {
            if let Source::Step(step) = source {
                values[step as usize].as_ref()?;
            }
            let mut shape = ShapeList::default();
            (vtable.shape)(program.value(source, inputs, values), &mut shape).then(|| ((vtable.id)(), shape))
        };
        // The operation of a step on values of its own type and shape.
        let pointwise = |at: usize| -> Option<(PointwiseOp, Kind)> {
            let step = &program.steps[at];
            let NodeOp::Primitive(op) = &step.node.op else { return None };
            let op = match op.pointwise() {
                None if op.is_sum() && step.inputs.len() == 2 => PointwiseOp::Binary(Binary::Add),
                op => op?,
            };
            let own = kind(Source::Step(number(at)), step.node.vtable)?;
            let operands = step.inputs.iter().zip(step.node.operands());
            let is_same = |(&input, operand): (&Source, &NodeRef)| kind(input, operand.vtable).as_ref() == Some(&own);
            let mut operands = operands;
            operands.all(is_same).then_some((op, own))
        };
        let ops: Vec<Option<(PointwiseOp, Kind)>> = (0..program.steps.len()).map(pointwise).collect();
        // A step belongs to a phase: pointwise operations to odd ones, and others to even ones. All
        // that it reads belongs to the same phase or an earlier one.
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
        let mut works: Vec<Work> = Vec::new();
        for phase in order.chunk_by(|&a, &b| phases[a] == phases[b]) {
            let mut groups: Vec<(&Kind, Vec<usize>)> = Vec::new();
            for &at in phase {
                let Some((_, kind)) = &ops[at] else {
                    works.push(Work::Step(number(at)));
                    continue;
                };
                match groups.iter_mut().find(|(known, _)| *known == kind) {
                    Some((_, members)) => members.push(at),
                    None => groups.push((kind, vec![at])),
                }
            }
            for (_, members) in groups {
                works.push(match members[..] {
                    [alone] => Work::Step(number(alone)),
                    _ => Work::Group(Group::of(program, &members, &ops, keeps)),
                });
            }
        }
        let keeps: Vec<bool> = keeps.iter().zip(&program.is_result).map(|(&kept, &result)| kept || result).collect();
        Schedule { tasks: with_last_reads(program, works, &keeps), keeps }
    }

    /// Runs the program.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub(super) fn run(&self, program: &Program, inputs: &[&Value], calls: Rebase) -> Result<StepValues> {
        let mut values: StepValues = vec![None; program.steps.len()];
        for Task { work, last_reads } in &self.tasks {
            let ran = match work {
                Work::Step(at) => {
                    let step = &program.steps[*at as usize];
                    program.step_value(step, inputs, &values, calls).map(|value| values[*at as usize] = Some(value))
                }
                Work::Group(group) => group.run(program, inputs, &mut values, calls, &self.keeps),
            };
            if ran.is_err() {
                // In the order of the function another step may fail first.
                return program.run(inputs, calls, |_| false, |_| false).and(ran.map(|()| values));
            }
            for &read in last_reads {
                values[read as usize] = None;
            }
        }
        Ok(values)
    }

    /// One line for each group.
    pub(super) fn print(&self, text: &mut String) {
        for task in &self.tasks {
            if let Work::Group(group) = &task.work {
                let members: Vec<String> = group.members.iter().map(|member| format!("%{member}")).collect();
                let _ = writeln!(text, "  one kernel for small operands: {}", members.join(", "));
            }
        }
    }
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
            Work::Group(group) => group.inputs.iter().for_each(&mut read),
        }
        tasks.push(Task { work, last_reads });
    }
    tasks.reverse();
    tasks
}

impl Group {
    fn of(program: &Program, members: &[usize], ops: &[Option<(PointwiseOp, Kind)>], keeps: &[bool]) -> Group {
        let mut inputs: Vec<Source> = Vec::new();
        let is_member = |source: &Source| matches!(*source, Source::Step(step) if members.contains(&(step as usize)));
        for &at in members {
            for input in &program.steps[at].inputs {
                if !is_member(input) && !inputs.contains(input) {
                    inputs.push(*input);
                }
            }
        }
        let registers: FxHashMap<usize, usize> =
            members.iter().enumerate().map(|(register, &at)| (at, inputs.len() + register)).collect();
        let register = |source: &Source| match *source {
            Source::Step(step) if registers.contains_key(&(step as usize)) => registers[&(step as usize)],
            source => inputs.iter().position(|&input| input == source).expect("it was listed"),
        };
        let instruction = |&at: &usize| {
            let (op, _) = ops[at].as_ref().expect("a member is pointwise");
            let reads = &program.steps[at].inputs;
            let first = register(&reads[0]);
            PointwiseInstruction { op: *op, reads: [first, reads.get(1).map_or(first, &register)] }
        };
        let instructions = members.iter().map(instruction).collect();
        let is_read_outside = |&&at: &&usize| {
            let reads = |step: &Step| step.inputs.contains(&Source::Step(number(at)));
            let others = program.steps.iter().enumerate().filter(|(other, _)| !members.contains(other));
            keeps[at] || program.is_result[at] || others.into_iter().any(|(_, step)| reads(step))
        };
        let outside: Vec<usize> = members.iter().filter(is_read_outside).copied().collect();
        let results = outside.iter().map(|at| registers[at]).collect();
        let steps_of_results = outside.into_iter().map(number).collect();
        let vtable = program.steps[members[0]].node.vtable;
        let members = members.iter().map(|&at| number(at)).collect();
        Group { vtable, members, inputs, instructions, results, steps_of_results }
    }

    fn run(
        &self,
        program: &Program,
        inputs: &[&Value],
        values: &mut StepValues,
        calls: Rebase,
        keeps: &[bool],
    ) -> Result<()> {
        let computed = {
            let values = &*values;
            let operands: SmallVec<[&Value; 16]> =
                self.inputs.iter().map(|&input| program.value(input, inputs, values)).collect();
            (self.vtable.run_pointwise)(&self.instructions, &operands, &self.results)
        };
        if let Some(computed) = computed {
            for (&step, value) in self.steps_of_results.iter().zip(computed) {
                values[step as usize] = Some(value);
            }
            return Ok(());
        }
        for &at in &self.members {
            values[at as usize] = Some(program.step_value(&program.steps[at as usize], inputs, values, calls)?);
        }
        for &at in self.members.iter().filter(|at| !self.steps_of_results.contains(at) && !keeps[**at as usize]) {
            values[at as usize] = None;
        }
        Ok(())
    }
}
