//! Vector registers, and their operations.
//!
//! The functions are inlined into the kernels of `dispatch.rs`, which only run on processors that
//! have these registers.

use super::transpose;

/// A vector register.
pub(super) trait SimdVector: Copy {
    type Number: Copy + 'static;

    /// The number of lanes.
    const N: usize;

    fn splat(number: Self::Number) -> Self;

    /// # Safety
    /// `N` numbers must be readable.
    unsafe fn load(from: *const Self::Number) -> Self;

    /// Loads the first `count` lanes; the others are zero.
    ///
    /// # Safety
    /// `count` must be between 1 and `N`, and that many numbers readable.
    unsafe fn load_some(from: *const Self::Number, count: usize) -> Self;

    /// # Safety
    /// `N` numbers must be writable.
    unsafe fn store(self, to: *mut Self::Number);

    /// # Safety
    /// `count` must be between 1 and `N`, and that many numbers writable.
    unsafe fn store_some(self, to: *mut Self::Number, count: usize);

    /// `self · b + c`, with one rounding where the processor supports it.
    fn multiply_add(self, b: Self, c: Self) -> Self;

    fn multiply(self, b: Self) -> Self;

    fn add(self, b: Self) -> Self;

    /// The size of the blocks that are transposed at a time.
    const TRANSPOSE_BLOCK: usize = transpose::TRANSPOSE_BLOCK;

    /// Transposes a block with the row stride `row` into one with the column stride `width`.
    ///
    /// # Safety
    /// The block must be readable, and its destination writable.
    #[inline(always)]
    unsafe fn transpose(from: *const Self::Number, row: isize, to: *mut Self::Number, width: isize) {
        // SAFETY: guaranteed by the caller
        unsafe { transpose::transpose(from, row, to, width) }
    }
}

/// The fallback for every processor, vectorized by the compiler.
#[derive(Clone, Copy)]
pub(super) struct Portable<A, const N: usize>([A; N]);

macro_rules! portable {
    ($A:ty, $N:literal) => {
        impl SimdVector for Portable<$A, $N> {
            type Number = $A;

            const N: usize = $N;

            #[inline(always)]
            fn splat(number: $A) -> Self {
                Portable([number; $N])
            }

            #[inline(always)]
            unsafe fn load(from: *const $A) -> Self {
                // SAFETY: guaranteed by the caller
                Portable(unsafe { from.cast::<[$A; $N]>().read_unaligned() })
            }

            #[inline(always)]
            unsafe fn load_some(from: *const $A, count: usize) -> Self {
                if count == $N {
                    // SAFETY: guaranteed by the caller
                    return unsafe { Self::load(from) };
                }
                let mut lanes = [0.0; $N];
                // SAFETY: guaranteed by the caller; there are at least `count` lanes
                unsafe { from.copy_to_nonoverlapping(lanes.as_mut_ptr(), count) };
                Portable(lanes)
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $A) {
                // SAFETY: guaranteed by the caller
                unsafe { to.cast::<[$A; $N]>().write_unaligned(self.0) }
            }

            #[inline(always)]
            unsafe fn store_some(self, to: *mut $A, count: usize) {
                // SAFETY: guaranteed by the caller; there are at least `count` lanes
                unsafe { to.copy_from_nonoverlapping(self.0.as_ptr(), count) }
            }

            #[inline(always)]
            fn multiply_add(self, b: Self, c: Self) -> Self {
                let lane = |i: usize| {
                    // not fused on x86, whatever the build targets: the result must be that of the
                    // baseline instructions
                    if cfg!(target_arch = "aarch64") {
                        self.0[i].mul_add(b.0[i], c.0[i])
                    } else {
                        self.0[i] * b.0[i] + c.0[i]
                    }
                };
                Portable(std::array::from_fn(lane))
            }

            #[inline(always)]
            fn multiply(self, b: Self) -> Self {
                Portable(std::array::from_fn(|i| self.0[i] * b.0[i]))
            }

            #[inline(always)]
            fn add(self, b: Self) -> Self {
                Portable(std::array::from_fn(|i| self.0[i] + b.0[i]))
            }
        }
    };
}

