//! Whether calls of a function can run together: with their operands stacked, row below row.

use crate::error::call_stack::Calls;
use crate::graph::data::ShapeList;
use crate::graph::node::NodeOp;
use crate::graph::op::OperandVec;
use crate::graph::value::Value;
use crate::plan::function::Function;
use crate::plan::program::{Rebase, Source};
use crate::plan::uses::Used;
use smallvec::SmallVec;
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a function with the option `grouped` knows of its groups.
pub(crate) struct Grouping {
    /// Where each use is among the operands of a group.
    pub(super) places: Vec<Place>,
    /// How many uses all members share: those of weights and buffers.
    pub(super) shared: usize,
    /// How many uses each member has for itself. Their values are stacked.
    pub(super) own: usize,
    /// For each of these, the first of them that is the same operand.
    pub(super) same: Vec<usize>,
    /// The reason that there are no groups.
    refusal: Option<&'static str>,
    /// For shapes of the operands of a call, the operation that is not by rows.
    checked: Mutex<Vec<(ShapeList, Option<String>)>>,
    /// The calls that ran in a group. A counter, so relaxed.
    count: &'static AtomicU64,
    /// The estimated time of a member, in nanoseconds. An estimate decides where a kernel runs, never
    /// its value, so it is relaxed.
    member_ns: AtomicU32,
}

/// The place of a use.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Shared(usize),
    Own(usize),
}

/// For how many combinations of shapes it is known whether a function is by rows.
const MOST_CHECKED: usize = 32;
/// The estimate for a step of a member, in nanoseconds, before a group has run.
const STEP_NS: f64 = 100.0;

impl Grouping {
    /// For a function whose operands with `is_shared` are weights or buffers.
    pub(crate) fn of(function: &Function, is_shared: &[bool], count: &'static AtomicU64) -> Grouping {
        let (mut shared, mut own, mut same, mut of_own) = (0, 0, Vec::new(), Vec::new());
        let place = |used: &Used| match *used {
            Used::Operand(at) if is_shared[at as usize] => {
                shared += 1;
                Place::Shared(shared - 1)
            }
            _ => {
                of_own.push(*used);
                same.push(of_own.iter().position(|known| known == used).unwrap_or(own));
                own += 1;
                Place::Own(own - 1)
            }
        };
        let places = function.uses.iter().map(place).collect();
        let refusal = if function.modes().count() > 1 {
            Some("it depends on the mode of the pass, or draws random numbers")
        } else if !function.forward.updates.is_empty() {
            Some("it updates a buffer")
        } else {
            (own == 0).then_some("it has no layer among its arguments")
        };
        let (checked, member_ns) = (Mutex::default(), AtomicU32::new(0));
        Grouping { places, shared, own, same, refusal, checked, count, member_ns }
    }

    pub(super) fn refusal(&self) -> Option<&'static str> {
        self.refusal
    }

    /// The operand of a group that is this use of a member.
    pub(super) fn operand(&self, place: Place, member: usize) -> usize {
        match place {
            Place::Shared(at) => at,
            Place::Own(at) => self.shared + member * self.own + at,
        }
    }

    /// Whether calls with operands of these shapes can be stacked. `operands` are those of one.
    pub(super) fn is_by_rows(&self, function: &Function, shapes: ShapeList, operands: &[&Value], rows: usize) -> bool {
        let known = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, refusal)) = known().iter().find(|(known, _)| *known == shapes) {
            return refusal.is_none();
        }
        let here = Rebase { from: Calls::here(), to: Calls::here(), place: None };
        // An error is reported by the call itself.
        let Ok(values) = function.forward.run(operands, here, |_| false, |_| true) else { return false };
        let refusal = self.not_by_rows(function, operands, &values, rows);
        let is_by_rows = refusal.is_none();
        let mut known = known();
        known.truncate(MOST_CHECKED - 1);
        known.insert(0, (shapes, refusal));
        is_by_rows
    }

    /// The first operation that is not by rows.
    fn not_by_rows(
        &self,
        function: &Function,
        operands: &[&Value],
        values: &[Option<Value>],
        rows: usize,
    ) -> Option<String> {
        let program = &function.forward;
        let has_rows = |source: Source, of_steps: &[bool]| match source {
            Source::Input(at) => matches!(self.places[at as usize], Place::Own(_)),
            Source::Step(step) => of_steps[step as usize],
            Source::Constant(_) => false,
        };
        let mut of_steps: Vec<bool> = Vec::with_capacity(program.steps.len());
        for (at, step) in program.steps.iter().enumerate() {
            let of_inputs: SmallVec<[bool; 4]> = step.inputs.iter().map(|&input| has_rows(input, &of_steps)).collect();
            let has_any = of_inputs.contains(&true);
            if has_any {
                let value = |&input: &Source| program.value(input, operands, values);
                let inputs: OperandVec<&Value> = step.inputs.iter().map(value).collect();
                let value = values[at].as_ref().expect("all values are kept");
                let is_by_rows = match &step.node.op {
                    NodeOp::Primitive(op) => {
                        (step.node.vtable.rows)(value) == Some(rows) && op.is_by_rows(&of_inputs, &inputs, value)
                    }
                    _ => false, // a number
                };
                if !is_by_rows {
                    return Some(format!("`{}`, at {}, is not by rows", step.node.name_or_panic(), step.node.place));
                }
            }
            of_steps.push(has_any);
        }
        let without = program.results.iter().any(|&result| !has_rows(result, &of_steps));
        without.then(|| "a result depends on weights only".to_owned())
    }

    pub(super) fn note(&self, calls: usize, nanoseconds: f64) {
        self.count.fetch_add(calls as u64, Ordering::Relaxed);
        self.member_ns.store((nanoseconds / calls as f64) as u32, Ordering::Relaxed);
    }

    /// The estimated time of a group, in nanoseconds.
    pub(super) fn cost(&self, calls: usize, function: &Function) -> f64 {
        let member = match self.member_ns.load(Ordering::Relaxed) {
            0 => STEP_NS * function.forward.steps.len() as f64,
            known => f64::from(known),
        };
        member * calls as f64
    }

    pub(super) fn explain(&self, text: &mut String) {
        let checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let refusals = checked.iter().filter_map(|(_, refusal)| refusal.as_deref()).chain(self.refusal);
        match refusals.last() {
            Some(why) => {
                let _ = writeln!(text, "calls are not grouped: {why}");
            }
            None => {
                let _ = writeln!(text, "calls with the same weights, at the same level, run as one, row below row");
            }
        }
    }
}
