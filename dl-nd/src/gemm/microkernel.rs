//! The innermost loop of a product: a tile of the result, which stays in registers while the sums
//! run.

use super::simd::SimdVector;
use crate::fusion::prefetch;
use crate::tensor::Element;
use crate::tensor::aligned::CACHE_LINE_BYTES;
use dl_core::Number;

/// A matrix somewhere in memory.
#[derive(Clone, Copy)]
pub(super) struct RawMatrix<A> {
    /// Its first element.
    pub(super) start: A,
    /// From one row to the next.
    pub(super) row: isize,
    /// From one column to the next.
    pub(super) column: isize,
}

// SAFETY: it is an address; whoever reads or writes there says why he may
unsafe impl<A: Sync> Send for RawMatrix<*const A> {}
unsafe impl<A: Sync> Sync for RawMatrix<*const A> {}
unsafe impl<A: Send> Send for RawMatrix<*mut A> {}
unsafe impl<A: Send> Sync for RawMatrix<*mut A> {}

macro_rules! pointers {
    ($($Pointer:ty),*) => {$(
        impl<A> RawMatrix<$Pointer> {
            pub(super) fn at(self, row: usize, column: usize) -> Self {
                let offset = row as isize * self.row + column as isize * self.column;
                RawMatrix { start: self.start.wrapping_offset(offset), ..self }
            }

            pub(super) fn transposed(self) -> Self {
                RawMatrix { row: self.column, column: self.row, ..self }
            }
        }
    )*};
}

pointers!(*const A, *mut A);

impl<A> RawMatrix<*mut A> {
    pub(super) fn as_const(self) -> RawMatrix<*const A> {
        RawMatrix { start: self.start.cast_const(), row: self.row, column: self.column }
    }
}

/// `c = alpha · a · b + beta · addend`, where `a` has `ROWS` rows, and `b` so many columns as `WIDE`
/// registers hold, of the last of them `last`.
#[derive(Clone, Copy)]
pub(super) struct Tile<A> {
    pub(super) depth: usize,
    pub(super) a: RawMatrix<*const A>,
    /// Its columns lie one after the other, as do those of `c` and, unless `beta` is 0, of what is
    /// old.
    pub(super) b: *const A,
    pub(super) b_row: isize,
    pub(super) last: usize,
    pub(super) addend: *const A,
    pub(super) addend_row: isize,
    pub(super) c: *mut A,
    pub(super) c_row: isize,
    pub(super) alpha: A,
    pub(super) beta: A,
}

/// What a tile of a [slice](super::slices) has besides.
pub(super) struct KSlice<A> {
    /// What the sums have come to before, if they do not begin here.
    pub(super) sums: Option<RawMatrix<*const A>>,
    pub(super) ahead: PanelPrefetch<A>,
}

/// Lines of the cache that are going to be read: so many side by side, of which one is asked for in
/// each few steps of the sums, and then so many in another row.
pub(super) struct PanelPrefetch<A> {
    start: *const A,
    row: isize,
}

/// So many steps of the sums, which are written down one after the other: a loop of single ones
/// spends two instructions of twenty-eight on itself.
pub(super) const STEPS: usize = 4;
/// So many lines.
pub(super) const LINES: usize = 4;

impl<A> PanelPrefetch<A> {
    /// The rows of so many columns that begin here, after so many; or the columns, if they are what
    /// lies side by side in memory. For any other layout, some line is asked for time and again.
    pub(super) fn of_panel(b: RawMatrix<*const A>, width: usize, depth: usize, asked: usize) -> Self {
        let side_by_side = LINES * CACHE_LINE_BYTES / size_of::<A>();
        if b.column == 1 && asked < depth {
            PanelPrefetch { start: b.at(asked, 0).start, row: b.row }
        } else if b.row == 1 && asked < width * depth.div_ceil(side_by_side) {
            PanelPrefetch { start: b.at(asked / width * side_by_side, asked % width).start, row: b.column }
        } else {
            PanelPrefetch { start: b.start, row: 0 }
        }
    }
}

