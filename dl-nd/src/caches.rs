//! How large the caches of this processor are.

use std::sync::OnceLock;

/// The cache for data that is nearest to a core: that of the first core that asks.
pub(crate) fn nearest_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| look().unwrap_or(USUAL_BYTES))
}

/// What the nearest cache has mostly, where the processor does not say it.
const USUAL_BYTES: usize = 1 << 15;

/// What the processor says.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn look() -> Option<usize> {
    use raw_cpuid::{CacheType, CpuId};
    let nearest = CpuId::new()
        .get_cache_parameters()?
        .find(|cache| cache.level() == 1 && matches!(cache.cache_type(), CacheType::Data | CacheType::Unified))?;
    let lines = nearest.associativity() * nearest.physical_line_partitions() * nearest.sets();
    Some(lines * nearest.coherency_line_size())
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn look() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_cache_is_small() {
        let bytes = nearest_bytes();
        assert!((1 << 13..=1 << 19).contains(&bytes), "{bytes}");
    }
}
