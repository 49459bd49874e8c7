//! The effects of evaluating the operand of an extraction: its use set and its may-write set.

use crate::analyze::control_flow::ControlFlow;
use crate::parse::node::NodeId;
use crate::parse::{format_strings, std_macros};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{Block, Expr, Ident, Macro, UnOp};

pub(crate) struct OperandEffects<'a> {
    control_flow: &'a ControlFlow,
    /// Whether the operand contains an extraction, `?`, `return`, `break`, `continue` or `.await`.
    pub(crate) suspends: bool,
    /// The use set: all names that occur in the operand.
    pub(crate) use_set: HashSet<Ident>,
    /// The may-write set: the names of the variables that the operand may change or move.
    pub(crate) may_write: HashSet<Ident>,
    /// The number of enclosing constructs in which each name counts as written.
    writing_depth: usize,
    /// The number of enclosing closures.
    closure_depth: usize,
    /// Whether the value of a name at this place is moved.
    moved: bool,
}

impl<'c> OperandEffects<'c> {
    pub(crate) fn of(e: &Expr, control_flow: &'c ControlFlow) -> OperandEffects<'c> {
        let mut effects = OperandEffects {
            control_flow,
            suspends: false,
            use_set: HashSet::new(),
            may_write: HashSet::new(),
            writing_depth: 0,
            closure_depth: 0,
            moved: false,
        };
        effects.visit_expr(e);
        effects
    }

    /// Visits a part in which each name counts as written.
    fn writing(&mut self, visit: impl FnOnce(&mut Self)) {
        self.writing_depth += 1;
        visit(self);
        self.writing_depth -= 1;
    }

    /// Visits arguments; their values are moved.
    fn moving<'a>(&mut self, args: impl IntoIterator<Item = &'a Expr>) {
        let outer = std::mem::replace(&mut self.moved, true);
        args.into_iter().for_each(|arg| self.visit_expr(arg));
        self.moved = outer;
    }

    /// Notes a suspension point. Those inside a closure do not suspend the operand itself.
    fn suspend(&mut self) {
        self.suspends |= self.closure_depth == 0;
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => self.name(&name),
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(_) | TokenTree::Punct(_) => {}
            }
        }
    }

    fn name(&mut self, name: &Ident) {
        self.use_set.insert(name.clone());
        if self.writing_depth > 0 {
            self.may_write.insert(name.clone());
        }
    }
}

impl<'a> Visit<'a> for OperandEffects<'_> {
    fn visit_item(&mut self, _: &'a syn::Item) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}

    fn visit_expr(&mut self, e: &'a Expr) {
        let outer = self.moved;
        self.moved &= match e {
            Expr::Path(_) | Expr::Paren(_) | Expr::Group(_) | Expr::Tuple(_) | Expr::Array(_) => true,
            Expr::Struct(_) | Expr::Match(_) => true,
            // The field or element may be a `&mut`.
            Expr::Field(_) | Expr::Index(_) => true,
            Expr::Unary(e) => matches!(e.op, UnOp::Deref(_)),
            _ => false,
        };
        visit::visit_expr(self, e);
        self.moved = outer;
    }

    fn visit_expr_path(&mut self, e: &'a syn::ExprPath) {
        if let Some(name) = e.path.get_ident() {
            self.name(name);
            if self.moved && !self.control_flow.copyable.contains(&NodeId::of(e)) {
                self.may_write.insert(name.clone());
            }
        }
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        self.writing(|effects| {
            effects.tokens(mac.tokens.clone());
            format_strings::captured(mac).iter().for_each(|name| effects.name(name));
        });
    }

    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        if matches!(e.op, UnOp::Not(_)) && !self.control_flow.primitive_negations.contains(&NodeId::of(&*e.expr)) {
            self.suspend();
        }
        self.visit_expr(&e.expr);
    }

    fn visit_expr_try(&mut self, e: &'a syn::ExprTry) {
        self.suspend();
        self.visit_expr(&e.expr);
    }

    fn visit_expr_await(&mut self, e: &'a syn::ExprAwait) {
        self.suspend();
        self.visit_expr(&e.base);
    }

    fn visit_expr_return(&mut self, _: &'a syn::ExprReturn) {
        self.suspend();
    }

    fn visit_expr_break(&mut self, _: &'a syn::ExprBreak) {
        self.suspend();
    }

    fn visit_expr_continue(&mut self, _: &'a syn::ExprContinue) {
        self.suspend();
    }

    fn visit_expr_reference(&mut self, e: &'a syn::ExprReference) {
        if e.mutability.is_some() {
            self.writing(|effects| effects.visit_expr(&e.expr));
        } else {
            self.visit_expr(&e.expr);
        }
    }

    fn visit_expr_method_call(&mut self, e: &'a syn::ExprMethodCall) {
        self.writing(|effects| effects.visit_expr(&e.receiver));
        self.moving(&e.args);
    }

    fn visit_expr_call(&mut self, e: &'a syn::ExprCall) {
        self.writing(|effects| effects.visit_expr(&e.func));
        match std_macros::opened_macro(e) {
            Some(mac) if !std_macros::moves_arguments(mac) => e.args.iter().for_each(|arg| self.visit_expr(arg)),
            _ => self.moving(&e.args),
        }
    }

    fn visit_expr_index(&mut self, e: &'a syn::ExprIndex) {
        self.visit_expr(&e.expr);
        let outer = std::mem::replace(&mut self.moved, false);
        self.visit_expr(&e.index);
        self.moved = outer;
    }

    fn visit_expr_closure(&mut self, e: &'a syn::ExprClosure) {
        self.closure_depth += 1;
        self.writing(|effects| effects.visit_expr(&e.body));
        self.closure_depth -= 1;
    }

    fn visit_block(&mut self, block: &'a Block) {
        self.writing(|effects| visit::visit_block(effects, block));
    }

    fn visit_expr_assign(&mut self, e: &'a syn::ExprAssign) {
        self.writing(|effects| visit::visit_expr_assign(effects, e));
    }
}
