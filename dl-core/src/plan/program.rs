//! A program: operations in the order in which they run, with numbered operands.

use crate::error::call_context::Site;
use crate::error::call_stack::Calls;
use crate::error::{Error, Result};
use crate::exec::{self, user_code};
use crate::graph::identity::Effect;
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{InnerOperand, InnerOperation, OperandVec};
use crate::graph::scalar::Scalar;
use crate::graph::value::Value;
use crate::plan::updates::Update;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::fmt::Write;
use std::panic::Location;

/// The estimated time of scalar arithmetic in a program, in nanoseconds.
const SCALAR_NS: f64 = 15.0;

/// The origin of an operand or of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Input(u32),
    Step(u32),
    Constant(u32),
}

/// An operation of a program.
pub(super) struct Step {
    /// The operation. Its operands are placeholders, constants and nodes of earlier steps.
    pub(super) node: NodeRef,
    pub(super) inputs: SmallVec<[Source; 3]>,
    /// The steps with values that no later step reads.
    pub(super) last_reads: SmallVec<[u32; 2]>,
}

/// Operations in order.
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    constants: Vec<(NodeRef, Value)>,
    pub(super) results: Vec<Source>,
    /// The updates of buffers. Their new values are the last results.
    pub(super) updates: Vec<Update>,
    /// For each step, whether it is a result.
    pub(super) is_result: Vec<bool>,
    pub(super) is_pure: bool,
    /// Of a forward, whether layers that depend on the mode are those for training.
    trains: Option<bool>,
}

/// The reason that a graph cannot be a program, and the node that it is about.
pub(crate) struct Refusal {
    pub(crate) why: &'static str,
    pub(crate) name: &'static str,
    pub(crate) site: Site,
}

impl Refusal {
    pub(super) fn new(node: &NodeRef, why: &'static str) -> Refusal {
        Refusal { why, name: node.name_or_panic(), site: node.site() }
    }
}

/// The chain of calls in which the function was first called, and the chain of this call: the
/// operations have the first one.
#[derive(Clone, Copy)]
pub(super) struct Rebase {
    pub(super) from: Calls,
    pub(super) to: Calls,
    /// The place of this call, if its operations have it, too.
    pub(super) place: Option<&'static Location<'static>>,
}

impl Rebase {
    /// The location of an operation of this call.
    pub(super) fn site(self, node: &NodeRef) -> Site {
        Site { place: self.place.unwrap_or(node.place), calls: node.calls().rebased(self.from, self.to) }
    }
}

/// The values of the steps: those that are kept, and the results.
pub(super) type StepValues = Vec<Option<Value>>;

impl Program {
    /// The program that computes these results, in a forward by the layers for training or by those
    /// for evaluation. `input` numbers the inputs; it is called whenever one is an operand or a
    /// result. `operand` is the index of a buffer among the operands.
    pub(super) fn of(
        results: &[NodeRef],
        trains: Option<bool>,
        mut input: impl FnMut(&NodeRef) -> Option<u32>,
        operand: impl Fn(&NodeRef) -> Option<u32>,
    ) -> std::result::Result<Program, Refusal> {
        let mut program = Program {
            steps: Vec::new(),
            constants: Vec::new(),
            results: Vec::new(),
            updates: Vec::new(),
            is_result: Vec::new(),
            is_pure: true,
            trains,
        };
        let mut known = FxHashMap::default();
        for result in results {
            let source = program.add(result, &mut input, &operand, &mut known)?;
            program.results.push(source);
        }
        program.results.extend(program.updates.iter().map(|update| update.new));
        program.note_last_reads();
        Ok(program)
    }

    /// Adds a node, after all that it depends on. The traversal is that of a pass: depth first, the
    /// first operand first.
    fn add(
        &mut self,
        root: &NodeRef,
        input: &mut impl FnMut(&NodeRef) -> Option<u32>,
        operand: &impl Fn(&NodeRef) -> Option<u32>,
        known: &mut FxHashMap<usize, Source>,
    ) -> std::result::Result<Source, Refusal> {
        let mut open: Vec<(&NodeRef, SmallVec<[Source; 3]>)> = Vec::new();
        let mut next = Some(root);
        loop {
            let source = match next {
                Some(node) => match self.leaf(node, input, operand, known)? {
                    Some(source) => source,
                    None => {
                        open.push((node, SmallVec::new()));
                        next = self.operands(node).first();
                        if next.is_some() {
                            continue;
                        }
                        self.close(&mut open, operand, known)
                    }
                },
                None => self.close(&mut open, operand, known),
            };
            let Some((node, inputs)) = open.last_mut() else { return Ok(source) };
            inputs.push(source);
            next = self.operands(node).get(inputs.len());
        }
    }

