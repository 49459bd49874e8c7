//! The table of pointwise operations. The mathematics of an operation is written once, in its line.
//!
//! A line of the table holds the name of an operation in PyTorch, its cost, its value and its
//! pullback rule. A rule is evaluated in several [algebras](Algebra):
//!
//! - *numbers*, `f32` and `f64`: the forward value of scalars and of each element of a tensor, and
//!   the reverse pass of scalar regions;
//! - *dual numbers*: values together with their derivatives along a direction, see [`Dual`];
//! - *layers*: lazy deltas, which the executor evaluates on demand, and which can be differentiated
//!   again.
//!
//! In a rule, `x` (or `a` and `b`) are the operands, `y` is the value and `d` the delta of the
//! value. A delta of exactly 0 annihilates: a product `d * slope` and a quotient `d / x` are 0
//! where `d` is, whatever the slope. Slopes therefore stand behind `d`. To add an operation, add
//! its line. An operation of one operand becomes a method of every layer and weight, scalar or
//! tensor. An operation of two operands needs an operator or function in `api::operators` of
//! `dl-core`, or, if its right operand is a plain number, a method in `api::number_operands`. All
//! operations are in the gradient check, in the comparison with PyTorch and in the documentation.
//! Lines without a PyTorch name are used only in the rules of other lines.
//!
//! ```
//! use dl_core::{Differentiable, Weight};
//! let w = Weight::new(4.0_f64);
//! assert_eq!(w.sqrt().predict().wait()?, 2.0);
//! # dl_core::Result::Ok(())
//! ```

use crate::algebra::{Algebra, IntoDelta, NoGradient, Term};
use crate::cotangent::{Cotangent, Scaled};
use crate::elementary::arithmetic::{Elementary, Native};
use crate::number::{
    Number, acosh, atanh, gelu_tanh_argument, gelu_tanh_argument_slope, logaddexp, normal_cdf, normal_pdf, remainder,
    round_half_even, saturated, weighted,
};
use crate::power;

use crate::dual::Dual;
use std::f64::consts::FRAC_2_SQRT_PI;

