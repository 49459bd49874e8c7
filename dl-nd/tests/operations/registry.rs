//! The operations under test: how each is called, and how its operands are drawn.

mod losses;
mod movement;
mod networks;
mod order;
mod pointwise;
mod products;
mod reductions;
mod windows;

use crate::case::{Args, Tensor};
use crate::draw::{Draw, Sample};
use dl_core::Layer;
use dl_nd::device::Device;
use dl_nd::{Element, Item, Nd, Rank, ops::*};
use ndarray::IxDyn;
use std::cell::RefCell;
use std::sync::Arc;

/// An operation, called through its public method.
#[derive(Clone, Copy)]
pub(crate) struct Op {
    pub(crate) name: &'static str,
    pub(crate) double: fn(&Args, &[Tensor<f64>]) -> Tensor<f64>,
    pub(crate) single: fn(&Args, &[Tensor<f32>]) -> Tensor<f32>,
    /// Draws operands; `None` if the operation has no gradient.
    pub(crate) draw: Drawn,
}

type Drawn = Option<fn(&mut Draw) -> Sample>;

/// The element types `f32` and `f64`.
pub(crate) trait Scalar: Element {
    /// Whether the type is precise enough to compare second derivatives.
    const EXACT: bool;

    /// Applies the operation.
    fn apply(op: &Op, args: &Args, operands: &[Tensor<Self>]) -> Tensor<Self>;

    /// Converts a number to a tensor.
    fn tensor(number: Layer<Self>) -> Tensor<Self>;

    /// `Σ x · weights`
    fn dot(x: &Tensor<Self>, weights: &Nd<Self, IxDyn>) -> Layer<Self>;

    fn to_double(self) -> f64;
}

macro_rules! scalars {
    ($($A:ident $field:ident $exact:literal),*) => {$(
        impl Scalar for $A {
            const EXACT: bool = $exact;

            fn apply(op: &Op, args: &Args, operands: &[Tensor<$A>]) -> Tensor<$A> {
                (op.$field)(args, operands)
            }

            fn tensor(number: Layer<$A>) -> Tensor<$A> {
                Nd::full(IxDyn(&[]), 1.0) * number
            }

            fn dot(x: &Tensor<$A>, weights: &Nd<$A, IxDyn>) -> Layer<$A> {
                (x * weights).sum()
            }

            fn to_double(self) -> f64 {
                self.into()
            }
        }
    )*};
}

scalars!(f64 double true, f32 single false);

/// Defines operations by name, function that draws operands, and call. The call is compiled for
/// both element types, which it can name `A`.
macro_rules! ops {
    ($($name:literal, $draw:expr, |$args:pat_param, $x:pat_param| $call:expr;)*) => {
        pub(super) fn ops() -> Vec<crate::registry::Op> {
            vec![$(crate::registry::Op {
                name: $name,
                double: {
                    #[allow(dead_code, reason = "not every operation names its elements")]
                    type A = f64;
                    |$args, $x| $call
                },
                single: {
                    #[allow(dead_code, reason = "not every operation names its elements")]
                    type A = f32;
                    |$args, $x| $call
                },
                draw: $draw,
            },)*]
        }
    };
}
use ops;

thread_local! {
    /// Where tensors are that are arguments of an operation; none for the host.
    pub(crate) static PLACE: RefCell<Option<Arc<dyn Device>>> = const { RefCell::new(None) };
}

/// An argument that is a tensor.
fn placed<A: Item, D: Rank>(x: Nd<A, D>) -> Nd<A, D> {
    match PLACE.with_borrow(Clone::clone) {
        Some(device) => x.to(&device).expect("the device has room"),
        None => x,
    }
}

/// The argument `name` as labels or indices.
fn index(args: &Args, name: &str) -> Nd<usize, IxDyn> {
    placed(args.array(name, |place| place as usize).into())
}

/// The argument `name` as a mask.
fn mask(args: &Args, name: &str) -> Nd<bool, IxDyn> {
    placed(args.array(name, |truth| truth != 0.0).into())
}

/// All operations.
pub(crate) fn all() -> Vec<Op> {
    [
        pointwise::ops(),
        reductions::ops(),
        movement::ops(),
        order::ops(),
        windows::ops(),
        products::ops(),
        networks::ops(),
        losses::ops(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Operations that the registry cannot express, and the reason or the place of their tests.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[
    ("cast", "changes the element type; tested by its example"),
    ("to_floats", "tested by operations that return masks or indices: `argmax`, `less`"),
    ("lift", "tested by operations that broadcast: `add`"),
    ("to_dyn", "tested by operations of static rank: `flatten`, `diag`"),
    ("to_rank", "tested by operations that need a static rank: `affine`"),
    ("affine", "tested with `batch_norm` and `group_norm`"),
    ("one_hot", "a function of plain labels; tested in `losses.rs`"),
    ("jacobian", "tested in `derivatives.rs`"),
    ("hessian", "tested in `derivatives.rs`"),
    ("item", "gives a number; tested with `to_tensor` in `conveniences.rs`"),
    ("to_tensor", "has a number as operand; tested with `item` in `conveniences.rs`"),
    ("dense", "an operation on `Table`; tested in `embedding.rs`"),
    ("dropout", "random; tested in `nets.rs`"),
    ("logical_not", "has boolean operands; tested by its example"),
    ("logical_and", "has boolean operands; tested by its example"),
    ("logical_or", "has boolean operands; tested by its example"),
];
