//! The state of building a control flow: the current sequence, the scope and the live borrows.

use super::{ControlFlow, Flow, JumpTarget, Var};
use crate::parse::node::{NodeId, as_variable, is_place, strip_parens};
use std::collections::HashSet;
use syn::visit::Visit;
use syn::{Block, Expr, Ident, Label, Lifetime};

pub(super) struct Builder {
    pub(super) control_flow: ControlFlow,
    /// The results of the body.
    pub(super) results: HashSet<NodeId>,
    /// The sequence that is being built.
    pub(super) flow: Vec<Flow>,
    /// The variables in scope, innermost last.
    pub(super) scope: Vec<Var>,
    /// Functions, statics, constants and imports of the enclosing blocks.
    pub(super) items: Vec<Ident>,
    /// The enclosing jump targets: label, target, and whether it is a loop.
    targets: Vec<(Option<Lifetime>, JumpTarget, bool)>,
    next_target: usize,
    /// The number of enclosing closures.
    pub(super) closure_depth: usize,
    /// Whether `!` is an extraction.
    pub(super) lazy: bool,
    /// The number of enclosing extractions.
    pub(super) extraction_depth: usize,
    /// Whether a borrow at this place may outlive the statement.
    pub(super) borrows_last: bool,
    /// The variables borrowed by the enclosing expressions. A borrow is live until the innermost
    /// expression that uses it has been evaluated.
    pub(super) live_borrows: Vec<Var>,
}

impl Builder {
    pub(super) fn new(lazy: bool, results: HashSet<NodeId>) -> Self {
        let control_flow = ControlFlow {
            variables: Vec::new(),
            roots: Vec::new(),
            always_duplicated: HashSet::new(),
            primitive_negations: HashSet::new(),
            copyable: HashSet::new(),
            tested_layers: Vec::new(),
            value_results: HashSet::new(),
            free_variables: Vec::new(),
        };
        Builder {
            control_flow,
            results,
            flow: Vec::new(),
            scope: Vec::new(),
            items: Vec::new(),
            targets: Vec::new(),
            next_target: 0,
            closure_depth: 0,
            lazy,
            extraction_depth: 0,
            borrows_last: false,
            live_borrows: Vec::new(),
        }
    }

    pub(super) fn finish(mut self, body: &Block) -> ControlFlow {
        self.visit_block(body);
        self.control_flow.roots.push(self.flow);
        self.control_flow
    }

    /// The flow of a part as a sequence of its own. Its bindings go out of scope at the end.
    pub(super) fn sequence(&mut self, read: impl FnOnce(&mut Self)) -> Vec<Flow> {
        let outer = std::mem::take(&mut self.flow);
        let scope = self.scope.len();
        read(self);
        self.scope.truncate(scope);
        std::mem::replace(&mut self.flow, outer)
    }

    /// Visits a part. If it is conditional (`#[cfg]`), the flow may also skip it.
    pub(super) fn conditionally(&mut self, conditional: bool, read: impl FnOnce(&mut Self)) {
        if conditional {
            let part = self.sequence(read);
            self.flow.push(Flow::Either(vec![part, Vec::new()]));
        } else {
            read(self);
        }
    }

    /// Visits the body of a loop or a labelled block, the target of jumps in it.
    pub(super) fn jump_target(
        &mut self,
        label: Option<&Label>,
        is_loop: bool,
        read: impl FnOnce(&mut Self, JumpTarget),
    ) -> (JumpTarget, Vec<Flow>) {
        let target = JumpTarget(self.next_target);
        self.next_target += 1;
        self.targets.push((label.map(|label| label.name.clone()), target, is_loop));
        let body = self.sequence(|builder| read(builder, target));
        self.targets.pop();
        (target, body)
    }

    /// The target of a `break` or a `continue`, if it is in the analyzed code.
    pub(super) fn target(&self, label: Option<&Lifetime>) -> Option<JumpTarget> {
        let mut targets = self.targets.iter().rev();
        match label {
            Some(label) => targets.find(|(name, ..)| name.as_ref() == Some(label)),
            None => targets.find(|(_, _, is_loop)| *is_loop),
        }
        .map(|(_, target, _)| *target)
    }

