//! The delta in a pullback rule.
//!
//! **A delta of exactly 0 annihilates: its product with a slope is 0, even if the slope is infinite
//! or NaN.** Nothing depends on such an element: a mask, a padding or a weight of 0 has switched it
//! off, so it does not matter how steep a function is there. Otherwise `0 · ∞ = NaN` would flow out
//! of the branch of a selection that was not taken. Tangents follow the same rule.
//!
//! Values do not: in a forward pass, `0 · ∞` is NaN. An infinite or NaN delta does not annihilate
//! either. The rule hides one kind of singularity, a function that is steep where the next one is
//! flat: the derivative of `(√x)²` at 0 is 1, its rules give 0 (and NaN in PyTorch).

use crate::algebra::{Algebra, IntoDelta, Term};
use crate::pointwise::Binary;
use std::ops::{Deref, Div, Mul, Neg};

/// The delta that a rule gets. Products and quotients with slopes must be made by its operators.
pub(super) struct Cotangent<'a, A>(pub(super) &'a Term<A>);

/// A product of a delta and slopes.
pub(super) struct Scaled<A>(Term<A>);

impl<A> Clone for Cotangent<'_, A> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Cotangent<'_, A> {}

impl<A> Deref for Cotangent<'_, A> {
    type Target = Term<A>;

    #[inline(always)]
    fn deref(&self) -> &Term<A> {
        self.0
    }
}

impl<A> Deref for Scaled<A> {
    type Target = Term<A>;

    #[inline(always)]
    fn deref(&self) -> &Term<A> {
        &self.0
    }
}

impl<A: Algebra> Cotangent<'_, A> {
    /// The product with an earlier delta, for second derivatives. A slope of that slope may be infinite
    /// where the earlier delta is 0, so either of them annihilates.
    #[inline(always)]
    pub(super) fn by(&self, delta: &Term<A>) -> Scaled<A> {
        Scaled(self.0.both_strong_mul(delta))
    }

    /// [`Binary::Gate`], as a factor of further products.
    #[inline(always)]
    pub(super) fn gate(&self, by: &Term<A>) -> Scaled<A> {
        Scaled(self.0.gate(by))
    }
}

impl<A: Clone> IntoDelta<A> for Cotangent<'_, A> {
    #[inline(always)]
    fn into_delta(self) -> Option<Term<A>> {
        self.0.into_delta()
    }
}

impl<A> IntoDelta<A> for Scaled<A> {
    #[inline(always)]
    fn into_delta(self) -> Option<Term<A>> {
        Some(self.0)
    }
}

macro_rules! operators {
    ($($Delta:ty),*) => {$(
        operators!(@ $Delta, Mul mul StrongMul, &Term<A>);
        operators!(@ $Delta, Mul mul StrongMul, Term<A>);
        operators!(@ $Delta, Div div StrongDiv, &Term<A>);
        operators!(@ $Delta, Div div StrongDiv, Term<A>);

        impl<A: Algebra> Mul<$Delta> for f64 {
            type Output = Scaled<A>;
            #[inline(always)]
            fn mul(self, delta: $Delta) -> Scaled<A> {
                Scaled(self * &*delta)
            }
        }

        impl<A: Algebra> Neg for $Delta {
            type Output = Scaled<A>;
            #[inline(always)]
            fn neg(self) -> Scaled<A> {
                Scaled(-&*self)
            }
        }
    )*};
    (@ $Delta:ty, $trait:ident $method:ident $Op:ident, $Slope:ty) => {
        impl<A: Algebra> $trait<$Slope> for $Delta {
            type Output = Scaled<A>;
            #[inline(always)]
            fn $method(self, slope: $Slope) -> Scaled<A> {
                Scaled(Term(A::binary(Binary::$Op, &self.deref().0, &slope.0)))
            }
        }
    };
}

operators!(Cotangent<'_, A>, Scaled<A>);