/// A loop over numbers that [`Unary::each`] compiles for every operation, so that the `match` on
/// the operation is outside of the loop.
///
/// ```
/// use dl_math::{Native, Unary, UnaryLoop};
/// struct Sum<'a>(&'a [f64]);
/// impl UnaryLoop<f64> for Sum<'_> {
///     type Output = f64;
///     type Functions = Native;
///     fn run(self, value: impl Fn(f64) -> f64) -> f64 {
///         self.0.iter().map(|&x| value(x)).sum()
///     }
/// }
/// assert_eq!(Unary::Square.each(Sum(&[1.0, 2.0, 3.0])), 14.0);
/// ```
pub trait UnaryLoop<A> {
    /// The result of the loop.
    type Output;
    /// The elementary functions that the loop calls. A loop that is compiled for an instruction
    /// set, by `#[target_feature]` for instance, uses [`Fused`](crate::Fused) if the set has fused
    /// multiply-add, else [`Unfused`](crate::Unfused). Any other loop uses [`Native`], which gives
    /// the bits of single numbers, or [`Unfused`](crate::Unfused), which is vectorised and may
    /// differ in the last digits.
    type Functions: Elementary;
    /// Runs the loop; `value` is the operation. It may be stored for later loops.
    fn run(self, value: impl Fn(A) -> A + Copy + Send + Sync + 'static) -> Self::Output;
}

/// A loop over pairs of numbers that [`Binary::each`] compiles for every operation.
///
/// ```
/// use dl_math::{Binary, BinaryLoop, Native};
/// struct Dot<'a>(&'a [f64], &'a [f64]);
/// impl BinaryLoop<f64> for Dot<'_> {
///     type Output = f64;
///     type Functions = Native;
///     fn run(self, value: impl Fn(f64, f64) -> f64) -> f64 {
///         self.0.iter().zip(self.1).map(|(&a, &b)| value(a, b)).sum()
///     }
/// }
/// assert_eq!(Binary::Mul.each(Dot(&[1.0, 2.0], &[3.0, 4.0])), 11.0);
/// ```
pub trait BinaryLoop<A> {
    /// The result of the loop.
    type Output;
    /// The elementary functions that the loop calls. A loop that is compiled for an instruction
    /// set, by `#[target_feature]` for instance, uses [`Fused`](crate::Fused) if the set has fused
    /// multiply-add, else [`Unfused`](crate::Unfused). Any other loop uses [`Native`], which gives
    /// the bits of single numbers, or [`Unfused`](crate::Unfused), which is vectorised and may
    /// differ in the last digits.
    type Functions: Elementary;
    /// Runs the loop; `value` is the operation. It may be stored for later loops.
    fn run(self, value: impl Fn(A, A) -> A + Copy + Send + Sync + 'static) -> Self::Output;
}

/// The doctest of a method of [`Term`] and [`Dual`].
macro_rules! example_in {
    ($Op:ident $name:ident $new:literal $value:literal) => {
        concat!(
            "\n```\nuse dl_math::{Dual, Term, Unary};\nassert_eq!(",
            $new,
            "(1.0_f64).",
            stringify!($name),
            "()",
            $value,
            ", Unary::",
            stringify!($Op),
            ".value(1.0));\n```"
        )
    };
}

macro_rules! unary {
    (($dollar:tt) $(
        $(#[doc = $doc:literal])+
        $Op:ident $name:ident = $torch:literal, $ns:literal ns: |$x:ident| $value:expr, |$y:ident, $d:ident| $delta:expr;
    )*) => {
        /// A pointwise operation of one operand.
        ///
        /// ```
        /// use dl_math::{Term, Unary};
        /// assert_eq!(Unary::Square.name(), "square");
        /// assert_eq!(Unary::Square.value(3.0_f64), 9.0);
        /// let [x, y, d] = [3.0, 9.0, 1.0].map(Term);
        /// assert_eq!(Unary::Square.pullback(&x, &y, &d).map(|delta| delta.0), Some(6.0));
        /// assert!(Unary::ALL.contains(&Unary::Tanh));
        /// ```
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

            /// A description of the operation, in one line.
            ///
            /// ```
            /// assert_eq!(dl_math::Unary::Sin.meaning(), "The sine of an angle in radians.");
            /// ```
            pub const fn meaning(self) -> &'static str {
                match self { $(Unary::$Op => concat!($($doc),+).trim_ascii(),)* }
            }

            /// The name in PyTorch; none if the operation exists only for the rules of others.
            ///
            /// ```
            /// assert_eq!(dl_math::Unary::Sin.torch(), Some("torch.sin"));
            /// ```
            pub const fn torch(self) -> Option<&'static str> {
                let name = match self { $(Unary::$Op => $torch,)* };
                if name.is_empty() { None } else { Some(name) }
            }

            /// A rough estimate of the time per element of a tensor, in nanoseconds.
            ///
            /// ```
            /// assert!(dl_math::Unary::Sin.cost() > 0.0);
            /// ```
            pub const fn cost(self) -> f64 {
                match self { $(Unary::$Op => $ns,)* }
            }

            /// Whether a gradient flows through it.
            ///
            /// ```
            /// use dl_math::Unary;
            /// assert!(Unary::Sin.has_gradient() && !Unary::Floor.has_gradient());
            /// ```
            pub fn has_gradient(self) -> bool {
                let any = &Term(1.0_f64);
                self.pullback(any, any, any).is_some()
            }

            /// The value of the operation.
            #[inline(always)]
            pub fn value<A: Number>(self, x: A) -> A {
                self.value_by::<Native, A>(x)
            }

            #[inline(always)]
            fn value_by<E: Elementary, A: Number>(self, x: A) -> A {
                match self { $(Unary::$Op => { let $x = x; $value })* }
            }

            /// Runs a loop that is compiled for this operation.
            ///
            /// ```
            /// # struct All(Vec<f32>);
            /// # impl dl_math::UnaryLoop<f32> for All {
            /// #     type Output = Vec<f32>;
            /// #     type Functions = dl_math::Native;
            /// #     fn run(self, value: impl Fn(f32) -> f32) -> Vec<f32> {
            /// #         self.0.into_iter().map(value).collect()
            /// #     }
            /// # }
            /// // `All` applies it to each number
            /// assert_eq!(dl_math::Unary::Neg.each(All(vec![1.0, 2.0])), [-1.0, -2.0]);
            /// ```
            pub fn each<A: Number, L: UnaryLoop<A>>(self, over: L) -> L::Output {
                match self { $(Unary::$Op => over.run(#[inline(always)] |x| Unary::$Op.value_by::<L::Functions, A>(x)),)* }
            }

            /// The delta of the operand, from the operand, the value and the delta of the value.
            #[inline(always)]
            #[allow(unused_variables, reason = "a rule uses what it needs of operand and value")]
            pub fn pullback<A: Algebra>(self, x: &Term<A>, y: &Term<A>, d: &Term<A>) -> Option<Term<A>> {
                match self { $(Unary::$Op => { let ($x, $y, $d) = (x, y, Cotangent(d)); IntoDelta::into_delta($delta) })* }
            }
        }

        impl<A: Algebra> Term<A> {
            $($(#[doc = $doc])+ #[doc = example_in!($Op $name "Term" ".0")] #[must_use] #[inline(always)] pub fn $name(&self) -> Term<A> {
                Term(A::unary(Unary::$Op, &self.0))
            })*
        }

        impl<A: Algebra> Dual<A> {
            $($(#[doc = $doc])+ #[doc = example_in!($Op $name "Dual::variable" ".value()")] #[must_use] #[inline(always)] pub fn $name(&self) -> Dual<A> {
                Dual::unary(Unary::$Op, self)
            })*
        }

        /// Calls a macro with the lines of the table: the doc, the operation and its name.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! unary_operations {
            ($dollar callback:ident) => { $dollar callback! { $($(#[doc = $doc])+ $Op $name;)* } };
        }
    };
}

macro_rules! binary {
    ($(
        $(#[doc = $doc:literal])+
        $Op:ident $name:ident = $torch:literal, $ns:literal ns: |$a:ident, $b:ident| $value:expr,
            |$y:ident, $d:ident| ($da:expr, $db:expr);
    )*) => {
        /// A pointwise operation of two operands.
        ///
        /// ```
        /// use dl_math::{Binary, Term};
        /// assert_eq!((Binary::Mul.name(), Binary::Mul.value(3.0_f64, 4.0)), ("mul", 12.0));
        /// let [a, b, y, d] = [3.0, 4.0, 12.0, 1.0].map(Term);
        /// assert_eq!(Binary::Mul.pullback_left(&a, &b, &y, &d).map(|delta| delta.0), Some(4.0));
        /// assert_eq!(Binary::Mul.pullback_right(&a, &b, &y, &d).map(|delta| delta.0), Some(3.0));
        /// let (left, right) = Binary::Mul.pullbacks([&a, &b, &y, &d], (false, true));
        /// assert!(left.is_none() && right.is_some());
        /// assert!(Binary::ALL.contains(&Binary::Pow));
        /// ```
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

            /// A description of the operation, in one line.
            ///
            /// ```
            /// assert_eq!(dl_math::Binary::Mul.meaning(), "`a · b`.");
            /// ```
            pub const fn meaning(self) -> &'static str {
                match self { $(Binary::$Op => concat!($($doc),+).trim_ascii(),)* }
            }

            /// The name in PyTorch; none if the operation exists only for the rules of others.
            ///
            /// ```
            /// assert_eq!(dl_math::Binary::Mul.torch(), Some("torch.mul"));
            /// ```
            pub const fn torch(self) -> Option<&'static str> {
                let name = match self { $(Binary::$Op => $torch,)* };
                if name.is_empty() { None } else { Some(name) }
            }

            /// A rough estimate of the time per element of a tensor, in nanoseconds.
            ///
            /// ```
            /// assert!(dl_math::Binary::Mul.cost() > 0.0);
            /// ```
            pub const fn cost(self) -> f64 {
                match self { $(Binary::$Op => $ns,)* }
            }

            /// Whether a gradient flows to the left and to the right operand.
            ///
            /// ```
            /// use dl_math::Binary;
            /// assert_eq!((Binary::Mul.has_gradient(), Binary::Above.has_gradient()), ((true, true), (false, false)));
            /// ```
            pub fn has_gradient(self) -> (bool, bool) {
                let any = &Term(1.0_f64);
                let (left, right) = self.pullbacks([any; 4], (true, true));
                (left.is_some(), right.is_some())
            }

            /// The value of the operation.
            #[inline(always)]
            pub fn value<A: Number>(self, a: A, b: A) -> A {
                self.value_by::<Native, A>(a, b)
            }

            #[inline(always)]
            fn value_by<E: Elementary, A: Number>(self, a: A, b: A) -> A {
                match self { $(Binary::$Op => { let ($a, $b) = (a, b); $value })* }
            }

            /// Runs a loop that is compiled for this operation.
            ///
            /// ```
            /// # struct Fold(Vec<f32>);
            /// # impl dl_math::BinaryLoop<f32> for Fold {
            /// #     type Output = f32;
            /// #     type Functions = dl_math::Native;
            /// #     fn run(self, value: impl Fn(f32, f32) -> f32) -> f32 {
            /// #         self.0.into_iter().reduce(value).unwrap()
            /// #     }
            /// # }
            /// // `Fold` takes one number after the other
            /// assert_eq!(dl_math::Binary::Max.each(Fold(vec![1.0, 3.0, 2.0])), 3.0);
            /// ```
            pub fn each<A: Number, L: BinaryLoop<A>>(self, over: L) -> L::Output {
                match self { $(Binary::$Op => over.run(#[inline(always)] |a, b| Binary::$Op.value_by::<L::Functions, A>(a, b)),)* }
            }

            /// The delta of the left operand, from the operands, the value and the delta of the
            /// value.
            #[inline(always)]
            #[allow(unused_variables, reason = "a rule uses what it needs of operands and value")]
            pub fn pullback_left<A: Algebra>(self, a: &Term<A>, b: &Term<A>, y: &Term<A>, d: &Term<A>) -> Option<Term<A>> {
                match self { $(Binary::$Op => { let ($a, $b, $y, $d) = (a, b, y, Cotangent(d)); IntoDelta::into_delta($da) })* }
            }

            /// The deltas of the left and of the right operand, each only if it is wanted.
            #[inline(always)]
            #[allow(unused_variables, reason = "a rule uses what it needs of operands and value")]
            pub fn pullbacks<A: Algebra>(
                self,
                [a, b, y, d]: [&Term<A>; 4],
                wanted: (bool, bool),
            ) -> (Option<Term<A>>, Option<Term<A>>) {
                match self { $(Binary::$Op => {
                    let ($a, $b, $y, $d) = (a, b, y, Cotangent(d));
                    (
                        if wanted.0 { IntoDelta::into_delta($da) } else { None },
                        if wanted.1 { IntoDelta::into_delta($db) } else { None },
                    )
                })* }
            }

            /// The delta of the right operand, from the operands, the value and the delta of the
            /// value.
            #[inline(always)]
            #[allow(unused_variables, reason = "a rule uses what it needs of operands and value")]
            pub fn pullback_right<A: Algebra>(self, a: &Term<A>, b: &Term<A>, y: &Term<A>, d: &Term<A>) -> Option<Term<A>> {
                match self { $(Binary::$Op => { let ($a, $b, $y, $d) = (a, b, y, Cotangent(d)); IntoDelta::into_delta($db) })* }
            }
        }
    };
}

unary! {
    ($)
    /// `−x`.
    Neg neg = "torch.neg", 0.5 ns: |x| -x, |y, d| -d;
    /// `|x|`; its derivative at 0 is 0.
    Abs abs = "torch.abs", 0.5 ns: |x| x.abs(), |y, d| d * x.sign();
    /// −1, 0 or 1; no gradient flows through it.
    Sign sign = "torch.sign", 0.5 ns: |x| if x == A::zero() { x } else { x.signum() }, |y, d| NoGradient;
    /// The largest integer that is not above `x`; no gradient flows through it.
    Floor floor = "torch.floor", 0.5 ns: |x| x.floor(), |y, d| NoGradient;
    /// The smallest integer that is not below `x`; no gradient flows through it.
    Ceil ceil = "torch.ceil", 0.5 ns: |x| x.ceil(), |y, d| NoGradient;
    /// The nearest integer, the even one of two; no gradient flows through it.
    Round round = "torch.round", 2.0 ns: |x| round_half_even(x), |y, d| NoGradient;
    /// `eˣ`.
    Exp exp = "torch.exp", 10.0 ns: |x| E::exp(x), |y, d| d * y;
    /// `eˣ − 1`, without cancellation.
    Expm1 expm1 = "torch.expm1", 10.0 ns: |x| E::exp_m1(x), |y, d| d * x.exp();
    /// The natural logarithm.
    Ln ln = "torch.log", 10.0 ns: |x| E::ln(x), |y, d| d / x;
    /// `ln(1 + x)`, without cancellation.
    Log1p log1p = "torch.log1p", 10.0 ns: |x| E::ln_1p(x), |y, d| d / (1.0 + x);
    /// The square root.
    Sqrt sqrt = "torch.sqrt", 10.0 ns: |x| x.sqrt(), |y, d| 0.5 * d / y;
    /// `1 / √x`.
    Rsqrt rsqrt = "torch.rsqrt", 10.0 ns: |x| x.sqrt().recip(), |y, d| -0.5 * d * y / x;
    /// `x²`.
    Square square = "torch.square", 0.5 ns: |x| x * x, |y, d| 2.0 * (d * x);
    /// `1 / x`.
    Recip recip = "torch.reciprocal", 0.5 ns: |x| x.recip(), |y, d| -(d * (y * y));
    /// The sine of an angle in radians.
    Sin sin = "torch.sin", 10.0 ns: |x| E::sin(x), |y, d| d * x.cos();
    /// The cosine of an angle in radians.
    Cos cos = "torch.cos", 10.0 ns: |x| E::cos(x), |y, d| -(d * x.sin());
    /// The tangent of an angle in radians.
    Tan tan = "torch.tan", 10.0 ns: |x| E::tan(x), |y, d| d * (1.0 + y * y);
    /// The angle in radians, from −π/2 to π/2, whose sine is `x`.
    Asin asin = "torch.asin", 10.0 ns: |x| E::asin(x), |y, d| d * ((1.0 - x) * (1.0 + x)).rsqrt();
    /// The angle in radians, from 0 to π, whose cosine is `x`.
    Acos acos = "torch.acos", 10.0 ns: |x| E::acos(x), |y, d| -(d * ((1.0 - x) * (1.0 + x)).rsqrt());
    /// The angle in radians, from −π/2 to π/2, whose tangent is `x`.
    Atan atan = "torch.atan", 10.0 ns: |x| E::atan(x), |y, d| d / (1.0 + x * x);
    /// The hyperbolic sine.
    Sinh sinh = "torch.sinh", 10.0 ns: |x| x.sinh(), |y, d| d * x.cosh();
    /// The hyperbolic cosine.
    Cosh cosh = "torch.cosh", 10.0 ns: |x| x.cosh(), |y, d| d * x.sinh();
    /// The hyperbolic tangent.
    Tanh tanh = "torch.tanh", 10.0 ns: |x| E::tanh(x), |y, d| d * (1.0 - y * y);
    /// The inverse of the hyperbolic sine.
    Asinh asinh = "torch.asinh", 10.0 ns: |x| x.asinh(), |y, d| d * (1.0 + x * x).rsqrt();
    /// The inverse of the hyperbolic cosine, not negative.
    Acosh acosh = "torch.acosh", 10.0 ns: |x| acosh::<E, A>(x), |y, d| d * ((x - 1.0) * (x + 1.0)).rsqrt();
    /// The inverse of the hyperbolic tangent.
    Atanh atanh = "torch.atanh", 10.0 ns: |x| atanh::<E, A>(x), |y, d| d / ((1.0 - x) * (1.0 + x));
    /// The error function.
    Erf erf = "torch.erf", 10.0 ns: |x| E::erf(x), |y, d| d * (FRAC_2_SQRT_PI * (-saturated(x).square()).exp());
    /// The distribution function `Φ` of the standard normal distribution.
    Ndtr ndtr = "torch.special.ndtr", 10.0 ns: |x| normal_cdf::<E, A>(x), |y, d| d * normal_pdf(&saturated(x));
    /// The logistic function `1 / (1 + e⁻ˣ)`.
    Sigmoid sigmoid = "torch.sigmoid", 10.0 ns: |x| E::logistic(x), |y, d| d * (y * (1.0 - y));
    /// `max(x, 0)`; its derivative at 0 is 0.
    Relu relu = "torch.relu", 0.5 ns: |x| if x <= A::zero() { A::zero() } else { x }, |y, d| d.gate(y);
    /// `x · Φ(x)`, where `Φ` is the distribution function of the standard normal distribution.
    Gelu gelu = "torch.nn.functional.gelu", 10.0 ns: |x| weighted(normal_cdf::<E, A>(x), x),
        |y, d| { let x = &saturated(x); d * (x.ndtr() + x * normal_pdf(x)) };
    /// The approximation of `gelu` by the hyperbolic tangent.
    GeluTanh gelu_tanh = "torch.nn.functional.gelu(approximate='tanh')", 10.0 ns: |x| weighted(E::logistic(gelu_tanh_argument(&Term(x)).0), x),
        |y, d| { let x = &saturated(x); let s = gelu_tanh_argument(x).sigmoid(); d * (&s + &s * x * (1.0 - &s) * gelu_tanh_argument_slope(x)) };
    /// `x · sigmoid(x)`.
    Silu silu = "torch.nn.functional.silu", 10.0 ns: |x| weighted(E::logistic(x), x),
        |y, d| { let x = &saturated(x); let s = x.sigmoid(); d * (&s + &s * x * (1.0 - &s)) };
    /// `ln(1 + eˣ)`, without overflow.
    Softplus softplus = "torch.nn.functional.softplus", 10.0 ns: |x| x.max(A::zero()) + E::ln_1p(E::exp(-x.abs())),
        |y, d| d * x.sigmoid();
    /// `ln sigmoid(x)`, without overflow.
    LogSigmoid log_sigmoid = "torch.nn.functional.logsigmoid", 10.0 ns: |x| x.min(A::zero()) - E::ln_1p(E::exp(-x.abs())),
        |y, d| d * (-x).sigmoid();
    /// The term `−x · ln x` of an entropy: 0 where `x` is 0, −∞ where it is negative.
    Entr entr = "torch.special.entr", 10.0 ns: |x| if x > A::zero() { -x * E::ln(x) } else if x < A::zero() { A::neg_infinity() } else { x.abs() },
        |y, d| -(d * (1.0 + x.ln()));
}

binary! {
    /// `a + b`.
    Add add = "torch.add", 0.5 ns: |a, b| a + b, |y, d| (d, d);
    /// `a − b`.
    Sub sub = "torch.sub", 0.5 ns: |a, b| a - b, |y, d| (d, -d);
    /// `a · b`.
    Mul mul = "torch.mul", 0.5 ns: |a, b| a * b, |y, d| (d * b, d * a);
    /// `a / b`.
    Div div = "torch.div", 0.5 ns: |a, b| a / b, |y, d| (d / b, -(d * y) / b);
    /// The remainder `a − b · ⌊a / b⌋`, which has the sign of `b`.
    Rem rem = "torch.remainder", 10.0 ns: |a, b| remainder(a, b), |y, d| (d, -(d * ((a - y) / b + 0.5).floor()));
    /// The smaller one (NaN if either is); equal operands share the gradient.
    Min min = "torch.minimum", 0.5 ns: |a, b| if a < b || a.is_nan() { a } else { b },
        |y, d| (chosen(d, &b.above(a)), chosen(d, &a.above(b)));
    /// The larger one (NaN if either is); equal operands share the gradient.
    Max max = "torch.maximum", 0.5 ns: |a, b| if a > b || a.is_nan() { a } else { b },
        |y, d| (chosen(d, &a.above(b)), chosen(d, &b.above(a)));
    /// `max(a, b)`, with derivative 0 where both are equal.
    AtLeast at_least = "", 0.5 ns: |a, b| if a > b || a.is_nan() { a } else { b }, |y, d| (d.gate(&(a - b)), d.gate(&(b - a)));
    /// `min(a, b)`, with derivative 0 where both are equal.
    AtMost at_most = "", 0.5 ns: |a, b| if a < b || a.is_nan() { a } else { b }, |y, d| (d.gate(&(b - a)), d.gate(&(a - b)));
    /// `aᵇ`.
    Pow pow = "torch.pow", 10.0 ns: |a, b| power::pow::<E, A>(a, b), |y, d| (d * a.pow_slope(b), d * a.pow_log(b));
    /// `a`, and `b · a` where `a` is not positive.
    LeakyRelu leaky_relu = "torch.nn.functional.leaky_relu", 0.5 ns: |a, b| if a > A::zero() { a } else { b * a },
        |y, d| (d * a.kink(b), d * a.negative_part());
    /// `a`, and `b · (eᵃ − 1)` where `a` is not positive.
    Elu elu = "torch.nn.functional.elu", 10.0 ns: |a, b| if a > A::zero() { a } else { b * E::exp_m1(a) },
        |y, d| (d * a.kink(&(b * a.negative_part().exp())), d * a.negative_part().expm1());
    /// `a · ln b`, and 0 where `a` is 0. Where `a` is 0 and `b` is not positive, both derivatives are 0.
    Xlogy xlogy = "torch.xlogy", 10.0 ns: |a, b| if a == A::zero() && !b.is_nan() { a } else { a * E::ln(b) },
        |y, d| ((d * b.ln()).gate(&b.max(&a.abs())), d * a / b);
    /// `ln(eᵃ + eᵇ)`, without overflow.
    LogAddExp logaddexp = "torch.logaddexp", 20.0 ns: |a, b| logaddexp::<E, A>(a, b),
        |y, d| (d * (a - b).sigmoid(), d * (b - a).sigmoid());
    /// The share of the gradient that `max(a, b)` gives to `a`: 1 where `a > b`, ½ where they are
    /// equal, 0 where `a < b`, NaN if either is. No gradient flows through it.
    Above above = "", 0.5 ns: |a, b| if a > b { A::one() } else if a == b { A::of(0.5) } else if a < b { A::zero() } else { a + b },
        |y, d| (NoGradient, NoGradient);
    /// `a` where `b` is positive, 0 where it is not (and `a` if it is NaN). No gradient flows to
    /// `b`.
    Gate gate = "", 0.5 ns: |a, b| if b <= A::zero() { A::zero() } else { a }, |y, d| (d.gate(b), NoGradient);
    /// The slope of a line with a kink at 0: 1 where `a` is positive, `b` elsewhere.
    Kink kink = "", 0.5 ns: |a, b| if a > A::zero() { A::one() } else { b }, |y, d| (NoGradient, d * (1.0 - a.relu().sign()));
    /// `a · b`, and 0 where `a` is 0, whatever `b` is.
    StrongMul strong_mul = "", 0.5 ns: |a, b| if a == A::zero() { a } else { a * b }, |y, d| (d * b, d.by(a));
    /// `a / b`, and 0 where `a` is 0, whatever `b` is.
    StrongDiv strong_div = "", 0.5 ns: |a, b| if a == A::zero() { a } else { a / b }, |y, d| (d / b, -d.by(y) / b);
    /// `a · b`, and 0 where either is 0, whatever the other one is.
    BothStrongMul both_strong_mul = "", 0.5 ns: |a, b| if (a == A::zero()) | (b == A::zero()) { A::zero() } else { a * b },
        |y, d| (d.by(b), d.by(a));
    /// The derivative of `aᵇ` in `a`: `b · aᵇ⁻¹`, and 0 where `b` is 0.
    PowSlope pow_slope = "", 10.0 ns: |a, b| power::slope::<E, A>(a, b),
        |y, d| (d * b.strong_mul(&a.pow_slope(&(b - 1.0))), d * pow_mixed(a, b));
    /// The derivative of `aᵇ` in `b`: `aᵇ · ln a`, and 0 where `a` is 0 and `b` is not negative.
    PowLog pow_log = "", 10.0 ns: |a, b| if a == A::zero() && b >= A::zero() { a } else { power::pow::<E, A>(a, b) * E::ln(a) },
        |y, d| (d * pow_mixed(a, b), d * y.xlogy(a));
}

/// The part of a delta that belongs to an operand with this [share](Binary::Above): 0 where the share
/// is, even if the delta is infinite.
#[inline(always)]
fn chosen<A: Algebra>(d: Cotangent<'_, A>, share: &Term<A>) -> Scaled<A> {
    d.gate(share) * share
}

/// The derivative of `aᵇ` in both: `aᵇ⁻¹ · (1 + b · ln a)`.
fn pow_mixed<A: Algebra>(a: &Term<A>, b: &Term<A>) -> Term<A> {
    let exponent = b - 1.0;
    a.pow(&exponent) + b * a.pow_log(&exponent)
}
