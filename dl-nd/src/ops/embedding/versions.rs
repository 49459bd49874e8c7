//! Versions of a table, as a persistent array.
//!
//! The newest version of a table is a flat buffer. An older version that is still referenced is a
//! diff against the next referenced version: the old contents of the rows that changed in between.
//! A clone therefore costs one reference count, and a version with some changed rows costs those
//! rows, whatever the height of the table.
//!
//! When the last reference to a version is dropped, its diff is merged into that of the previous
//! referenced version. If it was the newest version, the buffer is reverted to the previous one.
//! The cost of reading an old version therefore grows with the number of referenced versions, not
//! with the number of all versions.
//!
//! A change of a version that is not the newest copies the whole table; the copy starts a new
//! family.
//!
//! H. G. Baker, *Shallow binding makes functional arrays fast*, 1991.

use crate::tensor::Element;
use std::collections::btree_map::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An immutable version of a table.
pub(super) struct Version<A: Element> {
    family: Arc<Family<A>>,
    number: u64,
}

/// Versions that share a buffer. The lock must not be held while user code runs.
struct Family<A> {
    shape: [usize; 2],
    state: RwLock<State<A>>,
}

struct State<A> {
    /// The elements of the newest version.
    buffer: Vec<A>,
    /// The referenced versions by number, each with its diff against the next one. The diff of the
    /// newest version is empty.
    diffs: BTreeMap<u64, Diff<A>>,
}

/// The contents of some rows.
struct Diff<A> {
    /// Row id to row index in `block`.
    places: HashMap<usize, usize>,
    block: Vec<A>,
}

impl<A: Element> Version<A> {
    /// The first version of a new family. `buffer` must have as many elements as the shape.
    pub(super) fn new(shape: [usize; 2], buffer: Vec<A>) -> Self {
        debug_assert_eq!(buffer.len(), shape[0] * shape[1]);
        let state = State { buffer, diffs: BTreeMap::from([(0, Diff::with_room_for(0, 0))]) };
        Version { family: Arc::new(Family { shape, state: RwLock::new(state) }), number: 0 }
    }

    pub(super) fn shape(&self) -> [usize; 2] {
        self.family.shape
    }

    /// Appends the given rows, or all rows if `None`, to `numbers`, which must be empty.
    pub(super) fn read(&self, rows: Option<&[usize]>, mut numbers: Vec<A>) -> Vec<A> {
        let [height, width] = self.shape();
        numbers.reserve_exact(width * rows.map_or(height, <[usize]>::len));
        let state = self.family.read();
        let diffs = state.diffs.range(self.number..).map(|(_, diff)| diff).filter(|diff| !diff.places.is_empty());
        match rows {
            Some(rows) => {
                let diffs: Vec<&Diff<A>> = diffs.collect();
                for &row in rows {
                    let changed = diffs.iter().find_map(|diff| diff.row(row, width));
                    numbers.extend_from_slice(changed.unwrap_or_else(|| &state.buffer[row * width..][..width]));
                }
            }
            None => {
                numbers.extend_from_slice(&state.buffer);
                // newest first: the diff of this version is written last and takes precedence
                diffs.rev().for_each(|diff| diff.write_to(&mut numbers, width));
            }
        }
        numbers
    }

    /// A version with the given rows, or all rows if `None`, replaced by those of `block`. The rows
    /// must be distinct.
    pub(super) fn changed(&self, rows: Option<&[usize]>, block: Vec<A>) -> Self {
        let Some(rows) = rows else { return Version::new(self.shape(), block) };
        let width = self.shape()[1];
        if let Some(next) = self.next(rows, &block) {
            return next;
        }
        let mut numbers = self.read(None, Vec::new());
        for (at, &row) in rows.iter().enumerate() {
            numbers[row * width..][..width].copy_from_slice(&block[at * width..][..width]);
        }
        Version::new(self.shape(), numbers)
    }

    /// The changed version within the same family, if this is its newest version.
    fn next(&self, rows: &[usize], block: &[A]) -> Option<Self> {
        let width = self.shape()[1];
        let mut before = Diff::with_room_for(rows.len(), width);
        let mut state = self.family.write();
        let State { buffer, diffs } = &mut *state;
        let mut newest = diffs.last_entry().filter(|newest| *newest.key() == self.number)?;
        for (at, &row) in rows.iter().enumerate() {
            let numbers = &mut buffer[row * width..][..width];
            before.push(row, numbers);
            numbers.copy_from_slice(&block[at * width..][..width]);
        }
        newest.insert(before);
        let number = self.number + 1;
        diffs.insert(number, Diff::with_room_for(0, 0));
        drop(state);
        Some(Version { family: self.family.clone(), number })
    }
}

