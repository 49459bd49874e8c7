//! Binary operations with a plain number as one operand.

use crate::algebra::{Algebra, Term};
use crate::pointwise::Binary;

/// The side on which the number of a binary operation stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The number is the left operand.
    Left,
    /// The number is the right operand.
    Right,
}

/// The delta of `x`, the operand on the other side of the number.
#[inline(always)]
pub fn one_side<A: Algebra>(op: Binary, side: Side, [number, x, y, d]: [A; 4]) -> Option<A> {
    let (number, x, y, d) = (Term(number), Term(x), Term(y), Term(d));
    let delta = match side {
        Side::Left => op.pullback_right(&number, &x, &y, &d),
        Side::Right => op.pullback_left(&x, &number, &y, &d),
    };
    delta.map(|delta| delta.0)
}
