//! Dual numbers: a value together with its derivative along a direction.
//!
//! ```
//! use dl_math::Dual;
//! let x = Dual::variable(2.0_f64);
//! let y = &x * &x + 3.0 * x.sin();
//! assert_eq!(y.value(), 4.0 + 3.0 * 2_f64.sin());
//! assert_eq!(y.tangent(), 4.0 + 3.0 * 2_f64.cos());
//! ```

use crate::algebra::{Algebra, Term};
use crate::constant_operand::{Side, one_side};
use crate::pointwise::{Binary, Unary};

/// A value and its tangent, the derivative along a direction: `value + tangent · ε`, where
/// `ε² = 0`.
///
/// This is the paper's `DualNumber`. All arithmetic and all [pointwise operations](crate::Unary)
/// work on dual numbers over any [`Algebra`]: over numbers, over layers (of tensors, too), and over
/// dual numbers, which gives second derivatives. There are no derivatives of their own: the tangent
/// of an operation is its pullback rule, applied to the tangent instead of the delta.
///
/// A function over any [`Algebra`] can be evaluated in numbers, in dual numbers and in layers:
///
/// ```
/// use dl_core::{Algebra, Differentiable, Dual, Term, Weight};
/// fn f<A: Algebra>(x: &Term<A>) -> Term<A> {
///     x.tanh() * x + 1.0
/// }
/// let x = 0.5_f64;
/// let slope = x.tanh() + x * (1.0 - x.tanh() * x.tanh());
/// assert_eq!(f(&Term(x)).0, x.tanh() * x + 1.0);
/// assert_eq!(f(&Term(Dual::variable(x))).0.tangent(), slope);
///
/// let w = Weight::new(x);
/// let y = f(&Term(w.layer())).0; // trained backward
/// assert_eq!(y.gradient(&w).predict().wait()?, slope);
/// let y = f(&Term(Dual::variable(w.layer()))).0; // the tangent is a layer
/// assert_eq!(y.tangent().predict().wait()?, slope);
/// # dl_core::Result::Ok(())
/// ```
///
/// A dual number of dual numbers has second derivatives:
///
/// ```
/// use dl_math::Dual;
/// let x = Dual::variable(Dual::variable(2.0_f64));
/// let cube = &x * &x * &x;
/// assert_eq!(cube.tangent().value(), 12.0); // 3x²
/// assert_eq!(cube.tangent().tangent(), 12.0); // 6x
/// ```
///
/// Plain tensors are not in an algebra, because an operation on them may fail (shapes that do not
/// match): use layers of tensors. For programs that are not pointwise, or whose control flow
/// depends on values, use `Layer::jvp`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dual<A> {
    value: A,
    /// `None` is the tangent of a constant. It is not stored as 0, because 0 · ∞ is NaN.
    tangent: Option<A>,
}

impl<A: Algebra + PartialEq> PartialEq for Dual<A> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value && self.tangent() == other.tangent()
    }
}

impl<A: Algebra> Dual<A> {
    /// A value with this tangent.
    ///
    /// ```
    /// use dl_math::Dual;
    /// let (x, y) = (Dual::new(2.0_f64, 1.0), Dual::new(3.0, 10.0));
    /// assert_eq!(x * y, Dual::new(6.0, 23.0));
    /// ```
    #[must_use]
    pub fn new(value: A, tangent: A) -> Self {
        Dual { value, tangent: Some(tangent) }
    }

    /// The value.
    ///
    /// ```
    /// assert_eq!(dl_math::Dual::variable(3.0_f64).value(), 3.0);
    /// ```
    #[must_use]
    pub fn value(&self) -> A {
        self.value.clone()
    }

    /// The derivative of the value along the direction.
    ///
    /// ```
    /// assert_eq!(dl_math::Dual::variable(3.0_f64).square().tangent(), 6.0);
    /// ```
    #[must_use]
    pub fn tangent(&self) -> A {
        self.tangent.clone().unwrap_or_else(|| A::number_like(0.0, &self.value))
    }

    /// The variable of differentiation: its tangent is 1.
    ///
    /// ```
    /// assert_eq!(dl_math::Dual::variable(3.0_f64).tangent(), 1.0);
    /// ```
    #[must_use]
    pub fn variable(value: A) -> Self {
        let tangent = A::number_like(1.0, &value);
        Dual::new(value, tangent)
    }

    /// A constant: its tangent is 0.
    ///
    /// ```
    /// use dl_math::Dual;
    /// let (x, k) = (Dual::variable(3.0_f64), Dual::constant(5.0));
    /// assert_eq!((x * k).tangent(), 5.0);
    /// ```
    #[must_use]
    pub fn constant(value: A) -> Self {
        Dual { value, tangent: None }
    }
}

/// The tangent of an operation is its pullback rule, applied to the tangents of the operands.
impl<A: Algebra> Algebra for Dual<A> {
    fn unary(op: Unary, x: &Self) -> Self {
        let value = A::unary(op, &x.value);
        let tangent = x.tangent.as_ref().and_then(|d| {
            let [x, y, d] = [&x.value, &value, d].map(|term| Term(term.clone()));
            op.pullback(&x, &y, &d)
        });
        Dual { value, tangent: tangent.map(|tangent| tangent.0) }
    }

    fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        let value = A::binary(op, &a.value, &b.value);
        let [left, right] = [&a.tangent, &b.tangent].map(|d| d.clone().map(Term));
        let [a, b, y] = [&a.value, &b.value, &value].map(|term| Term(term.clone()));
        let left = left.and_then(|d| op.pullback_left(&a, &b, &y, &d));
        let right = right.and_then(|d| op.pullback_right(&a, &b, &y, &d));
        let tangent = match (left, right) {
            (Some(left), Some(right)) => Some(left + right),
            (left, right) => left.or(right),
        };
        Dual { value, tangent: tangent.map(|tangent| tangent.0) }
    }

    fn with_number(op: Binary, x: &Self, number: f64, left: bool) -> Self {
        let value = A::with_number(op, &x.value, number, left);
        let side = if left { Side::Left } else { Side::Right };
        let tangent = x.tangent.as_ref().and_then(|d| {
            one_side(op, side, [A::number_like(number, &x.value), x.value.clone(), value.clone(), d.clone()])
        });
        Dual { value, tangent }
    }

    fn number_like(number: f64, like: &Self) -> Self {
        Dual::constant(A::number_like(number, &like.value))
    }
}
