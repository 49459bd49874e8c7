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
use dl_core::{
    Binary, Differentiable, Layer, LeftOperand, Operand, OperatorWith, Pointwise, RightOfNumber, Unary, Weight,
};
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

fn number<A: Element>(number: A) -> f64 {
    number.to_f64().expect("a floating-point number")
}

macro_rules! tensor_and_tensor {
    ($($R:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<A: Element, D: Rank + DimMax<E>, E: Rank> Operand<$R, Nd<A, E>> for Nd<A, D> {
            type Output = Nd<A, Max<D, E>>;

            #[track_caller]
            fn combine(op: Binary, left: Layer<Self>, right: $R) -> Layer<Self::Output> {
                tensors(op, &left, &right.into_layer())
            }
        }
    )*};
}

tensor_and_tensor!(Nd<A, E>, &Nd<A, E>, Layer<Nd<A, E>>, &Layer<Nd<A, E>>, Weight<Nd<A, E>>, &Weight<Nd<A, E>>);

macro_rules! tensor_and_number {
    ($($R:ty),*: |$op:ident, $left:ident, $right:ident| $combine:expr) => {$(
        #[diagnostic::do_not_recommend]
        impl<A: Element, D: Rank> Operand<$R, A> for Nd<A, D> {
            type Output = Nd<A, D>;

            #[track_caller]
            fn combine($op: Binary, $left: Layer<Self>, $right: $R) -> Layer<Self> {
                $combine
            }
        }
    )*};
}

tensor_and_number!(
    Layer<A>, &Layer<A>, Weight<A>, &Weight<A>:
    |op, left, right| Nd::binary(op, &left, &number_tensor(&right.into_layer()))
);
tensor_and_number!(A, &A: |op, left, right| Nd::with_number(op, &left, number(right.to_owned()), false));

#[diagnostic::do_not_recommend]
impl<A: Element, E: Rank> RightOfNumber<A> for Nd<A, E> {
    type Output = Self;

    fn right_of_layer(op: Binary, left: Layer<A>, right: Layer<Self>) -> Layer<Self> {
        Nd::right_of_borrowed(op, &left, &right)
    }

    fn right_of_borrowed(op: Binary, left: &Layer<A>, right: &Layer<Self>) -> Layer<Self> {
        Nd::binary(op, &number_tensor(left), right)
    }

    fn value_right_of(op: Binary, left: Layer<A>, right: Self) -> Layer<Self> {
        Nd::right_of_borrowed(op, &left, &right.into_layer())
    }

    fn right_of_number(op: Binary, left: A, right: Layer<Self>) -> Layer<Self> {
        Nd::with_number(op, &right, number(left), true)
    }
}

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