impl<A: Element> Tile<A> {
    /// This tile, and those below it, so many together, in one call: to divide them and to call the
    /// kernel for each took some forty cycles, seven steps of the sums. With `WHOLE`, all of the
    /// last register counts.
    ///
    /// # Safety
    /// All that belongs to the tiles can be read, or written, and nobody else has `c`.
    #[inline(always)]
    pub(super) unsafe fn run_all<L: SimdVector<Number = A>, const ROWS: usize, const WIDE: usize, const WHOLE: bool>(
        mut self,
        tiles: usize,
    ) {
        for _ in 0..tiles {
            // SAFETY: as the caller says, for this tile
            unsafe { self.run::<L, ROWS, WIDE, WHOLE>(None) };
            self.a = self.a.at(ROWS, 0);
            self.addend = self.addend.wrapping_offset(ROWS as isize * self.addend_row);
            self.c = self.c.wrapping_offset(ROWS as isize * self.c_row);
        }
    }

    /// With `WHOLE`, all of the last register counts.
    ///
    /// # Safety
    /// All that belongs to the tile, and to the slice if it is one of a slice, can be read, or
    /// written, and nobody else has `c`.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "indices of registers are places in memory, too")]
    pub(super) unsafe fn run<L: SimdVector<Number = A>, const ROWS: usize, const WIDE: usize, const WHOLE: bool>(
        &self,
        slice: Option<&KSlice<A>>,
    ) {
        let Tile { a, last, addend, addend_row, c, c_row, alpha, beta, .. } = *self;
        let mut running = Accumulators::<L, ROWS, WIDE>::of(self);
        if let Some(KSlice { sums: Some(before), .. }) = slice {
            for row in 0..ROWS {
                for i in 0..WIDE {
                    // SAFETY: they are as many
                    running.sums[row][i] = unsafe { L::load(before.at(row, i * L::N).start) };
                }
            }
        }
        // SAFETY: as the caller says; there are `depth` steps
        unsafe {
            match a.column {
                1 => running.all::<WHOLE, true>(self, slice),
                _ => running.all::<WHOLE, false>(self, slice),
            }
        }
        let sums = running.sums;
        let alpha = L::splat(alpha);
        for row in 0..ROWS {
            for i in 0..WIDE {
                let whole = WHOLE || i + 1 < WIDE;
                // SAFETY: `c`, and what is old if it is read, have `ROWS` rows and so many columns
                unsafe {
                    let to = c.offset(row as isize * c_row + (i * L::N) as isize);
                    let mut value = alpha.multiply(sums[row][i]);
                    if beta != A::zero() {
                        let from = addend.offset(row as isize * addend_row + (i * L::N) as isize);
                        let addend = if whole { L::load(from) } else { L::load_some(from, last) };
                        value = L::splat(beta).multiply_add(addend, value);
                    }
                    if whole { value.store(to) } else { value.store_some(to, last) }
                }
            }
        }
    }
}

/// A distance of which the compiler does not know where it comes from. It would save registers, and
/// compute one place from another in each step of the sums: an instruction for each row, beside two
/// multiply-adds where registers are narrow.
#[inline(always)]
fn of_unknown_origin(distance: isize) -> isize {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    // SAFETY: there is no instruction, and the distance is what it was
    let distance = unsafe {
        let mut distance = distance;
        std::arch::asm!("/* {0} */", inout(reg) distance, options(pure, nomem, nostack, preserves_flags));
        distance
    };
    distance
}

/// A tile whose sums are running.
///
/// A core that computes for somebody else, too, as a virtual one mostly does, begins fewer
/// instructions at a time, and then those beside the multiply-adds take the time: a step is as few
/// as it can be. All rows of `a` are reached from where they begin by one distance.
struct Accumulators<L: SimdVector, const ROWS: usize, const WIDE: usize> {
    sums: [[L; WIDE]; ROWS],
    /// Where each row of `a` begins.
    rows: [*const L::Number; ROWS],
    /// From there to the column.
    at: isize,
    /// A row of `b`.
    b: *const L::Number,
}

impl<L: SimdVector<Number: Element>, const ROWS: usize, const WIDE: usize> Accumulators<L, ROWS, WIDE> {
    #[inline(always)]
    fn of(tile: &Tile<L::Number>) -> Self {
        let sums = [[L::splat(L::Number::of(0.0)); WIDE]; ROWS];
        let Tile { a, b, .. } = *tile;
        let rows = std::array::from_fn(|row| a.start.wrapping_offset(of_unknown_origin(row as isize * a.row)));
        Accumulators { sums, rows, at: 0, b }
    }

