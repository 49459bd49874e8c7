//! Compile errors for a `!` that extracts nothing: in closures and `async` blocks, in plain
//! functions, and in nested functions.
//!
//! There, `!` is Rust's "not". Before a layer it is a mistake, so the operand is wrapped in a call
//! that compiles only if it is no layer; its compile error explains the mistake. A `!` before an
//! expression that is a `bool` by its syntax stays unchanged.

use crate::parse::function::mentions_layers;
use crate::parse::node::{NodeId, strip_parens};
use crate::parse::{crate_path, item_block, std_macros};
use std::collections::HashSet;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Path, UnOp, parse_quote_spanned};

/// Wraps the operands of the negations in a block.
///
/// ```text
/// // Input:  |x| !x
/// // Output: |x| ::dl::bang::not_in_a_closure(x).not()
/// ```
pub(crate) fn add_hints(block: &mut Block, lazy: bool, primitive: &HashSet<NodeId>, krate: &Path) {
    Hinter { lazy, closure_depth: 0, nested: false, primitive, krate }.visit_block_mut(block);
}

struct Hinter<'a> {
    lazy: bool,
    /// The number of enclosing closures and `async` blocks.
    closure_depth: usize,
    /// Whether the place is in a nested function.
    nested: bool,
    /// Operands that are syntactically primitive.
    primitive: &'a HashSet<NodeId>,
    krate: &'a Path,
}

/// Whether an expression is probably a `bool`, judged by the name of the method or macro.
fn looks_like_bool(e: &Expr) -> bool {
    match strip_parens(e) {
        Expr::MethodCall(e) => {
            let name = e.method.to_string();
            ["is_", "has_", "contains", "starts_with", "ends_with", "any", "all", "insert"]
                .iter()
                .any(|p| name.starts_with(p))
        }
        Expr::Macro(e) => e.mac.path.is_ident("matches") || e.mac.path.is_ident("cfg"),
        Expr::Call(e) => std_macros::opened_macro(e).is_some_and(|mac| mac.path.is_ident("matches")),
        _ => false,
    }
}

impl VisitMut for Hinter<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let closure = matches!(expr, Expr::Closure(_) | Expr::Async(_));
        self.closure_depth += usize::from(closure);
        visit_mut::visit_expr_mut(self, expr);
        self.closure_depth -= usize::from(closure);
        if let Expr::Unary(e) = expr
            && matches!(e.op, UnOp::Not(_))
            && (self.closure_depth > 0 || self.nested || !self.lazy)
            && !self.primitive.contains(&NodeId::of(&*e.expr))
            && !looks_like_bool(&e.expr)
            && e.attrs.is_empty()
        {
            let span = e.expr.span();
            let (runtime, operand) = (crate_path::runtime(self.krate, span), strip_parens(&e.expr));
            *expr = if self.nested {
                parse_quote_spanned!(span=> #runtime::not_in_a_nested_function(#operand).not())
            } else if self.closure_depth > 0 {
                parse_quote_spanned!(span=> #runtime::not_in_a_closure(#operand).not())
            } else {
                parse_quote_spanned!(span=> #runtime::not_in_a_plain_function(#operand).not())
            };
        }
    }

    fn visit_item_mut(&mut self, item: &mut syn::Item) {
        if let syn::Item::Fn(function) = item
            && function.sig.constness.is_none()
            && !item_block::is_annotated(&function.attrs)
            && mentions_layers(&function.sig)
        {
            let nested = std::mem::replace(&mut self.nested, true);
            self.visit_block_mut(&mut function.block);
            self.nested = nested;
        }
    }
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
    fn visit_expr_const_mut(&mut self, _: &mut syn::ExprConst) {}

    fn visit_expr_repeat_mut(&mut self, e: &mut syn::ExprRepeat) {
        self.visit_expr_mut(&mut e.expr);
    }
}
