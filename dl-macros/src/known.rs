//! Types that can be told to be plain from the text alone.
//!
//! What is known to be a number or a `bool` needs neither duplicating nor a bang decided by its
//! type: this keeps expansions short and plain code cheap to compile.

use crate::node::bare;
use syn::{BinOp, Expr, Lit, Type, UnOp};

/// `f32`, `u8`, `bool`, `char`, …
pub(crate) fn is_primitive(ty: &Type) -> bool {
    const PRIMITIVE: [&str; 16] = [
        "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize", "bool",
        "char",
    ];
    match ty {
        Type::Path(ty) if ty.qself.is_none() => {
            ty.path.get_ident().is_some_and(|name| PRIMITIVE.iter().any(|primitive| name == primitive))
        }
        Type::Paren(ty) => is_primitive(&ty.elem),
        Type::Group(ty) => is_primitive(&ty.elem),
        _ => false,
    }
}

/// Whether the value of an expression is surely a primitive, given which variables are.
pub(crate) fn is_plain(e: &Expr, variable: &dyn Fn(&syn::Ident) -> bool) -> bool {
    match bare(e) {
        Expr::Lit(e) => matches!(e.lit, Lit::Int(_) | Lit::Float(_) | Lit::Bool(_) | Lit::Char(_) | Lit::Byte(_)),
        Expr::Cast(e) => is_primitive(&e.ty),
        Expr::Path(e) => e.path.get_ident().is_some_and(variable),
        Expr::Unary(e) => matches!(e.op, UnOp::Neg(_) | UnOp::Not(_)) && is_plain(&e.expr, variable),
        Expr::Binary(e) if is_logic(&e.op) => true,
        Expr::Binary(e) => is_plain(&e.left, variable) && is_plain(&e.right, variable),
        _ => false,
    }
}

/// Operators whose result is a `bool`.
fn is_logic(op: &BinOp) -> bool {
    use BinOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
    matches!(op, And(_) | Or(_) | Eq(_) | Ne(_) | Lt(_) | Le(_) | Gt(_) | Ge(_))
}

/// Operators that move their operands, and that a layer has.
pub(crate) fn is_arithmetic(op: &BinOp) -> bool {
    matches!(op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_) | BinOp::Rem(_))
}

/// `x += …` and its like.
pub(crate) fn is_compound(op: &BinOp) -> bool {
    use BinOp::{
        AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign, ShlAssign, ShrAssign,
        SubAssign,
    };
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}
