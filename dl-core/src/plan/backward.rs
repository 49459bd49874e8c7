//! The backward of a compiled function: a program, built by the ordinary rules.

use crate::autodiff::forward::tangent_of_arithmetic;
use crate::autodiff::scalar::rule_in_layers;
use crate::error::direction::Direction;
use crate::error::{Error, Result};
use crate::exec::user_code;
use crate::graph::data::ShapeList;
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyAlong, AnyAt, OperandVec};
use crate::graph::value::Value;
use crate::plan::function::{Function, placeholder_op};
use crate::plan::program::{Program, Rebase, Refusal, Source, StepValues, number};
use crate::plan::schedule::Schedule;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::fmt::Write;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The backwards of a function, for the shapes of operands and the deltas that have occurred.
#[derive(Default)]
pub(super) struct Backwards(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The last used one comes last.
    backwards: Vec<Arc<Backward>>,
    /// For each step of the forward, whether a backward reads its value.
    reads: Option<Arc<[bool]>>,
    built: u64,
}

/// How many backwards a function keeps.
const MOST: usize = 32;

/// The case that a backward was built for.
#[derive(PartialEq, Eq)]
pub(super) struct Case {
    /// The shapes of the operands, one after the other; `None` if one has none.
    pub(super) shapes: Option<Arc<ShapeList>>,
    /// The results that have a delta.
    pub(super) deltas: Flags,
    /// The uses with a delta that is needed.
    pub(super) wanted: Flags,
    /// The uses of weights, where the last operation may be left to the step.
    pub(super) weights: Flags,
}

/// A flag for each use, or for each result.
pub(super) type Flags = SmallVec<[bool; 24]>;

/// A backward as a program.
pub(super) struct Backward {
    case: Case,
    pub(super) program: Program,
    /// The inputs of the program.
    pub(super) inputs: Vec<BackwardInput>,
    /// For each use, the index among the results of the program, or among the deferred steps.
    pub(super) deltas: Vec<Option<DeltaOfUse>>,
    /// For each step of the program, whether it is left to the step that changes the weight.
    pub(super) is_deferred: Vec<bool>,
    /// Known after the first run.
    schedule: OnceLock<Schedule>,
}

impl Backward {
    /// Runs the program, without the deferred steps.
    pub(super) fn run(&self, inputs: &[&Value], calls: Rebase) -> Result<StepValues> {
        if let Some(schedule) = self.schedule.get() {
            return schedule.run(&self.program, inputs, calls);
        }
        let skips = |step: usize| self.is_deferred[step];
        let values = self.program.run(inputs, calls, skips, |_| true)?;
        let mut is_read: Vec<bool> = vec![false; self.program.steps.len()];
        for (step, _) in self.program.steps.iter().zip(&self.is_deferred).filter(|(_, deferred)| **deferred) {
            for input in &step.inputs {
                if let &Source::Step(read) = input {
                    is_read[read as usize] = true;
                }
            }
        }
        let _ = self.schedule.set(Schedule::of(&self.program, inputs, &values, &self.is_deferred, &is_read));
        Ok(values)
    }

    /// Runs the program for a call with these operands, values of the forward and deltas of the
    /// results, and calls `then` with the inputs and the values of the steps.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub(super) fn run_on<'a, R>(
        &self,
        function: &Function,
        operands: &[&'a Value],
        kept: &dyn Fn(u32) -> Option<&'a Value>,
        delta: &dyn Fn(usize) -> Option<&'a Value>,
        calls: Rebase,
        then: impl FnOnce(&[&Value], &StepValues) -> R,
    ) -> Result<R> {
        let complete;
        let is_missing = |input: &BackwardInput| matches!(*input, BackwardInput::Forward(step) if kept(step).is_none());
        let again = if self.inputs.iter().any(is_missing) {
            complete = function.forward.run(operands, calls, |_| false, |_| true)?;
            Some(&complete)
        } else {
            None
        };
        let input = |input: &BackwardInput| match *input {
            BackwardInput::Use(which) => Some(operands[which as usize]),
            BackwardInput::Forward(step) => match again {
                Some(steps) => steps[step as usize].as_ref(),
                None => kept(step),
            },
            BackwardInput::Delta(which) => delta(which as usize),
        };
        let mut inputs: SmallVec<[&Value; 24]> = SmallVec::new();
        for of_program in &self.inputs {
            inputs.push(input(of_program).expect("the case has all deltas that it reads"));
        }
        let values = self.run(&inputs, calls)?;
        Ok(then(&inputs, &values))
    }

