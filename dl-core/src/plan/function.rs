//! A compiled function: its operations, with placeholders for its operands.

use crate::error::call_stack::Calls;
use crate::error::{Error, Result};
use crate::graph::data::ShapeList;
use crate::graph::inline_box::InlineBox;
use crate::graph::node::{DataVTable, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use crate::plan::backward::Backwards;
use crate::plan::failed::Failed;
use crate::plan::program::{Program, Rebase, Refusal, Source, StepValues, number};
use crate::plan::schedule::Schedule;
use dl_parallel::sync::{AtomicU32, Ordering};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::fmt::Write;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

/// A function without decisions, as a program.
///
/// An input of the program is a *use*: each place where an operation, or the result, has an operand
/// of the function. The uses are in the order in which a backward walk reaches them.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(super) forward: Program,
    /// The placeholder of each use.
    pub(super) placeholders: Vec<NodeRef>,
    /// The operand of each use: its index among those of the call.
    uses: Vec<u32>,
    /// The types of the results.
    pub(super) types: Vec<&'static DataVTable>,
    /// The chain of calls in which it was first called.
    calls: Calls,
    pub(super) backwards: Backwards,
    /// For a pass that keeps no values: no step.
    pub(super) reads_nothing: Arc<[bool]>,
    /// The schedules of the forward, for passes that keep values and for those that do not.
    schedules: [Mutex<Schedules>; 2],
    pub(super) costs: Costs,
}

impl Function {
    /// The function that has built these results from these operands.
    ///
    /// # Errors
    /// The reason that it cannot be compiled.
    pub(crate) fn of(
        name: &'static str,
        results: &[NodeRef],
        operands: &[NodeRef],
    ) -> std::result::Result<Function, Refusal> {
        let mut numbers: FxHashMap<usize, u32> = FxHashMap::default();
        for (at, operand) in operands.iter().enumerate() {
            numbers.entry(operand.identity()).or_insert(number(at));
        }
        let mut uses = Vec::new();
        let mut use_of = |node: &NodeRef| {
            let &operand = numbers.get(&node.identity())?;
            uses.push((operand, node.clone()));
            Some(number(uses.len() - 1))
        };
        let mut forward = Program::of(results, &mut use_of)?;
        let types = results.iter().map(|result| result.vtable).collect();
        let order = in_walk_order(&mut forward, uses.len());
        let uses: Vec<(u32, NodeRef)> = order.iter().map(|&at| uses[at as usize].clone()).collect();
        let placeholders: Vec<NodeRef> = uses.iter().map(|(_, node)| placeholder(node.vtable, node.place)).collect();
        let calls = Calls::here();
        let nodes = forward.bound_to(&placeholders, Rebase { from: calls, to: calls })?;
        forward.set_nodes(nodes);
        Ok(Function {
            name,
            backwards: Backwards::default(),
            reads_nothing: vec![false; forward.steps.len()].into(),
            schedules: Default::default(),
            placeholders,
            uses: uses.into_iter().map(|(operand, _)| operand).collect(),
            types,
            costs: Costs::default(),
            calls,
            forward,
        })
    }

    /// The operands of a call, one for each use.
    pub(super) fn used(&self, operands: &[NodeRef]) -> Vec<NodeRef> {
        self.uses.iter().map(|&operand| operands[operand as usize].clone()).collect()
    }

    /// The operations of the forward and of the backwards, as text.
    pub(crate) fn explain(&self) -> String {
        let mut text = format!("`{}`: {} operations, one node a call\n", self.name, self.forward.steps.len());
        self.forward.print(&mut text, &|input| format!("x{}", self.uses[input as usize]));
        for schedule in &self.schedules {
            if let Some((.., schedule)) = schedule.lock().unwrap_or_else(PoisonError::into_inner).first() {
                schedule.print(&mut text);
                break;
            }
        }
        let _ = write!(text, "{}", self.backwards.explain(self.forward.steps.len()));
        text
    }
}

/// The last used schedules, each with the shapes of the operands and the steps that it keeps the
/// values of.
type Schedules = SmallVec<[(Option<ShapeList>, Arc<[bool]>, Arc<Schedule>); 1]>;

/// How many schedules a function keeps of each kind.
const MOST_SCHEDULES: usize = 8;

