//! Work that is compiled for each instruction set, of which the best one is taken that the processor has.

use pulp::{Arch, Simd, WithSimd};
use std::sync::LazyLock;

/// What the processor can do, asked once.
#[must_use]
#[inline(always)]
pub fn arch() -> Arch {
    static ARCH: LazyLock<Arch> = LazyLock::new(Arch::new);
    *ARCH
}

/// Whether these instructions, of those that [`arch`] chooses among, compute `a · b + c` at once, rounded once.
#[must_use]
pub const fn fuses<S: Simd>() -> bool {
    !S::IS_SCALAR && cfg!(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))
}

/// Does this with all that the processor can.
///
/// Only what is inlined is compiled that way: the closure has to be `#[inline(always)]`, and so has one inside it, or be written as a loop. It is called once; it is no `FnOnce` because a call through
/// that is one function more, which a compiler may not inline.
#[inline(always)]
pub fn vectorized<R>(work: impl FnMut() -> R) -> R {
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
