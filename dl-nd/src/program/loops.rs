//! Loops over elements that lie side by side: each operation is compiled for the instruction set at hand.

use super::arch;
use crate::element::Element;
use dl_core::{Binary, BinaryLoop, Unary, UnaryLoop, buffers};
use pulp::Arch;

/// The loop over one block.
pub(super) struct Each<'a, A> {
    pub(super) arch: Arch,
    pub(super) x: &'a [A],
    pub(super) to: &'a mut [A],
}

impl<A: Element> UnaryLoop<A> for Each<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run(self, value: impl Fn(A) -> A) {
        let Each { arch, x, to } = self;
        arch.dispatch(
            #[inline(always)]
            || to.iter_mut().zip(x).for_each(|(to, &x)| *to = value(x)),
        );
    }
}

/// The loop over two blocks.
pub(super) struct Both<'a, A> {
    pub(super) arch: Arch,
    pub(super) a: &'a [A],
    pub(super) b: &'a [A],
    pub(super) to: &'a mut [A],
}

impl<A: Element> BinaryLoop<A> for Both<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run(self, value: impl Fn(A, A) -> A) {
        let Both { arch, a, b, to } = self;
        arch.dispatch(
            #[inline(always)]
            || to.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (&a, &b))| *to = value(a, b)),
        );
    }
}

/// One operation on elements that lie side by side, without a program.
pub(crate) fn unary<A: Element>(op: Unary, x: &[A]) -> Vec<A> {
    let mut result = buffers::take_filled(x.len());
    op.each(Each { arch: arch(), x, to: &mut result });
    result
}

/// The same of a number and such elements; the number stands on the left when `left`.
pub(crate) fn with_number<A: Element>(op: Binary, x: &[A], number: A, left: bool) -> Vec<A> {
    let mut result = buffers::take_filled(x.len());
    let numbers = [number; 64];
    for (to, x) in result.chunks_mut(numbers.len()).zip(x.chunks(numbers.len())) {
        let numbers = &numbers[..x.len()];
        let (a, b) = if left { (numbers, x) } else { (x, numbers) };
        op.each(Both { arch: arch(), a, b, to });
    }
    result
}

/// The same of two operands.
pub(crate) fn binary<A: Element>(op: Binary, a: &[A], b: &[A]) -> Vec<A> {
    let mut result = buffers::take_filled(a.len());
    op.each(Both { arch: arch(), a, b, to: &mut result });
    result
}

/// Takes `rate · delta` away from each value.
pub(crate) fn descend<A: Element>(rate: A, values: &mut [A], deltas: &[A]) {
    arch().dispatch(
        #[inline(always)]
        || values.iter_mut().zip(deltas).for_each(|(value, &delta)| *value = *value - rate * delta),
    );
}
