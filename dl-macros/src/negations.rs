//! A `!` that extracts nothing: in closures and `async` blocks, in functions that are not lazy, and
//! in functions inside functions.
//!
//! It is Rust's "not", and stays so. But who writes it in front of a layer means to extract, and is
//! told why that cannot be. Only what may be a layer is asked for its type: a `!` in front of
//! something that is a `bool` by its looks is left alone, and so is a function that has nothing to
//! do with layers.

use crate::arguments;
use crate::node::{NodeId, bare};
use crate::operands::module;
use crate::whole;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::HashSet;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Path, Signature, UnOp, parse_quote_spanned};

/// Explains the negations of a function.
///
/// ```text
/// // Input:  |x| !x
/// // Output: |x| ::dl::bang::not_in_a_closure(x).not()
/// ```
pub(crate) fn explain(block: &mut Block, lazy: bool, plain: &HashSet<NodeId>, krate: &Path) {
    Explainer { lazy, closures: 0, nested: false, plain, krate }.visit_block_mut(block);
}

/// Whether a function has to do with layers, as far as its signature tells.
pub(crate) fn mentions_layers(sig: &Signature) -> bool {
    fn any(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(name) => {
                let name = name.to_string();
                ["Layer", "Weight", "Expression", "Differentiable"].iter().any(|end| name.ends_with(end))
                    || name == "Do"
            }
            TokenTree::Group(group) => any(group.stream()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        })
    }
    any(sig.inputs.to_token_stream()) || any(sig.generics.where_clause.to_token_stream())
}

struct Explainer<'a> {
    lazy: bool,
    /// How many closures and `async` blocks we are inside of.
    closures: usize,
    /// Whether we are in a function inside the function.
    nested: bool,
    plain: &'a HashSet<NodeId>,
    krate: &'a Path,
}

/// Whether an expression is a `bool` by its looks.
fn looks_like_a_bool(e: &Expr) -> bool {
    match bare(e) {
        Expr::MethodCall(e) => {
            let name = e.method.to_string();
            ["is_", "has_", "contains", "starts_with", "ends_with", "any", "all", "insert"]
                .iter()
                .any(|p| name.starts_with(p))
        }
        Expr::Macro(e) => e.mac.path.is_ident("matches") || e.mac.path.is_ident("cfg"),
        Expr::Call(e) => arguments::opened(e).is_some_and(|mac| mac.path.is_ident("matches")),
        _ => false,
    }
}

impl VisitMut for Explainer<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let closure = matches!(expr, Expr::Closure(_) | Expr::Async(_));
        self.closures += usize::from(closure);
        visit_mut::visit_expr_mut(self, expr);
        self.closures -= usize::from(closure);
        if let Expr::Unary(e) = expr
            && matches!(e.op, UnOp::Not(_))
            && (self.closures > 0 || self.nested || !self.lazy)
            && !self.plain.contains(&NodeId::of(&*e.expr))
            && !looks_like_a_bool(&e.expr)
            && e.attrs.is_empty()
        {
            let span = e.expr.span();
            let (bang, operand) = (module(self.krate, span), bare(&e.expr));
            *expr = if self.nested {
                parse_quote_spanned!(span=> #bang::not_in_a_nested_function(#operand).not())
            } else if self.closures > 0 {
                parse_quote_spanned!(span=> #bang::not_in_a_closure(#operand).not())
            } else {
                parse_quote_spanned!(span=> #bang::not_in_a_plain_function(#operand).not())
            };
        }
    }

    fn visit_item_mut(&mut self, item: &mut syn::Item) {
        if let syn::Item::Fn(function) = item
            && function.sig.constness.is_none()
            && !whole::annotated(&function.attrs)
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
