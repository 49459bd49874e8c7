//! Asking for what the next block reads and writes while this one is computed.
//!
//! Each block reads its operands in one go, and then the processor computes for a while and sees
//! nothing to fetch in advance: a program over tensors that lie in memory would wait for most of
//! its time. So with each instruction some lines of what the next block touches are asked for, as
//! many as can come meanwhile.
//!
//! Where registers are narrow they come into the second cache only, as was measured: on a Zen 3
//! that takes less time, on a Zen 4, which has the same caches and wide registers, more.

use super::program::{BLOCK_BYTES, Instruction, Program, block_len, vector_nanoseconds};
use crate::tensor::Element;
use crate::tensor::aligned::CACHE_LINE_BYTES;
use dl_core::simd::arch;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// What is smaller than this may be in the second cache of a core.
const L2_BYTES: usize = 1 << 20;

/// The cost of an operation, for an element, that takes as long as an instruction takes to begin.
const INSTRUCTION_OVERHEAD: f64 = 0.5;

/// So many lines can be on their way to the nearest cache at once. Whoever asks for more has to
/// wait.
const MAX_L1_IN_FLIGHT: usize = 16;
/// For the second cache so many at once were the fastest.
const MAX_L2_IN_FLIGHT: usize = 32;

const _: () = assert!(BLOCK_BYTES.is_multiple_of(2 * CACHE_LINE_BYTES), "lines that are asked for in pairs");

/// So many elements of a block, for which an instruction is computed in one go, and the rows of
/// lines that are asked for before.
pub(super) struct PrefetchSpan {
    pub(super) instruction: usize,
    pub(super) from: usize,
    pub(super) len: usize,
    pub(super) rows: Range<usize>,
    into: Cache,
}

/// Into which cache lines come that are asked for.
#[derive(Clone, Copy)]
enum Cache {
    L1,
    L2,
}

impl PrefetchSpan {
    /// Asks for its lines of the next block, which begins so many bytes after each of these places.
    #[inline(always)]
    pub(super) fn ask<A>(&self, slots: &[*mut A], bytes: usize) {
        match self.into {
            Cache::L1 => prefetch_rows(slots, bytes, self.rows.clone(), prefetch),
            Cache::L2 => prefetch_rows(slots, bytes, self.rows.clone(), |slot| prefetch_into(Cache::L2, slot)),
        }
    }
}

/// Asks for these rows of lines, from so many bytes on after each of these places.
#[inline(always)]
fn prefetch_rows<A>(slots: &[*mut A], from: usize, rows: Range<usize>, ask: impl Fn(*const A) + Copy) {
    let mut row = rows.start;
    // several of a place at a time: a loop over so few would be more instructions than it asks for
    // lines
    while row + 4 <= rows.end {
        prefetch_lines::<A, 4>(slots, from + row * CACHE_LINE_BYTES, ask);
        row += 4;
    }
    if row + 2 <= rows.end {
        prefetch_lines::<A, 2>(slots, from + row * CACHE_LINE_BYTES, ask);
        row += 2;
    }
    if row < rows.end {
        prefetch_lines::<A, 1>(slots, from + row * CACHE_LINE_BYTES, ask);
    }
}

/// Asks for so many lines that come one after the other.
#[inline(always)]
fn prefetch_lines<A, const LINES: usize>(slots: &[*mut A], from: usize, ask: impl Fn(*const A)) {
    for slot in slots {
        for line in 0..LINES {
            ask(slot.wrapping_byte_add(from + line * CACHE_LINE_BYTES));
        }
    }
}

/// Asks for a line of the nearest cache, if there is one at that place.
#[inline(always)]
pub(crate) fn prefetch<A>(slot: *const A) {
    prefetch_into(Cache::L1, slot);
}

/// The same for a cache that is known when this is compiled.
#[inline(always)]
fn prefetch_into<A>(cache: Cache, slot: *const A) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        // SAFETY: they are hints, for which no place is wrong
        unsafe {
            match cache {
                Cache::L1 => _mm_prefetch::<_MM_HINT_T0>(slot.cast()),
                Cache::L2 => _mm_prefetch::<_MM_HINT_T1>(slot.cast()),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (cache, slot);
}

/// How wide registers are.
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
    /// How a whole block is computed, stretch by stretch, where registers have so many bytes:
    /// nothing if all that the program touches may be in the second cache, where nobody need ask.
    pub(super) fn plan_prefetch(&self, register_bytes: usize) -> Vec<PrefetchSpan> {
        let streams = self.streams();
        if streams * self.len() * size_of::<A>() < L2_BYTES {
            return Vec::new();
        }
        // lines for the second cache in pairs, which takes fewer instructions
        let (into, on_their_way, together) = match register_bytes {
            CACHE_LINE_BYTES.. => (Cache::L1, MAX_L1_IN_FLIGHT, 1),
            _ => (Cache::L2, MAX_L2_IN_FLIGHT, 2),
        };
        // to begin takes some time, too
        let time = |instruction: &Instruction<A>| instruction.nanoseconds + vector_nanoseconds(INSTRUCTION_OVERHEAD);
        let all: f64 = self.instructions.iter().map(time).sum();
        let block = block_len::<A>();
        let (mut spent, mut row) = (0.0, 0);
        let mut stretches = Vec::with_capacity(2 * self.instructions.len());
        for (instruction, now) in self.instructions.iter().enumerate() {
            spent += time(now);
            let until = together * ((BLOCK_BYTES / CACHE_LINE_BYTES / together) as f64 * spent / all).round() as usize;
            let rows = until - row;
            // in whole lines
            let times = (rows * streams).div_ceil(on_their_way).max(1);
            let len = block.div_ceil(times).next_multiple_of(CACHE_LINE_BYTES);
            let at_once = rows.div_ceil(block.div_ceil(len)).next_multiple_of(together);
            for from in (0..block).step_by(len) {
                let end = until.min(row + at_once);
                let rows = std::mem::replace(&mut row, end)..end;
                stretches.push(PrefetchSpan { instruction, from, len: len.min(block - from), rows, into });
            }
        }
        stretches
    }
}
