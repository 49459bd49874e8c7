//! A compiled function: its operations, with placeholders for its operands.

use crate::error::call_context::Site;
use crate::error::call_stack::Calls;
use crate::error::{Error, Result};
use crate::graph::data::ShapeList;
use crate::graph::inline_box::InlineBox;
use crate::graph::node::{DataVTable, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::seed::{ModeAndSeed, Position};
use crate::graph::value::Value;
use crate::plan::backward::Backwards;
use crate::plan::drawn::mode_and_seed;
use crate::plan::failed::Failed;
use crate::plan::grouping::Grouping;
use crate::plan::program::{Program, Rebase, Refusal, Source, StepValues, number};
use crate::plan::schedule::Schedule;
use crate::plan::updates::Group;
use crate::plan::uses::{Used, Uses};
use dl_parallel::sync::{AtomicU32, Ordering};
use smallvec::SmallVec;
use std::fmt::Write;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

/// A function without decisions, as a program.
///
/// An input of the program is a *use*: each place where an operation, or the result, has an operand
/// of the function (see `uses.rs`).
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(super) forward: Program,
    /// The placeholder of each use.
    pub(super) placeholders: Vec<NodeRef>,
    pub(super) uses: Vec<Used>,
    by_mode: Option<ByMode>,
    /// How many positions its body takes for random numbers.
    pub(crate) positions: u64,
    /// The types of the results, and of the new values of buffers.
    pub(super) types: Vec<&'static DataVTable>,
    /// The updates of buffers.
    pub(super) groups: Vec<Group>,
    /// For each result, the place of its value behind those of the steps: see `CallValue`.
    pub(super) result_places: SmallVec<[u32; 2]>,
    /// The chain of calls in which it was first called.
    calls: Calls,
    /// Whether operations have the place of their call, as those of any function of the library.
    is_of_library: bool,
    pub(super) backwards: Backwards,
    /// With the option `grouped`.
    pub(crate) grouping: Option<Grouping>,
    /// For a pass that keeps no values: no step.
    pub(super) reads_nothing: Arc<[bool]>,
    /// The schedules of the forward, for passes that keep values and for those that do not.
    schedules: [Mutex<Schedules>; 2],
    pub(super) costs: Costs,
    /// How many schedules were evicted unused. A counter, so relaxed.
    wasted: AtomicU32,
}

/// For a function that depends on the mode of the pass.
struct ByMode {
    /// The use that is the mode.
    at: usize,
    /// Its random position, counted from that of the call.
    position: u64,
    /// The function in a pass that evaluates.
    evaluate: Arc<Function>,
}

impl Function {
    /// The function that has built these results from these operands, at the random positions from
    /// `begin` on.
    ///
    /// # Errors
    /// The reason that it cannot be compiled.
    pub(crate) fn of(
        name: &'static str,
        results: &[NodeRef],
        operands: &[NodeRef],
        begin: Position,
        is_of_library: bool,
    ) -> std::result::Result<Function, Refusal> {
        let mut uses = Uses::default();
        let train = uses.trace(results, operands, begin, true)?;
        let evaluate = uses.first.map(|_| uses.trace(results, operands, begin, false)).transpose()?;
        let (calls, uses) = (Calls::here(), uses);
        let lower = |mut forward: Program, by_mode: Option<ByMode>| {
            let placeholders: Vec<NodeRef> =
                uses.list.iter().map(|&(_, vtable, place)| placeholder(vtable, place)).collect();
            let nodes = forward.bound_to(&placeholders, Rebase { from: calls, to: calls, place: None })?;
            forward.set_nodes(nodes.clone());
            let mut places = number(forward.steps.len())..;
            let result_place = |result: &Source| match *result {
                Source::Step(step) => step,
                Source::Input(_) | Source::Constant(_) => places.next().expect("the range has no end"),
            };
            let kind = |&result: &Source| forward.node(result, &placeholders, &nodes).vtable;
            let types: Vec<_> = forward.results.iter().map(kind).collect();
            Ok(Function {
                name,
                types,
                result_places: forward.results.iter().map(result_place).collect(),
                backwards: Backwards::default(),
                grouping: None,
                reads_nothing: vec![false; forward.steps.len()].into(),
                schedules: Default::default(),
                placeholders,
                uses: uses.list.iter().map(|&(used, ..)| used).collect(),
                by_mode,
                positions: Position::here().since(begin).unwrap_or(0),
                groups: Group::all_of(&forward, results.len()),
                costs: Costs::default(),
                wasted: AtomicU32::new(0),
                calls,
                is_of_library,
                forward,
            })
        };
        let by_mode = evaluate.zip(uses.first).map(|(evaluate, position)| {
            let at = uses.list.iter().position(|&(used, ..)| used == Used::Pass).expect("it was added");
            Ok(ByMode { at, position, evaluate: Arc::new(lower(evaluate, None)?) })
        });
        lower(train, by_mode.transpose()?)
    }