portable!(f32, 4);
portable!(f64, 2);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::SimdVector;
    use super::transpose::{transpose_8, transpose_16};
    use std::arch::x86_64::*;

    macro_rules! registers {
        ($Name:ident($Register:ty) of $A:ty, $n:literal lanes:
            $set1:ident $load:ident $store:ident $fma:ident $mul:ident $add:ident
            |$from:ident, $some:ident| $load_some:expr, |$to:ident, $value:ident, $count:ident| $store_some:expr
            $(, squares of $square:literal by $transpose:ident)?) => {
            #[derive(Clone, Copy)]
            pub(in super::super) struct $Name($Register);

            impl SimdVector for $Name {
                type Number = $A;

                const N: usize = $n;

                #[inline(always)]
                fn splat(number: $A) -> Self {
                    // SAFETY: the processor has these registers
                    $Name(unsafe { $set1(number) })
                }

                #[inline(always)]
                unsafe fn load(from: *const $A) -> Self {
                    // SAFETY: the processor has these registers; guaranteed by the caller otherwise
                    $Name(unsafe { $load(from) })
                }

                #[inline(always)]
                unsafe fn load_some($from: *const $A, $some: usize) -> Self {
                    // SAFETY: the processor has these registers; guaranteed by the caller otherwise
                    $Name(unsafe { $load_some })
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut $A) {
                    // SAFETY: the processor has these registers; guaranteed by the caller otherwise
                    unsafe { $store(to, self.0) }
                }

                #[inline(always)]
                unsafe fn store_some(self, $to: *mut $A, $count: usize) {
                    let $value = self.0;
                    // SAFETY: the processor has these registers; guaranteed by the caller otherwise
                    unsafe { $store_some }
                }

                #[inline(always)]
                fn multiply_add(self, b: Self, c: Self) -> Self {
                    // SAFETY: the processor has these registers
                    $Name(unsafe { $fma(self.0, b.0, c.0) })
                }

                #[inline(always)]
                fn multiply(self, b: Self) -> Self {
                    // SAFETY: the processor has these registers
                    $Name(unsafe { $mul(self.0, b.0) })
                }

                #[inline(always)]
                fn add(self, b: Self) -> Self {
                    // SAFETY: the processor has these registers
                    $Name(unsafe { $add(self.0, b.0) })
                }

                $(
                    const TRANSPOSE_BLOCK: usize = $square;

                    #[inline(always)]
                    unsafe fn transpose(from: *const $A, row: isize, to: *mut $A, width: isize) {
                        // SAFETY: the processor has these registers; guaranteed by the caller
                        // otherwise
                        unsafe { $transpose(from, row, to, width) }
                    }
                )?
            }
        };
    }

    registers! {
        Avx512F32(__m512) of f32, 16 lanes:
        _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_mul_ps _mm512_add_ps
        |from, count| _mm512_maskz_loadu_ps(first(count) as __mmask16, from),
        |to, value, count| _mm512_mask_storeu_ps(to, first(count) as __mmask16, value),
        squares of 16 by transpose_16
    }

    registers! {
        Avx512F64(__m512d) of f64, 8 lanes:
        _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_mul_pd _mm512_add_pd
        |from, count| _mm512_maskz_loadu_pd(first(count) as __mmask8, from),
        |to, value, count| _mm512_mask_storeu_pd(to, first(count) as __mmask8, value)
    }

    registers! {
        Avx2F32(__m256) of f32, 8 lanes:
        _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_mul_ps _mm256_add_ps
        |from, count| _mm256_maskload_ps(from, first_of_8(count)),
        |to, value, count| _mm256_maskstore_ps(to, first_of_8(count), value),
        squares of 8 by transpose_8
    }

    registers! {
        Avx2F64(__m256d) of f64, 4 lanes:
        _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_mul_pd _mm256_add_pd
        |from, count| _mm256_maskload_pd(from, first_of_4(count)),
        |to, value, count| _mm256_maskstore_pd(to, first_of_4(count), value)
    }

    #[inline(always)]
    fn first(count: usize) -> u32 {
        (1 << count) - 1
    }

    #[inline(always)]
    fn first_of_8(count: usize) -> __m256i {
        static ON_OFF: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: the array has 8 elements from 8 − count on
        unsafe { _mm256_loadu_si256(ON_OFF.as_ptr().add(8 - count).cast()) }
    }

    #[inline(always)]
    fn first_of_4(count: usize) -> __m256i {
        static ON_OFF: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];
        // SAFETY: the array has 4 elements from 4 − count on
        unsafe { _mm256_loadu_si256(ON_OFF.as_ptr().add(4 - count).cast()) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2F32, Avx2F64, Avx512F32, Avx512F64};
