//! Checks of indices, and the blocks of memory that depend on them.
//!
//! A check is a kernel, and its result is read with the next wait. A block that is computed from
//! checked indices, directly or not, is *marked* with the check. A read of a marked block fails if
//! the check has failed, so an operation gets the errors of its own operands only, whichever pass
//! waits first.
//!
//! Results lie in a table that every wait copies. A check whose result is not in the copy was recorded
//! later than the read values.

use dl_core::Error;
use dl_nd::device::{Check, OutOfRange, Span, View, Work};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::Range;

/// Checks that can be pending: the entries of the table.
pub(crate) const MAX_CHECKS: usize = 256;

#[derive(Default)]
pub(crate) struct Checks {
    /// The number of the first pending check.
    first: u64,
    pending: VecDeque<(Check, OutOfRange)>,
    /// Blocks by their starts, with checks that are pending or have failed.
    marks: FxHashMap<(usize, usize), Vec<Check>>,
}

fn key(block: Span) -> (usize, usize) {
    (block.slab, block.start)
}

/// The entry of a check in the table.
fn entry(number: u64) -> usize {
    (number % MAX_CHECKS as u64) as usize
}

impl Checks {
    /// The entry of the next check.
    pub(crate) fn next_entry(&self) -> usize {
        entry(self.pending().end)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() == MAX_CHECKS
    }

    pub(crate) fn push(&mut self, error: OutOfRange) -> Check {
        let check = Check::default();
        self.pending.push_back((check.clone(), error));
        check
    }

    /// The numbers of the pending checks.
    pub(crate) fn pending(&self) -> Range<u64> {
        self.first..self.first + self.pending.len() as u64
    }

    /// Marks the blocks that a work writes with the checks of those that it reads.
    pub(crate) fn follow(&mut self, work: &Work<'_>) {
        if self.marks.is_empty() && work.reads().all(|view| view.checks.is_empty()) {
            return;
        }
        let mut checks: Vec<Check> = Vec::new();
        // a block that is written in part keeps its marks
        for view in work.reads().chain(work.writes()) {
            let of_block = self.marks.get(&key(view.span())).into_iter().flatten();
            for check in view.checks.iter().chain(of_block).filter(|check| !check.has_passed()) {
                if !checks.iter().any(|other| other.is(check)) {
                    checks.push(check.clone());
                }
            }
        }
        if !checks.is_empty() {
            work.writes().iter().map(View::span).for_each(|block| drop(self.marks.insert(key(block), checks.clone())));
        }
    }

    /// Ends the use of a block, or of its contents.
    pub(crate) fn forget(&mut self, block: Span) {
        if !self.marks.is_empty() {
            self.marks.remove(&key(block));
        }
    }

    /// Ends the checks with these numbers, unless another wait has. The table has a position plus 1
    /// for one that has failed, otherwise 0, and the index there.
    pub(crate) fn end(&mut self, numbers: Range<u64>, table: &[u64]) {
        for number in numbers.filter(|&number| number >= self.first).collect::<Vec<_>>() {
            let (check, error) = self.pending.pop_front().expect("it is pending");
            self.first += 1;
            let found = &table[2 * entry(number)..];
            check.end((found[0] > 0).then(|| error(found[0] as usize - 1, found[1] as usize)));
        }
        self.marks.retain(|_, checks| {
            checks.retain(|check| !check.has_passed());
            !checks.is_empty()
        });
    }

    /// Whether a check that this block depends on has not ended.
    pub(crate) fn are_pending_for(&self, block: Span) -> bool {
        self.marks.get(&key(block)).is_some_and(|checks| checks.iter().any(Check::is_pending))
    }

    /// The error of a check that this block depends on.
    pub(crate) fn error_of(&self, block: Span) -> Option<Error> {
        self.marks.get(&key(block))?.iter().find_map(|check| check.error().cloned())
    }
}
