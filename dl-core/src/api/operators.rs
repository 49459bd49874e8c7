//! The operators `+ - * / %`, `min`, `max` and `pow` between values, weights and layers, owned and
//! borrowed.
//!
//! This module has all `std::ops` implementations. They are generic over the open trait
//! [`Operand`], which pairs the data of the left operand with the types of the right one. Other
//! crates implement it for their data types and get every operator.
//!
//! ```
//! use dl_core::{Differentiable, Weight, max};
//! let w = Weight::new(2.0_f32);
//! let y = 2.0 * &w + 1.0 - w.exp() / 3.0;
//! assert_eq!(max(5.0, &w).predict().wait()?, 5.0);
//! # let _ = y;
//! # dl_core::Result::Ok(())
//! ```

use crate::api::differentiable::Differentiable;
use crate::api::weight::Weight;
use crate::graph::data::{Data, Trainable};
use crate::graph::delta::Delta;
use crate::graph::layer::Layer;
use crate::graph::node::NodeOp;
use crate::graph::pointwise::Pointwise;
use dl_math::{Binary, Number, Side, Unary};

/// Pairs a layer of `Self` on the left with an `R` on the right, which has the data type `D`.
///
/// The pair is keyed by the type of the right operand itself, so that the `2.0` of `layer * 2.0`
/// has a unique type.
///
/// ```compile_fail
/// use dl_core::Weight;
/// let (single, double) = (Weight::new(1.0_f32), Weight::new(1.0_f64));
/// let sum = &single + &double; // `f32` and `f64` do not mix
/// ```
#[diagnostic::on_unimplemented(
    message = "a layer of `{Self}` and a `{R}` cannot be combined by an operator",
    label = "no operator for `{Self}` with this right operand",
    note = "operands are numbers, tensors, weights and layers of the same number type: write `2.0` instead of `2`, and convert numbers with `as f32` or `as f64`"
)]
pub trait Operand<R, D>: Data {
    /// The data of the result.
    type Output: Data;

    /// The layer of the operation.
    #[track_caller]
    fn combine(op: Binary, left: Layer<Self>, right: R) -> Layer<Self::Output>;

    /// The same operation with a plain value on the left.
    ///
    /// ```
    /// use dl_core::{Binary, Differentiable, Operand, Weight};
    /// let difference = f64::combine_value(Binary::Sub, 5.0, &Weight::new(2.0));
    /// assert_eq!(difference.predict().wait()?, 3.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn combine_value(op: Binary, left: Self, right: R) -> Layer<Self::Output> {
        Self::combine(op, Layer::constant(left), right)
    }

    /// The same operation with a borrowed layer on the left.
    #[doc(hidden)]
    #[track_caller]
    fn combine_borrowed(op: Binary, left: &Layer<Self>, right: R) -> Layer<Self::Output> {
        Self::combine(op, left.clone(), right)
    }
}

/// [`Operand`] for the data of the right operand. An operator has this bound alone, so that the
/// compiler reports one error, and without the implementations of `Operand`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a layer of `{Self}` and a `{R}` cannot be combined by an operator",
    label = "no operator for `{Self}` with this right operand",
    note = "operands are numbers, tensors, weights and layers of the same number type: write `2.0` instead of `2`, and convert numbers with `as f32` or `as f64`"
)]
pub trait OperatorWith<R>: Data {
    /// The data of the result.
    type Output: Data;

    /// The layer of the operation.
    #[track_caller]
    fn combine_with(op: Binary, left: Layer<Self>, right: R) -> Layer<Self::Output>;

    /// The same operation with a borrowed layer on the left.
    #[track_caller]
    fn combine_borrowed_with(op: Binary, left: &Layer<Self>, right: R) -> Layer<Self::Output>;
}

#[diagnostic::do_not_recommend]
impl<T: Operand<R, R::Data>, R: Differentiable> OperatorWith<R> for T {
    type Output = <T as Operand<R, R::Data>>::Output;

    #[inline]
    #[track_caller]
    fn combine_with(op: Binary, left: Layer<T>, right: R) -> Layer<Self::Output> {
        T::combine(op, left, right)
    }