impl Function {
    /// Runs the forward. The values of the results, and of the steps in `reads`, are returned; all
    /// values if it is `None`.
    pub(super) fn run_forward(
        &self,
        operands: &[&Value],
        calls: Rebase,
        reads: Option<&Arc<[bool]>>,
        discards: bool,
    ) -> Result<StepValues> {
        let program = &self.forward;
        let kept = || self.schedules[usize::from(discards)].lock().unwrap_or_else(PoisonError::into_inner);
        let cost = self.cost_of(operands);
        let shapes = self.shapes(operands);
        if let Some(reads) = reads {
            let known = kept().iter().find(|(of, keeps, _)| *of == shapes && Arc::ptr_eq(keeps, reads)).cloned();
            if let Some((.., schedule)) = known {
                return schedule.run(program, operands, calls);
            }
        }
        let values = program.run(operands, calls, |_| false, |_| true)?;
        if let (Some(reads), Some(_)) = (reads, &shapes) {
            let schedule = Schedule::of(program, operands, &values, &vec![false; program.steps.len()], reads);
            cost.store((schedule.nanoseconds as u32).max(1), Ordering::Relaxed);
            let mut kept = kept();
            kept.retain(|(_, keeps, _)| Arc::ptr_eq(keeps, reads));
            kept.truncate(MOST_SCHEDULES - 1);
            kept.insert(0, (shapes, reads.clone(), Arc::new(schedule)));
        }
        Ok(values)
    }
}

/// Numbers the uses in the order in which a backward walk reaches them: those that are results, and
/// then from the last step to the first, operand by operand. Returns the former numbers.
fn in_walk_order(program: &mut Program, uses: usize) -> Vec<u32> {
    let mut order = Vec::with_capacity(uses);
    let (results, steps) = (&mut program.results, &mut program.steps);
    let sources = results.iter_mut().chain(steps.iter_mut().rev().flat_map(|step| step.inputs.iter_mut()));
    for source in sources {
        if let Source::Input(input) = source {
            order.push(std::mem::replace(input, number(order.len())));
        }
    }
    order
}

/// A node that stands for an operand or a delta of any call.
pub(super) fn placeholder(vtable: &'static DataVTable, place: &'static Location<'static>) -> NodeRef {
    NodeRef::of_type(vtable, placeholder_op(), place)
}

pub(super) fn placeholder_op() -> NodeOp {
    NodeOp::Primitive(InlineBox::operation(Failed(Error::invalid("a placeholder has no value"))))
}

/// The estimated time of the forward, in nanoseconds, for operands of each order of magnitude; 0 if it
/// is not known yet. An estimate decides where a kernel runs, never its value, so the atomics are
/// relaxed.
pub(super) struct Costs([AtomicU32; SIZES]);

/// The number of orders of magnitude: powers of two of the bytes of all operands.
const SIZES: usize = 40;
/// The estimate, in nanoseconds, for a step of a forward that has not run yet.
const STEP_NS: f64 = 300.0;

impl Default for Costs {
    fn default() -> Self {
        Costs(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl Function {
    fn cost_of(&self, operands: &[&Value]) -> &AtomicU32 {
        let bytes = self.placeholders.iter().zip(operands).map(|(node, value)| (node.vtable.bytes)(value));
        let size = bytes.sum::<usize>().max(1).ilog2() as usize;
        &self.costs.0[size.min(SIZES - 1)]
    }

    /// The estimated time of the forward, in nanoseconds.
    pub(super) fn forward_cost(&self, operands: &[&Value]) -> f64 {
        match self.cost_of(operands).load(Ordering::Relaxed) {
            0 => STEP_NS * self.forward.steps.len() as f64,
            known => f64::from(known),
        }
    }

    /// For the errors of a call that was written in this chain.
    pub(super) fn rebase(&self, to: Calls) -> Rebase {
        Rebase { from: self.calls, to }
    }

    /// The memory of these values of the forward, in bytes.
    pub(super) fn bytes_of_steps(&self, values: &StepValues) -> usize {
        let steps = self.forward.steps.iter().zip(values);
        steps.filter_map(|(step, value)| Some((step.node.vtable.bytes)(value.as_ref()?))).sum()
    }
}
