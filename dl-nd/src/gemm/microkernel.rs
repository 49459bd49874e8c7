//! The microkernel: multiplies a tile, with its accumulators in registers.

use super::simd::SimdVector;
use crate::fusion::{prefetch, prefetch_into_l2};
use crate::tensor::Element;
use crate::tensor::aligned::CACHE_LINE_BYTES;
use dl_core::Number;

/// A strided matrix in memory.
#[derive(Clone, Copy)]
pub(super) struct RawMatrix<A> {
    /// The address of the first element.
    pub(super) start: A,
    /// The row stride.
    pub(super) row: isize,
    /// The column stride.
    pub(super) column: isize,
}

// SAFETY: it is an address; each access states separately why it is allowed
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

/// `c = alpha · a · b + beta · addend`, where `a` has `ROWS` rows, and `b` fills `WIDE` registers
/// with its columns, the last one with `last` of them.
#[derive(Clone, Copy)]
pub(super) struct Tile<A> {
    pub(super) depth: usize,
    pub(super) a: RawMatrix<*const A>,
    /// Its columns must be contiguous, as must those of `c` and, unless `beta` is 0, those of the
    /// addend.
    pub(super) b: *const A,
    pub(super) b_row: isize,
    pub(super) last: usize,
    pub(super) addend: *const A,
    pub(super) addend_row: isize,
    pub(super) c: *mut A,
    pub(super) c_row: isize,
    pub(super) alpha: A,
    pub(super) beta: A,
    pub(super) next: NextPanel,
}

/// The panel that follows one with rows that are read in place. The tiles of the first prefetch it
/// into L2: four of them, evenly distributed, a quarter each, or fewer if there are fewer. A weight that was last used a whole network ago is in
/// a distant cache, and rows that are far apart are not predicted by the hardware prefetcher.
#[derive(Clone, Copy)]
pub(super) struct NextPanel {
    /// The number of elements between the first ones of both panels; 0 if there is none.
    pub(super) distance: isize,
    /// The number of tiles of the panel above this one.
    pub(super) above: usize,
    /// The binary logarithm of the number of tiles from one that prefetches to the next.
    pub(super) spacing: u32,
}

impl NextPanel {
    pub(super) const NONE: Self = NextPanel { distance: 0, above: 0, spacing: 0 };

    /// The panel that begins so many elements after one of so many tiles.
    pub(super) fn new(distance: isize, tiles: usize) -> Self {
        NextPanel { distance, above: 0, spacing: (tiles / QUARTERS).max(1).ilog2() }
    }
}

/// The number of tiles that prefetch.
const QUARTERS: usize = 4;

/// The further arguments of a tile of a [k-slice](super::k_slices).
pub(super) struct KSlice<A> {
    /// The sums of the previous slices, if there are any.
    pub(super) sums: Option<RawMatrix<*const A>>,
    pub(super) ahead: PanelPrefetch<A>,
}

/// Cache lines of the next slice, prefetched by this tile: groups of `LINES` adjacent lines, one
/// line every few steps.
pub(super) struct PanelPrefetch<A> {
    start: *const A,
    row: isize,
}

/// The unrolling of the inner loop. The loop overhead of a single step is two of twenty-eight
/// instructions.
pub(super) const STEPS: usize = 4;
/// The number of adjacent lines.
pub(super) const LINES: usize = 4;

impl<A> PanelPrefetch<A> {
    /// Prefetches the part of a panel after the first `asked` rows, or columns if these are
    /// contiguous. For any other layout it prefetches one line repeatedly, which is harmless.
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
    /// The first row of the next panel that this tile prefetches, and the distance to the following
    /// one. A tile that prefetches nothing asks for its own first row, which is in L1.
    #[inline(always)]
    fn prefetched(&self) -> (*const A, isize) {
        let NextPanel { distance, above, spacing } = self.next;
        let (quarter, apart) = (above >> spacing, 1 << spacing);
        if distance == 0 || above & (apart - 1) != 0 || quarter >= QUARTERS {
            return (self.b, 0);
        }
        let row = (quarter * (self.depth / STEPS)) as isize;
        (self.b.wrapping_offset(distance + row * self.b_row), self.b_row)
    }

    /// Runs this tile and those below it, `tiles` in total. One call for several tiles saves about
    /// forty cycles each, the time of seven steps. With `WHOLE`, the last register is full.
    ///
    /// # Safety
    /// The operands of the tiles must be readable, and `c` writable and not aliased.
    #[inline(always)]
    pub(super) unsafe fn run_all<L: SimdVector<Number = A>, const ROWS: usize, const WIDE: usize, const WHOLE: bool>(
        mut self,
        tiles: usize,
    ) {
        for _ in 0..tiles {
            // SAFETY: guaranteed by the caller for this tile
            unsafe { self.run::<L, ROWS, WIDE, WHOLE>(None) };
            self.next.above += 1;
            self.a = self.a.at(ROWS, 0);
            self.addend = self.addend.wrapping_offset(ROWS as isize * self.addend_row);
            self.c = self.c.wrapping_offset(ROWS as isize * self.c_row);
        }
    }