    /// The estimated time, in nanoseconds, if it is known.
    pub(super) fn cost(&self) -> Option<f64> {
        self.schedule.get().map(|schedule| schedule.nanoseconds)
    }
}

/// An input of the program of a backward.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BackwardInput {
    /// The operand of this use.
    Use(u32),
    /// The value of this step of the forward.
    Forward(u32),
    /// The delta of this result.
    Delta(u32),
}

#[derive(Clone, Copy)]
pub(super) enum DeltaOfUse {
    Value(Source),
    /// The result of this step, which adds up in place: see `BuiltIn::ACCUMULATES`.
    Deferred(u32),
}

impl Backwards {
    /// For each step of the forward, whether its value must be kept; `None` if no backward is known
    /// yet, and all must be kept.
    pub(super) fn reads(&self) -> Option<Arc<[bool]>> {
        self.kept().reads.clone()
    }

    /// Whether a backward is known, and none reads a value of the forward other than this one.
    pub(super) fn read_only(&self, source: Source) -> bool {
        let kept = self.kept();
        let only = |reads: &Arc<[bool]>| {
            let mut read = reads.iter().enumerate().filter(|(_, read)| **read);
            read.all(|(step, _)| source == Source::Step(number(step)))
        };
        kept.reads.as_ref().is_some_and(only)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The backward for this case, if it is known.
    pub(super) fn find(&self, case: &Case) -> Option<Arc<Backward>> {
        let mut kept = self.kept();
        let at = kept.backwards.iter().rposition(|backward| backward.case == *case)?;
        let found = kept.backwards[at].clone();
        if at + 1 < kept.backwards.len() {
            kept.backwards.remove(at);
            kept.backwards.push(found.clone());
        }
        Some(found)
    }

    fn add(&self, backward: Arc<Backward>, steps: usize) {
        let mut kept = self.kept();
        let mut reads: Vec<bool> = kept.reads.as_deref().map_or_else(|| vec![false; steps], <[bool]>::to_vec);
        for input in &backward.inputs {
            if let BackwardInput::Forward(step) = input {
                reads[*step as usize] = true;
            }
        }
        kept.reads = Some(reads.into());
        if kept.backwards.len() == MOST {
            kept.backwards.remove(0);
        }
        kept.backwards.push(backward);
        kept.built += 1;
    }

    pub(super) fn explain(&self, steps: usize) -> String {
        let kept = self.kept();
        let mut text = String::new();
        if let Some(reads) = &kept.reads {
            let read = reads.iter().filter(|&&read| read).count();
            let _ = writeln!(text, "kept for the backward: {read} of {steps} values");
        }
        for backward in &kept.backwards {
            let operations = backward.program.steps.len();
            let _ = writeln!(text, "backward for shapes {:?}: {operations} operations", backward.case.shapes);
            let input = |input: u32| match backward.inputs[input as usize] {
                BackwardInput::Use(at) => format!("use{at}"),
                BackwardInput::Forward(step) => format!("forward%{step}"),
                BackwardInput::Delta(at) => format!("delta{at}"),
            };
            backward.program.print(&mut text, &input);
            if let Some(schedule) = backward.schedule.get() {
                schedule.print(&mut text);
            }
        }
        if kept.built > kept.backwards.len() as u64 {
            let _ = writeln!(text, "{} backwards were built: the shapes of the operands change often", kept.built);
        }
        text
    }
}

impl Function {
    /// The shapes of operands with these values; `None` if a type has no shape.
    pub(super) fn shapes(&self, operands: &[&Value]) -> Option<ShapeList> {
        let mut shapes = ShapeList::default();
        let have_shapes =
            self.placeholders.iter().zip(operands).all(|(node, value)| (node.vtable.shape)(value, &mut shapes));
        have_shapes.then_some(shapes)
    }

