//! The kernels for each set of instructions, and the choice among them.

use super::Multiply;
use super::dot::dot;
#[cfg(target_arch = "x86_64")]
use super::lanes::{Avx2F32, Avx2F64, Avx512F32, Avx512F64};
use super::lanes::{Lanes, Portable, Tiles};
use super::pack::pack;
use super::run::{Block, Product, block, direct, packed_tile};
use super::tile::{Raw, Tile};

/// The kernels for one set of instructions.
pub struct Kernels<A> {
    pub(super) direct: unsafe fn(&Product<A>, *mut A, bool),
    pub(super) block: unsafe fn(&Block<A>),
    pub(super) pack: unsafe fn(Raw<*const A>, usize, usize, usize, *mut A),
    pub(super) dot: unsafe fn(*const A, *const A, usize) -> A,
    /// The rows and columns of a packed tile.
    pub(super) tile: (usize, usize),
    pub(super) lanes: usize,
}

macro_rules! kernels {
    ($name:ident: $A:ty, $L:ty$(, $feature:literal)?) => {
        impl Tiles for $L {
            #[inline(always)]
            unsafe fn tile<const ROWS: usize, const WIDE: usize, const PACKED: bool>(tile: &Tile<$A>) {
                $(#[target_feature(enable = $feature)])?
                #[inline(never)]
                unsafe fn run<const ROWS: usize, const WIDE: usize, const PACKED: bool>(tile: &Tile<$A>) {
                    // SAFETY: the caller says so
                    unsafe { tile.run::<$L, ROWS, WIDE, PACKED>() }
                }
                // SAFETY: the caller says so
                unsafe { run::<ROWS, WIDE, PACKED>(tile) }
            }
        }

        static $name: Kernels<$A> = {
            $(#[target_feature(enable = $feature)])?
            unsafe fn run_direct(product: &Product<$A>, room: *mut $A, copy: bool) {
                // SAFETY: the caller says so
                unsafe { direct::<$L, $A>(product, room, copy) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn run_block(part: &Block<$A>) {
                // SAFETY: the caller says so
                unsafe { block::<$L, $A>(part) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn run_dot(x: *const $A, y: *const $A, len: usize) -> $A {
                // SAFETY: the caller says so
                unsafe { dot::<$L, $A>(x, y, len) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn run_pack(from: Raw<*const $A>, rows: usize, width: usize, depth: usize, to: *mut $A) {
                // SAFETY: the caller says so
                unsafe { pack::<$A>(from, rows, width, depth, to) }
            }
            Kernels { direct: run_direct, block: run_block, pack: run_pack, dot: run_dot, tile: packed_tile::<$L>(), lanes: <$L as Lanes>::N }
        };
    };
}

kernels!(PORTABLE_F32: f32, Portable<f32, 4>);
kernels!(PORTABLE_F64: f64, Portable<f64, 2>);
#[cfg(target_arch = "x86_64")]
kernels!(AVX2_F32: f32, Avx2F32, "avx2,fma");
#[cfg(target_arch = "x86_64")]
kernels!(AVX2_F64: f64, Avx2F64, "avx2,fma");
#[cfg(target_arch = "x86_64")]
kernels!(AVX512_F32: f32, Avx512F32, "avx512f");
#[cfg(target_arch = "x86_64")]
kernels!(AVX512_F64: f64, Avx512F64, "avx512f");

macro_rules! choice {
    ($A:ty: $portable:ident, $avx2:ident, $avx512:ident) => {
        impl Multiply for $A {
            #[inline]
            fn kernels() -> &'static Kernels<$A> {
                #[cfg(target_arch = "x86_64")]
                {
                    if is_x86_feature_detected!("avx512f") {
                        return &$avx512;
                    }
                    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                        return &$avx2;
                    }
                }
                &$portable
            }

            #[cfg(test)]
            fn all_kernels() -> Vec<&'static Kernels<$A>> {
                let mut kernels = vec![&$portable];
                #[cfg(target_arch = "x86_64")]
                {
                    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                        kernels.push(&$avx2);
                    }
                    if is_x86_feature_detected!("avx512f") {
                        kernels.push(&$avx512);
                    }
                }
                kernels
            }
        }
    };
}

choice!(f32: PORTABLE_F32, AVX2_F32, AVX512_F32);
choice!(f64: PORTABLE_F64, AVX2_F64, AVX512_F64);
