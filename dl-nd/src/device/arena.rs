//! Sub-allocation of device memory.
//!
//! An allocation of a driver takes far longer than a launch. The arena allocates slabs and divides
//! them; freed parts are kept by size and given out again.

#![allow(missing_docs, reason = "for the crates that implement devices")]

use super::Span;
use std::collections::BTreeMap;

/// Starts of parts are multiples of this: as wide as a memory transaction of any device.
const ALIGNMENT: usize = 256;
/// The size of a slab. A larger part has a slab of its own.
const SLAB_BYTES: usize = 1 << 26;

/// Slabs of a kind `S`, and their free ranges.
pub struct Arena<S> {
    slabs: Vec<S>,
    /// The bytes of all parts that have been given out, each counted once.
    reserved: usize,
    /// The first free byte, and the end, of the slab that is being divided.
    open: Option<(usize, usize, usize)>,
    /// Freed parts by size.
    free: BTreeMap<usize, Vec<Span>>,
}

/// The size of the part for so many bytes: one of four sizes for each power of two, so that at most
/// a fifth is lost.
fn size_class(bytes: usize) -> usize {
    let step = (bytes.max(ALIGNMENT).next_power_of_two() / 8).max(ALIGNMENT);
    bytes.max(1).next_multiple_of(step)
}

impl<S> Default for Arena<S> {
    fn default() -> Self {
        Arena { slabs: Vec::new(), reserved: 0, open: None, free: BTreeMap::new() }
    }
}

impl<S> Arena<S> {
    /// The bytes that have been given out so far. A part that is given out again does not count.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    pub fn slab(&self, number: usize) -> &S {
        &self.slabs[number]
    }

    /// A part of at least so many bytes. `allocate` makes a slab.
    pub fn take<E>(&mut self, bytes: usize, allocate: impl FnOnce(usize) -> Result<S, E>) -> Result<Span, E> {
        let size = size_class(bytes);
        if let Some(span) = self.free.get_mut(&size).and_then(Vec::pop) {
            return Ok(Span { bytes, ..span });
        }
        if let Some((slab, start, end)) = self.open
            && start + size <= end
        {
            self.open = Some((slab, start + size, end));
            self.reserved += size;
            return Ok(Span { slab, start, bytes });
        }
        let whole = if size > SLAB_BYTES / 4 { size } else { SLAB_BYTES };
        self.slabs.push(allocate(whole)?);
        self.reserved += size;
        let slab = self.slabs.len() - 1;
        if whole > size {
            self.open = Some((slab, size, whole));
        }
        Ok(Span { slab, start: 0, bytes })
    }

    pub fn give_back(&mut self, span: Span) {
        self.free.entry(size_class(span.bytes)).or_default().push(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_slab_do_not_overlap_and_freed_ones_are_given_out_again() {
        let mut arena = Arena::default();
        let mut slabs = 0;
        let mut take = |arena: &mut Arena<usize>, bytes| {
            arena.take(bytes, |size| {
                slabs += 1;
                Ok::<_, ()>(size)
            })
        };
        let spans: Vec<Span> = [1, 256, 300, 5000, 0].iter().map(|&bytes| take(&mut arena, bytes).unwrap()).collect();
        for pair in spans.windows(2) {
            assert!(pair[0].start + pair[0].bytes <= pair[1].start && pair[1].start % ALIGNMENT == 0, "{pair:?}");
        }
        let reserved = arena.reserved();
        arena.give_back(spans[2]);
        let again = take(&mut arena, 290).unwrap();
        assert_eq!((again.start, again.bytes, arena.reserved()), (spans[2].start, 290, reserved));
        let large = take(&mut arena, SLAB_BYTES).unwrap();
        assert_eq!((large.slab, *arena.slab(large.slab)), (1, SLAB_BYTES));
        assert_eq!(take(&mut arena, 8).unwrap().slab, 0, "the divided slab has room left");
        assert_eq!(slabs, 2);
    }

    #[test]
    fn size_class_loses_at_most_a_fifth_of_a_large_part() {
        for bytes in (2048..1 << 20).step_by(977) {
            let size = size_class(bytes);
            assert!(
                size >= bytes && size - bytes <= size / 5 + ALIGNMENT && size_class(size) == size,
                "{bytes}: {size}"
            );
        }
    }
}
