//! Software prefetch: requests the cache lines of the next block while the current one is computed.
//!
//! A program reads all its operands at the start of a block and then computes for a while. The
//! hardware prefetcher sees no accesses meanwhile, so a program over tensors in memory would mostly
//! wait. Each instruction is therefore preceded by prefetches of some lines of the next block, as
//! many as can arrive while it runs.
//!
//! On processors with narrow registers the lines are prefetched into L2 only. This was measured: it
//! is faster on Zen 3, and slower on Zen 4, which has the same caches and wide registers.

use super::program::{BLOCK_BYTES, Instruction, Program, block_len, vector_nanoseconds};
use crate::tensor::Element;
use crate::tensor::aligned::CACHE_LINE_BYTES;
use dl_core::simd::arch;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Streams with fewer bytes in total may be in the L2 cache of a core.
const L2_BYTES: usize = 1 << 20;

/// The overhead of an instruction, as the cost of an operation per element.
const INSTRUCTION_OVERHEAD: f64 = 0.5;

/// The number of lines that can be in flight to L1 at once. Further requests stall.
const MAX_L1_IN_FLIGHT: usize = 16;
/// The fastest number of lines in flight to L2, measured.
const MAX_L2_IN_FLIGHT: usize = 32;

const _: () = assert!(BLOCK_BYTES.is_multiple_of(2 * CACHE_LINE_BYTES), "lines that are asked for in pairs");

/// A range of elements of a block for which an instruction runs, and the rows of lines that are
/// prefetched before.
pub(super) struct PrefetchSpan {
    pub(super) instruction: usize,
    pub(super) from: usize,
    pub(super) len: usize,
    pub(super) rows: Range<usize>,
    into: Cache,
}

/// The cache that prefetched lines are loaded into.
#[derive(Clone, Copy)]
enum Cache {
    L1,
    L2,
}

impl PrefetchSpan {
    /// Prefetches the lines of the next block, which begins `bytes` after each of these addresses.
    #[inline(always)]
    pub(super) fn prefetch_next<A>(&self, addresses: &[*mut A], bytes: usize) {
        match self.into {
            Cache::L1 => prefetch_rows(addresses, bytes, self.rows.clone(), prefetch),
            Cache::L2 => {
                prefetch_rows(addresses, bytes, self.rows.clone(), |address| prefetch_into(Cache::L2, address))
            }
        }
    }
}

/// Prefetches rows of lines, `from` bytes after each of these addresses.
#[inline(always)]
fn prefetch_rows<A>(addresses: &[*mut A], from: usize, rows: Range<usize>, ask: impl Fn(*const A) + Copy) {
    let mut row = rows.start;
    // unrolled: the loop overhead would exceed the number of prefetches
    while row + 4 <= rows.end {
        prefetch_lines::<A, 4>(addresses, from + row * CACHE_LINE_BYTES, ask);
        row += 4;
    }
    if row + 2 <= rows.end {
        prefetch_lines::<A, 2>(addresses, from + row * CACHE_LINE_BYTES, ask);
        row += 2;
    }
    if row < rows.end {
        prefetch_lines::<A, 1>(addresses, from + row * CACHE_LINE_BYTES, ask);
    }
}

/// Prefetches consecutive lines.
#[inline(always)]
fn prefetch_lines<A, const LINES: usize>(addresses: &[*mut A], from: usize, ask: impl Fn(*const A)) {
    for address in addresses {
        for line in 0..LINES {
            ask(address.wrapping_byte_add(from + line * CACHE_LINE_BYTES));
        }
    }
}

/// Prefetches the line of an address into L1.
#[inline(always)]
pub(crate) fn prefetch<A>(address: *const A) {
    prefetch_into(Cache::L1, address);
}

/// Prefetches the line of an address into L2.
#[inline(always)]
pub(crate) fn prefetch_into_l2<A>(address: *const A) {
    prefetch_into(Cache::L2, address);
}

/// The cache must be a constant after inlining.
#[inline(always)]
fn prefetch_into<A>(cache: Cache, address: *const A) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch is a hint, which is valid for every address
        unsafe {
            match cache {
                Cache::L1 => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
                Cache::L2 => _mm_prefetch::<_MM_HINT_T1>(address.cast()),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (cache, address);
}

/// The width of a vector register in bytes.
pub(super) fn register_bytes() -> usize {
    struct Width;

    impl WithSimd for Width {
        type Output = usize;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            size_of::<S::f32s>()
        }
    }

    arch().dispatch(Width)
}

impl<A: Element> Program<A> {
    /// Plans how a block is computed on a machine with registers of this width. The plan is empty
    /// if all streams may fit into L2.
    pub(super) fn plan_prefetch(&self, register_bytes: usize) -> Vec<PrefetchSpan> {
        let streams = self.streams();
        if streams * self.len() * size_of::<A>() < L2_BYTES {
            return Vec::new();
        }
        // two lines per request for L2, which takes fewer instructions
        let (into, in_flight, together) = match register_bytes {
            CACHE_LINE_BYTES.. => (Cache::L1, MAX_L1_IN_FLIGHT, 1),
            _ => (Cache::L2, MAX_L2_IN_FLIGHT, 2),
        };
        // including the overhead of the instruction
        let time = |instruction: &Instruction<A>| instruction.nanoseconds + vector_nanoseconds(INSTRUCTION_OVERHEAD);
        let all: f64 = self.instructions.iter().map(time).sum();
        let block = block_len::<A>();
        let (mut spent, mut row) = (0.0, 0);
        let mut spans = Vec::with_capacity(2 * self.instructions.len());
        for (instruction, now) in self.instructions.iter().enumerate() {
            spent += time(now);
            let until = together * ((BLOCK_BYTES / CACHE_LINE_BYTES / together) as f64 * spent / all).round() as usize;
            let rows = until - row;
            // in whole lines
            let times = (rows * streams).div_ceil(in_flight).max(1);
            let len = block.div_ceil(times).next_multiple_of(CACHE_LINE_BYTES);
            let at_once = rows.div_ceil(block.div_ceil(len)).next_multiple_of(together);
            for from in (0..block).step_by(len) {
                let end = until.min(row + at_once);
                let rows = std::mem::replace(&mut row, end)..end;
                spans.push(PrefetchSpan { instruction, from, len: len.min(block - from), rows, into });
            }
        }
        spans
    }
}
