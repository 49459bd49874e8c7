//! Copies of operands in the order in which a product reads them.

use super::Multiply;
use super::kernels::Kernels;
use super::lanes::Lanes;
use super::tile::Raw;
use dl_core::buffers;

/// Room for copies, which begins with a line of the cache: a register that reaches into two of them takes longer to load. What is there at first may be
/// anything.
pub(crate) struct Room<A: Multiply> {
    buffer: Vec<A>,
    from: usize,
}

const LINE_BYTES: usize = 64;

impl<A: Multiply> Room<A> {
    pub(crate) fn take(len: usize) -> Self {
        if len == 0 {
            return Room { buffer: Vec::new(), from: 0 };
        }
        let line = LINE_BYTES / size_of::<A>();
        let buffer: Vec<A> = buffers::take_filled(len + line);
        // only a machine that has no addresses, as that of miri, says that there is no such place
        let from = buffer.as_ptr().align_offset(LINE_BYTES).min(line);
        Room { buffer, from }
    }

    pub(crate) fn numbers(&mut self) -> &mut [A] {
        &mut self.buffer[self.from..]
    }
}

impl<A: Multiply> Drop for Room<A> {
    fn drop(&mut self) {
        buffers::give_back(std::mem::take(&mut self.buffer));
    }
}

/// Copies so many rows of `from`, of length `depth`, so that the elements of a column lie together, filled up with zeros to `width`.
///
/// # Safety
/// All of `from` can be read, and `width · depth` numbers can be written; `rows` is not more than `width`.
pub(super) unsafe fn pack<A: Multiply>(
    kernels: &Kernels<A>,
    from: Raw<*const A>,
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

/// Copies so many rows of `from`, of length `depth`, so that the elements of a column lie together, and those of the next one `width` further on.
///
/// # Safety
/// All of `from` can be read, and all of that can be written.
#[inline(always)]
pub(super) unsafe fn copy_columns<L: Lanes<Number = A>, A: Multiply>(
    from: Raw<*const A>,
    rows: usize,
    depth: usize,
    to: *mut A,
    width: isize,
) {
    let place = |row: usize, column: usize| to.wrapping_offset(column as isize * width + row as isize);
    let mut column = 0;
    if rows >= L::N && from.row == 1 {
        while column < depth {
            // SAFETY: so many rows and columns are left
            overlapping(rows, L::N, |row| unsafe {
                L::load(from.at(row, column).start).store(place(row, column));
            });
            column += 1;
        }
    } else if rows >= SQUARE && from.row == 1 {
        while column < depth {
            // SAFETY: so many rows and columns are left
            overlapping(rows, SQUARE, |row| unsafe {
                let square = from.at(row, column).start.cast::<[A; SQUARE]>().read_unaligned();
                place(row, column).cast::<[A; SQUARE]>().write_unaligned(square);
            });
            column += 1;
        }
    } else if rows >= SQUARE && from.column == 1 {
        while column + SQUARE <= depth {
            // SAFETY: so many rows and columns are left
            overlapping(rows, SQUARE, |row| unsafe {
                transpose(from.at(row, column).start, from.row, place(row, column), width);
            });
            column += SQUARE;
        }
    }
    // a few columns at a time, so that what is written to stays in the cache
    const STRIP: usize = 16;
    while column < depth {
        let end = depth.min(column + STRIP);
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

/// So many rows and columns are moved at a time.
const SQUARE: usize = 4;

/// Where pieces of this length begin that cover so many rows, which are at least as many; the last one may overlap with the one before it.
#[inline(always)]
fn overlapping(rows: usize, len: usize, mut each: impl FnMut(usize)) {
    let mut row = 0;
    while row + len < rows {
        each(row);
        row += len;
    }
    each(rows - len);
}

/// A square with its rows `row` apart becomes one with its columns `width` apart.
///
/// # Safety
/// Four rows of four numbers can be read, and four columns of four written.
#[inline(always)]
unsafe fn transpose<A: Multiply>(from: *const A, row: isize, to: *mut A, width: isize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::any::TypeId;
        use std::arch::x86_64::*;
        if TypeId::of::<A>() == TypeId::of::<f32>() {
            let (from, to) = (from.cast::<f32>(), to.cast::<f32>());
            // SAFETY: every such processor has these registers; the rest is as the caller says
            unsafe {
                let [a, b, c, d] = [0, 1, 2, 3].map(|i| _mm_loadu_ps(from.offset(i * row)));
                let (ab, cd) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
                let (ab_high, cd_high) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
                _mm_storeu_ps(to, _mm_movelh_ps(ab, cd));
                _mm_storeu_ps(to.offset(width), _mm_movehl_ps(cd, ab));
                _mm_storeu_ps(to.offset(2 * width), _mm_movelh_ps(ab_high, cd_high));
                _mm_storeu_ps(to.offset(3 * width), _mm_movehl_ps(cd_high, ab_high));
            }
            return;
        }
    }
    // SAFETY: as the caller says
    unsafe {
        let rows: [[A; SQUARE]; SQUARE] =
            std::array::from_fn(|i| from.offset(i as isize * row).cast::<[A; SQUARE]>().read_unaligned());
        let columns: [[A; SQUARE]; SQUARE] = std::array::from_fn(|column| rows.map(|row| row[column]));
        for (column, numbers) in columns.into_iter().enumerate() {
            to.offset(column as isize * width).cast::<[A; SQUARE]>().write_unaligned(numbers);
        }
    }
}