    /// Runs the tile. With `WHOLE`, the last register is full.
    ///
    /// # Safety
    /// The operands of the tile, and of the slice if there is one, must be readable, and `c`
    /// writable and not aliased.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "indices of registers are offsets in memory, too")]
    pub(super) unsafe fn run<L: SimdVector<Number = A>, const ROWS: usize, const WIDE: usize, const WHOLE: bool>(
        &self,
        slice: Option<&KSlice<A>>,
    ) {
        let Tile { a, last, addend, addend_row, c, c_row, alpha, beta, .. } = *self;
        let mut running = Accumulators::<L, ROWS, WIDE>::of(self);
        if let Some(KSlice { sums: Some(before), .. }) = slice {
            for row in 0..ROWS {
                for i in 0..WIDE {
                    // SAFETY: there is a partial sum for each accumulator
                    running.sums[row][i] = unsafe { L::load(before.at(row, i * L::N).start) };
                }
            }
        }
        // SAFETY: guaranteed by the caller; there are `depth` steps
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
                // SAFETY: `c`, and the addend if it is read, have `ROWS` rows and this many columns
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

/// Hides the origin of an offset from the compiler. LLVM would otherwise save registers by deriving
/// one address from another in each step: one more instruction per row, besides two multiply-adds
/// where registers are narrow.
#[inline(always)]
fn of_unknown_origin(distance: isize) -> isize {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    // SAFETY: the assembly is empty, and the value is unchanged
    let distance = unsafe {
        let mut distance = distance;
        std::arch::asm!("/* {0} */", inout(reg) distance, options(pure, nomem, nostack, preserves_flags));
        distance
    };
    distance
}

/// The accumulators of a tile, and its position in the operands.
///
/// A core that is shared with another hyperthread issues fewer instructions per cycle, and then the
/// instructions besides the multiply-adds dominate. A step therefore has as few of them as
/// possible: all rows of `a` are addressed with one common offset.
struct Accumulators<L: SimdVector, const ROWS: usize, const WIDE: usize> {
    sums: [[L; WIDE]; ROWS],
    /// The start of each row of `a`.
    rows: [*const L::Number; ROWS],
    /// The offset of the current column.
    at: isize,
    /// The current row of `b`.
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

    /// Adds all terms. With `IN_ROWS`, the rows of `a` are contiguous.
    ///
    /// # Safety
    /// The operands of the tile, and of the slice if there is one, must be readable.
    #[inline(always)]
    unsafe fn all<const WHOLE: bool, const IN_ROWS: bool>(
        &mut self,
        tile: &Tile<L::Number>,
        slice: Option<&KSlice<L::Number>>,
    ) {
        let depth = tile.depth;
        let b_row = of_unknown_origin(tile.b_row.wrapping_mul(size_of::<L::Number>() as isize));
        let b_rows = [0, b_row, b_row.wrapping_mul(2), of_unknown_origin(b_row.wrapping_mul(3))];
        // SAFETY: guaranteed by the caller; there are `depth` steps
        unsafe {
            match slice {
                None => {
                    let (mut lines, row) = tile.prefetched();
                    for _ in 0..depth / STEPS {
                        for line in 0..LINES {
                            prefetch_into_l2(lines.wrapping_byte_add(line * CACHE_LINE_BYTES));
                        }
                        lines = lines.wrapping_offset(row);
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

    /// Adds the next [`STEPS`] terms. Their offsets are known in advance, so the addresses are
    /// updated once, at the end.
    ///
    /// # Safety
    /// There must be that many terms, and they must be readable.
    #[inline(always)]
    unsafe fn steps<const WHOLE: bool, const IN_ROWS: bool>(&mut self, tile: &Tile<L::Number>, b_rows: [isize; STEPS]) {
        for (step, b_row) in b_rows.into_iter().enumerate() {
            let further = if IN_ROWS { step } else { 0 };
            // SAFETY: guaranteed by the caller
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

    /// Adds the next term.
    ///
    /// # Safety
    /// There must be a term, and it must be readable.
    #[inline(always)]
    unsafe fn step<const WHOLE: bool>(&mut self, tile: &Tile<L::Number>) {
        // SAFETY: guaranteed by the caller
        unsafe { self.add::<WHOLE>(tile, self.b, 0) };
        self.at = of_unknown_origin(self.at.wrapping_add(tile.a.column));
        self.b = self.b.wrapping_offset(tile.b_row);
    }

    /// Adds the term of the row `b` and of the column of `a` that is `further` elements after the
    /// current one.
    ///
    /// # Safety
    /// Both must be readable.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "indices of registers are offsets in memory, too")]
    unsafe fn add<const WHOLE: bool>(&mut self, tile: &Tile<L::Number>, b: *const L::Number, further: usize) {
        let columns: [L; WIDE] = std::array::from_fn(|i| unsafe {
            // SAFETY: `b` has another row
            let from = b.add(i * L::N);
            if WHOLE || i + 1 < WIDE { L::load(from) } else { L::load_some(from, tile.last) }
        });
        for row in 0..ROWS {
            // SAFETY: `a` has another column of `ROWS` rows
            let factor = L::splat(unsafe { *self.rows[row].offset(self.at).add(further) });
            // zipped iterators take 7 % longer: some accumulators are spilled
            for i in 0..WIDE {
                self.sums[row][i] = factor.multiply_add(columns[i], self.sums[row][i]);
            }
        }
    }
}
