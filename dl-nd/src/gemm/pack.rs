//! Copies of operands in the order in which a product reads them.

use super::dispatch::KernelTable;
use super::microkernel::RawMatrix;
use super::simd::SimdVector;
use super::transpose::{TRANSPOSE_BLOCK, transpose};
use crate::fusion::prefetch;
use crate::tensor::Element;
use crate::tensor::aligned::{AlignedBuf, CACHE_LINE_BYTES};
use dl_core::parallel;

/// Room for copies, which is given back. What is there at first may be anything.
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

/// Copies so many rows of `from`, of length `depth`, so that the elements of a column lie together,
/// filled up with zeros to `width`.
///
/// # Safety
/// All of `from` can be read, and `width · depth` numbers can be written; `rows` is not more than
/// `width`.
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
                // SAFETY: it is less than `width · depth`
                unsafe { to.add(column * width + row).write(A::zero()) };
            }
        }
    }
    // SAFETY: as the caller says
    unsafe { (kernels.copy_columns)(from, rows, depth, to, width as isize) };
}

/// About what it takes to copy a number whose line is in a cache that is far away.
const PACK_NANOSECONDS: f64 = 0.3;

/// Copies `b` in panels of so many columns, one after the other. Of what it gives, only the first
/// column of each panel has its place by its number; the others lie beside it.
///
/// # Safety
/// All of `b` can be read.
///
/// # Panics
/// If there is less room than for whole panels.
pub(super) unsafe fn pack_panels<A: Element>(
    kernels: &KernelTable<A>,
    b: RawMatrix<*const A>,
    depth: usize,
    columns: usize,
    wide: usize,
    room: &mut [A],
) -> RawMatrix<*const A> {
    let mut panels: Vec<&mut [A]> =
        room[..columns.div_ceil(wide) * wide * depth].chunks_exact_mut(wide * depth).collect();
    parallel::for_each_mut(&mut panels, PACK_NANOSECONDS * (wide * depth) as f64, |panel, room| {
        let column = panel * wide;
        let b = b.at(0, column).transposed();
        // SAFETY: as the caller says, for these columns; the room is that of a panel
        unsafe { pack(kernels, b, wide.min(columns - column), wide, depth, room.as_mut_ptr()) };
    });
    RawMatrix { start: room.as_ptr(), row: wide as isize, column: depth as isize }
}

/// So many columns before a line is copied, it is asked for.
const PREFETCH_COLUMNS: usize = 16;

/// Copies so many rows of `from`, of length `depth`, so that the elements of a column lie together,
/// and those of the next one `width` further on.
///
/// # Safety
/// All of `from` can be read, and all of that can be written.
#[inline(always)]
pub(super) unsafe fn copy_columns<L: SimdVector<Number = A>, A: Element>(
    from: RawMatrix<*const A>,
    rows: usize,
    depth: usize,
    to: *mut A,
    width: isize,
) {
    let place = |row: usize, column: usize| to.wrapping_offset(column as isize * width + row as isize);
    let mut column = 0;
    // no closures: what they call would not be inlined
    if from.row == 1 && rows >= L::N {
        while column < depth {
            if const { L::N * size_of::<A>() < CACHE_LINE_BYTES } && column + PREFETCH_COLUMNS < depth {
                // what lies side by side is a line, or a few, of which the processor fetches the
                // others. With so many instructions for a line, it sees few of them at a time
                prefetch(from.at(0, column + PREFETCH_COLUMNS).start);
            }
            for row in starts(rows, L::N) {
                // SAFETY: so many rows and columns are left
                unsafe { L::load(from.at(row, column).start).store(place(row, column)) };
            }
            column += 1;
        }
    } else if from.row == 1 && rows >= TRANSPOSE_BLOCK {
        while column < depth {
            for row in starts(rows, TRANSPOSE_BLOCK) {
                // SAFETY: so many rows and columns are left
                unsafe {
                    let square = from.at(row, column).start.cast::<[A; TRANSPOSE_BLOCK]>().read_unaligned();
                    place(row, column).cast::<[A; TRANSPOSE_BLOCK]>().write_unaligned(square);
                }
            }
            column += 1;
        }
    } else if from.column == 1 {
        if rows >= L::TRANSPOSE_BLOCK {
            // along a few rows at a time, which the processor fetches in advance
            for row in starts(rows, L::TRANSPOSE_BLOCK) {
                column = 0;
                while column + L::TRANSPOSE_BLOCK <= depth {
                    // SAFETY: so many rows and columns are left
                    unsafe { L::transpose(from.at(row, column).start, from.row, place(row, column), width) };
                    column += L::TRANSPOSE_BLOCK;
                }
            }
        }
        while rows >= TRANSPOSE_BLOCK && column + TRANSPOSE_BLOCK <= depth {
            for row in starts(rows, TRANSPOSE_BLOCK) {
                // SAFETY: so many rows and columns are left
                unsafe { transpose(from.at(row, column).start, from.row, place(row, column), width) };
            }
            column += TRANSPOSE_BLOCK;
        }
    }
    // a few columns at a time, so that what is written to stays in the cache
    const COPY_STRIP: usize = 16;
    while column < depth {
        let end = depth.min(column + COPY_STRIP);
        for row in 0..rows {
            let mut at = from.at(row, column).start;
            for column in column..end {
                // SAFETY: so many rows and columns are left
                unsafe { place(row, column).write(*at) };
                at = at.wrapping_offset(from.column);
            }
        }
        column = end;
    }
}

/// Where pieces of this length begin that cover so many rows, which are at least as many; the last
/// one may overlap with the one before it.
#[inline(always)]
fn starts(rows: usize, len: usize) -> impl Iterator<Item = usize> {
    (0..rows.div_ceil(len)).map(move |piece| (piece * len).min(rows - len))
}
