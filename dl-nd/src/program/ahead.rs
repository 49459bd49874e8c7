//! Fetching what the next block reads and writes while this one is computed.
//!
//! Each block reads its operands in one go, and then the processor computes for a while and sees nothing to fetch in advance: a program over tensors that lie in memory
//! would wait for most of its time. So with each instruction some lines of what the next block touches are asked for, as many as can come meanwhile.

use super::{BLOCK_BYTES, LINE_BYTES, Program};
use crate::element::Element;

/// What is smaller than this may be in the second cache of a core.
const SECOND_CACHE_BYTES: usize = 1 << 20;

/// Tensors that are read or written line by line. Of more than this, the first ones are fetched.
const STREAMS: usize = 24;

/// What the next block touches.
pub(super) struct Ahead<A> {
    streams: [*const A; STREAMS],
    count: usize,
    /// The next line to be fetched: of which of them, and which one.
    stream: usize,
    line: usize,
}

impl<A> Ahead<A> {
    /// Where each of them goes on with the next block; they may also have ended.
    pub(super) fn of(places: impl Iterator<Item = *const A>) -> Self {
        let mut ahead = Ahead { streams: [std::ptr::null(); STREAMS], count: 0, stream: 0, line: 0 };
        for (stream, place) in ahead.streams.iter_mut().zip(places) {
            *stream = place;
            ahead.count += 1;
        }
        ahead
    }

    /// Asks for so many lines, as far as the block has them.
    pub(super) fn fetch(&mut self, lines: usize) {
        for _ in 0..lines {
            if self.count == 0 || self.line == BLOCK_BYTES / LINE_BYTES {
                return;
            }
            ask_for(self.streams[self.stream].wrapping_byte_add(self.line * LINE_BYTES));
            self.stream += 1;
            if self.stream == self.count {
                (self.stream, self.line) = (0, self.line + 1);
            }
        }
    }
}

/// Asks for a line of the cache, if there is one at that place.
#[inline(always)]
fn ask_for<A>(place: *const A) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it is a hint, for which no place is wrong
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

impl<A: Element> Program<A> {
    /// How many lines are asked for with each instruction, with so many results. None at all if what the program touches may be in the second cache.
    pub(super) fn plan_ahead(&self, results: usize) -> Vec<usize> {
        let len: usize = self.shape.iter().product();
        let streams = results + self.operands.iter().filter(|operand| operand.is_whole(&self.shape)).count();
        if streams * len * size_of::<A>() < SECOND_CACHE_BYTES {
            return Vec::new();
        }
        let lines = (streams.min(STREAMS) * BLOCK_BYTES / LINE_BYTES) as f64;
        let all = self.nanoseconds();
        let (mut spent, mut asked) = (0.0, 0);
        let lines_with = self.instructions.iter().map(|instruction| {
            spent += instruction.nanoseconds();
            let until = (lines * spent / all).ceil() as usize;
            until - std::mem::replace(&mut asked, until)
        });
        lines_with.collect()
    }
}
