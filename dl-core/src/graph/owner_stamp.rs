//! Maps a node to its slot in a pass without a hash lookup.
//!
//! Each node carries a stamp: the number of a pass, and a slot there. The number of a pass encodes
//! an index into the static table `ALIVE`, the *seat* of the pass; a stamp is valid while the seat
//! holds the number of the pass. So stamps expire when their pass ends, and never need to be
//! cleared. A node that another live pass has stamped is kept in the fallback map of the pass
//! (`exec/node_index.rs`). The seat is kept for the next pass with the same tables: to look for one
//! takes an atomic read-modify-write, to use one's own does not.

use dl_parallel::sync::{AtomicU32, AtomicU64, Ordering, array_of, globals, thread_local};
use std::cell::Cell;

const SEATS: u64 = if cfg!(any(shuttle, loom)) { 5 } else { 1024 };
globals! {
    static ALIVE: [AtomicU64; SEATS as usize] = array_of![AtomicU64::new(0); SEATS as usize];
    /// Every thread takes its numbers in blocks, so that small passes of several threads do not
    /// meet here.
    static BLOCK: AtomicU64 = AtomicU64::new(1);
}
const BLOCK_SIZE: u64 = 1 << 12;

fn next_generation() -> u64 {
    thread_local! {
        static NEXT: Cell<u64> = const { Cell::new(0) };
    }
    let mut next = NEXT.get();
    if next.is_multiple_of(BLOCK_SIZE) {
        // Relaxed: the numbers only have to differ
        next = BLOCK.fetch_add(1, Ordering::Relaxed) * BLOCK_SIZE;
    }
    NEXT.set(next + 1);
    next
}

/// The number in a seat between two passes that use it. No pass has this number.
const KEPT: u64 = 1;

/// A seat, once one was found, and the number of the pass that sits there; 0 while there is none,
/// or if there was no seat for it. Such a pass stamps nothing.
#[derive(Debug, Default)]
pub(crate) struct PassSeat {
    pass: u64,
    place: Option<u32>,
}

impl PassSeat {
    /// A pass begins. The one before is over.
    pub(crate) fn begin(&mut self) {
        debug_assert_eq!(self.pass, 0, "one pass at a time");
        let generation = next_generation();
        if self.place.is_none() {
            self.place = Self::find(generation);
        }
        if let Some(place) = self.place {
            self.pass = generation * SEATS + u64::from(place);
            // Release: synchronizes with the load in `OwnerStamp::claim`: the pass before is over
            ALIVE[place as usize].store(self.pass, Ordering::Release);
        }
    }

    #[cold]
    fn find(generation: u64) -> Option<u32> {
        // threads begin far from one another, in lines of their own as long as they are not many
        // and passes end where they began
        let first = generation / BLOCK_SIZE * 8;
        let free = |seat: &u64| {
            let place = &ALIVE[*seat as usize];
            // AcqRel: synchronizes with the store of the pass that has given the seat up
            place.load(Ordering::Relaxed) == 0
                && place.compare_exchange(0, KEPT, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        (0..SEATS).map(|offset| first.wrapping_add(offset) % SEATS).find(free).map(|seat| seat as u32)
    }

    /// The pass is over.
    pub(crate) fn end(&mut self) {
        self.leave(KEPT);
    }

    fn leave(&mut self, left: u64) {
        self.pass = 0;
        if let Some(place) = self.place {
            // Release: synchronizes with the load in `OwnerStamp::claim`. The pass that takes the
            // stamp over must see that this one has written its last slot
            ALIVE[place as usize].store(left, Ordering::Release);
        }
    }
}

impl Drop for PassSeat {
    fn drop(&mut self) {
        self.leave(0);
    }
}

/// The stamp of a node: references to two words, which the node keeps where they fit best.
#[derive(Clone, Copy)]
pub(crate) struct OwnerStamp<'a> {
    pub(crate) pass: &'a AtomicU64,
    /// Written and read only by the pass that holds the stamp: under its state lock, or before any
    /// other thread has the pass.
    pub(crate) slot: &'a AtomicU32,
}

impl OwnerStamp<'_> {
    /// The slot of this node in the pass of this seat, if that pass holds the stamp.
    #[inline]
    pub(crate) fn slot(self, seat: &PassSeat) -> Option<u32> {
        // Acquire: synchronizes with the exchange in `claim`. The slot itself is ordered by the
        // state lock
        (seat.pass != 0 && self.pass.load(Ordering::Acquire) == seat.pass).then(|| self.slot.load(Ordering::Relaxed))
    }

    /// Stamps the node for the pass of this seat, unless another live pass holds the stamp. Returns
    /// whether it did.
    pub(crate) fn claim(self, seat: &PassSeat, slot: u32) -> bool {
        if seat.pass == 0 {
            return false;
        }
        // Acquire, and AcqRel below: these synchronize with the exchange of the pass before, and
        // its end
        let holder = self.pass.load(Ordering::Acquire);
        if holder != 0 && holder != seat.pass && ALIVE[(holder % SEATS) as usize].load(Ordering::Acquire) == holder {
            return false;
        }
        let won = holder == seat.pass
            || self.pass.compare_exchange(holder, seat.pass, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if won {
            self.slot.store(slot, Ordering::Relaxed);
        }
        won
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken() -> PassSeat {
        let mut seat = PassSeat::default();
        seat.begin();
        seat
    }

    #[test]
    fn stamp_expires_with_its_pass() {
        let (pass, slot) = Default::default();
        let stamp = OwnerStamp { pass: &pass, slot: &slot };
        let (mut first, second) = (taken(), taken());
        assert!(stamp.claim(&first, 7));
        assert_eq!((stamp.slot(&first), stamp.slot(&second)), (Some(7), None));
        assert!(!stamp.claim(&second, 8), "the first pass is alive");
        first.end();
        assert!(stamp.claim(&second, 8));
        assert_eq!(stamp.slot(&second), Some(8));
        drop(second);
        first.begin();
        assert_eq!(stamp.slot(&first), None, "that was another pass in the same seat");
        assert!(stamp.claim(&first, 9));
        assert_eq!(stamp.slot(&first), Some(9));
    }

    #[test]
    fn consecutive_passes_have_one_seat() {
        let mut seat = taken();
        let (pass, slot) = Default::default();
        let place = seat.place;
        // all may be taken, by another test
        for _ in 0..if place.is_some() { 2 * SEATS } else { 0 } {
            seat.end();
            seat.begin();
            assert_eq!(seat.place, place);
            assert!(OwnerStamp { pass: &pass, slot: &slot }.claim(&seat, 1));
        }
    }

    #[test]
    fn pass_without_seat_stamps_nothing() {
        let mut seats: Vec<PassSeat> = (0..SEATS + 10).map(|_| taken()).collect();
        let (pass, slot) = Default::default();
        let stamp = OwnerStamp { pass: &pass, slot: &slot };
        let late = seats.iter().position(|seat| seat.pass == 0).expect("more passes than seats");
        let mut late = seats.swap_remove(late);
        assert!(!stamp.claim(&late, 1));
        assert_eq!(stamp.slot(&late), None);
        late.end();
        drop(seats);
        late.begin();
        assert!(stamp.claim(&late, 1), "there is one now");
    }
}
