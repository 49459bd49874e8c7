//! Sums, differences and products whose operands are such results themselves: one instruction computes up to three of them.
//!
//! An instruction costs about as much to begin as such an operation takes for a block, and what lies in between has to go through a register. Which operations
//! are taken together changes no bit.

use super::loops::{Loop, of_four, of_three};
use crate::element::Element;
use dl_core::Binary;

/// An operation that is so cheap that it is worth while to compute it together with others.
#[derive(Clone, Copy)]
pub(super) enum Cheap {
    Add,
    Sub,
    Mul,
}

impl Cheap {
    pub(super) fn of(op: Binary) -> Option<Self> {
        match op {
            Binary::Add => Some(Cheap::Add),
            Binary::Sub => Some(Cheap::Sub),
            Binary::Mul => Some(Cheap::Mul),
            _ => None,
        }
    }
}

/// Operations inside of one another.
#[derive(Clone, Copy)]
pub(super) enum Nested {
    /// `outer(inner(a, b), c)`
    Left { outer: Cheap, inner: Cheap },
    /// `outer(a, inner(b, c))`
    Right { outer: Cheap, inner: Cheap },
    /// `outer(left(a, b), right(c, d))`
    Both { outer: Cheap, left: Cheap, right: Cheap },
}

impl Nested {
    /// An operation, and those whose results are its operands, if there are any.
    pub(super) fn of(outer: Cheap, left: Option<Cheap>, right: Option<Cheap>) -> Option<Self> {
        Some(match (left, right) {
            (Some(left), Some(right)) => Nested::Both { outer, left, right },
            (Some(inner), None) => Nested::Left { outer, inner },
            (None, Some(inner)) => Nested::Right { outer, inner },
            (None, None) => return None,
        })
    }

    /// How many operations these are.
    pub(super) fn operations(self) -> usize {
        match self {
            Nested::Left { .. } | Nested::Right { .. } => 2,
            Nested::Both { .. } => 3,
        }
    }
}

/// With the arithmetic of an operation, as a function that the compiler knows.
macro_rules! with {
    ($op:expr, $value:ident => $body:expr) => {
        match $op {
            Cheap::Add => with!(@known Add, $value => $body),
            Cheap::Sub => with!(@known Sub, $value => $body),
            Cheap::Mul => with!(@known Mul, $value => $body),
        }
    };
    (@known $Op:ident, $value:ident => $body:expr) => {{
        let $value = |a: A, b: A| Binary::$Op.value(a, b);
        $body
    }};
}

/// The loop of these operations.
pub(super) fn compile<A: Element>(nested: Nested) -> Loop<A> {
    match nested {
        Nested::Left { outer, inner } => {
            with!(outer, outer => with!(inner, inner => of_three(move |a, b, c| outer(inner(a, b), c))))
        }
        Nested::Right { outer, inner } => {
            with!(outer, outer => with!(inner, inner => of_three(move |a, b, c| outer(a, inner(b, c)))))
        }
        Nested::Both { outer, left, right } => {
            with!(outer, outer => with!(left, left => with!(right, right => {
                of_four(move |a, b, c, d| outer(left(a, b), right(c, d)))
            })))
        }
    }
}
