//! Work that is compiled for each instruction set, of which one is taken: the best that the
//! processor has, or the one that is asked for.

use pulp::{Arch, Simd, WithSimd};
use std::io::{Write, stderr};
use std::sync::LazyLock;

/// The instructions to compute with, asked once: see [`instructions`].
#[must_use]
#[inline(always)]
pub fn arch() -> Arch {
    CHOSEN.1
}

/// The name of the instruction set that loops and products are computed with: `avx512`, `avx2` or
/// `baseline` on x86, `neon` on 64-bit ARM, `baseline` elsewhere.
///
/// It is the best that the processor has, or what the environment variable `DL_INSTRUCTIONS` names
/// when it is first asked: last digits are those of other processors then that have these
/// instructions, too. `baseline` is what a build without flags for a processor computes with. A
/// name that the processor does not have is refused by a line on standard error, and the best is
/// taken.
///
/// ```
/// println!("computed with {}", dl_math::instructions());
/// assert!(["avx512", "avx2", "baseline", "neon"].contains(&dl_math::instructions()));
/// ```
#[must_use]
pub fn instructions() -> &'static str {
    CHOSEN.0
}

static CHOSEN: LazyLock<(&str, Arch)> = LazyLock::new(|| {
    let all = all();
    let Some(name) = std::env::var_os("DL_INSTRUCTIONS").filter(|name| !name.is_empty()) else { return all[0] };
    all.iter().copied().find(|(other, _)| *other == name).unwrap_or_else(|| {
        let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        // whoever has closed it does not want to know
        let _ = writeln!(stderr(), "DL_INSTRUCTIONS={}: not one of {}", name.display(), names.join(", "));
        all[0]
    })
});

/// What the processor has, the best first.
fn all() -> Vec<(&'static str, Arch)> {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    {
        let best = pulp::x86::V4::try_new().map(|v4| ("avx512", Arch::V4(v4)));
        let good = pulp::x86::V3::try_new().map(|v3| ("avx2", Arch::V3(v3)));
        best.into_iter().chain(good).chain([("baseline", Arch::Scalar)]).collect()
    }
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
    vec![(if cfg!(target_arch = "aarch64") { "neon" } else { "baseline" }, Arch::new())]
}

/// Whether these instructions, of those that [`arch`] chooses among, compute `a · b + c` at once,
/// rounded once.
#[must_use]
pub const fn fuses<S: Simd>() -> bool {
    !S::IS_SCALAR && cfg!(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))
}

/// Does this with the [instructions](arch) that were chosen.
///
/// Only what is inlined is compiled that way: the closure has to be `#[inline(always)]`, and so has
/// one inside it, or be written as a loop. It is called once; it is no `FnOnce` because a call
/// through that is one function more, which a compiler may not inline.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_instructions_are_the_first() {
        assert_eq!(std::mem::discriminant(&all()[0].1), std::mem::discriminant(&Arch::new()));
        assert!(all().iter().any(|(name, _)| *name == instructions()));
    }
}
