//! The vector loops of all pointwise operations, per element type. The tables are statics of this
//! crate, so the loops are compiled here and not in each crate that uses tensors.

use super::fused_ops::{self, ChainOp, FusedOp};
use super::loops::{self, MultiLoop, VectorLoop};
use crate::tensor::{Element, PerElement};
use dl_core::{Binary, Unary};

/// Constructors of the vector loops of an element type.
pub(super) struct LoopTable<A> {
    pub(super) copy: fn() -> VectorLoop<A>,
    pub(super) unary: fn(Unary) -> VectorLoop<A>,
    pub(super) exp_of_negative: fn() -> VectorLoop<A>,
    pub(super) binary: fn(Binary) -> VectorLoop<A>,
    pub(super) nested: fn(FusedOp) -> VectorLoop<A>,
    /// The first argument of these is whether the products are strong.
    pub(super) product_and_more: fn(bool, ChainOp, ChainOp) -> MultiLoop<A, 2>,
    pub(super) two_products: fn(bool) -> MultiLoop<A, 2>,
    pub(super) three_products: fn(bool) -> MultiLoop<A, 3>,
}

/// Selects the table of an element type.
struct SelectLoops;

macro_rules! tables {
    ($($A:ident),*) => {
        impl PerElement for SelectLoops {
            type For<A: 'static> = &'static LoopTable<A>;

            $(fn $A(self) -> &'static LoopTable<$A> {
                // a static, not a constant: a constant would be instantiated in the crate that it
                // is inlined into
                static LOOPS: LoopTable<$A> = LoopTable {
                    copy: loops::copy,
                    unary: loops::unary,
                    exp_of_negative: loops::exp_of_negative,
                    binary: loops::binary,
                    nested: fused_ops::compile,
                    product_and_more: fused_ops::compile_product_and_more,
                    two_products: fused_ops::compile_two_products,
                    three_products: fused_ops::compile_three_products,
                };
                &LOOPS
            })*
        }
    };
}

tables!(f32, f64);

/// The table of this element type.
pub(super) fn loops<A: Element>() -> &'static LoopTable<A> {
    A::per_element(SelectLoops)
}