    #[inline]
    #[track_caller]
    fn combine_borrowed_with(op: Binary, left: &Layer<T>, right: R) -> Layer<Self::Output> {
        T::combine_borrowed(op, left, right)
    }
}

/// Data whose layers, weights and values can stand on the right of a number of type `A`: `A`
/// itself, and tensors of `A`. The operators of numbers are generic over it, so that they exist in
/// functions that are generic over the number type.
///
/// There must be one implementation for all numbers. With one for each type, the compiler could not
/// infer the type of `w * w` while that of `w` is open.
#[doc(hidden)]
pub trait RightOfNumber<A>: Data {
    /// `Self`. It is written as a projection, so that an operator of different number types has no
    /// type: else the compiler would report that type, too.
    type Output: Data;

    /// `left op right`, with two layers.
    #[track_caller]
    fn right_of_layer(op: Binary, left: Layer<A>, right: Layer<Self>) -> Layer<Self::Output>;

    /// The same with borrowed layers.
    #[track_caller]
    fn right_of_borrowed(op: Binary, left: &Layer<A>, right: &Layer<Self>) -> Layer<Self::Output>;

    /// The same with a plain value on the right.
    #[track_caller]
    fn value_right_of(op: Binary, left: Layer<A>, right: Self) -> Layer<Self::Output>;

    /// The same with a plain number on the left.
    #[track_caller]
    fn right_of_number(op: Binary, left: A, right: Layer<Self>) -> Layer<Self::Output>;
}

/// The number as it is stored in a node.
fn stored(number: impl Number) -> f64 {
    number.to_f64().expect("a floating-point number")
}

#[diagnostic::do_not_recommend]
impl<A: Number + Data> RightOfNumber<A> for A {
    type Output = A;

    fn right_of_layer(op: Binary, left: Layer<A>, right: Layer<A>) -> Layer<A> {
        Layer::from_op_with(|| NodeOp::Binary(op, [left.into_any(), right.into_any()]))
    }

    fn right_of_borrowed(op: Binary, left: &Layer<A>, right: &Layer<A>) -> Layer<A> {
        let (left, right) = left.any().clone_both(right.any());
        Layer::from_op_with(|| NodeOp::Binary(op, [left, right]))
    }

    fn value_right_of(op: Binary, left: Layer<A>, right: A) -> Layer<A> {
        Layer::from_op_with(|| NodeOp::WithNumber(op, Side::Right, stored(right), [left.into_any()]))
    }

    fn right_of_number(op: Binary, left: A, right: Layer<A>) -> Layer<A> {
        Layer::from_op_with(|| NodeOp::WithNumber(op, Side::Left, stored(left), [right.into_any()]))
    }
}

macro_rules! numbers {
    ($(
        [$($generics:tt)*] $R:ty, |$op:ident, $left:ident, $right:ident| $combine:expr $(, $borrowed:expr)?
    );* $(;)?) => {$(
        #[diagnostic::do_not_recommend]
        impl<A: Number + Data, D: RightOfNumber<A> $($generics)*> Operand<$R, D> for A {
            type Output = D::Output;

            #[inline]
            #[track_caller]
            fn combine($op: Binary, $left: Layer<A>, $right: $R) -> Layer<D::Output> {
                $combine
            }

            #[inline]
            #[track_caller]
            fn combine_value(op: Binary, left: A, right: $R) -> Layer<D::Output> {
                D::right_of_number(op, left, right.into_layer())
            }

            $(#[inline]
            #[track_caller]
            fn combine_borrowed($op: Binary, $left: &Layer<A>, $right: $R) -> Layer<D::Output> {
                $borrowed
            })?
        }
    )*};
}

numbers! {
    [+ Differentiable<Data = D>] D, |op, left, right| D::value_right_of(op, left, right);
    [+ Differentiable<Data = D>] &D, |op, left, right| D::value_right_of(op, left, right.clone());
    [] Layer<D>, |op, left, right| D::right_of_layer(op, left, right);
    [] &Layer<D>, |op, left, right| D::right_of_layer(op, left, right.clone()), D::right_of_borrowed(op, left, right);
    [+ Trainable] Weight<D>, |op, left, right| D::right_of_layer(op, left, right.into_layer());
    [+ Trainable] &Weight<D>, |op, left, right| D::right_of_layer(op, left, right.into_layer());
}

