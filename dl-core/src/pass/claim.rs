//! Which pass has a node in its books.
//!
//! A node carries one claim: the number of a pass and the number of the node's entry there. A pass that finds a node claimed by
//! another one that is still alive keeps that node in a side map of its own. Whether a pass is alive is asked of a small static
//! table: the number of a pass names its seat there, and the seat holds the number while the pass lives. So a claim lapses by
//! itself when its pass ends, and nothing has to be unmarked.

use crate::sync::{AtomicU32, AtomicU64, Ordering, array_of, globals, thread_local};
use std::cell::Cell;

const SEATS: u64 = if cfg!(any(shuttle, loom)) { 3 } else { 256 };
globals! {
    static ALIVE: [AtomicU64; SEATS as usize] = array_of![AtomicU64::new(0); SEATS as usize];
    /// Every thread takes its numbers in blocks, so that small passes of several threads do not meet here.
    static BLOCK: AtomicU64 = AtomicU64::new(1);
}
const BLOCK_SIZE: u64 = 1 << 12;

fn next_generation() -> u64 {
    thread_local! {
        static NEXT: Cell<u64> = const { Cell::new(0) };
    }
    let mut next = NEXT.get();
    if next.is_multiple_of(BLOCK_SIZE) {
        next = BLOCK.fetch_add(1, Ordering::Relaxed) * BLOCK_SIZE;
    }
    NEXT.set(next + 1);
    next
}

/// The number of a live pass, which it holds until it is dropped. A pass that found no seat has none, and claims nothing.
#[derive(Debug)]
pub(crate) struct Seat(u64);

impl Seat {
    pub(crate) fn none() -> Seat {
        Seat(0)
    }

    pub(crate) fn take() -> Seat {
        let generation = next_generation();
        // threads begin far from one another
        let first = generation / BLOCK_SIZE * 8;
        for offset in 0..SEATS {
            let seat = first.wrapping_add(offset) % SEATS;
            let id = generation * SEATS + seat;
            let place = &ALIVE[seat as usize];
            if place.load(Ordering::Relaxed) == 0
                && place.compare_exchange(0, id, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                return Seat(id);
            }
        }
        Seat(0)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.0 != 0 {
            ALIVE[(self.0 % SEATS) as usize].store(0, Ordering::Release);
        }
    }
}

/// The claim on a node, which keeps the two words where they fit best.
#[derive(Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) pass: &'a AtomicU64,
    /// Written and read only by the pass that holds the claim, under its lock.
    pub(crate) entry: &'a AtomicU32,
}

impl Claim<'_> {
    /// The entry of this node in the pass of this seat, if it holds the claim.
    #[inline]
    pub(crate) fn entry(self, seat: &Seat) -> Option<u32> {
        (seat.0 != 0 && self.pass.load(Ordering::Acquire) == seat.0).then(|| self.entry.load(Ordering::Relaxed))
    }

    /// Claims the node for the pass of this seat, unless a live pass holds it. Says whether it did.
    pub(crate) fn claim(self, seat: &Seat, entry: u32) -> bool {
        if seat.0 == 0 {
            return false;
        }
        let holder = self.pass.load(Ordering::Acquire);
        if holder != 0 && holder != seat.0 && ALIVE[(holder % SEATS) as usize].load(Ordering::Acquire) == holder {
            return false;
        }
        let won =
            holder == seat.0 || self.pass.compare_exchange(holder, seat.0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if won {
            self.entry.store(entry, Ordering::Relaxed);
        }
        won
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_lapses_with_its_pass() {
        let (pass, entry) = Default::default();
        let claim = Claim { pass: &pass, entry: &entry };
        let (first, second) = (Seat::take(), Seat::take());
        assert!(claim.claim(&first, 7));
        assert_eq!((claim.entry(&first), claim.entry(&second)), (Some(7), None));
        assert!(!claim.claim(&second, 8), "the first pass is alive");
        drop(first);
        assert!(claim.claim(&second, 8));
        assert_eq!(claim.entry(&second), Some(8));
    }

    #[test]
    fn a_pass_without_a_seat_claims_nothing() {
        let seats: Vec<Seat> = (0..SEATS + 10).map(|_| Seat::take()).collect();
        let (pass, entry) = Default::default();
        let claim = Claim { pass: &pass, entry: &entry };
        let late = seats.iter().find(|seat| seat.0 == 0).expect("more passes than seats");
        assert!(!claim.claim(late, 1));
        assert_eq!(claim.entry(late), None);
    }
}
