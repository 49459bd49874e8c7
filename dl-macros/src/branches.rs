//! What decides by a forward value: each `if`, `match`, `while` and `let … else` of a lazy body
//! after a bang. The body tells which way it goes on.
//!
//! ```text
//! // Input:  if !x > limit { a } else { b }
//! // Output: let branches = { static BRANCHES: [Branch; 1] = [Branch::new("!x > limit", &["a", "b"])]; &BRANCHES };
//! //         if (!x > limit) && yes(&branches[0]) || no(&branches[0]) { a } else { b }
//! // Input:  match !x { Some(a) => a, None => b }
//! // Output: match !x { Some(a) => { took(&branches[0], 0); a } None => { took(&branches[0], 1); b } }
//! ```

use crate::arguments;
use crate::node::NodeId;
use crate::operands::module;
use crate::plan::Plan;
use crate::source::{cut, text};
use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use std::collections::HashMap;
use syn::visit::{self, Visit};
use syn::{Block, Expr, Ident, Path, Stmt, UnOp, parse_quote_spanned};

/// The branches of a body.
#[derive(Default)]
pub(crate) struct Branches {
    all: Vec<Branch>,
    numbers: HashMap<NodeId, usize>,
}

struct Branch {
    /// The keyword.
    span: Span,
    condition: String,
    arms: Vec<String>,
}

/// Finds those that stand after a bang, or have one in their condition. In a loop, what comes later
/// in a round comes before the next one.
pub(crate) fn find(body: &Block, plan: &Plan) -> Branches {
    let mut finder = Finder { plan, after: false, branches: Branches::default() };
    finder.visit_block(body);
    finder.branches
}

struct Finder<'a> {
    plan: &'a Plan,
    /// Whether there was a bang.
    after: bool,
    branches: Branches,
}

impl Finder<'_> {
    fn note<T>(&mut self, node: &T, span: Span, condition: String, arms: impl FnOnce() -> Vec<String>) {
        if self.after {
            self.branches.numbers.insert(NodeId::of(node), self.branches.all.len());
            self.branches.all.push(Branch { span, condition, arms: arms() });
        }
    }

    fn enter_loop(&mut self, visit: impl Fn(&mut Bangs<'_>)) {
        let mut bangs = Bangs { plan: self.plan, found: false };
        visit(&mut bangs);
        self.after |= bangs.found;
    }
}

/// Whether there is a bang.
struct Bangs<'a> {
    plan: &'a Plan,
    found: bool,
}

impl<'a> Visit<'a> for Bangs<'_> {
    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        self.found |= self.plan.bangs.contains_key(&NodeId::of(&*e.expr));
        visit::visit_expr_unary(self, e);
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            // They keep Rust's `!`, and run when somebody else says so.
            Expr::Closure(_) | Expr::Async(_) | Expr::Const(_) => {}
            Expr::Unary(e) => {
                self.visit_expr(&e.expr);
                self.after |= matches!(e.op, UnOp::Not(_)) && self.plan.bangs.contains_key(&NodeId::of(&*e.expr));
            }
            Expr::If(e) => {
                self.visit_expr(&e.cond);
                let otherwise = || e.else_branch.as_ref().map_or_else(nothing, |(_, otherwise)| way(otherwise));
                self.note(expr, e.if_token.span, written(&e.cond), || vec![end_of(&e.then_branch), otherwise()]);
                self.visit_block(&e.then_branch);
                if let Some((_, otherwise)) = &e.else_branch {
                    self.visit_expr(otherwise);
                }
            }
            Expr::Match(e) => {
                self.visit_expr(&e.expr);
                self.enter_loop(|bangs| {
                    e.arms.iter().filter_map(|arm| arm.guard.as_ref()).for_each(|(_, guard)| bangs.visit_expr(guard))
                });
                self.note(expr, e.match_token.span, written(&e.expr), || e.arms.iter().map(arm).collect());
                e.arms.iter().for_each(|arm| self.visit_arm(arm));
            }
            Expr::While(e) => {
                self.enter_loop(|bangs| bangs.visit_expr_while(e));
                let arms = || vec!["another round".to_owned(), "end".to_owned()];
                self.note(expr, e.while_token.span, written(&e.cond), arms);
                visit::visit_expr_while(self, e);
            }
            Expr::ForLoop(e) => {
                self.visit_expr(&e.expr);
                self.enter_loop(|bangs| bangs.visit_block(&e.body));
                self.visit_block(&e.body);
            }
            Expr::Loop(e) => {
                self.enter_loop(|bangs| bangs.visit_block(&e.body));
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
            let condition = cut(&format!("let {pat} = {}", written(&init.expr)));
            self.note(local, local.let_token.span, condition, || vec![pat, way(otherwise)]);
            self.visit_expr(otherwise);
        }
    }

    fn visit_item(&mut self, _: &'a syn::Item) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}
}

