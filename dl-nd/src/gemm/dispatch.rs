//! The kernels of each instruction set, and their selection.

use super::gemv::{dot, dots};
use super::microkernel::{KSlice, RawMatrix, Tile};
use super::pack::copy_columns;
use super::row_products::{Term, sum_of_row};
#[cfg(target_arch = "x86_64")]
use super::simd::{Avx2F32, Avx2F64, Avx512F32, Avx512F64};
use super::simd::{Portable, SimdVector};
use crate::tensor::{Element, PerElement};
#[cfg(target_arch = "x86_64")]
use dl_core::simd::arch;
#[cfg(target_arch = "x86_64")]
use pulp::Arch;

/// The kernels of an instruction set.
pub(super) struct KernelTable<A: 'static> {
    /// Tile kernels, by width in registers and by number of rows; second, those for tiles without a
    /// partial last register.
    pub(super) tiles: [&'static [&'static [TileKernel<A>]]; 2],
    /// Kernels for the tiles of a k-slice at full width, by number of rows. Empty where a panel
    /// stays in L1 without slicing.
    pub(super) slices: &'static [SliceKernel<A>],
    pub(super) copy_columns: unsafe fn(RawMatrix<*const A>, usize, usize, *mut A, isize),
    pub(super) dot: unsafe fn(*const A, *const A, usize) -> A,
    /// The inner products of `lanes` rows, given with their stride, with a vector.
    pub(super) dots: unsafe fn((*const A, isize), *const A, usize, *mut A),
    /// A row of a sum of products.
    pub(super) sum_of_row: unsafe fn(&[Term<A>], usize, [usize; 2], *mut A),
    pub(super) lanes: usize,
}

/// The number of rows of the largest tile.
const TILE_ROWS: usize = 6;

/// A kernel for a column of tiles of one size. Each size has its own function, so that the compiler
/// can keep its accumulators in registers.
pub(super) type TileKernel<A> = unsafe fn(&Tile<A>, usize);
/// A kernel for a tile of a k-slice.
pub(super) type SliceKernel<A> = unsafe fn(&Tile<A>, &KSlice<A>);

impl<A> KernelTable<A> {
    /// The number of columns of the largest tile.
    pub(super) fn tile_columns(&self) -> usize {
        self.tile_columns_for(TILE_ROWS)
    }

    /// The number of columns of the widest tile for this many rows.
    #[inline(always)]
    pub(super) fn tile_columns_for(&self, rows: usize) -> usize {
        let registers = self.tiles[0].iter().rposition(|tiles| tiles.len() >= rows.min(TILE_ROWS));
        registers.map_or(1, |narrower| narrower + 1) * self.lanes
    }

    /// The number of registers that hold this many columns.
    #[inline(always)]
    pub(super) fn registers(&self, columns: usize) -> usize {
        // the number of lanes is a power of two; a division would take longer
        (columns + self.lanes - 1) >> self.lanes.trailing_zeros()
    }

    /// The number of columns, rounded up to whole registers.
    #[inline(always)]
    pub(super) fn padded(&self, columns: usize) -> usize {
        self.registers(columns) * self.lanes
    }

    /// The number of rows of the largest tile.
    pub(super) fn tile_rows(&self) -> usize {
        TILE_ROWS
    }
}

