//! Fetching what the next block reads and writes while this one is computed.
//!
//! Each block reads its operands in one go, and then the processor computes for a while and sees nothing to fetch in advance: a program over tensors that lie in memory
//! would wait for most of its time. So with each instruction some lines of what the next block touches are asked for, as many as can come meanwhile.

use super::{BLOCK_BYTES, Instruction, Program, block_len, nanoseconds};
use crate::element::Element;
use crate::lines::LINE_BYTES;

/// What is smaller than this may be in the second cache of a core.
const SECOND_CACHE_BYTES: usize = 1 << 20;

/// Tensors that are read or written line by line. Of more than this, the first ones are fetched.
const STREAMS: usize = 24;

/// The cost of an operation, for an element, that takes as long as an instruction takes to begin.
const BEGINNING: f64 = 1.5;

/// What is asked for with an instruction: the rows of lines up to this one, so many at a time, each time before so many elements of a block are computed.
pub(super) struct Asked {
    until: usize,
    at_once: usize,
    elements: usize,
}

/// What the next block touches.
pub(super) struct Ahead<'a, A> {
    plan: &'a [Asked],
    /// Where the tensors that are read or written line by line go on.
    streams: [*const A; STREAMS],
    count: usize,
    /// In bytes, from there on, where the next block begins.
    next: usize,
    /// The next row of it to be asked for: a line of each of them.
    row: usize,
}

/// So many lines can be on their way at once. Whoever asks for more has to wait.
const ON_THEIR_WAY: usize = 16;

impl<'a, A> Ahead<'a, A> {
    /// Where each of them begins.
    pub(super) fn of(plan: &'a [Asked], places: impl Iterator<Item = *const A>) -> Self {
        let mut ahead = Ahead { plan, streams: [std::ptr::null(); STREAMS], count: 0, next: 0, row: 0 };
        for (stream, place) in ahead.streams.iter_mut().zip(places) {
            *stream = place;
            ahead.count += 1;
        }
        ahead
    }

    /// A block begins, after which comes this element; they may also have ended.
    pub(super) fn block(&mut self, next: usize) {
        (self.next, self.row) = (next * size_of::<A>(), 0);
    }

    /// This instruction is about to be computed for the next elements of a block: for so many, before the next lines are asked for.
    #[inline(always)]
    pub(super) fn ask(&mut self, instruction: usize) -> usize {
        let Asked { until, at_once, elements } = self.plan[instruction];
        let until = until.min(self.row + at_once);
        let streams = &self.streams[..self.count];
        let ask = |row: usize, rows: usize| {
            let place = self.next + row * LINE_BYTES;
            for stream in streams {
                (0..rows).for_each(|row| ask_for(stream.wrapping_byte_add(place + row * LINE_BYTES)));
            }
        };
        let mut row = self.row;
        // two lines of a stream at a time: to look up where it is takes as long as to ask
        while row + 2 <= until {
            ask(row, 2);
            row += 2;
        }
        if row < until {
            ask(row, 1);
        }
        self.row = until;
        elements
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
    /// What is asked for with each instruction. Nothing at all if what the program touches may be in the second cache.
    pub(super) fn plan_ahead(&self) -> Vec<Asked> {
        let len = self.len();
        let streams = self.streams();
        if streams * len * size_of::<A>() < SECOND_CACHE_BYTES {
            return Vec::new();
        }
        // to begin takes some time, too
        let time = |instruction: &Instruction<A>| instruction.nanoseconds + nanoseconds(BEGINNING);
        let all: f64 = self.instructions.iter().map(time).sum();
        let (mut spent, mut before) = (0.0, 0);
        let asked = self.instructions.iter().map(|instruction| {
            spent += time(instruction);
            let until = ((BLOCK_BYTES / LINE_BYTES) as f64 * spent / all).round() as usize;
            let rows = until - std::mem::replace(&mut before, until);
            // in whole lines
            let times = (rows * streams).div_ceil(ON_THEIR_WAY).max(1);
            let elements = block_len::<A>().div_ceil(times).next_multiple_of(LINE_BYTES);
            Asked { until, at_once: rows.div_ceil(block_len::<A>().div_ceil(elements)), elements }
        });
        asked.collect()
    }
}