    /// The operands of a call at this random position, one for each use.
    pub(super) fn used(
        &self,
        operands: &[NodeRef],
        begin: Position,
        place: &'static Location<'static>,
    ) -> Vec<NodeRef> {
        let position = self.position_of_mode(begin).unwrap_or(begin);
        let operand = |used: &Used| match *used {
            Used::Operand(at) => operands[at as usize].clone(),
            Used::Pass => NodeRef::of_type(mode_and_seed(), NodeOp::Seed(position), place),
        };
        self.uses.iter().map(operand).collect()
    }

    /// Whether there is no operation: the results are operands or constants.
    pub(crate) fn is_empty(&self) -> bool {
        self.forward.steps.is_empty()
    }

    /// Whether all operations are scalar arithmetic.
    pub(crate) fn is_arithmetic(&self) -> bool {
        self.forward.steps.iter().all(|step| step.node.is_arithmetic())
    }

    /// Whether a new call is its own result: see `call.rs`.
    pub(super) fn is_result(&self) -> bool {
        let is_result = |&result| self.forward.steps.len() <= 1 || self.backwards.read_only(result);
        self.by_mode.is_none()
            && self.grouping.is_none()
            && matches!(&self.forward.results[..], [result] if is_result(result))
    }

    /// What the function is in passes that train, and in those that evaluate, if that is another.
    pub(super) fn modes(&self) -> impl Iterator<Item = &Function> {
        std::iter::once(self).chain(self.by_mode.as_ref().map(|by_mode| &*by_mode.evaluate))
    }

    /// The position of the mode, for a call at this position; `None` if the function is the same in
    /// both modes.
    pub(super) fn position_of_mode(&self, begin: Position) -> Option<Position> {
        self.by_mode.as_ref().map(|by_mode| begin.after(by_mode.position))
    }

    pub(super) fn is_pure(&self) -> bool {
        self.forward.is_pure && self.by_mode.as_ref().is_none_or(|by_mode| by_mode.evaluate.is_pure())
    }

    /// What the function is in the pass of a call with these operands.
    pub(super) fn in_pass<'a>(self: &'a Arc<Self>, operands: &[&Value]) -> &'a Arc<Function> {
        match &self.by_mode {
            Some(by_mode) if !operands[by_mode.at].get::<ModeAndSeed>().trains() => &by_mode.evaluate,
            _ => self,
        }
    }

    /// The operations of the forward and of the backwards, as text.
    pub(crate) fn explain(&self) -> String {
        let nodes = if self.is_arithmetic() { "on numbers, a node each" } else { "one node a call" };
        let mut text = format!("`{}`: {} operations, {nodes}\n", self.name, self.forward.steps.len());
        let input = |input: u32| match self.uses[input as usize] {
            Used::Operand(at) => format!("x{at}"),
            Used::Pass => "pass".to_owned(),
        };
        self.forward.print(&mut text, &input);
        for schedule in &self.schedules {
            if let Some((_, _, schedule, _)) = schedule.lock().unwrap_or_else(PoisonError::into_inner).first() {
                schedule.print(&mut text);
                break;
            }
        }
        let _ = write!(text, "{}", self.backwards.explain(self.forward.steps.len()));
        if let Some(grouping) = &self.grouping {
            grouping.explain(&mut text);
        }
        if let Some(by_mode) = &self.by_mode {
            let _ = write!(text, "in evaluation: {}", by_mode.evaluate.explain());
        }
        text
    }
}