    /// Adds all terms. With `IN_ROWS`, the numbers of a row of `a` lie side by side.
    ///
    /// # Safety
    /// All that belongs to the tile, and to the slice if it is one of a slice, can be read.
    #[inline(always)]
    unsafe fn all<const WHOLE: bool, const IN_ROWS: bool>(
        &mut self,
        tile: &Tile<L::Number>,
        slice: Option<&KSlice<L::Number>>,
    ) {
        let depth = tile.depth;
        let b_row = of_unknown_origin(tile.b_row.wrapping_mul(size_of::<L::Number>() as isize));
        let b_rows = [0, b_row, b_row.wrapping_mul(2), of_unknown_origin(b_row.wrapping_mul(3))];
        // SAFETY: as the caller says; there are `depth` steps
        unsafe {
            match slice {
                None => {
                    for _ in 0..depth / STEPS {
                        self.steps::<WHOLE, IN_ROWS>(tile, b_rows);
                    }
                    for _ in 0..depth % STEPS {
                        self.step::<WHOLE>(tile);
                    }
                }
                Some(KSlice { ahead, .. }) => {
                    let mut lines = ahead.start;
                    for _ in 0..depth / (STEPS * LINES) {
                        for line in 0..LINES {
                            prefetch(lines.wrapping_byte_add(line * CACHE_LINE_BYTES));
                            self.steps::<WHOLE, IN_ROWS>(tile, b_rows);
                        }
                        lines = lines.wrapping_offset(ahead.row);
                    }
                    for _ in 0..depth % (STEPS * LINES) {
                        self.step::<WHOLE>(tile);
                    }
                }
            }
        }
    }

    /// Adds the next few terms to each sum. How far on their rows of `b` begin is known, as are
    /// their places in a row of `a` with `IN_ROWS`: so nothing is added but at the end.
    ///
    /// # Safety
    /// There are so many, and they can be read.
    #[inline(always)]
    unsafe fn steps<const WHOLE: bool, const IN_ROWS: bool>(&mut self, tile: &Tile<L::Number>, b_rows: [isize; STEPS]) {
        for (step, b_row) in b_rows.into_iter().enumerate() {
            let further = if IN_ROWS { step } else { 0 };
            // SAFETY: as the caller says
            unsafe { self.add::<WHOLE>(tile, self.b.wrapping_byte_offset(b_row), further) };
            if !IN_ROWS {
                self.at = of_unknown_origin(self.at.wrapping_add(tile.a.column));
            }
        }
        if IN_ROWS {
            self.at = of_unknown_origin(self.at.wrapping_add(STEPS as isize));
        }
        self.b = self.b.wrapping_byte_offset(b_rows[1].wrapping_mul(STEPS as isize));
    }

    /// Adds the next term to each sum.
    ///
    /// # Safety
    /// There is one, and it can be read.
    #[inline(always)]
    unsafe fn step<const WHOLE: bool>(&mut self, tile: &Tile<L::Number>) {
        // SAFETY: as the caller says
        unsafe { self.add::<WHOLE>(tile, self.b, 0) };
        self.at = of_unknown_origin(self.at.wrapping_add(tile.a.column));
        self.b = self.b.wrapping_offset(tile.b_row);
    }

    /// Adds a term to each sum: that of a row of `b`, and of a column of `a`, so many numbers
    /// further on.
    ///
    /// # Safety
    /// They can be read.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "indices of registers are places in memory, too")]
    unsafe fn add<const WHOLE: bool>(&mut self, tile: &Tile<L::Number>, b: *const L::Number, further: usize) {
        let columns: [L; WIDE] = std::array::from_fn(|i| unsafe {
            // SAFETY: `b` has another row
            let from = b.add(i * L::N);
            if WHOLE || i + 1 < WIDE { L::load(from) } else { L::load_some(from, tile.last) }
        });
        for row in 0..ROWS {
            // SAFETY: `a` has another column of `ROWS` rows
            let factor = L::splat(unsafe { *self.rows[row].offset(self.at).add(further) });
            // not zipped, which takes a fifteenth longer: some sums do not stay in registers then
            for i in 0..WIDE {
                self.sums[row][i] = factor.multiply_add(columns[i], self.sums[row][i]);
            }
        }
    }
}