/// Pairs an expression of type `Self` on the left with an `R` on the right, which has data `D`. The
/// functions [`min`], [`max`] and [`pow`] require it of their first argument.
///
/// ```
/// use dl_core::{Differentiable, LeftOperand, Layer, Weight, max};
/// fn at_least<X: LeftOperand<f64, f64, Output = f64>>(x: X) -> Layer<f64> {
///     max(x, 1.0)
/// }
/// assert_eq!(at_least(0.5).predict().wait()?, 1.0);
/// assert_eq!(at_least(&Weight::new(3.0)).predict().wait()?, 3.0);
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{R}` cannot be combined",
    note = "both need the same number type: convert plain numbers with `as f32` or `as f64`"
)]
pub trait LeftOperand<R, D>: Differentiable {
    /// The data of the result.
    type Output: Data;

    /// The layer of the operation.
    #[track_caller]
    fn combine(op: Binary, left: Self, right: R) -> Layer<Self::Output>;
}

macro_rules! left_operands {
    ($([$($generics:tt)*] $Left:ty, $T:ty);* $(;)?) => {$(
        impl<$($generics)* R, D> LeftOperand<R, D> for $Left
        where
            $T: Operand<R, D>,
        {
            type Output = <$T as Operand<R, D>>::Output;

            #[track_caller]
            fn combine(op: Binary, left: Self, right: R) -> Layer<Self::Output> {
                <$T as Operand<R, D>>::combine(op, left.into_layer(), right)
            }
        }
    )*};
}

left_operands! {
    [] f32, f32; [] &f32, f32; [] f64, f64; [] &f64, f64;
    [T: Data,] Layer<T>, T; [T: Data,] &Layer<T>, T;
    [T: Trainable,] Weight<T>, T; [T: Trainable,] &Weight<T>, T;
}

macro_rules! layer_on_the_left {
    ($Trait:ident $method:ident: $([$($generics:tt)*] $Left:ty, $T:ident $(: $Bound:ident)?);* $(;)?) => {$(
        impl<$($generics)* $T $(: $Bound)?, R> std::ops::$Trait<R> for $Left
        where
            $T: OperatorWith<R>,
        {
            type Output = Layer<<$T as OperatorWith<R>>::Output>;

            #[track_caller]
            fn $method(self, right: R) -> Self::Output {
                <$T as OperatorWith<R>>::combine_with(Binary::$Trait, self.into_layer(), right)
            }
        }
    )*};
}

macro_rules! number_on_the_left {
    ($Trait:ident $method:ident: $($Left:ty, $N:ty);* $(;)?) => {$(
        number_on_the_left!(@ $Trait $method $Left, $N, [] Layer<T>, );
        number_on_the_left!(@ $Trait $method $Left, $N, ['r,] &'r Layer<T>, );
        number_on_the_left!(@ $Trait $method $Left, $N, [] Weight<T>, : Trainable);
        number_on_the_left!(@ $Trait $method $Left, $N, ['r,] &'r Weight<T>, : Trainable);
    )*};
    (@ $Trait:ident $method:ident $Left:ty, $N:ty, [$($r:tt)*] $Right:ty, $(: $Bound:ident)?) => {
        impl<$($r)* T $(: $Bound)?> std::ops::$Trait<$Right> for $Left
        where
            $N: Operand<$Right, T>,
        {
            type Output = Layer<<$N as Operand<$Right, T>>::Output>;

            #[track_caller]
            fn $method(self, right: $Right) -> Self::Output {
                <$N as Operand<$Right, T>>::combine_value(Binary::$Trait, <$N>::clone(&self), right)
            }
        }
    };
}

macro_rules! operators {
    ($($Trait:ident $method:ident),*) => {$(
        impl<T, R> std::ops::$Trait<R> for &Layer<T>
        where
            T: OperatorWith<R>,
        {
            type Output = Layer<<T as OperatorWith<R>>::Output>;

            #[track_caller]
            fn $method(self, right: R) -> Self::Output {
                T::combine_borrowed_with(Binary::$Trait, self, right)
            }
        }

        layer_on_the_left!($Trait $method:
            [] Layer<T>, T;
            [] Weight<T>, T: Trainable;
            ['l,] &'l Weight<T>, T: Trainable;
        );
        number_on_the_left!($Trait $method: f32, f32; &f32, f32; f64, f64; &f64, f64);
    )*};
}

operators!(Add add, Sub sub, Mul mul, Div div, Rem rem);

macro_rules! negation {
    ($([$($generics:tt)*] $X:ty, $T:ident $(: $Bound:ident)?);* $(;)?) => {$(
        impl<$($generics)* $T: Pointwise $(+ $Bound)?> std::ops::Neg for $X {
            type Output = Layer<$T>;

            #[track_caller]
            fn neg(self) -> Layer<$T> {
                T::unary(Unary::Neg, &self.layer())
            }
        }
    )*};
}

negation! {
    [] Layer<T>, T;
    ['x,] &'x Layer<T>, T;
    [] Weight<T>, T: Trainable;
    ['x,] &'x Weight<T>, T: Trainable;
}

macro_rules! functions {
    ($($(#[doc = $doc:literal])+ $name:ident $Op:ident;)*) => {
        $(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name<L, R>(a: L, b: R) -> Layer<L::Output>
            where
                L: LeftOperand<R, R::Data>,
                R: Differentiable,
            {
                L::combine(Binary::$Op, a, b)
            }
        )*

        impl<T: Data> Layer<T> {
            $($(#[doc = $doc])+
            #[track_caller]
            pub fn $name<R>(&self, b: R) -> Layer<<T as OperatorWith<R>>::Output>
            where
                T: OperatorWith<R>,
            {
                T::combine_with(Binary::$Op, self.clone(), b)
            })*
        }

        impl<T: Trainable> Weight<T> {
            $($(#[doc = $doc])+
            #[track_caller]
            pub fn $name<R>(&self, b: R) -> Layer<<T as OperatorWith<R>>::Output>
            where
                T: OperatorWith<R>,
            {
                T::combine_with(Binary::$Op, self.layer(), b)
            })*
        }
    };
}

functions! {
    /// The element-wise minimum. Equal elements share the gradient.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight, min};
    /// assert_eq!(min(5.0, &Weight::new(1.0_f64)).predict().wait()?, 1.0);
    /// # dl_core::Result::Ok(())
    /// ```
    min Min;
    /// The element-wise maximum. Equal elements share the gradient.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight, max};
    /// assert_eq!(max(5.0, &Weight::new(1.0_f64)).predict().wait()?, 5.0);
    /// # dl_core::Result::Ok(())
    /// ```
    max Max;
    /// The element-wise power `aᵇ`.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight, pow};
    /// assert_eq!(pow(2.0, &Weight::new(3.0_f64)).predict().wait()?, 8.0);
    /// # dl_core::Result::Ok(())
    /// ```
    pow Pow;
    /// Element-wise `a · ln b`, and 0 where `a` is 0.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight, xlogy};
    /// assert_eq!(xlogy(0.0, &Weight::new(0.0_f64)).predict().wait()?, 0.0);
    /// # dl_core::Result::Ok(())
    /// ```
    xlogy Xlogy;
    /// Element-wise `ln(eᵃ + eᵇ)`, without overflow.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight, logaddexp};
    /// assert_eq!(logaddexp(0.0, &Weight::new(0.0_f64)).predict().wait()?, 2_f64.ln());
    /// # dl_core::Result::Ok(())
    /// ```
    logaddexp LogAddExp;
}

/// Sums the layers in their order. An empty sum is [`Delta::none`](crate::Delta::none).
impl<T: Delta> std::iter::Sum for Layer<T> {
    #[track_caller]
    fn sum<I: Iterator<Item = Layer<T>>>(terms: I) -> Layer<T> {
        T::sum_of(terms)
    }
}

impl<'a, T: Delta> std::iter::Sum<&'a Layer<T>> for Layer<T> {
    #[track_caller]
    fn sum<I: Iterator<Item = &'a Layer<T>>>(terms: I) -> Layer<T> {
        terms.cloned().sum()
    }
}