    /// The backward for this case, built if it is not known. `values` are the values of the
    /// forward.
    ///
    /// # Errors
    /// A panic in a rule.
    pub(super) fn backward(
        &self,
        case: Case,
        operands: &[&Value],
        values: &[Option<Value>],
        calls: Rebase,
    ) -> Result<std::result::Result<Arc<Backward>, Refusal>> {
        if case.shapes.is_some()
            && let Some(found) = self.backwards.find(&case)
        {
            return Ok(Ok(found));
        }
        let complete;
        let is_complete = values.len() >= self.forward.steps.len() && values.iter().all(Option::is_some);
        let values = if is_complete {
            values
        } else {
            complete = self.forward.run(operands, calls, |_| false, |_| true)?;
            &complete
        };
        let nodes: Vec<NodeRef> = self.forward.steps.iter().map(|step| step.node.clone()).collect();
        let delta = |(which, has_delta): (usize, &bool)| {
            let place = self.forward.node(self.forward.results[which], &self.placeholders, &nodes).place;
            has_delta.then(|| (self.types[which].delta_layer)(placeholder_op(), place))
        };
        let deltas: Vec<Option<NodeRef>> = case.deltas.iter().enumerate().map(delta).collect();
        let found = self.walk_back(&nodes, &deltas, operands, values, &case.wanted)?;
        let built = self.lower(case, &deltas, &found);
        if let Ok(backward) = &built
            && backward.case.shapes.is_some()
        {
            self.backwards.add(backward.clone(), self.forward.steps.len());
        }
        Ok(built)
    }

    /// The deltas of the uses as layers, for these deltas of the results, by the ordinary rules.
    fn walk_back(
        &self,
        nodes: &[NodeRef],
        deltas: &[Option<NodeRef>],
        operands: &[&Value],
        values: &[Option<Value>],
        wanted: &[bool],
    ) -> Result<Vec<Option<NodeRef>>> {
        let program = &self.forward;
        let mut leads: Vec<bool> = Vec::with_capacity(nodes.len());
        for step in &program.steps {
            leads.push(step.inputs.iter().any(|&input| leads_to(input, &leads, wanted)));
        }
        let mut arrived: Vec<Vec<NodeRef>> = vec![Vec::new(); nodes.len()];
        let mut found: Vec<Option<NodeRef>> = vec![None; wanted.len()];
        for (&result, delta) in program.results.iter().zip(deltas) {
            match (result, delta) {
                (Source::Step(step), Some(delta)) => arrived[step as usize].push(delta.clone()),
                (Source::Input(at), Some(delta)) if wanted[at as usize] => found[at as usize] = Some(delta.clone()),
                _ => {}
            }
        }
        for (at, step) in program.steps.iter().enumerate().rev() {
            let mut terms = std::mem::take(&mut arrived[at]);
            if terms.is_empty() || !leads[at] {
                continue;
            }
            let node = &nodes[at];
            let _rule = node.enter_rule(Direction::Backward);
            let located = |error: Error| error.at(node.name_or_panic(), node.site());
            let delta = match terms.len() {
                1 => terms.remove(0),
                _ => user_code::run(|| (node.vtable.sum_deltas)(terms)).map_err(located)?,
            };
            let operand = |which: usize| (node.operands()[which].clone(), leads_to(step.inputs[which], &leads, wanted));
            let deltas: OperandVec<Option<NodeRef>> = match &node.op {
                NodeOp::Primitive(op) => {
                    let of = |&input: &Source| program.value(input, operands, values);
                    let inputs: OperandVec<&Value> = step.inputs.iter().map(of).collect();
                    let value = values[at].as_ref().expect("all values are there");
                    user_code::run(|| {
                        op.pullback(AnyAt { values: &inputs, output: node, value, delta, may_differentiate: true })
                    })
                    .map_err(located)?
                }
                op if node.vtable.is_single => {
                    rule_in_layers::<f32>(op, [node.clone(), delta], operand).into_iter().collect()
                }
                op => rule_in_layers::<f64>(op, [node.clone(), delta], operand).into_iter().collect(),
            };
            for (&input, delta) in step.inputs.iter().zip(deltas) {
                match (input, delta) {
                    (Source::Step(below), Some(delta)) if leads[below as usize] => arrived[below as usize].push(delta),
                    (Source::Input(below), Some(delta)) if wanted[below as usize] => {
                        found[below as usize] = Some(delta)
                    }
                    _ => {}
                }
            }
        }
        Ok(found)
    }

