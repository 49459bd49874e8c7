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
}

/// `c = alpha · a · b + beta · c`, where `a` has `ROWS` rows, and `b` so many columns as `WIDE` registers hold, of the last of them `last`.
#[derive(Clone, Copy)]
pub(super) struct Tile<A> {
    pub(super) depth: usize,
    pub(super) a: Raw<*const A>,
    /// Its columns lie one after the other.
    pub(super) b: *const A,
    pub(super) b_row: isize,
    pub(super) last: usize,
    pub(super) c: Raw<*mut A>,
    pub(super) alpha: A,
    pub(super) beta: A,
}

impl<A: Multiply> Tile<A> {
    /// With `PACKED`, `a` lies as `[depth, ROWS]`, and all lanes of `b` can be read.
    ///
    /// # Safety
    /// All that belongs to the tile can be read, or written, and nobody else has `c`.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "indices of registers are places in memory, too")]
    pub(super) unsafe fn run<L: Lanes<Number = A>, const ROWS: usize, const WIDE: usize, const PACKED: bool>(&self) {
        let Tile { depth, a, mut b, b_row, last, c, alpha, beta } = *self;
        let mut sums = [[L::splat(A::zero()); WIDE]; ROWS];
        let mut at = a.start;
        let (mut at3, mut at6) = (at.wrapping_offset(3 * a.row), at.wrapping_offset(6 * a.row));
        for _ in 0..depth {
            // SAFETY: `b` has `depth` such rows
            let columns: [L; WIDE] = std::array::from_fn(|i| unsafe {
                let from = b.add(i * L::N);
                if PACKED || i + 1 < WIDE { L::load(from) } else { L::load_some(from, last) }
            });
            for row in 0..ROWS {
                // three rows from either place, so that the processor can reach them by one addition
                let (start, row_from) = if PACKED || row < 3 {
                    (at, row)
                } else if row < 6 {
                    (at3, row - 3)
                } else {
                    (at6, row - 6)
                };
                let place = if PACKED { row as isize } else { row_from as isize * a.row };
                // SAFETY: `a` has `ROWS` rows and `depth` columns
                let factor = L::splat(unsafe { *start.offset(place) });
                for i in 0..WIDE {
                    sums[row][i] = factor.multiply_add(columns[i], sums[row][i]);
                }
            }
            let step = if PACKED { ROWS as isize } else { a.column };
            (at, at3, at6) = (at.wrapping_offset(step), at3.wrapping_offset(step), at6.wrapping_offset(step));
            b = b.wrapping_offset(b_row);
        }
        let alpha = L::splat(alpha);
        if c.column == 1 {
            for row in 0..ROWS {
                for i in 0..WIDE {
                    let count = if i + 1 < WIDE { L::N } else { last };
                    // SAFETY: `c` has `ROWS` rows and so many columns
                    unsafe {
                        let to = c.start.offset(row as isize * c.row + (i * L::N) as isize);
                        let mut value = alpha.multiply(sums[row][i]);
                        if beta != A::zero() {
                            let old = if count == L::N { L::load(to) } else { L::load_some(to, count) };
                            value = L::splat(beta).multiply_add(old, value);
                        }
                        if count == L::N { value.store(to) } else { value.store_some(to, count) }
                    }
                }
            }
            return;
        }
        let mut lanes = [[A::zero(); 16]; ROWS];
        for i in 0..WIDE {
            let count = if i + 1 < WIDE { L::N } else { last };
            for row in 0..ROWS {
                // SAFETY: there are at least as many as lanes
                unsafe { alpha.multiply(sums[row][i]).store(lanes[row].as_mut_ptr()) };
            }
            for lane in 0..count {
                let to = c.at(0, i * L::N + lane);
                for row in 0..ROWS {
                    // SAFETY: `c` has `ROWS` rows and so many columns
                    unsafe {
                        let to = to.start.offset(row as isize * c.row);
                        let mut value = lanes[row][lane];
                        if beta != A::zero() {
                            value = beta * *to + value;
                        }
                        *to = value;
                    }
                }
            }
        }
    }
}
