//! Branch instrumentation: each branch that the analysis found reports which arm it takes.
//!
//! ```text
//! // Input:  if !x > limit { a } else { b }
//! // Output: let branches = { static BRANCHES: [Branch; 1] = [Branch::new("!x > limit", &["a", "b"])]; &BRANCHES };
//! //         if (!x > limit) && yes(&branches[0]) || no(&branches[0]) { a } else { b }
//! // Input:  match !x { Some(a) => a, None => b }
//! // Output: match !x { Some(a) => { took(&branches[0], 0); a } None => { took(&branches[0], 1); b } }
//! ```

use crate::analyze::branches::{Branch, Branches};
use crate::parse::crate_path;
use crate::parse::node::NodeId;
use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::{Block, Expr, Ident, Path, Stmt, parse_quote_spanned};

/// Declares the table of branches, at the start of the body.
pub(crate) fn declaration(branches: &Branches, krate: &Path) -> Option<TokenStream> {
    let site = Span::mixed_site();
    let (runtime, variable, count) = (crate_path::runtime(krate, site), name(), syn::Index::from(branches.all.len()));
    let each = branches.all.iter().map(|Branch { span, condition, arms }| {
        let runtime = crate_path::runtime(krate, *span);
        quote_spanned!(*span=> #runtime::Branch::new(#condition, &[#(#arms),*]))
    });
    let declared = quote_spanned!(site=>
        #[allow(unused_variables)]
        let #variable = {
            static BRANCHES: [#runtime::Branch; #count] = [#(#each),*];
            &BRANCHES
        };
    );
    (!branches.all.is_empty()).then_some(declared)
}

/// Makes an `if`, a `match` or a `while` report the arm it takes.
pub(crate) fn instrument(branches: &Branches, id: NodeId, expr: &mut Expr, krate: &Path) {
    let Some(&number) = branches.index.get(&id) else { return };
    let took = |arm| took(number, arm, krate);
    match expr {
        Expr::If(e) if !has_let(&e.cond) => instrument_condition(&mut e.cond, number, krate),
        Expr::If(e) => {
            e.then_branch.stmts.insert(0, took(0));
            match &mut e.else_branch {
                Some((_, otherwise)) => prepend(otherwise, took(1)),
                none => *none = Some((Default::default(), Box::new(block(vec![took(1)])))),
            }
        }
        Expr::Match(e) => e.arms.iter_mut().enumerate().for_each(|(i, arm)| prepend(&mut arm.body, took(i))),
        Expr::While(e) if !has_let(&e.cond) => instrument_condition(&mut e.cond, number, krate),
        Expr::While(e) => {
            e.body.stmts.insert(0, took(0));
            let all = std::mem::replace(expr, Expr::PLACEHOLDER);
            *expr = block(vec![Stmt::Expr(all, None), took(1)]);
        }
        _ => {}
    }
}

/// Makes a `let … else` report a mismatch. The returned statement reports a match; it must be
/// inserted after the `let`.
pub(crate) fn instrument_let_else(
    branches: &Branches,
    id: NodeId,
    local: &mut syn::Local,
    krate: &Path,
) -> Option<Stmt> {
    let number = *branches.index.get(&id)?;
    let (_, otherwise) = local.init.as_mut()?.diverge.as_mut()?;
    prepend(otherwise, took(number, 1, krate));
    Some(took(number, 0, krate))
}

/// The variable that holds the table of branches.
fn name() -> Ident {
    Ident::new("branches", Span::mixed_site())
}

fn took(number: usize, arm: usize, krate: &Path) -> Stmt {
    let site = Span::mixed_site();
    let (runtime, branches) = (crate_path::runtime(krate, site), name());
    let [number, arm] = [number, arm].map(syn::Index::from);
    parse_quote_spanned!(site=> #runtime::took(&#branches[#number], #arm);)
}

/// Instruments a condition without `let`.
fn instrument_condition(condition: &mut Expr, number: usize, krate: &Path) {
    let site = Span::mixed_site();
    let (runtime, branches, number) = (crate_path::runtime(krate, site), name(), syn::Index::from(number));
    *condition = parse_quote_spanned!(site=>
        (#condition) && #runtime::yes(&#branches[#number]) || #runtime::no(&#branches[#number])
    );
}

fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(e) => has_let(&e.left) || has_let(&e.right),
        _ => false,
    }
}

/// Inserts a statement at the start of an arm.
fn prepend(arm: &mut Expr, first: Stmt) {
    match arm {
        Expr::Block(e) if e.label.is_none() => e.block.stmts.insert(0, first),
        _ => {
            let all = std::mem::replace(arm, Expr::PLACEHOLDER);
            *arm = block(vec![first, Stmt::Expr(all, None)]);
        }
    }
}

fn block(stmts: Vec<Stmt>) -> Expr {
    let block = Block { brace_token: Default::default(), stmts };
    Expr::Block(syn::ExprBlock { attrs: Vec::new(), label: None, block })
}