    /// The tangents of the results as layers, for these tangents of the uses. `nodes` are those of
    /// the forward, bound to the operands.
    ///
    /// # Errors
    /// A panic in a rule.
    pub(super) fn push_forward(
        &self,
        nodes: &[NodeRef],
        operands: &[&Value],
        uses: (&[NodeRef], &[Option<NodeRef>]),
        calls: Rebase,
    ) -> Result<Vec<Option<NodeRef>>> {
        let program = &self.forward;
        let values = program.run(operands, calls, |_| false, |_| true)?;
        let mut tangents: Vec<Option<NodeRef>> = Vec::with_capacity(nodes.len());
        let tangent = |source: Source, tangents: &[Option<NodeRef>]| match source {
            Source::Input(at) => uses.1[at as usize].clone(),
            Source::Step(step) => tangents[step as usize].clone(),
            Source::Constant(_) => None,
        };
        for ((step, node), value) in program.steps.iter().zip(nodes).zip(&values) {
            let of_operands: Vec<Option<NodeRef>> =
                step.inputs.iter().map(|&input| tangent(input, &tangents)).collect();
            if of_operands.iter().all(Option::is_none) {
                tangents.push(None);
                continue;
            }
            let _rule = node.enter_rule(Direction::Forward);
            let operand = |which: usize| node.operands()[which].clone();
            let pushed = match &node.op {
                NodeOp::Primitive(op) => {
                    let of = |&input: &Source| program.value(input, operands, &values);
                    let inputs: OperandVec<&Value> = step.inputs.iter().map(of).collect();
                    let value = value.as_ref().expect("all values are kept");
                    let along = AnyAlong {
                        operands: node.operands(),
                        values: &inputs,
                        output: node,
                        value,
                        tangents: &of_operands,
                    };
                    user_code::run(|| op.pushforward(along))
                        .map_err(|error| error.at(op.name_or_panic(), node.site()))?
                }
                op if node.vtable.is_single => tangent_of_arithmetic::<f32>(op, node.clone(), of_operands, operand),
                op => tangent_of_arithmetic::<f64>(op, node.clone(), of_operands, operand),
            };
            tangents.push(pushed);
        }
        Ok(program.results.iter().map(|&result| tangent(result, &tangents)).collect())
    }

    /// The program that computes these deltas.
    fn lower(
        &self,
        case: Case,
        deltas: &[Option<NodeRef>],
        found: &[Option<NodeRef>],
    ) -> std::result::Result<Arc<Backward>, Refusal> {
        let mut sources: FxHashMap<usize, BackwardInput> = FxHashMap::default();
        for (at, node) in self.placeholders.iter().enumerate() {
            sources.insert(node.address(), BackwardInput::Use(number(at)));
        }
        for (at, step) in self.forward.steps.iter().enumerate() {
            sources.insert(step.node.address(), BackwardInput::Forward(number(at)));
        }
        for (at, delta) in deltas.iter().enumerate() {
            if let Some(delta) = delta {
                sources.insert(delta.address(), BackwardInput::Delta(number(at)));
            }
        }
        let (mut inputs, mut numbers) = (Vec::new(), FxHashMap::default());
        let results: Vec<NodeRef> = found.iter().flatten().cloned().collect();
        let program = Program::of(
            &results,
            None,
            |node| {
                let &input = sources.get(&node.address())?;
                Some(*numbers.entry(node.address()).or_insert_with(|| {
                    inputs.push(input);
                    number(inputs.len() - 1)
                }))
            },
            |_| None,
        )?;
        let mut reads = vec![0_u32; program.steps.len()];
        let sources = program.steps.iter().flat_map(|step| &step.inputs).chain(&program.results);
        for source in sources {
            if let &Source::Step(step) = source {
                reads[step as usize] += 1;
            }
        }
        let mut is_deferred = vec![false; program.steps.len()];
        let mut results = program.results.iter();
        let deltas = found.iter().enumerate().map(|(at, found)| {
            found.as_ref()?;
            let &source = results.next().expect("a result for each delta");
            Some(match source {
                Source::Step(step)
                    if case.weights[at]
                        && reads[step as usize] == 1
                        && program.steps[step as usize].node.accumulates().is_some() =>
                {
                    is_deferred[step as usize] = true;
                    DeltaOfUse::Deferred(step)
                }
                source => DeltaOfUse::Value(source),
            })
        });
        let deltas = deltas.collect();
        Ok(Arc::new(Backward { case, program, inputs, deltas, is_deferred, schedule: OnceLock::new() }))
    }
}

/// Whether a wanted use is reachable from this source.
fn leads_to(source: Source, leads: &[bool], wanted: &[bool]) -> bool {
    match source {
        Source::Input(at) => wanted[at as usize],
        Source::Step(step) => leads[step as usize],
        Source::Constant(_) => false,
    }
}
