//! An expression with attributes becomes a block with them: what it is rewritten to keeps them, and
//! what may be compiled out is planned on its own.
//!
//! ```text
//! // Input:  #[cfg(debug_assertions)] return x * 2.0;
//! // Output: #[cfg(debug_assertions)] { return x * 2.0; }
//! ```

use crate::arguments;
use syn::visit_mut::{self, VisitMut};
use syn::{AttrStyle, Attribute, Block, Expr, ExprBlock, Stmt};

/// Makes blocks of all of them.
pub(crate) fn enclose(block: &mut Block) {
    Encloser.visit_block_mut(block);
}

/// Whether it may be compiled out.
pub(crate) fn conditional(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("cfg"))
}

/// What stands in a block that only holds attributes, which do not compile it out.
pub(crate) fn inside(e: &ExprBlock) -> Option<&Expr> {
    let stays = |attribute: &Attribute| !["cfg", "cfg_attr"].iter().any(|name| attribute.path().is_ident(name));
    match &*e.block.stmts {
        [Stmt::Expr(inner, _)] if e.label.is_none() && !e.attrs.is_empty() && e.attrs.iter().all(stays) => Some(inner),
        _ => None,
    }
}

/// The attributes of this very expression.
fn own(e: &mut Expr) -> Option<&mut Vec<Attribute>> {
    macro_rules! of {
        ($($Kind:ident)*) => {
            match e {
                $(Expr::$Kind(e) => Some(&mut e.attrs),)*
                _ => None,
            }
        };
    }
    // A block has its own already.
    of!(Array Assign Async Await Binary Break Call Cast Closure Const Continue Field ForLoop Group If Index Infer Let Lit Loop Macro Match
        MethodCall Paren Path Range RawAddr Reference Repeat Return Struct Try TryBlock Tuple Unary Unsafe While Yield)
}

fn taken(e: &mut Expr) -> Vec<Attribute> {
    let Some(attributes) = own(e) else { return Vec::new() };
    let stays = |attribute: &Attribute| arguments::is_mark(attribute) || matches!(attribute.style, AttrStyle::Inner(_));
    let (staying, taken) = std::mem::take(attributes).into_iter().partition(stays);
    *attributes = staying;
    taken
}

/// What a statement begins with: there the parser puts its attributes.
fn first(e: &mut Expr) -> &mut Expr {
    match e {
        Expr::Assign(e) => first(&mut e.left),
        Expr::Binary(e) => first(&mut e.left),
        Expr::Cast(e) => first(&mut e.expr),
        e => e,
    }
}

fn enclosed(attrs: Vec<Attribute>, stmt: Stmt) -> Expr {
    let block = Block { brace_token: Default::default(), stmts: vec![stmt] };
    Expr::Block(ExprBlock { attrs, label: None, block })
}

struct Encloser;

impl VisitMut for Encloser {
    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        if let Stmt::Expr(e, semicolon) = stmt {
            let attributes = taken(first(e));
            if !attributes.is_empty() {
                let inner = Stmt::Expr(std::mem::replace(e, Expr::PLACEHOLDER), semicolon.take());
                *e = enclosed(attributes, inner);
            }
        }
        visit_mut::visit_stmt_mut(self, stmt);
    }

    fn visit_expr_mut(&mut self, e: &mut Expr) {
        let attributes = taken(e);
        if !attributes.is_empty() {
            let inner = Stmt::Expr(std::mem::replace(e, Expr::PLACEHOLDER), None);
            *e = enclosed(attributes, inner);
        }
        visit_mut::visit_expr_mut(self, e);
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
}
