//! The uses of the operands of a function: the inputs of its programs.
//!
//! # Invariants
//!
//! - The first uses of operands must be in the order in which a pass that discovers the ordinary
//!   graph reaches them: it counts random positions from the first one that it reaches.
//! - The uses of one operand must be in the order in which a backward walk reaches them.

use crate::graph::node::{DataVTable, NodeOp};
use crate::graph::node_ref::NodeRef;
use crate::graph::seed::Position;
use crate::plan::drawn::{drawn, mode_and_seed};
use crate::plan::function::placeholder;
use crate::plan::program::{Program, Refusal, Source, number};
use rustc_hash::FxHashMap;
use std::panic::Location;

/// What is used.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Used {
    /// The operand of a call with this index.
    Operand(u32),
    /// The mode and the seed of the pass. All programs have one input for them.
    Pass,
}

type Use = (Used, &'static DataVTable, &'static Location<'static>);

#[derive(Default)]
pub(super) struct Uses {
    pub(super) list: Vec<Use>,
    /// The first layer with a random position that a pass reaches: its position, counted from that
    /// of the call.
    pub(super) first: Option<u64>,
}

impl Uses {
    /// The program that has built these results in passes that train, or in those that evaluate.
    /// The body was at the positions from `begin` on. The uses of a second program are added to
    /// those of the first.
    ///
    /// # Errors
    /// The reason that there is no program.
    pub(super) fn trace(
        &mut self,
        results: &[NodeRef],
        operands: &[NodeRef],
        begin: Position,
        trains: bool,
    ) -> Result<Program, Refusal> {
        let mut numbers: FxHashMap<usize, u32> = FxHashMap::default();
        for (at, operand) in operands.iter().enumerate() {
            numbers.entry(operand.identity()).or_insert(number(at));
        }
        let mut met: Vec<Use> = Vec::new();
        let mut first: Option<(usize, NodeRef)> = None;
        let mut program = Program::of(
            results,
            Some(trains),
            |node| {
                let Some(&operand) = numbers.get(&node.identity()) else {
                    if first.is_none() && node.position().is_some() {
                        first = Some((met.len(), node.clone()));
                    }
                    return None;
                };
                met.push((Used::Operand(operand), node.vtable, node.place));
                Some(number(met.len() - 1))
            },
            |buffer| numbers.get(&buffer.identity()).copied(),
        )?;
        let end = Position::here().since(begin);
        let position = |node: &NodeRef| {
            let position = node.position().and_then(|position| position.since(begin));
            position.filter(|&at| Some(at) < end).ok_or_else(|| Refusal::new(node, "was built outside of the function"))
        };
        let is_first_program = self.list.is_empty();
        self.list.extend(met.iter().filter(|_| is_first_program));
        if let Some((at, node)) = first {
            let of_pass = (Used::Pass, mode_and_seed(), node.place);
            let origin = position(&node)?;
            if is_first_program {
                self.first = Some(origin);
                self.list.insert(at, of_pass);
            }
            for step in program.steps.iter_mut().filter(|step| matches!(step.node.op, NodeOp::Seed(_))) {
                let distance = position(&step.node)?.wrapping_sub(origin);
                step.node = drawn(&step.node, distance, placeholder(of_pass.1, node.place));
                step.inputs.push(Source::Input(number(met.len())));
            }
            met.push(of_pass);
        }
        self.number(&mut program, &met);
        Ok(program)
    }

    /// Numbers the inputs of a program, which are the uses in `met`, by those in the list.
    fn number(&mut self, program: &mut Program, met: &[Use]) {
        let (steps, updates) = (program.steps.iter_mut().rev(), program.updates.len());
        let results = program.results.len() - updates;
        let (results, new_values) = program.results.split_at_mut(results);
        let in_walk_order = results.iter_mut().chain(steps.flat_map(|step| step.inputs.iter_mut())).chain(new_values);
        let mut free: FxHashMap<Used, usize> = FxHashMap::default();
        for source in in_walk_order {
            let Source::Input(input) = source else { continue };
            let used = met[*input as usize];
            let free = free.entry(used.0).or_default();
            let at = (*free..self.list.len()).find(|&at| self.list[at].0 == used.0).unwrap_or(self.list.len());
            if at == self.list.len() {
                self.list.push(used);
            }
            *free = at + usize::from(used.0 != Used::Pass);
            *input = number(at);
        }
    }
}
