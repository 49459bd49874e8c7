//! Moves the attributes of an expression to a block around it.
//!
//! The attributes then survive when the expression is rewritten, and code under `#[cfg]` is
//! analyzed as a region of its own.
//!
//! ```text
//! // Input:  #[cfg(debug_assertions)] return x * 2.0;
//! // Output: #[cfg(debug_assertions)] { return x * 2.0; }
//! ```

use crate::parse::std_macros;
use syn::visit_mut::{self, VisitMut};
use syn::{AttrStyle, Attribute, Block, Expr, ExprBlock, Stmt};

/// Encloses each expression that has attributes.
pub(crate) fn enclose(block: &mut Block) {
    Encloser.visit_block_mut(block);
}

/// Whether the attributes may remove the code they apply to: `#[cfg]`.
pub(crate) fn is_conditional(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("cfg"))
}

/// The expression in a block that exists only to hold attributes, unless `cfg` or `cfg_attr` is
/// among them.
pub(crate) fn enclosed_expr(e: &ExprBlock) -> Option<&Expr> {
    let stays = |attribute: &Attribute| !["cfg", "cfg_attr"].iter().any(|name| attribute.path().is_ident(name));
    match &*e.block.stmts {
        [Stmt::Expr(inner, _)] if e.label.is_none() && !e.attrs.is_empty() && e.attrs.iter().all(stays) => Some(inner),
        _ => None,
    }
}

/// The attribute list of the expression, unless it is a block.
fn own(e: &mut Expr) -> Option<&mut Vec<Attribute>> {
    macro_rules! of {
        ($($Kind:ident)*) => {
            match e {
                $(Expr::$Kind(e) => Some(&mut e.attrs),)*
                _ => None,
            }
        };
    }
    // A block keeps its attributes.
    of!(Array Assign Async Await Binary Break Call Cast Closure Const Continue Field ForLoop Group If Index Infer Let Lit Loop Macro Match
        MethodCall Paren Path Range RawAddr Reference Repeat Return Struct Try TryBlock Tuple Unary Unsafe While Yield)
}

fn take_attributes(e: &mut Expr) -> Vec<Attribute> {
    let Some(attributes) = own(e) else { return Vec::new() };
    let stays =
        |attribute: &Attribute| std_macros::is_mark(attribute) || matches!(attribute.style, AttrStyle::Inner(_));
    let (staying, moved) = std::mem::take(attributes).into_iter().partition(stays);
    *attributes = staying;
    moved
}

/// The leftmost operand. The parser attaches the attributes of a statement there.
fn leftmost(e: &mut Expr) -> &mut Expr {
    match e {
        Expr::Assign(e) => leftmost(&mut e.left),
        Expr::Binary(e) => leftmost(&mut e.left),
        Expr::Cast(e) => leftmost(&mut e.expr),
        e => e,
    }
}

fn block_of(attrs: Vec<Attribute>, stmt: Stmt) -> Expr {
    let block = Block { brace_token: Default::default(), stmts: vec![stmt] };
    Expr::Block(ExprBlock { attrs, label: None, block })
}

struct Encloser;

impl VisitMut for Encloser {
    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        if let Stmt::Expr(e, semicolon) = stmt {
            let attributes = take_attributes(leftmost(e));
            if !attributes.is_empty() {
                let inner = Stmt::Expr(std::mem::replace(e, Expr::PLACEHOLDER), semicolon.take());
                *e = block_of(attributes, inner);
            }
        }
        visit_mut::visit_stmt_mut(self, stmt);
    }

    fn visit_expr_mut(&mut self, e: &mut Expr) {
        let attributes = take_attributes(e);
        if !attributes.is_empty() {
            let inner = Stmt::Expr(std::mem::replace(e, Expr::PLACEHOLDER), None);
            *e = block_of(attributes, inner);
        }
        visit_mut::visit_expr_mut(self, e);
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
}
