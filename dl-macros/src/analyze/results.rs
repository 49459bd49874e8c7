//! The expressions whose value a body returns: its tail, through blocks and branches, and the operands
//! of `return`.

use crate::parse::node::NodeId;
use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{Block, Expr, Stmt};

/// Finds the results of a body.
pub(crate) fn find(body: &Block) -> HashSet<NodeId> {
    let mut results = Results(HashSet::new());
    results.add_tail(body);
    results.visit_block(body);
    results.0
}

struct Results(HashSet<NodeId>);

impl Results {
    fn add_tail(&mut self, block: &Block) {
        if let Some(Stmt::Expr(tail, None)) = block.stmts.last() {
            self.add(tail);
        }
    }

    fn add(&mut self, e: &Expr) {
        match e {
            Expr::Block(e) => self.add_tail(&e.block),
            Expr::Unsafe(e) => self.add_tail(&e.block),
            Expr::If(e) => {
                self.add_tail(&e.then_branch);
                e.else_branch.iter().for_each(|(_, otherwise)| self.add(otherwise));
            }
            Expr::Match(e) => e.arms.iter().for_each(|arm| self.add(&arm.body)),
            e => drop(self.0.insert(NodeId::of(e))),
        }
    }
}

impl<'a> Visit<'a> for Results {
    fn visit_expr_return(&mut self, e: &'a syn::ExprReturn) {
        e.expr.iter().for_each(|returned| self.add(returned));
        visit::visit_expr_return(self, e);
    }

    // A `return` in them ends something else.
    fn visit_expr_closure(&mut self, _: &'a syn::ExprClosure) {}
    fn visit_expr_async(&mut self, _: &'a syn::ExprAsync) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}
    fn visit_item(&mut self, _: &'a syn::Item) {}
}
