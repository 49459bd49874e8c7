//! Dispatch by instruction set: a loop is compiled for each set, and one is selected at run time,
//! either the best that the processor supports or the one that `DL_INSTRUCTIONS` names.

use pulp::{Arch, Simd, WithSimd};
use std::sync::LazyLock;

/// The instruction set to compute with. It is selected once per process: see [`instructions`].
#[must_use]
#[inline(always)]
pub fn arch() -> Arch {
    SELECTED.arch
}

/// The name of the instruction set that loops and products are computed with: `avx512`, `avx2` or
/// `baseline` on x86, `neon` on 64-bit ARM, `baseline` elsewhere.
///
/// It is the best instruction set that the processor supports, unless the environment variable
/// `DL_INSTRUCTIONS` names another one. The variable is read at the first use. Processors that
/// compute with the same instruction set give the same last digits. `baseline` is the set of a
/// build without compiler flags for a processor. If the processor does not support the named set,
/// this is the best one, and every pass fails with an error.
///
/// ```
/// println!("computed with {}", dl_math::instructions());
/// assert!(["avx512", "avx2", "baseline", "neon"].contains(&dl_math::instructions()));
/// ```
#[must_use]
pub fn instructions() -> &'static str {
    SELECTED.name
}

/// Why the instruction set that `DL_INSTRUCTIONS` names cannot be used, if it cannot.
#[doc(hidden)]
#[inline]
pub fn refused_instructions() -> Option<&'static str> {
    SELECTED.refused.as_deref()
}

struct Selected {
    name: &'static str,
    arch: Arch,
    refused: Option<String>,
}

static SELECTED: LazyLock<Selected> = LazyLock::new(|| {
    let all = all();
    let wanted = std::env::var_os("DL_INSTRUCTIONS").filter(|wanted| !wanted.is_empty());
    let found = wanted.as_ref().map_or(Some(&all[0]), |wanted| all.iter().find(|(name, _)| name == wanted));
    let refused = wanted.as_ref().filter(|_| found.is_none()).map(|wanted| {
        let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        format!(
            "the environment variable DL_INSTRUCTIONS is {:?}, but the instruction sets of this processor are {}",
            wanted.display().to_string(),
            names.join(", ")
        )
    });
    let &(name, arch) = found.unwrap_or(&all[0]);
    Selected { name, arch, refused }
});

/// The instruction sets that the processor supports, the best first.
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

/// Whether this instruction set, one of those that [`arch`] selects from, has a fused multiply-add:
/// `a · b + c`, rounded once.
#[must_use]
pub const fn fuses<S: Simd>() -> bool {
    !S::IS_SCALAR && cfg!(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))
}

/// Runs a closure compiled for the [selected instruction set](arch).
///
/// Only inlined code is compiled for that set: the closure must be `#[inline(always)]`, and so must
/// each closure inside it (or be written as a loop instead). The closure is called once. It is not
/// an `FnOnce`, because that adds a function call that the compiler may not inline.
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
    fn first_instruction_set_is_best() {
        assert_eq!(std::mem::discriminant(&all()[0].1), std::mem::discriminant(&Arch::new()));
        assert!(all().iter().any(|(name, _)| *name == instructions()));
    }
}
