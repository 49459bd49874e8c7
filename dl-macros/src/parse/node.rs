//! Identity and shape of expressions of the syntax tree.

use syn::Expr;

/// Identifies a boxed expression (or a statement) by its address.
///
/// A box does not move while the expressions around it are rewritten or moved. An analysis that was
/// made before rewriting therefore stays valid during it, as long as rewriting moves operands
/// instead of cloning them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NodeId(usize);

impl NodeId {
    pub(crate) fn of<T>(node: &T) -> Self {
        NodeId(std::ptr::from_ref(node) as usize)
    }
}

/// The expression inside of parentheses and invisible groups.
pub(crate) fn strip_parens(mut e: &Expr) -> &Expr {
    loop {
        e = match e {
            Expr::Paren(e) => &e.expr,
            Expr::Group(e) => &e.expr,
            e => return e,
        }
    }
}

/// The name, if the expression consists of a single name.
pub(crate) fn as_variable(e: &Expr) -> Option<&syn::Ident> {
    match strip_parens(e) {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}

/// Whether the expression is treated as a place: `x`, `x.field`, `x[i]`, `*x`.
///
/// A field of the result of a call is a place, too, because the call may return a reference. A
/// field of a value that is constructed here (`Pair { … }.first`) is not.
pub(crate) fn is_place(e: &Expr) -> bool {
    match strip_parens(e) {
        Expr::Path(_) | Expr::Index(_) => true,
        Expr::Field(e) => !is_constructed(&e.base),
        Expr::Unary(e) => matches!(e.op, syn::UnOp::Deref(_)),
        _ => false,
    }
}

/// Whether the expression constructs an owned value: `Pair { … }`, `Pair(…)`, `(…, …)`, or a field
/// of one of these.
fn is_constructed(e: &Expr) -> bool {
    match strip_parens(e) {
        Expr::Struct(_) | Expr::Tuple(_) => true,
        Expr::Call(e) => matches!(&*e.func, Expr::Path(path)
            if path.path.segments.last().is_some_and(|name| name.ident.to_string().starts_with(char::is_uppercase))),
        Expr::Field(e) => is_constructed(&e.base),
        _ => false,
    }
}
