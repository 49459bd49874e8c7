//! Fetching what the next block reads and writes while this one is computed.
//!
//! Each block reads its operands in one go, and then the processor computes for a while and sees nothing to fetch in advance: a program over tensors that lie in memory
//! would wait for most of its time. So with each instruction some lines of what the next block touches are asked for, as many as can come meanwhile.

use super::{BLOCK_BYTES, Instruction, LINE_BYTES, Program, nanoseconds};
use crate::element::Element;

/// What is smaller than this may be in the second cache of a core.
const SECOND_CACHE_BYTES: usize = 1 << 20;

/// Tensors that are read or written line by line. Of more than this, the first ones are fetched.
const STREAMS: usize = 24;

/// The cost of an operation, for an element, that takes as long as an instruction takes to begin.
const BEGINNING: f64 = 1.5;

/// What the next block touches.
pub(super) struct Ahead<A> {
    streams: [*const A; STREAMS],
    count: usize,
    /// The next row to be fetched: a line of each of them.
    row: usize,
    /// The row that comes after those which are to be fetched with the instructions so far, and how many of these are fetched at once.
    end: usize,
    at_once: usize,
}

/// So many lines can be on their way at once. Whoever asks for more has to wait.
const ON_THEIR_WAY: usize = 16;

impl<A> Ahead<A> {
    /// Where each of them goes on with the next block; they may also have ended.
    pub(super) fn of(places: impl Iterator<Item = *const A>) -> Self {
        let mut ahead = Ahead { streams: [std::ptr::null(); STREAMS], count: 0, row: 0, end: 0, at_once: 0 };
        for (stream, place) in ahead.streams.iter_mut().zip(places) {
            *stream = place;
            ahead.count += 1;
        }
        ahead
    }

    /// An instruction begins, with which so many rows are fetched, and those that are left of the ones before: the first of them now, the others
    /// [while it goes on](Ahead::go_on), or with the next ones. Says how many of the elements of a block it is to compute in a row.
    pub(super) fn begin(&mut self, rows: usize, elements: usize) -> usize {
        self.end += rows;
        let rows = self.end - self.row;
        let parts = (rows * self.count).div_ceil(ON_THEIR_WAY).max(1);
        self.at_once = rows.div_ceil(parts);
        self.go_on();
        // in whole lines, of numbers of whatever size
        elements.div_ceil(parts).next_multiple_of(LINE_BYTES)
    }

    pub(super) fn go_on(&mut self) {
        let until = self.end.min(self.row + self.at_once);
        for row in self.row..until {
            for stream in &self.streams[..self.count] {
                ask_for(stream.wrapping_byte_add(row * LINE_BYTES));
            }
        }
        self.row = until;
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
    /// How many rows of lines are asked for with each instruction, with so many results. None at all if what the program touches may be in the second cache.
    pub(super) fn plan_ahead(&self, results: usize) -> Vec<usize> {
        let len: usize = self.shape.iter().product();
        let streams = results + self.operands.iter().filter(|operand| operand.is_whole(&self.shape)).count();
        if streams * len * size_of::<A>() < SECOND_CACHE_BYTES {
            return Vec::new();
        }
        // to begin takes some time, too
        let time = |instruction: &Instruction| instruction.nanoseconds() + nanoseconds(BEGINNING);
        let all: f64 = self.instructions.iter().map(time).sum();
        let (mut spent, mut asked) = (0.0, 0);
        let rows_with = self.instructions.iter().map(|instruction| {
            spent += time(instruction);
            let until = ((BLOCK_BYTES / LINE_BYTES) as f64 * spent / all).round() as usize;
            until - std::mem::replace(&mut asked, until)
        });
        rows_with.collect()
    }
}
