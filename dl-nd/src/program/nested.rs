//! Sums, differences and products whose operands are such results themselves: one instruction computes up to three of them.
//!
//! An instruction costs about as much to begin as such an operation takes for a block, and what lies in between has to go through a register. Which operations
//! are taken together changes no bit.

use super::arch;
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

/// Operations inside of one another, on operands of a type.
#[derive(Clone, Copy)]
pub(super) enum Nested<X> {
    /// `outer(inner(a, b), c)`
    Left { outer: Cheap, inner: Cheap, operands: [X; 3] },
    /// `outer(a, inner(b, c))`
    Right { outer: Cheap, inner: Cheap, operands: [X; 3] },
    /// `outer(left(a, b), right(c, d))`
    Both { outer: Cheap, left: Cheap, right: Cheap, operands: [X; 4] },
}

impl<X: Copy> Nested<X> {
    /// The same with other operands.
    #[inline(always)]
    pub(super) fn map<Y>(self, of: impl Fn(X) -> Y) -> Nested<Y> {
        match self {
            Nested::Left { outer, inner, operands: [a, b, c] } => {
                Nested::Left { outer, inner, operands: [of(a), of(b), of(c)] }
            }
            Nested::Right { outer, inner, operands: [a, b, c] } => {
                Nested::Right { outer, inner, operands: [of(a), of(b), of(c)] }
            }
            Nested::Both { outer, left, right, operands: [a, b, c, d] } => {
                Nested::Both { outer, left, right, operands: [of(a), of(b), of(c), of(d)] }
            }
        }
    }

    /// How many operations these are.
    pub(super) fn operations(&self) -> usize {
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

/// Computes the operations for these blocks.
pub(super) fn run<A: Element>(nested: Nested<&[A]>, to: &mut [A]) {
    match nested {
        Nested::Left { outer, inner, operands } => {
            with!(outer, outer => with!(inner, inner => of_three(operands, to, |a, b, c| outer(inner(a, b), c))));
        }
        Nested::Right { outer: Cheap::Sub, inner, operands } => {
            with!(inner, inner => of_three(operands, to, |a, b, c| Binary::Sub.value(a, inner(b, c))));
        }
        // sums and products are the same the other way round
        Nested::Right { outer, inner, operands: [a, b, c] } => {
            run(Nested::Left { outer, inner, operands: [b, c, a] }, to);
        }
        Nested::Both { outer, left, right, operands } => {
            with!(outer, outer => with!(left, left => with!(right, right => {
                of_four(operands, to, |a, b, c, d| outer(left(a, b), right(c, d)));
            })))
        }
    }
}

#[inline(always)]
fn of_three<A: Element>([a, b, c]: [&[A]; 3], to: &mut [A], value: impl Fn(A, A, A) -> A) {
    arch().dispatch(
        #[inline(always)]
        || {
            let operands = a.iter().zip(b.iter().zip(c));
            to.iter_mut().zip(operands).for_each(|(to, (&a, (&b, &c)))| *to = value(a, b, c));
        },
    );
}

#[inline(always)]
fn of_four<A: Element>([a, b, c, d]: [&[A]; 4], to: &mut [A], value: impl Fn(A, A, A, A) -> A) {
    arch().dispatch(
        #[inline(always)]
        || {
            let operands = a.iter().zip(b).zip(c.iter().zip(d));
            to.iter_mut().zip(operands).for_each(|(to, ((&a, &b), (&c, &d)))| *to = value(a, b, c, d));
        },
    );
}
