//! Fused sums, differences and products: one instruction computes up to three of them.
//!
//! The overhead of an instruction is about the time that such an operation takes for a block, and
//! an intermediate result would need a register. Fusion changes no bit of a result.

use super::loops::{MultiLoop, VectorLoop, of_four, of_three, several_of_four};
use crate::tensor::Element;
use dl_core::Binary;

/// An operation that is cheap enough to be fused with others.
#[derive(Clone, Copy)]
pub(super) enum CheapOp {
    Add,
    Sub,
    Mul,
    /// The product of a delta and a slope. It is the first or the last operation of a nest.
    StrongMul,
}

impl CheapOp {
    pub(super) fn of(op: Binary) -> Option<Self> {
        match op {
            Binary::Add => Some(CheapOp::Add),
            Binary::Sub => Some(CheapOp::Sub),
            Binary::Mul => Some(CheapOp::Mul),
            Binary::StrongMul => Some(CheapOp::StrongMul),
            _ => None,
        }
    }

    /// The operation applied to an intermediate result on its left.
    pub(super) fn chained_left(self) -> ChainOp {
        match self {
            CheapOp::Add => ChainOp::Add,
            CheapOp::Sub => ChainOp::Sub,
            CheapOp::Mul => ChainOp::Mul,
            CheapOp::StrongMul => ChainOp::StrongMul,
        }
    }

    /// The operation applied to an intermediate result on its right. Sums and products commute, to
    /// the bit.
    pub(super) fn chained_right(self) -> ChainOp {
        match self {
            CheapOp::Sub => ChainOp::SubFrom,
            CheapOp::StrongMul => ChainOp::StrongMulBy,
            other => other.chained_left(),
        }
    }
}

/// An operation on an intermediate result and a further operand.
#[derive(Clone, Copy)]
pub(super) enum ChainOp {
    Add,
    Sub,
    /// The operand minus the intermediate result.
    SubFrom,
    Mul,
    StrongMul,
    /// The strong product of the operand and the intermediate result.
    StrongMulBy,
}

/// A nest of operations.
#[derive(Clone, Copy)]
pub(super) enum FusedOp {
    /// `next(first(a, b), c)`
    Two { first: CheapOp, next: ChainOp },
    /// `last(next(first(a, b), c), d)`
    Three { first: CheapOp, next: ChainOp, last: ChainOp },
    /// `outer(left(a, b), right(c, d))`
    Pair { outer: CheapOp, left: CheapOp, right: CheapOp },
}

impl FusedOp {
    /// The number of operations.
    pub(super) fn operations(self) -> usize {
        match self {
            FusedOp::Two { .. } => 2,
            FusedOp::Three { .. } | FusedOp::Pair { .. } => 3,
        }
    }
}

/// Expands an expression with the arithmetic of an operation as a closure that is known at compile
/// time. A `plain` operation is not strong, and a `last` one may be.
macro_rules! with {
    ($op:expr, $value:ident => $body:expr) => {
        match $op {
            CheapOp::StrongMul => with!(@known StrongMul, $value => $body),
            other => with!(plain other, $value => $body),
        }
    };
    (plain $op:expr, $value:ident => $body:expr) => {
        match $op {
            CheapOp::Add => with!(@known Add, $value => $body),
            CheapOp::Sub => with!(@known Sub, $value => $body),
            CheapOp::Mul => with!(@known Mul, $value => $body),
            CheapOp::StrongMul => unreachable!("a strong product is the first or the last operation"),
        }
    };
    (last $op:expr, $value:ident => $body:expr) => {
        match $op {
            ChainOp::StrongMul => with!(@known StrongMul, $value => $body),
            ChainOp::StrongMulBy => {
                let $value = |a: A, b: A| Binary::StrongMul.value(b, a);
                $body
            }
            other => with!(next other, $value => $body),
        }
    };
    (next $op:expr, $value:ident => $body:expr) => {
        match $op {
            ChainOp::Add => with!(@known Add, $value => $body),
            ChainOp::Sub => with!(@known Sub, $value => $body),
            ChainOp::SubFrom => {
                let $value = |a: A, b: A| Binary::Sub.value(b, a);
                $body
            }
            ChainOp::Mul => with!(@known Mul, $value => $body),
            ChainOp::StrongMul | ChainOp::StrongMulBy => {
                unreachable!("a strong product is the first or the last operation")
            }
        }
    };
    (@known $Op:ident, $value:ident => $body:expr) => {{
        let $value = |a: A, b: A| Binary::$Op.value(a, b);
        $body
    }};
}

/// The loop of fused operations.
pub(super) fn compile<A: Element>(nested: FusedOp) -> VectorLoop<A> {
    match nested {
        FusedOp::Two { first, next } => {
            with!(first, first => with!(last next, next => of_three(move |a, b, c| next(first(a, b), c))))
        }
        FusedOp::Three { first, next, last } => {
            with!(first, first => with!(next next, next => with!(last last, last => {
                of_four(move |a, b, c, d| last(next(first(a, b), c), d))
            })))
        }
        FusedOp::Pair { outer, left, right } => {
            with!(plain outer, outer => with!(left, left => with!(right, right => {
                of_four(move |a, b, c, d| outer(left(a, b), right(c, d)))
            })))
        }
    }
}

/// The arithmetic of a product as a closure that is known at compile time.
macro_rules! with_product {
    ($strong:expr, $value:ident => $body:expr) => {
        if $strong { with!(@known StrongMul, $value => $body) } else { with!(@known Mul, $value => $body) }
    };
}

/// The loop of a product and an expression of it: `a · b` and `last(next(a · b, c), d)`.
pub(super) fn compile_product_and_more<A: Element>(strong: bool, next: ChainOp, last: ChainOp) -> MultiLoop<A, 2> {
    with_product!(strong, product => with!(next next, next => with!(next last, last => {
        several_of_four(move |a, b, c, d| {
            let product = product(a, b);
            [product, last(next(product, c), d)]
        })
    })))
}

/// The loop of two products that share the first operand.
pub(super) fn compile_two_products<A: Element>(strong: bool) -> MultiLoop<A, 2> {
    with_product!(strong, product => several_of_four(move |factor, a, b, _| [product(factor, a), product(factor, b)]))
}

/// The loop of three products that share the first operand.
pub(super) fn compile_three_products<A: Element>(strong: bool) -> MultiLoop<A, 3> {
    with_product!(strong, product => {
        several_of_four(move |factor, a, b, c| [product(factor, a), product(factor, b), product(factor, c)])
    })
}
