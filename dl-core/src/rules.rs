//! The pointwise operations: their mathematics, written once.
//!
//! A line of the tables below says how an operation computes its value and how it pulls back a delta. It has several readings:
//!
//! - *numeric*, on plain `f32` and `f64`: the forward value of scalars, of each element of a tensor, and the reverse pass of
//!   scalar regions;
//! - *layer*: lazy deltas, which the executor evaluates (or never does), and which can be differentiated again.
//!
//! In a rule `x` (or `a`, `b`) are the operands, `y` is the value and `d` the delta that arrives. To add an operation, add its
//! line: it appears as a method of every layer and weight, scalar or tensor, in both directions, and in the gradient check.
//!
//! ```
//! use dl_core::{Differentiable, Weight};
//! let w = Weight::new(4.0_f64);
//! assert_eq!(w.sqrt().predict().wait()?, 2.0);
//! # dl_core::Result::Ok(())
//! ```

use crate::data::Data;
use crate::layer::Layer;
use crate::pass::buffers::Buffers;
use num_traits::Float;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Plain numbers: `f32` and `f64`.
pub trait Number: Float + Send + Sync + std::fmt::Debug + std::fmt::Display + 'static {
    /// The nearest number of this type.
    fn of(number: f64) -> Self;

    #[doc(hidden)]
    fn free_buffers(buffers: &mut Buffers) -> &mut Vec<Vec<Self>>;
}

impl Number for f32 {
    #[inline(always)]
    fn of(number: f64) -> Self {
        number as f32
    }

    fn free_buffers(buffers: &mut Buffers) -> &mut Vec<Vec<f32>> {
        &mut buffers.f32
    }
}

impl Number for f64 {
    #[inline(always)]
    fn of(number: f64) -> Self {
        number
    }

    fn free_buffers(buffers: &mut Buffers) -> &mut Vec<Vec<f64>> {
        &mut buffers.f64
    }
}

/// What a rule may be read in: numbers, or layers.
pub trait Algebra: Clone {
    /// Applies an operation of one operand.
    fn unary(op: Unary, x: &Self) -> Self;
    /// Applies an operation of two operands.
    fn binary(op: Binary, a: &Self, b: &Self) -> Self;
    /// Applies an operation to a number and an operand; the number stands on the left when `left`.
    fn with_number(op: Binary, x: &Self, number: f64, left: bool) -> Self;
}

impl<A: Number> Algebra for A {
    #[inline(always)]
    fn unary(op: Unary, x: &Self) -> Self {
        op.value(*x)
    }

    #[inline(always)]
    fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        op.value(*a, *b)
    }

    #[inline(always)]
    fn with_number(op: Binary, x: &Self, number: f64, left: bool) -> Self {
        if left { op.value(A::of(number), *x) } else { op.value(*x, A::of(number)) }
    }
}

impl<T: Pointwise> Algebra for Layer<T> {
    fn unary(op: Unary, x: &Self) -> Self {
        T::unary(op, x)
    }

    fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        T::binary(op, a, b)
    }

    fn with_number(op: Binary, x: &Self, number: f64, left: bool) -> Self {
        T::with_number(op, x, number, left)
    }
}

/// Data on which the pointwise operations work, element by element: scalars and tensors.
#[diagnostic::on_unimplemented(message = "`{Self}` has no pointwise operations: they work on `f32`, `f64` and tensors")]
pub trait Pointwise: Data {
    /// The layer of an operation on one operand.
    #[track_caller]
    fn unary(op: Unary, x: &Layer<Self>) -> Layer<Self>;
    /// The layer of an operation on two operands of the same type.
    #[track_caller]
    fn binary(op: Binary, a: &Layer<Self>, b: &Layer<Self>) -> Layer<Self>;
    /// The layer of an operation on a number and an operand; the number stands on the left when `left`.
    #[track_caller]
    fn with_number(op: Binary, x: &Layer<Self>, number: f64, left: bool) -> Layer<Self>;
}

/// An operand inside a rule: gives it the notation of arithmetic.
pub struct Term<A>(pub A);

