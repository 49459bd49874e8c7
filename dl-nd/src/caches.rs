//! How large the caches of this processor are.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

/// The cache for data that is nearest to a core: that of the first core that asks.
pub(crate) fn nearest_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| look().filter(|bytes| PLAUSIBLE_BYTES.contains(bytes)).unwrap_or(USUAL_BYTES))
}

/// What the nearest cache has mostly, where the processor does not say it.
const USUAL_BYTES: usize = 1 << 15;

/// A machine inside another one may say anything.
const PLAUSIBLE_BYTES: RangeInclusive<usize> = 1 << 13..=1 << 19;

/// What the processor says.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn look() -> Option<usize> {
    use raw_cpuid::{CacheType, CpuId};
    let nearest = CpuId::new()
        .get_cache_parameters()?
        .find(|cache| cache.level() == 1 && matches!(cache.cache_type(), CacheType::Data | CacheType::Unified))?;
    let rows = nearest.associativity() * nearest.physical_line_partitions() * nearest.sets();
    Some(rows * nearest.coherency_line_size())
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn look() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The system says it of each core.
    #[test]
    fn the_nearest_cache_is_that_of_a_core() {
        let bytes = nearest_bytes();
        assert!(PLAUSIBLE_BYTES.contains(&bytes), "{bytes}");
        let size = |core| std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{core}/cache/index0/size")).ok();
        let sizes: Vec<String> = (0..).map_while(size).collect();
        if cfg!(all(target_arch = "x86_64", not(miri))) && !sizes.is_empty() {
            assert!(sizes.iter().any(|size| size.trim() == format!("{}K", bytes >> 10)), "{bytes}: {sizes:?}");
        }
    }
}
