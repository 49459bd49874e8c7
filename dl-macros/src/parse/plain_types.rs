//! Expressions and types that are primitive (a number, a `bool` or a `char`), and types that are
//! layers, as far as the syntax shows.
//!
//! An operand that is syntactically primitive is never duplicated, and a `!` before it is never an
//! extraction. This keeps expansions short and plain code cheap to compile.

use crate::parse::node::strip_parens;
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

/// `Layer<f32>`, `&NdWeight`, … A `Layer` without arguments is another type of that name.
pub(crate) fn is_layer(ty: &Type) -> bool {
    match ty {
        Type::Path(ty) => ty.path.segments.last().is_some_and(|segment| {
            ["NdLayer", "NdWeight"].iter().any(|name| segment.ident == name)
                || !segment.arguments.is_none() && ["Layer", "Weight"].iter().any(|name| segment.ident == name)
        }),
        Type::Reference(ty) => is_layer(&ty.elem),
        Type::Paren(ty) => is_layer(&ty.elem),
        Type::Group(ty) => is_layer(&ty.elem),
        _ => false,
    }
}

/// Whether the value of an expression is certainly primitive. `variable` answers the same for a
/// variable.
pub(crate) fn is_primitive_expr(e: &Expr, variable: &dyn Fn(&syn::Ident) -> bool) -> bool {
    match strip_parens(e) {
        Expr::Lit(e) => matches!(e.lit, Lit::Int(_) | Lit::Float(_) | Lit::Bool(_) | Lit::Char(_) | Lit::Byte(_)),
        Expr::Cast(e) => is_primitive(&e.ty),
        Expr::Path(e) => e.path.get_ident().is_some_and(variable),
        Expr::Unary(e) => matches!(e.op, UnOp::Neg(_) | UnOp::Not(_)) && is_primitive_expr(&e.expr, variable),
        Expr::Binary(e) if is_logic(&e.op) => true,
        Expr::Binary(e) => is_primitive_expr(&e.left, variable) && is_primitive_expr(&e.right, variable),
        _ => false,
    }
}

/// Operators with a result of type `bool`.
pub(crate) fn is_logic(op: &BinOp) -> bool {
    use BinOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
    matches!(op, And(_) | Or(_) | Eq(_) | Ne(_) | Lt(_) | Le(_) | Gt(_) | Ge(_))
}

/// The binary operators of layers. They move their operands.
pub(crate) fn is_arithmetic(op: &BinOp) -> bool {
    matches!(op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_) | BinOp::Rem(_))
}

/// Compound assignments: `x += …`.
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