    /// Visits a part. `lasting` says whether borrows in it may outlive the statement.
    pub(super) fn with_lasting_borrows(&mut self, lasting: bool, read: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.borrows_last, lasting);
        read(self);
        self.borrows_last = outer;
    }

    /// Visits an expression that uses the borrows of its parts: they are live until all parts have
    /// been evaluated. If `result_borrows`, the value of the expression keeps them live for the
    /// enclosing one.
    ///
    /// ```text
    /// // Input:  f(&h, h * 2.0)
    /// // Output: Read(h) Operand(h) Read(h)
    /// ```
    pub(super) fn with_live_borrows(&mut self, result_borrows: bool, read: impl FnOnce(&mut Self)) {
        let before = self.live_borrows.len();
        read(self);
        self.flow.extend(self.live_borrows[before..].iter().copied().map(Flow::Read));
        if !result_borrows {
            self.live_borrows.truncate(before);
        }
    }

    /// Visits an operand of an operator that takes it by value.
    pub(super) fn operand(&mut self, operand: &Expr) {
        let id = NodeId::of(operand);
        let var = match as_variable(operand) {
            Some(name) => self.lookup(name),
            None => {
                if is_place(operand) && !matches!(strip_parens(operand), Expr::Path(_)) {
                    self.control_flow.always_duplicated.insert(id);
                }
                return self.visit_expr(operand);
            }
        };
        let Some(var) = var else { return self.visit_expr(operand) };
        let variable = &self.control_flow.variables[var.0];
        if variable.facts.primitive {
            self.flow.push(Flow::Read(var));
        } else if variable.closure_depth < self.closure_depth || self.extraction_depth > 0 {
            // A closure may run again, and the operand of an extraction may be hoisted, so the
            // order of reads is unknown.
            self.control_flow.always_duplicated.insert(id);
            self.flow.push(Flow::Read(var));
        } else {
            self.flow.push(Flow::Operand(var, id));
        }
    }

    /// Visits a closure or an `async` block: a root of its own, and a read of each captured
    /// variable. `moves` says whether it captures by value.
    pub(super) fn capture(&mut self, moves: bool, read: impl FnOnce(&mut Self)) {
        let (targets, extraction_depth) =
            (std::mem::take(&mut self.targets), std::mem::take(&mut self.extraction_depth));
        self.closure_depth += 1;
        let (lazy, borrows_last) =
            (std::mem::replace(&mut self.lazy, false), std::mem::replace(&mut self.borrows_last, false));
        let outer_borrows = std::mem::take(&mut self.live_borrows);
        let body = self.sequence(read);
        (self.lazy, self.borrows_last, self.live_borrows) = (lazy, borrows_last, outer_borrows);
        self.closure_depth -= 1;
        (self.targets, self.extraction_depth) = (targets, extraction_depth);
        let mut captured = Vec::new();
        accessed(&body, &mut captured);
        captured.retain(|var| self.control_flow.variables[var.0].closure_depth <= self.closure_depth);
        for var in captured {
            self.control_flow.variables[var.0].borrowed |= self.borrows_last && !moves;
            self.live_borrows.extend((!moves).then_some(var));
            self.flow.push(Flow::Read(var));
        }
        self.control_flow.roots.push(body);
    }

    /// The left side of an assignment: a write of each variable in it.
    pub(super) fn assign(&mut self, left: &Expr) {
        match strip_parens(left) {
            Expr::Tuple(left) => left.elems.iter().for_each(|e| self.assign(e)),
            Expr::Array(left) => left.elems.iter().for_each(|e| self.assign(e)),
            Expr::Path(_) => {
                if let Some(var) = as_variable(left).and_then(|name| self.lookup(name)) {
                    self.flow.push(Flow::Write(var));
                }
            }
            left => self.visit_expr(left),
        }
    }
}

/// Collects the variables that a flow reads or writes.
fn accessed(flow: &[Flow], into: &mut Vec<Var>) {
    for step in flow {
        match step {
            Flow::Read(var) | Flow::Operand(var, _) | Flow::Write(var) => into.push(*var),
            Flow::Either(ways) => ways.iter().for_each(|way| accessed(way, into)),
            Flow::Block(_, body) | Flow::Loop(_, body) => accessed(body, into),
            Flow::Jump(_) | Flow::Leave => {}
        }
    }
}
