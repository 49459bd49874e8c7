//! The buffers that a call updates.
//!
//! An update is an identity in the program. Its new value is one more result of the call, which an
//! ordinary update reads, so that neither a pass nor the commit of a step knows of plans. An update
//! must be evaluated with those results only that it is evaluated with in the ordinary graph.

use crate::exec::by_mode::by_mode;
use crate::graph::identity::{Effect, identity, with_effect_at};
use crate::graph::node_ref::NodeRef;
use crate::graph::seed::Position;
use crate::plan::backward::Flags;
use crate::plan::call::{CallValue, result_of};
use crate::plan::function::Function;
use crate::plan::program::{Program, Rebase, Source};

/// An update of a buffer.
pub(super) struct Update {
    /// Its step, an identity.
    pub(super) step: u32,
    pub(super) new: Source,
    /// The index of the buffer among the operands of the call.
    pub(super) buffer: u32,
}

/// Updates that are evaluated with the same results.
pub(super) struct Group {
    with: Flags,
    updates: Vec<usize>,
}

impl Group {
    /// The updates of this program, whose results are so many.
    pub(super) fn all_of(program: &Program, results: usize) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        if program.updates.is_empty() {
            return groups;
        }
        let below: Vec<Vec<bool>> =
            program.results[..results].iter().map(|&result| steps_below(program, result)).collect();
        for (at, update) in program.updates.iter().enumerate() {
            let with: Flags = below.iter().map(|steps| steps[update.step as usize]).collect();
            match groups.iter_mut().find(|group| group.with == with) {
                Some(group) => group.updates.push(at),
                None => groups.push(Group { with, updates: vec![at] }),
            }
        }
        groups
    }
}

/// For each step, whether it is evaluated with this result.
fn steps_below(program: &Program, result: Source) -> Vec<bool> {
    let mut is_below = vec![false; program.steps.len()];
    let add = |source: Source, is_below: &mut [bool]| {
        if let Source::Step(step) = source {
            is_below[step as usize] = true;
        }
    };
    add(result, &mut is_below);
    for (at, step) in program.steps.iter().enumerate().rev() {
        if is_below[at] {
            let new = program.updates.iter().filter(|update| update.step as usize == at).map(|update| update.new);
            step.inputs.iter().copied().chain(new).for_each(|source| add(source, &mut is_below));
        }
    }
    is_below
}

impl Function {
    /// The updates of a call with these operands: those of each group, as one layer.
    pub(super) fn updates(
        &self,
        call: &NodeRef,
        operands: &[NodeRef],
        begin: Position,
        calls: Rebase,
    ) -> Vec<(&Group, NodeRef)> {
        let mut all = Vec::new();
        for (mode, function) in self.modes().enumerate() {
            let update = |read: NodeRef, &at: &usize| {
                let Update { step, buffer, .. } = function.forward.updates[at];
                let step = &function.forward.steps[step as usize].node;
                let site = calls.site(step);
                let _context = step.enter_at(site);
                let which = function.forward.results.len() - function.forward.updates.len() + at;
                let new = result_of(call, which, function.types[which], site.place);
                with_effect_at(Effect::Update, [read, new, operands[buffer as usize].clone()], site.place)
            };
            for group in &function.groups {
                let updated = group.updates.iter().fold(call.clone(), update);
                let updated = match self.position_of_mode(begin) {
                    None => updated,
                    Some(position) => {
                        let mut layers = [call.clone(), call.clone()];
                        layers[mode] = updated;
                        NodeRef::new::<CallValue>(by_mode(layers, position), call.place)
                    }
                };
                all.push((group, updated));
            }
        }
        all
    }
}

/// The layer that result `which` of a call is read from: the call, with the updates that are
/// evaluated with this result. `updates` are those of the call.
pub(super) fn read_from(call: &NodeRef, updates: &[(&Group, NodeRef)], which: usize) -> NodeRef {
    let updates = updates.iter().filter(|(group, _)| group.with[which]);
    // A pass must discover the call before an update: random positions count from the first one.
    updates
        .fold(call.clone(), |read, (_, update)| NodeRef::new::<CallValue>(identity([read, update.clone()]), call.place))
}
