//! The control flow of each kind of expression and statement.

use super::bindings::{TypeFacts, is_numeric, item_names};
use super::builder::Builder;
use super::{Flow, Jump, captured_by_direct};
use crate::parse::node::{NodeId, as_variable, is_place, strip_parens};
use crate::parse::plain_types::{is_arithmetic, is_compound, is_logic, is_primitive};
use crate::parse::{attributes, format_strings, std_macros};
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Pat, Stmt, Type, UnOp};

impl<'a> Visit<'a> for Builder {
    fn visit_item(&mut self, _: &'a syn::Item) {}
    fn visit_type(&mut self, _: &'a Type) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}

    fn visit_expr(&mut self, e: &'a Expr) {
        if self.results.contains(&NodeId::of(e)) && self.is_value(e) {
            self.control_flow.value_results.insert(NodeId::of(e));
        }
        visit::visit_expr(self, e);
    }

    fn visit_expr_repeat(&mut self, e: &'a syn::ExprRepeat) {
        self.visit_expr(&e.expr);
    }

    fn visit_expr_path(&mut self, e: &'a syn::ExprPath) {
        if let Some(name) = e.path.get_ident() {
            self.read(name);
            self.note_free(name);
            if self.lookup(name).is_none_or(|var| self.facts(var).is_copyable()) {
                self.control_flow.copyable.insert(NodeId::of(e));
            }
        }
    }

    fn visit_macro(&mut self, mac: &'a syn::Macro) {
        let captured = captured_by_direct(mac);
        if captured.is_none() {
            self.read_tokens(mac.tokens.clone());
        }
        self.read_captured(captured.unwrap_or_else(|| format_strings::captured(mac)));
    }

    fn visit_block(&mut self, block: &'a Block) {
        let (scope, items) = (self.scope.len(), self.items.len());
        for stmt in &block.stmts {
            if let Stmt::Item(item) = stmt {
                self.items.extend(item_names(item));
            }
        }
        let last = block.stmts.len().saturating_sub(1);
        for (i, stmt) in block.stmts.iter().enumerate() {
            let conditional = matches!(stmt, Stmt::Expr(Expr::Block(e), None) if attributes::is_conditional(&e.attrs));
            let is_tail = i == last && matches!(stmt, Stmt::Expr(_, None));
            let outer_borrows = self.live_borrows.len();
            self.with_lasting_borrows(self.borrows_last && (is_tail || conditional), |builder| {
                builder.visit_stmt(stmt)
            });
            if !is_tail {
                self.live_borrows.truncate(outer_borrows);
            }
        }
        self.scope.truncate(scope);
        self.items.truncate(items);
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        let conditional = attributes::is_conditional(&local.attrs);
        let mut facts = TypeFacts::default();
        self.conditionally(conditional, |builder| {
            let Some(init) = &local.init else { return };
            builder.with_lasting_borrows(true, |builder| builder.visit_expr(&init.expr));
            let primitive = !matches!(local.pat, Pat::Type(_)) && builder.is_primitive_expr(&init.expr);
            let value = builder.is_value(&init.expr);
            facts = TypeFacts { primitive, value, ..builder.scrutinee_facts(&init.expr) };
            if let Some((_, otherwise)) = &init.diverge {
                let otherwise = builder.sequence(|builder| builder.visit_expr(otherwise));
                builder.flow.push(Flow::Either(vec![otherwise, Vec::new()]));
            }
        });
        self.bind_conditional(&local.pat, facts, conditional);
    }

    fn visit_field_value(&mut self, field: &'a syn::FieldValue) {
        self.conditionally(attributes::is_conditional(&field.attrs), |builder| builder.visit_expr(&field.expr));
    }

    fn visit_expr_let(&mut self, e: &'a syn::ExprLet) {
        if is_place(&e.expr) {
            self.mark_borrowed(&e.expr);
        }
        self.with_lasting_borrows(true, |builder| builder.visit_expr(&e.expr));
        let facts = self.scrutinee_facts(&e.expr);
        self.bind(&e.pat, facts);
    }

    fn visit_expr_cast(&mut self, e: &'a syn::ExprCast) {
        self.visit_expr(&e.expr);
        if is_primitive(&e.ty)
            && let Some(var) = as_variable(&e.expr).and_then(|name| self.lookup(name))
        {
            self.control_flow.variables[var.0].facts.cast = true;
        }
    }

    fn visit_expr_binary(&mut self, e: &'a syn::ExprBinary) {
        if matches!(e.op, BinOp::And(_) | BinOp::Or(_)) {
            self.visit_expr(&e.left);
            // Bindings of a `let` on the right stay in scope, so this is not `sequence`.
            let outer = std::mem::take(&mut self.flow);
            self.visit_expr(&e.right);
            let right = std::mem::replace(&mut self.flow, outer);
            self.flow.push(Flow::Either(vec![right, Vec::new()]));
            return;
        }
        self.with_live_borrows(false, |builder| {
            if is_arithmetic(&e.op) {
                builder.operand(&e.left);
                builder.operand(&e.right);
            } else if is_compound(&e.op) {
                builder.operand(&e.right);
                builder.visit_expr(&e.left);
            } else {
                if is_logic(&e.op) {
                    builder.note_tested(&e.left);
                    builder.note_tested(&e.right);
                }
                builder.visit_expr(&e.left);
                // A comparison borrows its operands.
                let left = as_variable(&e.left).and_then(|name| builder.lookup(name));
                builder.live_borrows.extend(left);
                builder.visit_expr(&e.right);
            }
        });
    }

    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        match e.op {
            UnOp::Neg(_) => self.with_live_borrows(false, |builder| builder.operand(&e.expr)),
            UnOp::Not(_) if self.is_primitive_expr(&e.expr) => {
                self.control_flow.primitive_negations.insert(NodeId::of(&*e.expr));
                self.visit_expr(&e.expr);
            }
            UnOp::Not(_) if self.lazy => {
                self.extraction_depth += 1;
                self.visit_expr(&e.expr);
                self.extraction_depth -= 1;
            }
            _ => self.visit_expr(&e.expr),
        }
    }

    fn visit_expr_assign(&mut self, e: &'a syn::ExprAssign) {
        self.with_lasting_borrows(true, |builder| builder.visit_expr(&e.right));
        self.assign(&e.left);
    }

    fn visit_expr_reference(&mut self, e: &'a syn::ExprReference) {
        if self.borrows_last {
            self.mark_borrowed(&e.expr);
        }
        self.visit_expr(&e.expr);
        let root = self.root_variable(&e.expr);
        self.live_borrows.extend(root);
    }

    fn visit_expr_tuple(&mut self, e: &'a syn::ExprTuple) {
        self.with_live_borrows(true, |builder| visit::visit_expr_tuple(builder, e));
    }

    fn visit_expr_array(&mut self, e: &'a syn::ExprArray) {
        self.with_live_borrows(true, |builder| visit::visit_expr_array(builder, e));
    }

    fn visit_expr_struct(&mut self, e: &'a syn::ExprStruct) {
        self.with_live_borrows(true, |builder| visit::visit_expr_struct(builder, e));
    }

    fn visit_expr_method_call(&mut self, e: &'a syn::ExprMethodCall) {
        if self.borrows_last && is_place(&e.receiver) {
            self.mark_borrowed(&e.receiver);
        }
        self.with_live_borrows(false, |builder| {
            builder.visit_expr(&e.receiver);
            let receiver = as_variable(&e.receiver).and_then(|name| builder.lookup(name));
            builder.live_borrows.extend(receiver);
            // The receiver may store a reference: `v.push(&x)`.
            builder.with_lasting_borrows(true, |builder| e.args.iter().for_each(|arg| builder.visit_expr(arg)));
        });
    }

    fn visit_expr_call(&mut self, e: &'a syn::ExprCall) {
        if let Some(mac) = std_macros::opened_macro(e) {
            let moves = std_macros::moves_arguments(mac);
            self.with_live_borrows(moves, |builder| {
                builder.with_lasting_borrows(builder.borrows_last && moves, |builder| {
                    for arg in &e.args {
                        builder.visit_expr(arg);
                        let borrowed = if moves { None } else { builder.root_variable(arg) };
                        builder.live_borrows.extend(borrowed);
                    }
                });
                // A format string reads the captured variables after the arguments. The remaining
                // tokens of other macros hold at most the guard of `matches!`.
                match std_macros::format_string_index(mac) {
                    Some(_) => builder.read_captured(format_strings::captured(mac)),
                    None => builder.visit_macro(mac),
                }
            });
        } else if let Some(name) = as_variable(&e.func) {
            // Usually a function. The call of a tuple struct or variant stores its arguments.
            self.read(name);
            let constructs = name.to_string().starts_with(char::is_uppercase);
            self.with_live_borrows(constructs, |builder| e.args.iter().for_each(|arg| builder.visit_expr(arg)));
        } else {
            self.with_live_borrows(false, |builder| visit::visit_expr_call(builder, e));
        }
    }

    fn visit_expr_closure(&mut self, e: &'a syn::ExprClosure) {
        self.capture(e.capture.is_some(), |builder| {
            for pat in &e.inputs {
                builder.bind(pat, TypeFacts::default());
            }
            builder.visit_expr(&e.body);
        });
    }

    fn visit_expr_async(&mut self, e: &'a syn::ExprAsync) {
        self.capture(e.capture.is_some(), |builder| builder.visit_block(&e.block));
    }

    fn visit_expr_if(&mut self, e: &'a syn::ExprIf) {
        let scope = self.scope.len();
        self.note_tested(&e.cond);
        self.visit_expr(&e.cond);
        let then = self.sequence(|builder| builder.visit_block(&e.then_branch));
        self.scope.truncate(scope);
        let otherwise = self.sequence(|builder| {
            if let Some((_, otherwise)) = &e.else_branch {
                builder.visit_expr(otherwise);
            }
        });
        self.flow.push(Flow::Either(vec![then, otherwise]));
    }

    fn visit_expr_match(&mut self, e: &'a syn::ExprMatch) {
        if is_place(&e.expr) {
            self.mark_borrowed(&e.expr);
        }
        if e.arms.iter().any(|arm| is_numeric(&arm.pat)) {
            self.note_tested(&e.expr);
        }
        self.with_lasting_borrows(true, |builder| builder.visit_expr(&e.expr));
        // After a guard that is false, any other arm may be taken: all guards precede all bodies.
        let mut bodies = Vec::new();
        let facts = self.scrutinee_facts(&e.expr);
        for arm in &e.arms {
            let scope = self.scope.len();
            self.bind(&arm.pat, facts);
            if let Some((_, guard)) = &arm.guard {
                self.visit_expr(guard);
            }
            bodies.push(self.sequence(|builder| builder.visit_expr(&arm.body)));
            self.scope.truncate(scope);
        }
        self.flow.push(Flow::Either(bodies));
    }

    fn visit_expr_block(&mut self, e: &'a syn::ExprBlock) {
        self.conditionally(attributes::is_conditional(&e.attrs), |builder| {
            let (target, body) =
                builder.jump_target(e.label.as_ref(), false, |builder, _| builder.visit_block(&e.block));
            builder.flow.push(Flow::Block(target, body));
        });
    }

    fn visit_expr_loop(&mut self, e: &'a syn::ExprLoop) {
        let (target, body) = self.jump_target(e.label.as_ref(), true, |builder, _| builder.visit_block(&e.body));
        self.flow.push(Flow::Loop(target, body));
    }

    fn visit_expr_while(&mut self, e: &'a syn::ExprWhile) {
        let (target, body) = self.jump_target(e.label.as_ref(), true, |builder, target| {
            builder.note_tested(&e.cond);
            builder.visit_expr(&e.cond);
            builder.flow.push(Flow::Either(vec![vec![Flow::Jump(Jump::Break(target))], Vec::new()]));
            builder.visit_block(&e.body);
        });
        self.flow.push(Flow::Loop(target, body));
    }

    fn visit_expr_for_loop(&mut self, e: &'a syn::ExprForLoop) {
        self.with_lasting_borrows(true, |builder| builder.visit_expr(&e.expr));
        let primitive = matches!(strip_parens(&e.expr), Expr::Range(range)
            if range.start.iter().chain(&range.end).all(|end| self.is_primitive_expr(end)));
        let shared = self.yields_shared_references(&e.expr);
        let facts = TypeFacts { primitive, shared, ..TypeFacts::default() };
        let (target, body) = self.jump_target(e.label.as_ref(), true, |builder, target| {
            builder.flow.push(Flow::Either(vec![vec![Flow::Jump(Jump::Break(target))], Vec::new()]));
            builder.bind(&e.pat, facts);
            builder.visit_block(&e.body);
        });
        self.flow.push(Flow::Loop(target, body));
    }

    fn visit_expr_break(&mut self, e: &'a syn::ExprBreak) {
        visit::visit_expr_break(self, e);
        self.flow.push(self.target(e.label.as_ref()).map_or(Flow::Leave, |target| Flow::Jump(Jump::Break(target))));
    }

    fn visit_expr_continue(&mut self, e: &'a syn::ExprContinue) {
        self.flow.push(self.target(e.label.as_ref()).map_or(Flow::Leave, |target| Flow::Jump(Jump::Continue(target))));
    }

    fn visit_expr_return(&mut self, e: &'a syn::ExprReturn) {
        visit::visit_expr_return(self, e);
        self.flow.push(Flow::Leave);
    }
}