/// From so many schedules on that were evicted unused, there is a warning.
const MUCH_CHURN: u32 = 2 * MOST_SCHEDULES as u32;

impl Function {
    /// A warning if the shapes of the operands change so often that schedules are not used again.
    pub(crate) fn churn(&self) -> Option<String> {
        let wasted = self.wasted.load(Ordering::Relaxed);
        let own = (wasted >= MUCH_CHURN).then(|| {
            format!("{wasted} schedules of `{}` were used once: the shapes of the operands change often", self.name)
        });
        own.or_else(|| self.by_mode.as_ref()?.evaluate.churn())
    }
}

/// The last schedules, each with the shapes of the operands, the steps that it keeps the values of,
/// and whether it was used again.
type Schedules = SmallVec<[Scheduled; 1]>;
type Scheduled = (Arc<ShapeList>, Arc<[bool]>, Arc<Schedule>, bool);

/// How many schedules a function keeps of each kind.
const MOST_SCHEDULES: usize = 32;

impl Function {
    /// Runs the forward. The values of the results, and of the steps in `reads`, are returned; all
    /// values if it is `None`.
    pub(super) fn run_forward(
        &self,
        operands: &[&Value],
        calls: Rebase,
        reads: Option<&Arc<[bool]>>,
        discards: bool,
    ) -> Result<(StepValues, Option<Known>)> {
        let program = &self.forward;
        let kept = || self.schedules[usize::from(discards)].lock().unwrap_or_else(PoisonError::into_inner);
        let shapes = self.shapes(operands);
        if let Some(reads) = reads {
            let mut kept = kept();
            let is_same =
                |(of, keeps, ..): &&mut Scheduled| Arc::ptr_eq(keeps, reads) && Some(&**of) == shapes.as_ref();
            let known = kept.iter_mut().find(is_same).map(|(shapes, _, schedule, is_reused)| {
                *is_reused = true;
                (shapes.clone(), schedule.clone())
            });
            drop(kept);
            if let Some((shapes, schedule)) = known {
                let values = schedule.run(program, operands, calls)?;
                return Ok((values, Some(Known { shapes, nanoseconds: schedule.nanoseconds })));
            }
        }
        let mut values = program.run(operands, calls, |_| false, |_| true)?;
        let Some(reads) = reads else { return Ok((values, None)) };
        if let Some(shapes) = shapes {
            let schedule = Schedule::of(program, operands, &values, &vec![false; program.steps.len()], reads);
            self.cost_of(operands).store((schedule.nanoseconds as u32).max(1), Ordering::Relaxed);
            let mut kept = kept();
            kept.retain(|(_, keeps, ..)| Arc::ptr_eq(keeps, reads));
            if let Some((.., is_reused)) = kept.get(MOST_SCHEDULES - 1) {
                self.wasted.fetch_add(u32::from(!is_reused), Ordering::Relaxed);
            }
            kept.truncate(MOST_SCHEDULES - 1);
            kept.insert(0, (Arc::new(shapes), reads.clone(), Arc::new(schedule), false));
        }
        for (_, value) in values.iter_mut().enumerate().filter(|(at, _)| !reads[*at] && !program.is_result[*at]) {
            *value = None;
        }
        Ok((values, None))
    }
}

/// What is known of a forward that has run by a schedule.
#[derive(Clone)]
pub(super) struct Known {
    /// The shapes of the operands.
    pub(super) shapes: Arc<ShapeList>,
    /// The estimated time.
    pub(super) nanoseconds: f64,
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

    /// For the errors of a call at this location.
    pub(super) fn rebase(&self, to: Site) -> Rebase {
        Rebase { from: self.calls, to: to.calls, place: self.is_of_library.then_some(to.place) }
    }

    /// The memory of the value of a call, in bytes.
    pub(super) fn bytes_of(&self, values: &[Option<Value>]) -> usize {
        let steps = self.forward.steps.iter().map(|step| step.node.vtable);
        let others =
            self.forward.results.iter().zip(&self.types).filter(|(result, _)| !matches!(result, Source::Step(_)));
        let kinds = steps.chain(others.map(|(_, &kind)| kind));
        kinds.zip(values).filter_map(|(kind, value)| Some((kind.bytes)(value.as_ref()?))).sum()
    }
}
