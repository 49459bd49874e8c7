//! The branches that may depend on an extracted value: each `if`, `match`, `while` and `let … else`
//! after an extraction.

use crate::analyze::joins::Plan;
use crate::analyze::source_text::{text, truncate};
use crate::parse::node::NodeId;
use crate::parse::std_macros;
use proc_macro2::Span;
use std::collections::HashMap;
use syn::visit::{self, Visit};
use syn::{Block, Expr, Stmt, UnOp};

/// The branches of a body.
#[derive(Default)]
pub(crate) struct Branches {
    pub(crate) all: Vec<Branch>,
    /// The index in `all` of each branching expression and each `let … else`.
    pub(crate) index: HashMap<NodeId, usize>,
}

pub(crate) struct Branch {
    /// The span of the keyword.
    pub(crate) span: Span,
    /// The condition as source text.
    pub(crate) condition: String,
    /// The arms as source text: for each, the expression it ends with.
    pub(crate) arms: Vec<String>,
}

/// Finds the branches after an extraction, or with an extraction in their condition.
///
/// An extraction anywhere in a loop precedes all branches in it, because of the next iteration.
pub(crate) fn find(body: &Block, plan: &Plan) -> Branches {
    let mut finder = Finder { plan, after_extraction: false, branches: Branches::default() };
    finder.visit_block(body);
    finder.branches
}

struct Finder<'a> {
    plan: &'a Plan,
    /// Whether an extraction precedes this place.
    after_extraction: bool,
    branches: Branches,
}

impl Finder<'_> {
    fn add<T>(&mut self, node: &T, span: Span, condition: String, arms: impl FnOnce() -> Vec<String>) {
        if self.after_extraction {
            self.branches.index.insert(NodeId::of(node), self.branches.all.len());
            self.branches.all.push(Branch { span, condition, arms: arms() });
        }
    }

    /// Notes the extractions in a part that may run before this place.
    fn look_ahead(&mut self, visit: impl Fn(&mut Extractions<'_>)) {
        let mut extractions = Extractions { plan: self.plan, found: false };
        visit(&mut extractions);
        self.after_extraction |= extractions.found;
    }
}

/// Whether a part contains an extraction.
struct Extractions<'a> {
    plan: &'a Plan,
    found: bool,
}

impl<'a> Visit<'a> for Extractions<'_> {
    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        self.found |= self.plan.extractions.contains_key(&NodeId::of(&*e.expr));
        visit::visit_expr_unary(self, e);
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            // They contain no extraction, and they do not run at this place.
            Expr::Closure(_) | Expr::Async(_) | Expr::Const(_) => {}
            Expr::Unary(e) => {
                self.visit_expr(&e.expr);
                self.after_extraction |=
                    matches!(e.op, UnOp::Not(_)) && self.plan.extractions.contains_key(&NodeId::of(&*e.expr));
            }
            Expr::If(e) => {
                self.visit_expr(&e.cond);
                let otherwise = || e.else_branch.as_ref().map_or_else(nothing, |(_, otherwise)| last_of(otherwise));
                self.add(expr, e.if_token.span, source(&e.cond), || vec![last_of_block(&e.then_branch), otherwise()]);
                self.visit_block(&e.then_branch);
                if let Some((_, otherwise)) = &e.else_branch {
                    self.visit_expr(otherwise);
                }
            }
            Expr::Match(e) => {
                self.visit_expr(&e.expr);
                self.look_ahead(|extractions| {
                    e.arms
                        .iter()
                        .filter_map(|arm| arm.guard.as_ref())
                        .for_each(|(_, guard)| extractions.visit_expr(guard))
                });
                self.add(expr, e.match_token.span, source(&e.expr), || e.arms.iter().map(arm).collect());
                e.arms.iter().for_each(|arm| self.visit_arm(arm));
            }
            Expr::While(e) => {
                self.look_ahead(|extractions| extractions.visit_expr_while(e));
                let arms = || vec!["another round".to_owned(), "end".to_owned()];
                self.add(expr, e.while_token.span, source(&e.cond), arms);
                visit::visit_expr_while(self, e);
            }
            Expr::ForLoop(e) => {
                self.visit_expr(&e.expr);
                self.look_ahead(|extractions| extractions.visit_block(&e.body));
                self.visit_block(&e.body);
            }
            Expr::Loop(e) => {
                self.look_ahead(|extractions| extractions.visit_block(&e.body));
                self.visit_block(&e.body);
            }
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        let Some(init) = &local.init else { return };
        self.visit_expr(&init.expr);
        if let Some((_, otherwise)) = &init.diverge {
            let pat = text(&local.pat);
            let condition = truncate(&format!("let {pat} = {}", source(&init.expr)));
            self.add(local, local.let_token.span, condition, || vec![pat, last_of(otherwise)]);
            self.visit_expr(otherwise);
        }
    }

    fn visit_item(&mut self, _: &'a syn::Item) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}
}

fn nothing() -> String {
    "nothing".to_owned()
}

/// The text of the last expression of an arm.
fn last_of(e: &Expr) -> String {
    match e {
        Expr::Block(e) if e.label.is_none() => last_of_block(&e.block),
        Expr::If(e) => truncate(&format!("if {} …", source(&e.cond))),
        e => source(e),
    }
}

fn last_of_block(block: &Block) -> String {
    match block.stmts.last() {
        Some(Stmt::Expr(e, None)) => last_of(e),
        Some(stmt) => text(std_macros::closed_stmt(stmt)).trim_end_matches(';').to_owned(),
        None => nothing(),
    }
}

fn source(e: &Expr) -> String {
    text(std_macros::closed(e))
}

fn arm(arm: &syn::Arm) -> String {
    let guard = arm.guard.as_ref().map(|(_, guard)| format!(" if {}", source(guard))).unwrap_or_default();
    truncate(&format!("{}{guard} => {}", text(&arm.pat), last_of(&arm.body)))
}