fn nothing() -> String {
    "nothing".to_owned()
}

/// The way on, in short: what it ends with.
fn way(e: &Expr) -> String {
    match e {
        Expr::Block(e) if e.label.is_none() => end_of(&e.block),
        Expr::If(e) => cut(&format!("if {} …", written(&e.cond))),
        e => written(e),
    }
}

fn written(e: &Expr) -> String {
    text(arguments::closed(e))
}

fn end_of(block: &Block) -> String {
    match block.stmts.last() {
        Some(Stmt::Expr(e, None)) => way(e),
        Some(stmt) => text(arguments::closed_stmt(stmt)).trim_end_matches(';').to_owned(),
        None => nothing(),
    }
}

fn arm(arm: &syn::Arm) -> String {
    let guard = arm.guard.as_ref().map(|(_, guard)| format!(" if {}", written(guard))).unwrap_or_default();
    cut(&format!("{}{guard} => {}", text(&arm.pat), way(&arm.body)))
}

impl Branches {
    /// What the body begins with.
    pub(crate) fn declared(&self, krate: &Path) -> Option<TokenStream> {
        let site = Span::mixed_site();
        let (bang, branches, count) = (module(krate, site), name(), syn::Index::from(self.all.len()));
        let each = self.all.iter().map(|Branch { span, condition, arms }| {
            let bang = module(krate, *span);
            quote_spanned!(*span=> #bang::Branch::new(#condition, &[#(#arms),*]))
        });
        let declared = quote_spanned!(site=>
            #[allow(unused_variables)]
            let #branches = {
                static BRANCHES: [#bang::Branch; #count] = [#(#each),*];
                &BRANCHES
            };
        );
        (!self.all.is_empty()).then_some(declared)
    }

    /// Has an `if`, a `match` or a `while` tell which way it goes on.
    pub(crate) fn tell(&self, id: NodeId, expr: &mut Expr, krate: &Path) {
        let Some(&number) = self.numbers.get(&id) else { return };
        let took = |arm| took(number, arm, krate);
        match expr {
            Expr::If(e) if !has_let(&e.cond) => decide(&mut e.cond, number, krate),
            Expr::If(e) => {
                e.then_branch.stmts.insert(0, took(0));
                match &mut e.else_branch {
                    Some((_, otherwise)) => begin(otherwise, took(1)),
                    none => *none = Some((Default::default(), Box::new(block(vec![took(1)])))),
                }
            }
            Expr::Match(e) => e.arms.iter_mut().enumerate().for_each(|(i, arm)| begin(&mut arm.body, took(i))),
            Expr::While(e) if !has_let(&e.cond) => decide(&mut e.cond, number, krate),
            Expr::While(e) => {
                e.body.stmts.insert(0, took(0));
                let all = std::mem::replace(expr, Expr::PLACEHOLDER);
                *expr = block(vec![Stmt::Expr(all, None), took(1)]);
            }
            _ => {}
        }
    }

    /// Has a `let … else` tell that it did not hold. What comes back is to follow it.
    pub(crate) fn tell_local(&self, id: NodeId, local: &mut syn::Local, krate: &Path) -> Option<Stmt> {
        let number = *self.numbers.get(&id)?;
        let (_, otherwise) = local.init.as_mut()?.diverge.as_mut()?;
        begin(otherwise, took(number, 1, krate));
        Some(took(number, 0, krate))
    }
}

/// The variable with the branches.
fn name() -> Ident {
    Ident::new("branches", Span::mixed_site())
}

fn took(number: usize, arm: usize, krate: &Path) -> Stmt {
    let site = Span::mixed_site();
    let (bang, branches) = (module(krate, site), name());
    let [number, arm] = [number, arm].map(syn::Index::from);
    parse_quote_spanned!(site=> #bang::took(&#branches[#number], #arm);)
}

/// A condition without `let`.
fn decide(condition: &mut Expr, number: usize, krate: &Path) {
    let site = Span::mixed_site();
    let (bang, branches, number) = (module(krate, site), name(), syn::Index::from(number));
    *condition = parse_quote_spanned!(site=>
        (#condition) && #bang::yes(&#branches[#number]) || #bang::no(&#branches[#number])
    );
}

fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(e) => has_let(&e.left) || has_let(&e.right),
        _ => false,
    }
}

/// Has this done first.
fn begin(way: &mut Expr, first: Stmt) {
    match way {
        Expr::Block(e) if e.label.is_none() => e.block.stmts.insert(0, first),
        _ => {
            let all = std::mem::replace(way, Expr::PLACEHOLDER);
            *way = block(vec![first, Stmt::Expr(all, None)]);
        }
    }
}

fn block(stmts: Vec<Stmt>) -> Expr {
    let block = Block { brace_token: Default::default(), stmts };
    Expr::Block(syn::ExprBlock { attrs: Vec::new(), label: None, block })
}
