//! Loops that are compiled for each instruction set, of which the best one is taken that the processor has.

use pulp::{Arch, Simd, WithSimd};
use std::sync::LazyLock;

/// What the processor can do, asked once.
pub(crate) fn arch() -> Arch {
    static ARCH: LazyLock<Arch> = LazyLock::new(Arch::new);
    *ARCH
}

/// Does this with all that the processor can.
///
/// Only what is inlined is compiled that way: the closure itself has to be `#[inline(always)]`, and one inside it with more than a few operations has to be, too, or a loop instead. It may be called
/// again, though it is not: what `FnOnce` makes of it is a function more, which is not inlined.
#[inline(always)]
pub(crate) fn vectorized<R>(work: impl FnMut() -> R) -> R {
    struct Work<F>(F);

    impl<R, F: FnMut() -> R> WithSimd for Work<F> {
        type Output = R;

        #[inline(always)]
        fn with_simd<S: Simd>(mut self, _: S) -> R {
            (self.0)()
        }
    }

    arch().dispatch(Work(work))
}
