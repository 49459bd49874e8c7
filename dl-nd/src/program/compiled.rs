//! The loops of all pointwise operations, for each type of numbers. They are compiled with this
//! crate, and not once more with every program that has tensors.

use super::loops::{self, Loop, Together};
use super::nested::{self, Nested, Next};
use dl_core::{Binary, Unary};

/// Numbers for which there are loops, as there are kernels of products for
/// [`Multiply`](crate::gemm::Multiply).
pub trait Compiled: Sized {
    #[doc(hidden)]
    fn loops() -> &'static Loops<Self>;
}

/// What gives the loop of an operation.
pub struct Loops<A> {
    pub(super) copy: fn() -> Loop<A>,
    pub(super) unary: fn(Unary) -> Loop<A>,
    pub(super) exp_of_negative: fn() -> Loop<A>,
    pub(super) binary: fn(Binary) -> Loop<A>,
    pub(super) nested: fn(Nested) -> Loop<A>,
    pub(super) product_and_more: fn(Next, Next) -> Together<A, 2>,
    pub(super) two_products: fn() -> Together<A, 2>,
    pub(super) three_products: fn() -> Together<A, 3>,
}

macro_rules! compiled {
    ($($A:ident),*) => {$(
        impl Compiled for $A {
            fn loops() -> &'static Loops<$A> {
                // not a constant: that would be compiled where this is inlined, in another crate
                static LOOPS: Loops<$A> = Loops {
                    copy: loops::copy,
                    unary: loops::unary,
                    exp_of_negative: loops::exp_of_negative,
                    binary: loops::binary,
                    nested: nested::compile,
                    product_and_more: nested::compile_product_and_more,
                    two_products: nested::compile_two_products,
                    three_products: nested::compile_three_products,
                };
                &LOOPS
            }
        }
    )*};
}

compiled!(f32, f64);