macro_rules! arithmetic {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        impl<A: Algebra> $trait<&Term<A>> for &Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: &Term<A>) -> Term<A> { Term(A::binary(Binary::$op, &self.0, &right.0)) }
        }
        impl<A: Algebra> $trait<Term<A>> for &Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: Term<A>) -> Term<A> { self.$method(&right) }
        }
        impl<A: Algebra> $trait<&Term<A>> for Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: &Term<A>) -> Term<A> { (&self).$method(right) }
        }
        impl<A: Algebra> $trait for Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: Term<A>) -> Term<A> { (&self).$method(&right) }
        }
        impl<A: Algebra> $trait<&Term<A>> for f64 {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: &Term<A>) -> Term<A> { Term(A::with_number(Binary::$op, &right.0, self, true)) }
        }
        impl<A: Algebra> $trait<Term<A>> for f64 {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: Term<A>) -> Term<A> { self.$method(&right) }
        }
        impl<A: Algebra> $trait<f64> for &Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: f64) -> Term<A> { Term(A::with_number(Binary::$op, &self.0, right, false)) }
        }
        impl<A: Algebra> $trait<f64> for Term<A> {
            type Output = Term<A>;
            #[inline(always)]
            fn $method(self, right: f64) -> Term<A> { (&self).$method(right) }
        }
    )*};
}

arithmetic!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div);

impl<A: Algebra> Neg for &Term<A> {
    type Output = Term<A>;
    #[inline(always)]
    fn neg(self) -> Term<A> {
        Term(A::unary(Unary::Neg, &self.0))
    }
}

impl<A: Algebra> Neg for Term<A> {
    type Output = Term<A>;
    #[inline(always)]
    fn neg(self) -> Term<A> {
        -&self
    }
}

/// In the place of a delta: no gradient flows this way.
struct Flat;

trait IntoDelta<A> {
    fn into_delta(self) -> Option<Term<A>>;
}

impl<A> IntoDelta<A> for Term<A> {
    #[inline(always)]
    fn into_delta(self) -> Option<Term<A>> {
        Some(self)
    }
}

impl<A: Clone> IntoDelta<A> for &Term<A> {
    #[inline(always)]
    fn into_delta(self) -> Option<Term<A>> {
        Some(Term(self.0.clone()))
    }
}

impl<A> IntoDelta<A> for Flat {
    #[inline(always)]
    fn into_delta(self) -> Option<Term<A>> {
        None
    }
}

/// A loop over numbers that [`Unary::each`] compiles anew for every operation, so that the choice stands outside of it.
pub trait UnaryLoop<A> {
    /// What the loop ends with.
    type Output;
    /// The loop; `value` is the operation.
    fn run(self, value: impl Fn(A) -> A) -> Self::Output;
}

/// A loop over pairs of numbers that [`Binary::each`] compiles anew for every operation.
pub trait BinaryLoop<A> {
    /// What the loop ends with.
    type Output;
    /// The loop; `value` is the operation.
    fn run(self, value: impl Fn(A, A) -> A) -> Self::Output;
}

