//! The control flow of a body: its reads and writes of variables, and its jumps.
//!
//! ```text
//! // Input:  let y = x * x; if c { y } else { y + x }
//! // Output: Operand(x) Operand(x) Write(y) Read(c) Either { Read(y) | Operand(y) Operand(x) }
//! ```
//!
//! `builder` builds it, `visit` handles each kind of expression, `bindings` resolves names.

mod bindings;
mod builder;
mod visit;

use crate::analyze::results;
use crate::parse::node::NodeId;
use crate::parse::{attributes, direct_block, std_macros};
use bindings::TypeFacts;
use builder::Builder;
use std::collections::HashSet;
use syn::{Block, Ident, Macro, Pat, Type};

/// A variable: one binding. Several variables may have the same name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Var(pub(crate) usize);

/// A loop or a labelled block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct JumpTarget(usize);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Jump {
    Break(JumpTarget),
    Continue(JumpTarget),
}

/// A step of the control flow.
#[derive(Debug)]
pub(crate) enum Flow {
    Read(Var),
    /// A read as an operand of an operator, which takes it by value.
    Operand(Var, NodeId),
    Write(Var),
    /// One of several paths.
    Either(Vec<Vec<Flow>>),
    Block(JumpTarget, Vec<Flow>),
    Loop(JumpTarget, Vec<Flow>),
    Jump(Jump),
    /// `return`, or a jump out of the analyzed code.
    Leave,
}

pub(crate) struct Variable {
    name: String,
    facts: TypeFacts,
    /// Whether a reference to the variable may outlive the statement that made it. Such a variable
    /// must not be moved, even if its name does not occur again.
    pub(crate) borrowed: bool,
    /// The number of closures around the binding.
    closure_depth: usize,
}

/// The control flow of a body and the facts about its variables.
pub(crate) struct ControlFlow {
    pub(crate) variables: Vec<Variable>,
    /// One flow for the body, and one for each closure and `async` block in it.
    pub(crate) roots: Vec<Vec<Flow>>,
    /// Operands that must be duplicated regardless of liveness.
    pub(crate) always_duplicated: HashSet<NodeId>,
    /// Operands of `!` that are syntactically primitive. Such a `!` is no extraction.
    pub(crate) primitive_negations: HashSet<NodeId>,
    /// Paths that can be moved from without changing anything: numbers, shared references, and
    /// names that are no variables of the function.
    pub(crate) copyable: HashSet<NodeId>,
    /// Layers, by their syntax, where only a value can be tested: compared, in the place of a
    /// condition, or matched with numbers.
    pub(crate) tested_layers: Vec<Ident>,
    /// Results of the body that are values by their syntax, where a layer must be returned.
    pub(crate) value_results: HashSet<NodeId>,
    /// Names that are used as values but are not bound in the body.
    pub(crate) free_variables: Vec<Ident>,
}

/// Builds the control flow of a body. In a `lazy` function, `!` is an extraction.
pub(crate) fn build<'a>(
    parameters: impl Iterator<Item = (&'a Pat, &'a Type)>,
    body: &Block,
    lazy: bool,
) -> ControlFlow {
    let mut builder = Builder::new(lazy, if lazy { results::find(body) } else { HashSet::new() });
    for (pat, ty) in parameters {
        builder.bind(pat, TypeFacts::default().with_type(ty));
    }
    builder.finish(body)
}

/// The variables that a macro captures, if it is `direct!`.
fn captured_by_direct(mac: &Macro) -> Option<Vec<Ident>> {
    let is_direct = direct_block::is_direct(mac);
    let (_, mut block) = is_direct.then(|| direct_block::parse(mac.tokens.clone()).ok()).flatten()?;
    std_macros::open(&mut block);
    attributes::enclose(&mut block);
    Some(build(std::iter::empty(), &block, true).free_variables)
}