macro_rules! kernels {
    // tiles of few rows are wider: it takes eight accumulators to hide the latency
    ($name:ident: $A:ty, $L:ty, 16 registers$(, $feature:literal)?) => {
        kernels!(
            $name: $A, $L,
            [
                [1 2 3 4 5 6 7 8] x 1, [1 2 3 4 5 6] x 2, [1 2 3 4] x 3, [1 2 3] x 4,
                [1] x 5, [1] x 6, [1] x 7, [1] x 8
            ],
            [] x 2$(, $feature)?
        );
    };
    ($name:ident: $A:ty, $L:ty, 32 registers$(, $feature:literal)?) => {
        kernels!($name: $A, $L, [[1 2 3 4 5 6 7 8] x 1, [1 2 3 4 5 6] x 2, [1 2 3 4 5 6] x 3, [1 2 3 4 5 6] x 4], [1 2 3 4 5 6] x 4$(, $feature)?);
    };
    ($name:ident: $A:ty, $L:ty, [$([$($rows:literal)*] x $wide:literal),*], [$($slices:literal)*] x $widest:literal$(, $feature:literal)?) => {
        static $name: KernelTable<$A> = {
            $(#[target_feature(enable = $feature)])?
            unsafe fn tile<const ROWS: usize, const WIDE: usize, const WHOLE: bool>(tile: &Tile<$A>, tiles: usize) {
                // SAFETY: guaranteed by the caller
                unsafe { tile.run_all::<$L, ROWS, WIDE, WHOLE>(tiles) }
            }
            #[allow(dead_code, reason = "where a panel stays in the nearest cache as it is, there are no slices")]
            $(#[target_feature(enable = $feature)])?
            unsafe fn slice<const ROWS: usize, const WIDE: usize>(tile: &Tile<$A>, slice: &KSlice<$A>) {
                // SAFETY: guaranteed by the caller
                unsafe { tile.run::<$L, ROWS, WIDE, true>(Some(slice)) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn run_dot(x: *const $A, y: *const $A, len: usize) -> $A {
                // SAFETY: guaranteed by the caller
                unsafe { dot::<$L, $A>(x, y, len) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn run_dots(rows: (*const $A, isize), y: *const $A, len: usize, to: *mut $A) {
                // SAFETY: guaranteed by the caller
                unsafe { dots::<$L, $A>(rows, y, len, to) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn run_sum_of_row(terms: &[Term<$A>], row: usize, shape: [usize; 2], to: *mut $A) {
                // SAFETY: guaranteed by the caller
                unsafe { sum_of_row::<$L, $A>(terms, row, shape, to) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn run_copy(from: RawMatrix<*const $A>, rows: usize, depth: usize, to: *mut $A, width: isize) {
                // SAFETY: guaranteed by the caller
                unsafe { copy_columns::<$L, $A>(from, rows, depth, to, width) }
            }
            KernelTable {
                tiles: [
                    &[$(&[$(tile::<$rows, $wide, false>),*]),*],
                    &[$(&[$(tile::<$rows, $wide, true>),*]),*],
                ],
                slices: &[$(slice::<$slices, $widest>),*],
                copy_columns: run_copy,
                dot: run_dot,
                dots: run_dots,
                sum_of_row: run_sum_of_row,
                lanes: {
                    assert!(<$L as SimdVector>::N.is_power_of_two(), "see `registers`");
                    <$L as SimdVector>::N
                },
            }
        };
    };
}

#[cfg(not(target_arch = "aarch64"))]
kernels!(PORTABLE_F32: f32, Portable<f32, 4>, 16 registers);
#[cfg(not(target_arch = "aarch64"))]
kernels!(PORTABLE_F64: f64, Portable<f64, 2>, 16 registers);
#[cfg(target_arch = "aarch64")]
kernels!(PORTABLE_F32: f32, Portable<f32, 4>, 32 registers);
#[cfg(target_arch = "aarch64")]
kernels!(PORTABLE_F64: f64, Portable<f64, 2>, 32 registers);
#[cfg(target_arch = "x86_64")]
kernels!(AVX2_F32: f32, Avx2F32, 16 registers, "avx2,fma");
#[cfg(target_arch = "x86_64")]
kernels!(AVX2_F64: f64, Avx2F64, 16 registers, "avx2,fma");
#[cfg(target_arch = "x86_64")]
kernels!(AVX512_F32: f32, Avx512F32, 32 registers, "avx512f");
#[cfg(target_arch = "x86_64")]
kernels!(AVX512_F64: f64, Avx512F64, 32 registers, "avx512f");

/// An instruction set with its own kernels.
pub(super) enum InstructionSet {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

macro_rules! tables {
    ($($A:ident: $portable:ident, $avx2:ident, $avx512:ident;)*) => {
        impl PerElement for InstructionSet {
            type For<A: 'static> = &'static KernelTable<A>;

            $(#[inline]
            fn $A(self) -> &'static KernelTable<$A> {
                match self {
                    InstructionSet::Portable => &$portable,
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx2 => &$avx2,
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx512 => &$avx512,
                }
            })*
        }
    };
}

tables! {
    f32: PORTABLE_F32, AVX2_F32, AVX512_F32;
    f64: PORTABLE_F64, AVX2_F64, AVX512_F64;
}

/// The kernels for this element type and processor.
#[inline]
pub(super) fn kernels<A: Element>() -> &'static KernelTable<A> {
    #[cfg(target_arch = "x86_64")]
    match arch() {
        Arch::V4(_) => return A::per_element(InstructionSet::Avx512),
        Arch::V3(_) => return A::per_element(InstructionSet::Avx2),
        _ => {}
    }
    A::per_element(InstructionSet::Portable)
}
