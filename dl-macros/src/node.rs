//! How a plan refers to an expression of the function.

use syn::Expr;

/// The place of a boxed expression in the tree.
///
/// A box does not move while the expressions around it are rewritten or moved, so a plan made
/// before rewriting is still good while it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NodeId(usize);

impl NodeId {
    pub(crate) fn of<T>(node: &T) -> Self {
        NodeId(std::ptr::from_ref(node) as usize)
    }
}

/// Looks through parentheses.
pub(crate) fn bare(mut e: &Expr) -> &Expr {
    loop {
        e = match e {
            Expr::Paren(e) => &e.expr,
            Expr::Group(e) => &e.expr,
            e => return e,
        }
    }
}

/// The variable that an expression is, if it is nothing but a name.
pub(crate) fn variable(e: &Expr) -> Option<&syn::Ident> {
    match bare(e) {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}

/// Whether an expression names a place rather than making a value: `x`, `x.field`, `x[i]`, `*x`. A
/// field of what a call makes is one, too: the call may lend what it belongs to. A field of what is
/// made here is a value.
pub(crate) fn is_place(e: &Expr) -> bool {
    match bare(e) {
        Expr::Path(_) | Expr::Index(_) => true,
        Expr::Field(e) => !is_made(&e.base),
        Expr::Unary(e) => matches!(e.op, syn::UnOp::Deref(_)),
        _ => false,
    }
}

/// Whether an expression surely makes what it is: `Pair { … }`, `Pair(…)`, `(…, …)`, or a field of
/// those.
fn is_made(e: &Expr) -> bool {
    match bare(e) {
        Expr::Struct(_) | Expr::Tuple(_) => true,
        Expr::Call(e) => matches!(&*e.func, Expr::Path(path)
            if path.path.segments.last().is_some_and(|name| name.ident.to_string().starts_with(char::is_uppercase))),
        Expr::Field(e) => is_made(&e.base),
        _ => false,
    }
}
