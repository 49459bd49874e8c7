//! Packing: copies of operands in the order in which the microkernel reads them.

use super::dispatch::KernelTable;
use super::microkernel::RawMatrix;
use super::simd::SimdVector;
use super::transpose::{TRANSPOSE_BLOCK, transpose};
use crate::fusion::prefetch;
use crate::tensor::Element;
use crate::tensor::aligned::{AlignedBuf, CACHE_LINE_BYTES};
use dl_core::parallel;

/// Scratch memory for packed operands. Its initial contents are arbitrary.
pub(crate) struct Scratch<A: Element>(AlignedBuf<A>);

impl<A: Element> Scratch<A> {
    pub(crate) fn take(len: usize) -> Self {
        Scratch(AlignedBuf::new(len))
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [A] {
        self.0.elements()
    }
}

impl<A: Element> Drop for Scratch<A> {
    fn drop(&mut self) {
        std::mem::take(&mut self.0).give_back();
    }
}

/// Packs `rows` rows of `from`, of length `depth`: the elements of a column become contiguous,
/// padded with zeros to `width`.
///
/// # Safety
/// `from` must be readable, and `width · depth` numbers writable; `rows` must not exceed `width`.
pub(super) unsafe fn pack<A: Element>(
    kernels: &KernelTable<A>,
    from: RawMatrix<*const A>,
    rows: usize,
    width: usize,
    depth: usize,
    to: *mut A,
) {
    if rows < width {
        for column in 0..depth {
            for row in rows..width {
                // SAFETY: the index is less than `width · depth`
                unsafe { to.add(column * width + row).write(A::zero()) };
            }
        }
    }
    // SAFETY: guaranteed by the caller
    unsafe { (kernels.copy_columns)(from, rows, depth, to, width as isize) };
}

/// The estimated time to copy a number from a distant cache.
const PACK_NANOSECONDS: f64 = 0.3;

/// Packs `b` into consecutive panels of `wide` columns. Only the first column of each panel can be
/// addressed by its index in the returned matrix; the others follow it.
///
/// # Safety
/// `b` must be readable.
///
/// # Panics
/// If `room` is too small for whole panels.
pub(super) unsafe fn pack_panels<A: Element>(
    kernels: &KernelTable<A>,
    b: RawMatrix<*const A>,
    depth: usize,
    columns: usize,
    wide: usize,
    scratch: &mut [A],
) -> RawMatrix<*const A> {
    let mut panels: Vec<&mut [A]> =
        scratch[..columns.div_ceil(wide) * wide * depth].chunks_exact_mut(wide * depth).collect();
    parallel::for_each_mut(&mut panels, PACK_NANOSECONDS * (wide * depth) as f64, |panel, scratch| {
        let column = panel * wide;
        let b = b.at(0, column).transposed();
        // SAFETY: guaranteed by the caller for these columns; `room` is that of a panel
        unsafe { pack(kernels, b, wide.min(columns - column), wide, depth, scratch.as_mut_ptr()) };
    });
    RawMatrix { start: scratch.as_ptr(), row: wide as isize, column: depth as isize }
}

/// The distance, in columns, between a prefetch and the copy.
const PREFETCH_COLUMNS: usize = 16;

/// Copies `rows` rows of `from`, of length `depth`: the elements of a column become contiguous,
/// with a stride of `width` between columns.
///
/// # Safety
/// `from` must be readable, and the destination writable.
#[inline(always)]
pub(super) unsafe fn copy_columns<L: SimdVector<Number = A>, A: Element>(
    from: RawMatrix<*const A>,
    rows: usize,
    depth: usize,
    to: *mut A,
    width: isize,
) {
    let target = |row: usize, column: usize| to.wrapping_offset(column as isize * width + row as isize);
    let mut column = 0;
    // no closures: their callees would not be inlined
    if from.row == 1 && rows >= L::N {
        while column < depth {
            if const { L::N * size_of::<A>() < CACHE_LINE_BYTES } && column + PREFETCH_COLUMNS < depth {
                // a column is one line or a few adjacent ones, which the hardware prefetcher
                // completes. With this many instructions per line, the core has few loads in flight
                prefetch(from.at(0, column + PREFETCH_COLUMNS).start);
            }
            for row in starts(rows, L::N) {
                // SAFETY: this many rows and columns are left
                unsafe { L::load(from.at(row, column).start).store(target(row, column)) };
            }
            column += 1;
        }
    } else if from.row == 1 && rows >= TRANSPOSE_BLOCK {
        while column < depth {
            for row in starts(rows, TRANSPOSE_BLOCK) {
                // SAFETY: this many rows and columns are left
                unsafe {
                    let square = from.at(row, column).start.cast::<[A; TRANSPOSE_BLOCK]>().read_unaligned();
                    target(row, column).cast::<[A; TRANSPOSE_BLOCK]>().write_unaligned(square);
                }
            }
            column += 1;
        }
    } else if from.column == 1 {
        if rows >= L::TRANSPOSE_BLOCK {
            // along a few rows at a time, which the hardware prefetcher follows
            for row in starts(rows, L::TRANSPOSE_BLOCK) {
                column = 0;
                while column + L::TRANSPOSE_BLOCK <= depth {
                    // SAFETY: this many rows and columns are left
                    unsafe { L::transpose(from.at(row, column).start, from.row, target(row, column), width) };
                    column += L::TRANSPOSE_BLOCK;
                }
            }
        }
        while rows >= TRANSPOSE_BLOCK && column + TRANSPOSE_BLOCK <= depth {
            for row in starts(rows, TRANSPOSE_BLOCK) {
                // SAFETY: this many rows and columns are left
                unsafe { transpose(from.at(row, column).start, from.row, target(row, column), width) };
            }
            column += TRANSPOSE_BLOCK;
        }
    }
    // a few columns at a time, so that the destination stays in the cache
    const COPY_STRIP: usize = 16;
    while column < depth {
        let end = depth.min(column + COPY_STRIP);
        for row in 0..rows {
            let mut at = from.at(row, column).start;
            for column in column..end {
                // SAFETY: this many rows and columns are left
                unsafe { target(row, column).write(*at) };
                at = at.wrapping_offset(from.column);
            }
        }
        column = end;
    }
}

/// The starts of chunks of `len` that cover `rows`, which must be at least `len`; the last chunk
/// may overlap the previous one.
#[inline(always)]
fn starts(rows: usize, len: usize) -> impl Iterator<Item = usize> {
    (0..rows.div_ceil(len)).map(move |piece| (piece * len).min(rows - len))
}