macro_rules! unary {
    ($($(#[doc = $doc:literal])+ $Op:ident $name:ident: |$x:ident| $value:expr, |$y:ident, $d:ident| $delta:expr;)*) => {
        /// A pointwise operation of one operand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Unary { $($(#[doc = $doc])+ $Op,)* }

        impl Unary {
            /// Every operation, in the order of the table.
            pub const ALL: &[Unary] = &[$(Unary::$Op),*];

            /// The name of the operation, which is also that of its method.
            pub const fn name(self) -> &'static str {
                match self { $(Unary::$Op => stringify!($name),)* }
            }

            /// The value of the operation.
            #[inline(always)]
            pub fn value<A: Number>(self, x: A) -> A {
                match self { $(Unary::$Op => { let $x = x; $value })* }
            }

            /// Runs a loop over the value of the operation, compiled for this operation alone.
            pub fn each<A: Number, L: UnaryLoop<A>>(self, over: L) -> L::Output {
                match self { $(Unary::$Op => over.run(|x| Unary::$Op.value(x)),)* }
            }

            /// The delta of the operand, from operand, value and the delta of the value.
            #[inline(always)]
            #[allow(unused_variables, reason = "a rule uses what it needs of operand and value")]
            pub fn pullback<A: Algebra>(self, x: &Term<A>, y: &Term<A>, d: &Term<A>) -> Option<Term<A>> {
                match self { $(Unary::$Op => { let ($x, $y, $d) = (x, y, d); IntoDelta::into_delta($delta) })* }
            }
        }

        impl<A: Algebra> Term<A> {
            $($(#[doc = $doc])+ #[must_use] #[inline(always)] pub fn $name(&self) -> Term<A> { Term(A::unary(Unary::$Op, &self.0)) })*
        }

        impl<T: Pointwise> Layer<T> {
            $($(#[doc = $doc])+ #[track_caller] pub fn $name(&self) -> Layer<T> { T::unary(Unary::$Op, self) })*
        }

        impl<T: Pointwise + crate::data::Trainable> crate::weight::Weight<T> {
            $($(#[doc = $doc])+ #[track_caller] pub fn $name(&self) -> Layer<T> {
                T::unary(Unary::$Op, &crate::differentiable::Differentiable::layer(self))
            })*
        }
    };
}

macro_rules! binary {
    ($($(#[doc = $doc:literal])+ $Op:ident $name:ident: |$a:ident, $b:ident| $value:expr, |$y:ident, $d:ident| ($da:expr, $db:expr);)*) => {
        /// A pointwise operation of two operands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Binary { $($(#[doc = $doc])+ $Op,)* }

        impl Binary {
            /// Every operation, in the order of the table.
            pub const ALL: &[Binary] = &[$(Binary::$Op),*];

            /// The name of the operation.
            pub const fn name(self) -> &'static str {
                match self { $(Binary::$Op => stringify!($name),)* }
            }

            /// The value of the operation.
            #[inline(always)]
            pub fn value<A: Number>(self, a: A, b: A) -> A {
                match self { $(Binary::$Op => { let ($a, $b) = (a, b); $value })* }
            }

            /// Runs a loop over the value of the operation, compiled for this operation alone.
            pub fn each<A: Number, L: BinaryLoop<A>>(self, over: L) -> L::Output {
                match self { $(Binary::$Op => over.run(|a, b| Binary::$Op.value(a, b)),)* }
            }

            /// The delta of the left operand, from operands, value and the delta of the value.
            #[inline(always)]
            #[allow(unused_variables, reason = "a rule uses what it needs of operands and value")]
            pub fn pullback_left<A: Algebra>(self, a: &Term<A>, b: &Term<A>, y: &Term<A>, d: &Term<A>) -> Option<Term<A>> {
                match self { $(Binary::$Op => { let ($a, $b, $y, $d) = (a, b, y, d); IntoDelta::into_delta($da) })* }
            }

            /// The deltas of both operands, as far as they are wanted.
            #[inline(always)]
            #[allow(unused_variables, reason = "a rule uses what it needs of operands and value")]
            pub fn pullbacks<A: Algebra>(
                self,
                [a, b, y, d]: [&Term<A>; 4],
                wanted: (bool, bool),
            ) -> (Option<Term<A>>, Option<Term<A>>) {
                match self { $(Binary::$Op => {
                    let ($a, $b, $y, $d) = (a, b, y, d);
                    (
                        if wanted.0 { IntoDelta::into_delta($da) } else { None },
                        if wanted.1 { IntoDelta::into_delta($db) } else { None },
                    )
                })* }
            }

            /// The delta of the right operand.
            #[inline(always)]
            #[allow(unused_variables, reason = "a rule uses what it needs of operands and value")]
            pub fn pullback_right<A: Algebra>(self, a: &Term<A>, b: &Term<A>, y: &Term<A>, d: &Term<A>) -> Option<Term<A>> {
                match self { $(Binary::$Op => { let ($a, $b, $y, $d) = (a, b, y, d); IntoDelta::into_delta($db) })* }
            }
        }
    };
}

unary! {
    /// `−x`.
    Neg neg: |x| -x, |y, d| -d;
    /// `|x|`; its derivative at 0 is 0.
    Abs abs: |x| x.abs(), |y, d| d * x.sign();
    /// −1, 0 or 1; no gradient flows through it.
    Sign sign: |x| if x == A::zero() { x } else { x.signum() }, |y, d| Flat;
    /// `eˣ`.
    Exp exp: |x| x.exp(), |y, d| d * y;
    /// The natural logarithm.
    Ln ln: |x| x.ln(), |y, d| d / x;
    /// The square root.
    Sqrt sqrt: |x| x.sqrt(), |y, d| 0.5 * d / y;
    /// `x²`.
    Square square: |x| x * x, |y, d| 2.0 * (d * x);
    /// `1 / x`.
    Recip recip: |x| x.recip(), |y, d| -(d * (y * y));
    /// The sine of an angle in radians.
    Sin sin: |x| x.sin(), |y, d| d * x.cos();
    /// The cosine of an angle in radians.
    Cos cos: |x| x.cos(), |y, d| -(d * x.sin());
    /// The hyperbolic tangent.
    Tanh tanh: |x| x.tanh(), |y, d| d * (1.0 - y * y);
    /// The logistic function `1 / (1 + e⁻ˣ)`.
    Sigmoid sigmoid: |x| logistic(x), |y, d| d * (y * (1.0 - y));
    /// `max(x, 0)`; its derivative at 0 is 0.
    Relu relu: |x| if x <= A::zero() { A::zero() } else { x }, |y, d| d * y.sign();
    /// `ln(1 + eˣ)`, without overflow.
    Softplus softplus: |x| x.max(A::zero()) + (-x.abs()).exp().ln_1p(), |y, d| d * x.sigmoid();
}

binary! {
    /// `a + b`.
    Add add: |a, b| a + b, |y, d| (d, d);
    /// `a − b`.
    Sub sub: |a, b| a - b, |y, d| (d, -d);
    /// `a · b`.
    Mul mul: |a, b| a * b, |y, d| (d * b, d * a);
    /// `a / b`.
    Div div: |a, b| a / b, |y, d| (d / b, -(d * y) / b);
    /// The smaller one (NaN if either is); equal operands share the gradient.
    Min min: |a, b| if a < b || a.is_nan() { a } else { b }, |y, d| (d * b.above(a), d * a.above(b));
    /// The larger one (NaN if either is); equal operands share the gradient.
    Max max: |a, b| if a > b || a.is_nan() { a } else { b }, |y, d| (d * a.above(b), d * b.above(a));
    /// `aᵇ`.
    Pow pow: |a, b| a.powf(b), |y, d| (d * (b * a.pow(&(b - 1.0))), d * y.xlogy(a));
    /// How much of a gradient `a` takes in a contest with `b`: 1 above it, ½ at a tie, 0 below. No gradient flows through it.
    Above above: |a, b| if a > b { A::one() } else if a == b { A::of(0.5) } else { A::zero() }, |y, d| (Flat, Flat);
    /// `a · ln b`, and 0 where `a` is 0.
    Xlogy xlogy: |a, b| if a == A::zero() { a } else { a * b.ln() }, |y, d| (d * b.ln(), d * a / b);
}

impl<A: Algebra> Term<A> {
    /// See [`Binary::Pow`].
    #[must_use]
    #[inline(always)]
    pub fn pow(&self, exponent: &Term<A>) -> Term<A> {
        Term(A::binary(Binary::Pow, &self.0, &exponent.0))
    }

    /// See [`Binary::Above`].
    #[must_use]
    #[inline(always)]
    pub fn above(&self, other: &Term<A>) -> Term<A> {
        Term(A::binary(Binary::Above, &self.0, &other.0))
    }

    /// See [`Binary::Xlogy`].
    #[must_use]
    #[inline(always)]
    pub fn xlogy(&self, other: &Term<A>) -> Term<A> {
        Term(A::binary(Binary::Xlogy, &self.0, &other.0))
    }
}

fn logistic<A: Number>(x: A) -> A {
    let e = (-x.abs()).exp();
    if x >= A::zero() { (A::one() + e).recip() } else { e / (A::one() + e) }
}