impl<A: Element> Drop for Version<A> {
    fn drop(&mut self) {
        let width = self.shape()[1];
        let mut state = self.family.write();
        let State { buffer, diffs } = &mut *state;
        let Some(removed) = diffs.remove(&self.number) else { return };
        let was_newest = diffs.last_key_value().is_some_and(|(&number, _)| number < self.number);
        let Some((_, before)) = diffs.range_mut(..self.number).next_back() else { return };
        if was_newest {
            std::mem::replace(before, removed).write_to(buffer, width);
        } else {
            before.absorb(removed, width);
        }
    }
}

impl<A> Family<A> {
    fn read(&self) -> RwLockReadGuard<'_, State<A>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<A>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Element> Diff<A> {
    fn with_room_for(rows: usize, width: usize) -> Self {
        Diff { places: HashMap::with_capacity(rows), block: Vec::with_capacity(rows * width) }
    }

    fn row(&self, row: usize, width: usize) -> Option<&[A]> {
        let place = *self.places.get(&row)?;
        Some(&self.block[place * width..][..width])
    }

    /// Adds a row, which must be absent.
    fn push(&mut self, row: usize, numbers: &[A]) {
        self.places.insert(row, self.places.len());
        self.block.extend_from_slice(numbers);
    }

    fn write_to(&self, buffer: &mut [A], width: usize) {
        for (&row, &place) in &self.places {
            buffer[row * width..][..width].copy_from_slice(&self.block[place * width..][..width]);
        }
    }

    /// Merges a diff and the following one into a diff against the version after both. The smaller
    /// one is copied into the larger one, which keeps the number of copies low.
    fn absorb(&mut self, next: Diff<A>, width: usize) {
        let self_is_smaller = self.places.len() < next.places.len();
        let smaller = if self_is_smaller { std::mem::replace(self, next) } else { next };
        for (row, from) in smaller.places {
            let numbers = &smaller.block[from * width..][..width];
            let end = self.places.len();
            match self.places.entry(row) {
                Entry::Occupied(place) if self_is_smaller => {
                    self.block[place.get() * width..][..width].copy_from_slice(numbers);
                }
                Entry::Occupied(_) => {}
                Entry::Vacant(place) => {
                    place.insert(end);
                    self.block.extend_from_slice(numbers);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<A: Element> Version<A> {
        /// Number of rows in the diff of each referenced version.
        fn diffs(&self) -> Vec<usize> {
            self.family.read().diffs.values().map(|diff| diff.places.len()).collect()
        }
    }

    #[test]
    fn unreferenced_version_diffs_are_merged() {
        let mut newest = Version::new([100, 1], vec![0.0_f32; 100]);
        for step in 0..1_000 {
            newest = newest.changed(Some(&[step % 10]), vec![1.0]);
            assert_eq!(newest.diffs(), [0]);
        }
        let mut held = Vec::new();
        for step in 0..1_000 {
            let next = newest.changed(Some(&[step % 20]), vec![2.0]);
            let before = std::mem::replace(&mut newest, next);
            if step % 250 == 0 {
                held.push(before);
            }
        }
        // each referenced version stores a changed row at most once
        assert_eq!(newest.diffs(), [20, 20, 20, 20, 0]);
        held.remove(1);
        assert_eq!(newest.diffs(), [20, 20, 20, 0]);
        drop(newest);
        let newest = held.pop().unwrap();
        assert_eq!(newest.diffs(), [20, 20, 0]);
        assert_eq!(held[0].read(None, Vec::new())[5..15], [[1.0; 5], [0.0; 5]].concat());
    }

    #[test]
    fn change_of_old_version_starts_new_family() {
        let first = Version::new([2, 1], vec![1.0, 2.0]);
        let second = first.changed(Some(&[0]), vec![3.0]);
        let other = first.changed(Some(&[1]), vec![4.0]);
        assert!(!Arc::ptr_eq(&first.family, &other.family));
        drop(second);
        // after that drop, `first` owns the buffer again and is the newest version
        let third = first.changed(Some(&[1]), vec![5.0]);
        assert!(Arc::ptr_eq(&first.family, &third.family));
        assert_eq!(
            [&first, &other, &third].map(|version| version.read(None, Vec::new())),
            [[1.0, 2.0], [1.0, 4.0], [1.0, 5.0]]
        );
    }
}
