//! Kernels that wait to be launched together.
//!
//! A launch is recorded. When the host needs a result, all recorded launches are *taken*, and equal
//! kernels that do not depend on each other become one launch with an instance for each: those of
//! different samples, for example. An instance computes what the launch would have computed alone,
//! so grouping changes no bit.
//!
//! The *level* of a launch is one more than the highest level of those that it must follow: which
//! have written what it reads or writes, or read what it writes. Levels are launched in order.
//! Dependencies are known by blocks of memory, as the arena gives them out, and by the parts of a
//! block that are written: writes of disjoint parts, as of a concatenation, do not depend on each
//! other. A freed block must not be given out again before the queue is taken: the launches of a
//! level have no order.

#![allow(missing_docs, reason = "for the crates that implement devices")]

use super::Span;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::Range;

/// Limits of what is recorded. Beyond, a device would idle, or memory be kept for too long.
const MAX_LAUNCHES: usize = 1024;
const MAX_THREADS: u64 = 1 << 20;
const MAX_BYTES: usize = 1 << 18;

/// Threads that are not fewer than those of the smallest launch.
const WIDTH: u64 = 64;

/// Launches that become one.
pub struct Group<K> {
    pub kernel: K,
    /// The threads of the largest instance. Another one has at least half as many, or less than a
    /// work group.
    pub threads: u64,
    pub instances: usize,
    /// The arguments of the instances, one after the other.
    pub arguments: Vec<u8>,
}

/// The launches that use a block.
#[derive(Default)]
struct Uses {
    /// The highest levels of those that write and read it, counted from 1.
    written: usize,
    read: usize,
    /// The disjoint parts that were written since it was read, or a written part was written again,
    /// and the highest level of the launches before that.
    parts: SmallVec<[Range<usize>; 1]>,
    before: usize,
}

impl Uses {
    fn is_disjoint(&self, part: &Range<usize>) -> bool {
        !self.parts.is_empty() && self.parts.iter().all(|other| other.end <= part.start || part.end <= other.start)
    }

    /// The highest level that a write of this part must follow.
    fn before_write(&self, part: &Range<usize>) -> usize {
        if self.is_disjoint(part) { self.before } else { self.written.max(self.read) }
    }

    fn write(&mut self, part: Range<usize>, level: usize) {
        // The parts of two views of one launch may overlap.
        if !self.is_disjoint(&part) && self.written < level {
            self.before = self.written.max(self.read);
            self.parts.clear();
        }
        self.written = self.written.max(level);
        match self.parts.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            _ => self.parts.push(part),
        }
    }

    fn read(&mut self, level: usize) {
        self.read = self.read.max(level);
        self.parts.clear();
    }
}

/// Recorded launches of kernels `K`. Kernels are equal if their launches can differ in their
/// arguments and numbers of threads only.
pub struct Queue<K> {
    levels: Vec<Vec<Group<K>>>,
    uses: FxHashMap<(usize, usize), Uses>,
    freed: Vec<Span>,
    launches: usize,
    threads: u64,
    bytes: usize,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Queue { levels: Vec::new(), uses: FxHashMap::default(), freed: Vec::new(), launches: 0, threads: 0, bytes: 0 }
    }
}

fn block(span: Span) -> (usize, usize) {
    (span.slab, span.start)
}

/// Launches with equal classes of threads can be grouped.
fn class(threads: u64) -> u64 {
    threads.div_ceil(WIDTH).next_power_of_two()
}

impl<K: PartialEq> Queue<K> {
    /// Records a launch that reads these blocks, which are whole parts of the arena, and writes
    /// bytes of others.
    pub fn record(
        &mut self,
        kernel: K,
        threads: u64,
        argument: &[u8],
        reads: impl Iterator<Item = Span> + Clone,
        writes: impl Iterator<Item = (Span, Range<usize>)> + Clone,
    ) {
        let after_reads = reads.clone().filter_map(|span| Some(self.uses.get(&block(span))?.written));
        let after_writes =
            writes.clone().filter_map(|(span, part)| Some(self.uses.get(&block(span))?.before_write(&part)));
        let level = after_reads.chain(after_writes).max().unwrap_or(0) + 1;
        reads.for_each(|span| self.uses.entry(block(span)).or_default().read(level));
        writes.for_each(|(span, part)| self.uses.entry(block(span)).or_default().write(part, level));
        self.launches += 1;
        self.threads += threads;
        self.bytes += argument.len();
        if self.levels.len() < level {
            self.levels.push(Vec::new());
        }
        let groups = &mut self.levels[level - 1];
        match groups.iter_mut().rev().find(|group| class(group.threads) == class(threads) && group.kernel == kernel) {
            Some(group) => {
                group.threads = group.threads.max(threads);
                group.instances += 1;
                group.arguments.extend_from_slice(argument);
            }
            None => groups.push(Group { kernel, threads, instances: 1, arguments: argument.to_vec() }),
        }
    }

    /// Keeps a freed block, unless nothing is recorded.
    #[must_use = "a block that is not kept can be given out again"]
    pub fn keep(&mut self, freed: Span) -> bool {
        let is_kept = self.launches > 0;
        if is_kept {
            self.freed.push(freed);
        }
        is_kept
    }

    /// Whether a recorded launch reads or writes this block.
    pub fn uses(&self, span: Span) -> bool {
        self.uses.contains_key(&block(span))
    }

