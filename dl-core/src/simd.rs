//! Work that is compiled for each instruction set, of which the best one is taken that the processor has.

use pulp::{Arch, Simd, WithSimd};
use std::sync::LazyLock;

/// The instructions to compute with, asked once: the best that the processor has, or those that the environment variable `DL_INSTRUCTIONS` names.
///
/// Results are the same, to the bit, wherever instructions are the same. So who wants those of another machine names what both have: `avx512`, `avx2` or `baseline` on x86, `neon` or `baseline` on
/// ARM. A name that is none of these, or that the processor does not have, is refused by a line on standard error.
#[must_use]
#[inline(always)]
pub fn arch() -> Arch {
    static ARCH: LazyLock<Arch> = LazyLock::new(|| {
        let name = std::env::var_os("DL_INSTRUCTIONS").map(|name| name.to_string_lossy().into_owned());
        let named = name.as_deref().and_then(named);
        if let (Some(name), None) = (&name, named) {
            eprintln!("DL_INSTRUCTIONS={name}: the processor has {}; computing with the first", names().join(", "));
        }
        named.unwrap_or_default()
    });
    *ARCH
}

/// What the processor has, the best first.
fn all() -> Vec<(&'static str, Arch)> {
    let mut all = Vec::new();
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    {
        all.extend(pulp::x86::V4::try_new().map(|v4| ("avx512", Arch::V4(v4))));
        all.extend(pulp::x86::V3::try_new().map(|v3| ("avx2", Arch::V3(v3))));
    }
    #[cfg(target_arch = "aarch64")]
    all.extend(pulp::aarch64::Neon::try_new().map(|neon| ("neon", Arch::Neon(neon))));
    all.push(("baseline", Arch::Scalar));
    all
}

fn named(name: &str) -> Option<Arch> {
    all().into_iter().find(|(other, _)| *other == name).map(|(_, arch)| arch)
}

fn names() -> Vec<&'static str> {
    all().into_iter().map(|(name, _)| name).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_names() {
        assert_eq!(names().last(), Some(&"baseline"));
        let same = |a: Arch, b: Arch| std::mem::discriminant(&a) == std::mem::discriminant(&b);
        assert!(same(all()[0].1, Arch::new()), "the best one is the first");
        for (name, arch) in all() {
            assert!(named(name).is_some_and(|named| same(named, arch)));
        }
        assert!(named("").is_none() && named("AVX2").is_none() && named("sse9").is_none());
    }
}
