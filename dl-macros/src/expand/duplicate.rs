//! Duplicates operands of operators that are live-out, because operators take them by value.
//!
//! ```text
//! // Input:  difference * difference
//! // Output: ::dl::bang::operand(&difference).duplicate() * difference
//! ```

use crate::parse::crate_path;
use crate::parse::node::NodeId;
use crate::parse::plain_types::{is_arithmetic, is_compound};
use proc_macro2::TokenStream;
use std::collections::HashSet;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::token::Paren;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Ident, Path, Token, UnOp, parse_quote_spanned};

/// Duplicates these operands in the block.
pub(crate) fn duplicate(block: &mut Block, operands: &HashSet<NodeId>, krate: &Path) {
    Duplicator { operands, krate }.visit_block_mut(block);
}

/// The call that duplicates an operand.
///
/// The operand is moved into it, not cloned, so that each [`NodeId`] inside of it stays valid.
pub(crate) fn duplicated(mut operand: Expr, krate: &Path) -> Expr {
    let span = operand.span();
    let runtime = crate_path::runtime(krate, span);
    while let Expr::Paren(_) | Expr::Group(_) = operand {
        operand = match operand {
            Expr::Paren(e) => *e.expr,
            Expr::Group(e) => *e.expr,
            e => e,
        };
    }
    let reference = Expr::Reference(syn::ExprReference {
        attrs: Vec::new(),
        and_token: Token![&](span),
        mutability: None,
        expr: Box::new(operand),
    });
    let call = Expr::Call(syn::ExprCall {
        attrs: Vec::new(),
        func: parse_quote_spanned!(span=> #runtime::operand),
        paren_token: Paren(span),
        args: [reference].into_iter().collect(),
    });
    Expr::MethodCall(syn::ExprMethodCall {
        attrs: Vec::new(),
        receiver: Box::new(call),
        dot_token: Token![.](span),
        method: Ident::new("duplicate", span),
        turbofish: None,
        paren_token: Paren(span),
        args: Punctuated::new(),
    })
}

struct Duplicator<'a> {
    operands: &'a HashSet<NodeId>,
    krate: &'a Path,
}

impl Duplicator<'_> {
    fn operand(&self, operand: &mut Expr) {
        if self.operands.contains(&NodeId::of(operand)) {
            let owned = std::mem::replace(operand, Expr::Verbatim(TokenStream::new()));
            *operand = duplicated(owned, self.krate);
        }
    }
}

impl VisitMut for Duplicator<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        match expr {
            Expr::Binary(e) if is_arithmetic(&e.op) => {
                self.operand(&mut e.left);
                self.operand(&mut e.right);
            }
            Expr::Binary(e) if is_compound(&e.op) => self.operand(&mut e.right),
            Expr::Unary(e) if matches!(e.op, UnOp::Neg(_)) => self.operand(&mut e.expr),
            _ => {}
        }
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
    fn visit_expr_const_mut(&mut self, _: &mut syn::ExprConst) {}

    fn visit_expr_repeat_mut(&mut self, e: &mut syn::ExprRepeat) {
        self.visit_expr_mut(&mut e.expr);
    }
}
