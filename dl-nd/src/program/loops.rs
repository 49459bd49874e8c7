//! Loops over elements that lie side by side: each operation is compiled for the instruction set at hand.

use super::arch;
use crate::element::Element;
use dl_core::{BinaryLoop, UnaryLoop};
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

/// Takes `rate · delta` away from each value.
pub(crate) fn descend<A: Element>(rate: A, values: &mut [A], deltas: &[A]) {
    arch().dispatch(
        #[inline(always)]
        || values.iter_mut().zip(deltas).for_each(|(value, &delta)| *value = *value - rate * delta),
    );
}
