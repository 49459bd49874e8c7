//! The innermost loop of a product: a tile of the result, which stays in registers while the sums run.

use super::Multiply;
use super::lanes::Lanes;

/// A matrix somewhere in memory.
#[derive(Clone, Copy)]
pub(super) struct Raw<A> {
    /// Its first element.
    pub(super) start: A,
    /// From one row to the next.
    pub(super) row: isize,
    /// From one column to the next.
    pub(super) column: isize,
}

// SAFETY: it is an address; whoever reads or writes there says why he may
unsafe impl<A: Sync> Send for Raw<*const A> {}
unsafe impl<A: Sync> Sync for Raw<*const A> {}
unsafe impl<A: Send> Send for Raw<*mut A> {}
unsafe impl<A: Send> Sync for Raw<*mut A> {}

impl<A> Raw<*const A> {
    pub(super) fn at(self, row: usize, column: usize) -> Self {
        Raw { start: self.start.wrapping_offset(row as isize * self.row + column as isize * self.column), ..self }
    }

    pub(super) fn transposed(self) -> Self {
        Raw { row: self.column, column: self.row, ..self }
    }
}

impl<A> Raw<*mut A> {
    pub(super) fn at(self, row: usize, column: usize) -> Self {
        Raw { start: self.start.wrapping_offset(row as isize * self.row + column as isize * self.column), ..self }
    }

    pub(super) fn transposed(self) -> Self {
        Raw { row: self.column, column: self.row, ..self }
    }

    pub(super) fn to_read(self) -> Raw<*const A> {
        Raw { start: self.start.cast_const(), row: self.row, column: self.column }
    }
}

/// `c = alpha · a · b + beta · old`, where `a` has `ROWS` rows, and `b` so many columns as `WIDE` registers hold, of the last of them `last`.
#[derive(Clone, Copy)]
pub(super) struct Tile<A> {
    pub(super) depth: usize,
    pub(super) a: Raw<*const A>,
    /// Its columns lie one after the other, as do those of `c` and, unless `beta` is 0, of what is old.
    pub(super) b: *const A,
    pub(super) b_row: isize,
    pub(super) last: usize,
    pub(super) old: *const A,
    pub(super) old_row: isize,
    pub(super) c: *mut A,
    pub(super) c_row: isize,
    pub(super) alpha: A,
    pub(super) beta: A,
}

impl<A: Multiply> Tile<A> {
    /// With `WHOLE`, all of the last register counts.
    ///
    /// # Safety
    /// All that belongs to the tile can be read, or written, and nobody else has `c`.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "indices of registers are places in memory, too")]
    pub(super) unsafe fn run<L: Lanes<Number = A>, const ROWS: usize, const WIDE: usize, const WHOLE: bool>(&self) {
        let Tile { depth, a, mut b, b_row, last, old, old_row, c, c_row, alpha, beta } = *self;
        let mut sums = [[L::splat(A::zero()); WIDE]; ROWS];
        let mut at = a.start;
        let (mut at3, mut at6) = (at.wrapping_offset(3 * a.row), at.wrapping_offset(6 * a.row));
        for _ in 0..depth {
            // SAFETY: `b` has `depth` such rows
            let columns: [L; WIDE] = std::array::from_fn(|i| unsafe {
                let from = b.add(i * L::N);
                if WHOLE || i + 1 < WIDE { L::load(from) } else { L::load_some(from, last) }
            });
            for row in 0..ROWS {
                // three rows from either place, so that the processor can reach them by one addition
                let start = [at, at3, at6][row / 3];
                // SAFETY: `a` has `ROWS` rows and `depth` columns
                let factor = L::splat(unsafe { *start.offset((row % 3) as isize * a.row) });
                for i in 0..WIDE {
                    sums[row][i] = factor.multiply_add(columns[i], sums[row][i]);
                }
            }
            (at, at3, at6) =
                (at.wrapping_offset(a.column), at3.wrapping_offset(a.column), at6.wrapping_offset(a.column));
            b = b.wrapping_offset(b_row);
        }
        let alpha = L::splat(alpha);
        for row in 0..ROWS {
            for i in 0..WIDE {
                let whole = WHOLE || i + 1 < WIDE;
                // SAFETY: `c`, and what is old if it is read, have `ROWS` rows and so many columns
                unsafe {
                    let to = c.offset(row as isize * c_row + (i * L::N) as isize);
                    let mut value = alpha.multiply(sums[row][i]);
                    if beta != A::zero() {
                        let from = old.offset(row as isize * old_row + (i * L::N) as isize);
                        let old = if whole { L::load(from) } else { L::load_some(from, last) };
                        value = L::splat(beta).multiply_add(old, value);
                    }
                    if whole { value.store(to) } else { value.store_some(to, last) }
                }
            }
        }
    }
}