    /// Whether the recorded launches must be taken before another one.
    pub fn is_full(&self) -> bool {
        self.launches >= MAX_LAUNCHES || self.threads >= MAX_THREADS || self.bytes >= MAX_BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.launches == 0
    }

    /// The groups in the order in which they are to be launched, and the freed blocks, which can be
    /// given out again after that. Nothing is recorded then.
    pub fn take(&mut self) -> (impl Iterator<Item = Group<K>> + use<K>, Vec<Span>) {
        self.uses.clear();
        (self.launches, self.threads, self.bytes) = (0, 0, 0);
        (std::mem::take(&mut self.levels).into_iter().flatten(), std::mem::take(&mut self.freed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: usize) -> Span {
        Span { slab: 0, start, bytes: 4 }
    }

    fn record(queue: &mut Queue<char>, kernel: char, threads: u64, argument: &[u8], reads: &[Span], writes: &[Span]) {
        let writes = writes.iter().map(|&span| (span, 0..span.bytes));
        queue.record(kernel, threads, argument, reads.iter().copied(), writes);
    }

    /// Records a write of bytes of the block 0.
    fn write_part(queue: &mut Queue<char>, kernel: char, argument: u8, part: Range<usize>) {
        queue.record(kernel, 1, &[argument], [].into_iter(), [(span(0), part)].into_iter());
    }

    /// The kernels and arguments of the groups.
    fn taken(queue: &mut Queue<char>) -> Vec<(char, Vec<u8>)> {
        queue.take().0.map(|group| (group.kernel, group.arguments)).collect()
    }

    #[test]
    fn equal_kernels_of_different_samples_are_one_launch_a_level() {
        let mut queue = Queue::default();
        for sample in 0..3_u8 {
            let at = 10 * usize::from(sample);
            record(&mut queue, 'a', 5, &[sample], &[span(1000)], &[span(at)]);
            record(&mut queue, 'b', 5, &[sample], &[span(at)], &[span(at + 1)]);
        }
        assert_eq!(taken(&mut queue), [('a', vec![0, 1, 2]), ('b', vec![0, 1, 2])]);
        assert!(queue.is_empty());
    }

    #[test]
    fn launches_that_share_a_written_block_keep_their_order() {
        let mut queue = Queue::default();
        record(&mut queue, 'a', 1, &[0], &[], &[span(0)]);
        record(&mut queue, 'b', 1, &[1], &[span(0)], &[span(1)]); // after the write
        record(&mut queue, 'a', 1, &[2], &[], &[span(0)]); // after the read
        record(&mut queue, 'a', 1, &[3], &[], &[span(0)]); // after the other write
        record(&mut queue, 'a', 1, &[4], &[], &[span(2)]); // after none
        assert_eq!(taken(&mut queue), [('a', vec![0, 4]), ('b', vec![1]), ('a', vec![2]), ('a', vec![3])]);
    }

    #[test]
    fn writes_of_disjoint_parts_are_one_launch_until_the_block_is_read() {
        let mut queue = Queue::default();
        for part in [0, 1, 3, 2] {
            write_part(&mut queue, 'a', part, 4 * usize::from(part)..4 * usize::from(part) + 4);
        }
        record(&mut queue, 'b', 1, &[4], &[span(0)], &[span(1)]); // after all
        write_part(&mut queue, 'a', 5, 16..20); // after the read
        write_part(&mut queue, 'a', 6, 0..4); // beside it
        write_part(&mut queue, 'a', 7, 2..3); // after that
        record(&mut queue, 'c', 1, &[8], &[], &[span(0)]);
        let taken = taken(&mut queue);
        assert_eq!(taken[..3], [('a', vec![0, 1, 3, 2]), ('b', vec![4]), ('a', vec![5, 6])]);
        assert_eq!(taken[3..], [('a', vec![7]), ('c', vec![8])]);
    }

    #[test]
    fn launch_that_writes_a_block_twice_comes_before_disjoint_writes_only_if_it_must() {
        let mut queue = Queue::default();
        let twice = [(span(0), 0..4), (span(0), 0..4)];
        queue.record('a', 1, &[0], [].into_iter(), twice.into_iter());
        write_part(&mut queue, 'a', 1, 4..8);
        write_part(&mut queue, 'a', 2, 3..5);
        assert_eq!(taken(&mut queue), [('a', vec![0, 1]), ('a', vec![2])]);
    }

    #[test]
    fn launches_of_different_sizes_are_not_grouped() {
        let mut queue = Queue::default();
        for (threads, argument) in [(1, 0), (64, 1), (65, 2), (128, 3), (129, 4)] {
            record(&mut queue, 'a', threads, &[argument], &[], &[span(threads as usize)]);
        }
        assert_eq!(taken(&mut queue), [('a', vec![0, 1]), ('a', vec![2, 3]), ('a', vec![4])]);
    }

    #[test]
    fn freed_block_is_kept_while_launches_are_recorded() {
        let mut queue = Queue::default();
        assert!(!queue.keep(span(0)));
        record(&mut queue, 'a', 1, &[], &[span(1)], &[span(2)]);
        assert!(queue.keep(span(1)) && queue.uses(span(1)) && !queue.uses(span(3)));
        assert_eq!(queue.take().1, [span(1)]);
        assert!(!queue.uses(span(1)));
    }
}
