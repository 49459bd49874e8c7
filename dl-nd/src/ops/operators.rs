//! The operators `+ - * / %`, `min`, `max` and `pow` on tensors. Operands broadcast: two tensors of
//! any ranks, or a tensor and a number on either side.
//!
//! `dl-core` defines the operators of layers and weights. This module declares the valid pairs of
//! operands and implements the operators of plain tensors on the left. `f32` and `f64` cannot be
//! mixed, and the result has the larger of the two ranks:
//!
//! ```compile_fail,E0277
//! use dl_nd::Nd;
//! let sum = Nd::from([1.0_f32]) + Nd::from([1.0_f64]);
//! ```
//!
//! ```compile_fail,E0308
//! use dl_nd::{Nd, NdLayer};
//! use ndarray::Ix1;
//! let sum: NdLayer<Ix1> = Nd::from([1.0_f32]) + Nd::from([[1.0_f32]]);
//! ```

use crate::ops::reduce::number_tensor;
use crate::ops::reshape::lift;
use crate::tensor::{Element, Nd, Rank};
use dl_core::{Binary, Differentiable, Layer, LeftOperand, Operand, OperatorWith, Pointwise, Unary, Weight};
use ndarray::DimMax;

type Max<D, E> = <D as DimMax<E>>::Output;

#[track_caller]
fn tensors<A: Element, D: Rank + DimMax<E>, E: Rank>(
    op: Binary,
    left: &Layer<Nd<A, D>>,
    right: &Layer<Nd<A, E>>,
) -> Layer<Nd<A, Max<D, E>>> {
    Nd::binary(op, &lift(left), &lift(right))
}

macro_rules! tensor_and_tensor {
    ($A:ty: $($R:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<D: Rank + DimMax<E>, E: Rank> Operand<$R, Nd<$A, E>> for Nd<$A, D> {
            type Output = Nd<$A, Max<D, E>>;

            #[track_caller]
            fn combine(op: Binary, left: Layer<Self>, right: $R) -> Layer<Self::Output> {
                tensors(op, &left, &right.into_layer())
            }
        }

        #[diagnostic::do_not_recommend]
        impl<E: Rank> Operand<$R, Nd<$A, E>> for $A {
            type Output = Nd<$A, E>;

            #[track_caller]
            fn combine(op: Binary, left: Layer<$A>, right: $R) -> Layer<Nd<$A, E>> {
                Nd::binary(op, &number_tensor(&left), &right.into_layer())
            }
        }
    )*};
}

macro_rules! tensor_and_number {
    ($A:ty: $($R:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<D: Rank> Operand<$R, $A> for Nd<$A, D> {
            type Output = Nd<$A, D>;

            #[track_caller]
            fn combine(op: Binary, left: Layer<Self>, right: $R) -> Layer<Self> {
                Nd::binary(op, &left, &number_tensor(&right.into_layer()))
            }
        }
    )*};
    ($A:ty, plain: $($R:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<D: Rank> Operand<$R, $A> for Nd<$A, D> {
            type Output = Nd<$A, D>;

            #[track_caller]
            fn combine(op: Binary, left: Layer<Self>, right: $R) -> Layer<Self> {
                Nd::with_number(op, &left, f64::from(right.to_owned()), false)
            }
        }
    )*};
}

macro_rules! pairs {
    ($($A:ty),*) => {$(
        tensor_and_tensor!($A: Nd<$A, E>, &Nd<$A, E>, Layer<Nd<$A, E>>, &Layer<Nd<$A, E>>, Weight<Nd<$A, E>>, &Weight<Nd<$A, E>>);
        tensor_and_number!($A: Layer<$A>, &Layer<$A>, Weight<$A>, &Weight<$A>);
        tensor_and_number!($A, plain: $A, &$A);
    )*};
}

pairs!(f32, f64);

macro_rules! tensor_on_the_left {
    ($([$($l:lifetime)?] $Left:ty),*) => {$(
        impl<$($l,)? A: Element, D: Rank, R, T> LeftOperand<R, T> for $Left
        where
            Nd<A, D>: Operand<R, T>,
        {
            type Output = <Nd<A, D> as Operand<R, T>>::Output;

            #[track_caller]
            fn combine(op: Binary, left: Self, right: R) -> Layer<Self::Output> {
                <Nd<A, D> as Operand<R, T>>::combine(op, left.into_layer(), right)
            }
        }

        impl<$($l,)? A: Element, D: Rank> std::ops::Neg for $Left {
            type Output = Layer<Nd<A, D>>;

            #[track_caller]
            fn neg(self) -> Self::Output {
                Nd::unary(Unary::Neg, &self.layer())
            }
        }

        tensor_on_the_left!(all [$($l)?] $Left: Add add, Sub sub, Mul mul, Div div, Rem rem);
    )*};
    (all $l:tt $Left:ty: $($Trait:ident $method:ident),*) => {$(
        tensor_on_the_left!(each $l $Left: $Trait $method);
    )*};
    (each [$($l:lifetime)?] $Left:ty: $Trait:ident $method:ident) => {
        impl<$($l,)? A: Element, D: Rank, R> std::ops::$Trait<R> for $Left
        where
            Nd<A, D>: OperatorWith<R>,
        {
            type Output = Layer<<Nd<A, D> as OperatorWith<R>>::Output>;

            #[track_caller]
            fn $method(self, right: R) -> Self::Output {
                Nd::combine_with(Binary::$Trait, self.into_layer(), right)
            }
        }
    };
}

tensor_on_the_left!([] Nd<A, D>, ['l] &'l Nd<A, D>);

macro_rules! number_and_plain_tensor {
    ($($A:ty: $Trait:ident $method:ident;)*) => {$(
        number_and_plain_tensor!(each $A, $Trait $method: $A, Nd<$A, D>; $A, &Nd<$A, D>; &$A, Nd<$A, D>; &$A, &Nd<$A, D>);
    )*};
    (each $A:ty, $Trait:ident $method:ident: $($N:ty, $X:ty);*) => {$(
        impl<D: Rank> std::ops::$Trait<$X> for $N {
            type Output = Layer<Nd<$A, D>>;

            #[track_caller]
            fn $method(self, right: $X) -> Self::Output {
                Nd::with_number(Binary::$Trait, &right.into_layer(), f64::from(self.to_owned()), true)
            }
        }
    )*};
}

number_and_plain_tensor! {
    f32: Add add; f32: Sub sub; f32: Mul mul; f32: Div div; f32: Rem rem;
    f64: Add add; f64: Sub sub; f64: Mul mul; f64: Div div; f64: Rem rem;
}
