//! Copies of operands in the order in which a product reads them.

use super::Multiply;
use super::kernels::Kernels;
use super::lanes::Lanes;
use super::square::{SQUARE, transpose};
use super::tile::Raw;
use crate::lines::{LINE_BYTES, Room};
use crate::program::ask_for;
use dl_core::parallel;

/// Room for copies, which is given back. What is there at first may be anything.
pub(crate) struct Scratch<A: Multiply>(Room<A>);

impl<A: Multiply> Scratch<A> {
    pub(crate) fn take(len: usize) -> Self {
        Scratch(Room::new(len))
    }

    pub(crate) fn numbers(&mut self) -> &mut [A] {
        self.0.elements()
    }
}

impl<A: Multiply> Drop for Scratch<A> {
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

/// About what it takes to copy a number whose line is in a cache that is far away.
const NANOSECONDS: f64 = 0.3;

/// Copies `b` in panels of so many columns, one after the other. Of what it gives, only the first
/// column of each panel has its place by its number; the others lie beside it.
///
/// # Safety
/// All of `b` can be read.
///
/// # Panics
/// If there is less room than for whole panels.
pub(super) unsafe fn pack_panels<A: Multiply>(
    kernels: &Kernels<A>,
    b: Raw<*const A>,
    depth: usize,
    columns: usize,
    wide: usize,
    room: &mut [A],
) -> Raw<*const A> {
    let mut panels: Vec<&mut [A]> =
        room[..columns.div_ceil(wide) * wide * depth].chunks_exact_mut(wide * depth).collect();
    parallel::for_each_mut(&mut panels, NANOSECONDS * (wide * depth) as f64, |panel, room| {
        let column = panel * wide;
        let b = b.at(0, column).transposed();
        // SAFETY: as the caller says, for these columns; the room is that of a panel
        unsafe { pack(kernels, b, wide.min(columns - column), wide, depth, room.as_mut_ptr()) };
    });
    Raw { start: room.as_ptr(), row: wide as isize, column: depth as isize }
}

/// So many columns before a line is copied, it is asked for.
const AHEAD: usize = 16;

/// Copies so many rows of `from`, of length `depth`, so that the elements of a column lie together,
/// and those of the next one `width` further on.
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
    // no closures: what they call would not be inlined
    if from.row == 1 && rows >= L::N {
        while column < depth {
            if const { L::N * size_of::<A>() < LINE_BYTES } && column + AHEAD < depth {
                // what lies side by side is a line, or a few, of which the processor fetches the
                // others. With so many instructions for a line, it sees few of them at a time
                ask_for(from.at(0, column + AHEAD).start);
            }
            for row in starts(rows, L::N) {
                // SAFETY: so many rows and columns are left
                unsafe { L::load(from.at(row, column).start).store(place(row, column)) };
            }
            column += 1;
        }
    } else if from.row == 1 && rows >= SQUARE {
        while column < depth {
            for row in starts(rows, SQUARE) {
                // SAFETY: so many rows and columns are left
                unsafe {
                    let square = from.at(row, column).start.cast::<[A; SQUARE]>().read_unaligned();
                    place(row, column).cast::<[A; SQUARE]>().write_unaligned(square);
                }
            }
            column += 1;
        }
    } else if from.column == 1 {
        if rows >= L::SQUARE {
            // along a few rows at a time, which the processor fetches in advance
            for row in starts(rows, L::SQUARE) {
                column = 0;
                while column + L::SQUARE <= depth {
                    // SAFETY: so many rows and columns are left
                    unsafe { L::transpose(from.at(row, column).start, from.row, place(row, column), width) };
                    column += L::SQUARE;
                }
            }
        }
        while rows >= SQUARE && column + SQUARE <= depth {
            for row in starts(rows, SQUARE) {
                // SAFETY: so many rows and columns are left
                unsafe { transpose(from.at(row, column).start, from.row, place(row, column), width) };
            }
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

/// Where pieces of this length begin that cover so many rows, which are at least as many; the last
/// one may overlap with the one before it.
#[inline(always)]
fn starts(rows: usize, len: usize) -> impl Iterator<Item = usize> {
    (0..rows.div_ceil(len)).map(move |piece| (piece * len).min(rows - len))
}
