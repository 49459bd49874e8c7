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
/// Only what is inlined is compiled that way: the closure has to be `#[inline(always)]`, and so has one inside it, or be written as a loop. It is called once; it is no `FnOnce` because a call through
/// that is one function more, which a compiler may not inline.
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
