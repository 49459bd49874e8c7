//! Maps a node to its slot in a pass without a hash lookup.
//!
//! Each node carries a stamp, here *claim*: the number of a pass, and a slot there. The number of a
//! pass encodes an index into the static table `ALIVE`, its *seat*; a stamp is valid while the seat
//! holds the number of the pass. So stamps expire when their pass ends, and never need to be
//! cleared. A node that another live pass has stamped is kept in the fallback map of the pass
//! (`node_index.rs`). The seat is kept for the next pass with the same tables: to look for one
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
/// or if there was no seat for it. Such a pass claims nothing.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pass: u64,
    place: Option<u32>,
}

impl Seat {
    /// A pass begins. The one before is over.
    pub(crate) fn begin(&mut self) {
        debug_assert_eq!(self.pass, 0, "one pass at a time");
        let generation = next_generation();
        if self.place.is_none() {
            self.place = Self::find(generation);
        }
        if let Some(place) = self.place {
            self.pass = generation * SEATS + u64::from(place);
            // Release: synchronizes with the load in `Claim::claim`: the pass before is over
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

    /// Which seat it is, if one was found.
    pub(crate) fn place(&self) -> Option<u32> {
        self.place
    }

    /// The pass is over.
    pub(crate) fn end(&mut self) {
        self.leave(KEPT);
    }

    fn leave(&mut self, left: u64) {
        self.pass = 0;
        if let Some(place) = self.place {
            // Release: synchronizes with the load in `Claim::claim`. The pass that takes a claim
            // over must see that this one has written its last entry
            ALIVE[place as usize].store(left, Ordering::Release);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave(0);
    }
}

/// The claim on a node, which keeps the two words where they fit best.
#[derive(Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) pass: &'a AtomicU64,
    /// Written and read only by the pass that holds the stamp: under its state lock, or before any
    /// other thread has the pass.
    pub(crate) entry: &'a AtomicU32,
}

impl Claim<'_> {
    /// The entry of this node in the pass of this seat, if it holds the claim.
    #[inline]
    pub(crate) fn entry(self, seat: &Seat) -> Option<u32> {
        // Acquire: synchronizes with the exchange in `claim`. The entry itself is ordered by the
        // state lock
        (seat.pass != 0 && self.pass.load(Ordering::Acquire) == seat.pass).then(|| self.entry.load(Ordering::Relaxed))
    }

    /// Claims the node for the pass of this seat, unless a live pass holds it. Says whether it did.
    pub(crate) fn claim(self, seat: &Seat, entry: u32) -> bool {
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
            self.entry.store(entry, Ordering::Relaxed);
        }
        won
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken() -> Seat {
        let mut seat = Seat::default();
        seat.begin();
        seat
    }

    #[test]
    fn a_claim_lapses_with_its_pass() {
        let (pass, entry) = Default::default();
        let claim = Claim { pass: &pass, entry: &entry };
        let (mut first, second) = (taken(), taken());
        assert!(claim.claim(&first, 7));
        assert_eq!((claim.entry(&first), claim.entry(&second)), (Some(7), None));
        assert!(!claim.claim(&second, 8), "the first pass is alive");
        first.end();
        assert!(claim.claim(&second, 8));
        assert_eq!(claim.entry(&second), Some(8));
        drop(second);
        first.begin();
        assert_eq!(claim.entry(&first), None, "that was another pass in the same seat");
        assert!(claim.claim(&first, 9));
        assert_eq!(claim.entry(&first), Some(9));
    }

    #[test]
    fn passes_one_after_the_other_have_one_seat() {
        let mut seat = taken();
        let (pass, entry) = Default::default();
        let place = seat.place;
        // all may be taken, by another test
        for _ in 0..if place.is_some() { 2 * SEATS } else { 0 } {
            seat.end();
            seat.begin();
            assert_eq!(seat.place, place);
            assert!(Claim { pass: &pass, entry: &entry }.claim(&seat, 1));
        }
    }

    #[test]
    fn a_pass_without_a_seat_claims_nothing() {
        let mut seats: Vec<Seat> = (0..SEATS + 10).map(|_| taken()).collect();
        let (pass, entry) = Default::default();
        let claim = Claim { pass: &pass, entry: &entry };
        let late = seats.iter().position(|seat| seat.pass == 0).expect("more passes than seats");
        let mut late = seats.swap_remove(late);
        assert!(!claim.claim(&late, 1));
        assert_eq!(claim.entry(&late), None);
        late.end();
        drop(seats);
        late.begin();
        assert!(claim.claim(&late, 1), "there is one now");
    }
}
