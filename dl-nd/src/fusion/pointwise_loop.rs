//! The loop of one pointwise operation, selected beforehand.

use super::loop_table;
use super::loops::VectorLoop;
use crate::tensor::Element;
use dl_core::{Binary, PointwiseOp};

/// A pointwise operation on arrays of one length. The caller must canonicalize NaN in elements that
/// it stores.
pub(crate) struct PointwiseLoop<A> {
    compute: VectorLoop<A>,
    /// A number in the place of an operand, and whether it is the left one.
    number: Option<(A, bool)>,
}

impl<A: Element> PointwiseLoop<A> {
    pub(crate) fn of(op: PointwiseOp) -> Self {
        match op {
            PointwiseOp::Unary(op) => PointwiseLoop { compute: (loop_table::loops::<A>().unary)(op), number: None },
            PointwiseOp::Binary(op) => PointwiseLoop { compute: (loop_table::loops::<A>().binary)(op), number: None },
            PointwiseOp::WithNumber { op, number, left } => Self::with_number(op, A::of(number), left),
        }
    }

    /// The operation with a number, which is the left operand when `left`.
    pub(crate) fn with_number(op: Binary, number: A, left: bool) -> Self {
        PointwiseLoop { compute: (loop_table::loops::<A>().binary)(op), number: Some((number, left)) }
    }

    /// The operation on these operands. One with a single operand reads the first. A shorter operand
    /// is repeated.
    #[inline]
    pub(crate) fn run(&self, a: &[A], b: &[A], to: &mut [A]) {
        let Some((number, left)) = self.number else {
            let len = a.len().min(b.len());
            if len == to.len() {
                return (self.compute)([a, b, b, b], to);
            }
            let row = |x: &[A], at: usize| if x.len() == len { 0..len } else { at..at + len };
            for (at, to) in to.chunks_exact_mut(len.max(1)).enumerate() {
                let [a, b] = [a, b].map(|x| &x[row(x, at * len)]);
                (self.compute)([a, b, b, b], to);
            }
            return;
        };
        let numbers = [number; 64];
        for (to, x) in to.chunks_mut(numbers.len()).zip(a.chunks(numbers.len())) {
            let numbers = &numbers[..x.len()];
            let (a, b) = if left { (numbers, x) } else { (x, numbers) };
            (self.compute)([a, b, b, b], to);
        }
    }
}