    /// The operands of a node; of a choice by mode, the layer that it picks; of an update, all but the
    /// buffer.
    fn operands<'a>(&self, node: &'a NodeRef) -> &'a [NodeRef] {
        match (node.by_mode(), self.trains) {
            (Some(layers), Some(trains)) => std::slice::from_ref(&layers[usize::from(!trains)]),
            _ if node.effect() == Some(Effect::Update) => &node.operands()[..Effect::BUFFER],
            _ => node.operands(),
        }
    }

    /// The source of a node that needs no step of its own.
    fn leaf(
        &mut self,
        node: &NodeRef,
        input: &mut impl FnMut(&NodeRef) -> Option<u32>,
        operand: &impl Fn(&NodeRef) -> Option<u32>,
        known: &FxHashMap<usize, Source>,
    ) -> std::result::Result<Option<Source>, Refusal> {
        if let Some(number) = input(node) {
            return Ok(Some(Source::Input(number)));
        }
        if let Some(&source) = known.get(&node.address()) {
            return Ok(Some(source));
        }
        if let Some(value) = node.op.as_constant() {
            self.constants.push((node.clone(), value));
            return Ok(Some(Source::Constant(number(self.constants.len() - 1))));
        }
        match &node.op {
            NodeOp::Weight(..) => {
                Err(Refusal::new(node, "is a weight or a buffer that no argument of the function has"))
            }
            NodeOp::Seed(_) if self.trains.is_none() => Err(Refusal::new(node, "draws a random number")),
            NodeOp::Dynamic(_) if self.trains.is_none() || node.by_mode().is_none() => {
                Err(Refusal::new(node, "decides by a value, or by the mode of the pass"))
            }
            NodeOp::Primitive(op) => match op.effect() {
                Some(Effect::Update) if operand(&node.operands()[Effect::BUFFER]).is_none() => {
                    Err(Refusal::new(node, "updates a buffer that no argument of the function has"))
                }
                Some(Effect::Update) => Ok(None),
                Some(Effect::Checkpoint) => Err(Refusal::new(node, "is a checkpoint")),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Adds the step of the innermost open node. Its operands are known.
    fn close(
        &mut self,
        open: &mut Vec<(&NodeRef, SmallVec<[Source; 3]>)>,
        operand: &impl Fn(&NodeRef) -> Option<u32>,
        known: &mut FxHashMap<usize, Source>,
    ) -> Source {
        let (node, mut inputs) = open.pop().expect("a node is open");
        let step = number(self.steps.len());
        let source = Source::Step(step);
        known.insert(node.address(), source);
        if node.effect() == Some(Effect::Update) {
            let new = inputs.pop().expect("the new value comes last");
            let buffer = operand(&node.operands()[Effect::BUFFER]).expect("this was checked before");
            self.updates.push(Update { step, new, buffer });
        }
        self.is_pure &= match &node.op {
            NodeOp::Primitive(op) => op.is_pure() || op.effect().is_some(),
            _ => true, // scalar arithmetic, a seed, or a choice by mode
        };
        self.steps.push(Step { node: node.clone(), inputs, last_reads: SmallVec::new() });
        source
    }

    fn note_last_reads(&mut self) {
        self.is_result = vec![false; self.steps.len()];
        for result in &self.results {
            if let &Source::Step(step) = result {
                self.is_result[step as usize] = true;
            }
        }
        let mut is_read = self.is_result.clone();
        for step in self.steps.iter_mut().rev() {
            for input in &step.inputs {
                if let &Source::Step(read) = input
                    && !std::mem::replace(&mut is_read[read as usize], true)
                {
                    step.last_reads.push(read);
                }
            }
        }
    }

    /// The nodes of the steps, bound to these inputs, as built in the chain of this call.
    ///
    /// # Errors
    /// If an operation is not of the library.
    pub(super) fn bound_to(&self, inputs: &[NodeRef], calls: Rebase) -> std::result::Result<Vec<NodeRef>, Refusal> {
        let mut nodes: Vec<NodeRef> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let operands: OperandVec<NodeRef> =
                step.inputs.iter().map(|&input| self.node(input, inputs, &nodes)).collect();
            let refused =
                || Refusal::new(&step.node, "is an operation of user code, or one whose shape depends on values");
            let op = step.node.op.bound_to(&operands).ok_or_else(refused)?;
            let site = calls.site(&step.node);
            let _context = step.node.enter_at(site);
            nodes.push(NodeRef::of_type(step.node.vtable, op, site.place));
        }
        Ok(nodes)
    }

    /// The node of a source, given those of inputs and steps.
    pub(super) fn node(&self, source: Source, inputs: &[NodeRef], steps: &[NodeRef]) -> NodeRef {
        match source {
            Source::Input(input) => inputs[input as usize].clone(),
            Source::Step(step) => steps[step as usize].clone(),
            Source::Constant(constant) => self.constants[constant as usize].0.clone(),
        }
    }

    /// Replaces the nodes of the steps, which must be the same operations.
    pub(super) fn set_nodes(&mut self, nodes: Vec<NodeRef>) {
        for (step, node) in self.steps.iter_mut().zip(nodes) {
            step.node = node;
        }
    }

    /// The value of a source.
    pub(super) fn value<'a>(&'a self, source: Source, inputs: &[&'a Value], steps: &'a [Option<Value>]) -> &'a Value {
        match source {
            Source::Input(input) => inputs[input as usize],
            Source::Step(step) => steps[step as usize].as_ref().expect("a step runs after those that it reads"),
            Source::Constant(constant) => &self.constants[constant as usize].1,
        }
    }

    /// Runs the steps. The values of results, and of steps for which `keeps` holds, are returned;
    /// any other value is dropped after its last use. Steps for which `skips` holds are left out.
    ///
    /// # Errors
    /// The first error of an operation, which names it and its source location.
    pub(super) fn run(
        &self,
        inputs: &[&Value],
        calls: Rebase,
        skips: impl Fn(usize) -> bool,
        keeps: impl Fn(usize) -> bool,
    ) -> Result<StepValues> {
        let mut values: StepValues = Vec::with_capacity(self.steps.len());
        for (at, step) in self.steps.iter().enumerate() {
            if skips(at) {
                values.push(None);
                continue;
            }
            values.push(None);
            values[at] = Some(self.step_value(step, inputs, &values, calls)?);
            for &read in &step.last_reads {
                if !keeps(read as usize) {
                    values[read as usize] = None;
                }
            }
        }
        Ok(values)
    }

    /// The value of a step, given those before.
    ///
    /// # Errors
    /// Those of the operation.
    pub(super) fn step_value(
        &self,
        step: &Step,
        inputs: &[&Value],
        values: &StepValues,
        calls: Rebase,
    ) -> Result<Value> {
        let operands: OperandVec<&Value> = step.inputs.iter().map(|&input| self.value(input, inputs, values)).collect();
        match &step.node.op {
            NodeOp::Primitive(op) => {
                user_code::run_fallible(|| op.value(&operands)).map_err(|error| step.located(error, calls))
            }
            op => {
                let number = exec::arithmetic(op, |which| Scalar::of(operands[which]));
                Ok(number.expect("the operands of scalar arithmetic are numbers").0.into())
            }
        }
    }

    /// The estimated time of a step, in nanoseconds, given all values.
    pub(super) fn cost(&self, step: usize, inputs: &[&Value], values: &StepValues) -> f64 {
        let step = &self.steps[step];
        match &step.node.op {
            NodeOp::Primitive(op) => {
                let operands: OperandVec<&Value> =
                    step.inputs.iter().map(|&input| self.value(input, inputs, values)).collect();
                user_code::run(|| op.cost(&operands)).unwrap_or(f64::INFINITY)
            }
            _ => SCALAR_NS,
        }
    }

    /// The steps and the results, for a record.
    pub(super) fn inner(&self, calls: Rebase) -> (Vec<InnerOperation>, Vec<InnerOperand>) {
        let operand = |source: &Source| match *source {
            Source::Input(at) => Some(InnerOperand::Outer(at)),
            Source::Step(at) => Some(InnerOperand::Inner(at)),
            Source::Constant(_) => None,
        };
        let operation = |step: &Step| {
            let Site { place, calls } = calls.site(&step.node);
            let operands = step.inputs.iter().filter_map(operand).collect();
            InnerOperation { name: step.node.name_or_panic(), place, calls, operands }
        };
        (self.steps.iter().map(operation).collect(), self.results.iter().filter_map(operand).collect())
    }

    /// One line for each step: its number, operation and operands.
    pub(super) fn print(&self, text: &mut String, inputs: &dyn Fn(u32) -> String) {
        let source = |source: &Source| match *source {
            Source::Input(input) => inputs(input),
            Source::Step(step) => format!("%{step}"),
            Source::Constant(constant) => {
                let (node, value) = &self.constants[constant as usize];
                match Scalar::of(value) {
                    Some(Scalar::F32(number)) => number.to_string(),
                    Some(Scalar::F64(number)) => number.to_string(),
                    None => (node.vtable.describe)(value),
                }
            }
        };
        for (at, step) in self.steps.iter().enumerate() {
            let operands: Vec<String> = step.inputs.iter().map(source).collect();
            let _ = writeln!(text, "  %{at} = {}({})", step.node.name_or_panic(), operands.join(", "));
        }
        let results: Vec<String> = self.results.iter().map(source).collect();
        let _ = writeln!(text, "  return {}", results.join(", "));
    }
}

impl Step {
    /// The error with the name and the place of this operation.
    #[cold]
    fn located(&self, error: Error, calls: Rebase) -> Error {
        let NodeOp::Primitive(op) = &self.node.op else { unreachable!("scalar arithmetic does not fail") };
        error.at(op.name_or_panic(), calls.site(&self.node))
    }
}

pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("a function has less than 2³² operations")
}
