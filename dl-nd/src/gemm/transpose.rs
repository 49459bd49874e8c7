//! Transposition of blocks in registers.

/// The size of the block that is transposed on every processor.
pub(super) const TRANSPOSE_BLOCK: usize = 4;

/// Transposes a block with the row stride `row` into one with the column stride `width`.
///
/// # Safety
/// Four rows of four numbers must be readable, and four columns of four writable.
#[inline(always)]
pub(super) unsafe fn transpose<A: Copy + 'static>(from: *const A, row: isize, to: *mut A, width: isize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::any::TypeId;
        use std::arch::x86_64::*;
        if TypeId::of::<A>() == TypeId::of::<f32>() {
            let (from, to) = (from.cast::<f32>(), to.cast::<f32>());
            // SAFETY: every x86-64 processor has SSE; guaranteed by the caller otherwise
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
    // SAFETY: guaranteed by the caller
    unsafe {
        let rows: [[A; TRANSPOSE_BLOCK]; TRANSPOSE_BLOCK] =
            std::array::from_fn(|i| from.offset(i as isize * row).cast::<[A; TRANSPOSE_BLOCK]>().read_unaligned());
        let columns: [[A; TRANSPOSE_BLOCK]; TRANSPOSE_BLOCK] =
            std::array::from_fn(|column| rows.map(|row| row[column]));
        for (column, as_mut_slice) in columns.into_iter().enumerate() {
            to.offset(column as isize * width).cast::<[A; TRANSPOSE_BLOCK]>().write_unaligned(as_mut_slice);
        }
    }
}

/// Transposes a block of 8 rows.
///
/// # Safety
/// Eight rows of eight numbers must be readable, and eight columns of eight writable; the processor
/// must have AVX.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn transpose_8(from: *const f32, row: isize, to: *mut f32, width: isize) {
    use std::arch::x86_64::*;
    // no closures: their callees would not be inlined
    // SAFETY: guaranteed by the caller
    unsafe {
        for half in [0, 4] {
            // row `i` in the lower half, row `i + 4` in the upper half: four columns of each
            let mut rows = [_mm256_setzero_ps(); 4];
            for i in 0..4 {
                let low = _mm_loadu_ps(from.offset(half + i * row));
                let high = _mm_loadu_ps(from.offset(half + (i + 4) * row));
                rows[i as usize] = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high);
            }
            let [a, b, c, d] = rows;
            let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
            let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
            let to = to.offset(half * width);
            _mm256_storeu_ps(to, _mm256_shuffle_ps::<0x44>(ab, cd));
            _mm256_storeu_ps(to.offset(width), _mm256_shuffle_ps::<0xee>(ab, cd));
            _mm256_storeu_ps(to.offset(2 * width), _mm256_shuffle_ps::<0x44>(ab_high, cd_high));
            _mm256_storeu_ps(to.offset(3 * width), _mm256_shuffle_ps::<0xee>(ab_high, cd_high));
        }
    }
}

/// Transposes a block of 16 rows, which are cache lines, each read once.
///
/// # Safety
/// Sixteen rows of sixteen numbers must be readable, and sixteen columns of sixteen writable; the
/// processor must have AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn transpose_16(from: *const f32, row: isize, to: *mut f32, width: isize) {
    use std::arch::x86_64::*;
    // no closures: their callees would not be inlined
    // SAFETY: guaranteed by the caller
    unsafe {
        let mut rows = [_mm512_setzero_ps(); 16];
        for (i, to) in rows.iter_mut().enumerate() {
            *to = _mm512_loadu_ps(from.offset(i as isize * row));
        }
        // each quarter of a register becomes a transposed 4×4 block
        let mut quarters = [_mm512_setzero_ps(); 16];
        for i in 0..4 {
            let [a, b, c, d] = [rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3]];
            let (ab, cd) = (_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d));
            let (ab_high, cd_high) = (_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d));
            quarters[4 * i] = _mm512_shuffle_ps::<0x44>(ab, cd);
            quarters[4 * i + 1] = _mm512_shuffle_ps::<0xee>(ab, cd);
            quarters[4 * i + 2] = _mm512_shuffle_ps::<0x44>(ab_high, cd_high);
            quarters[4 * i + 3] = _mm512_shuffle_ps::<0xee>(ab_high, cd_high);
        }
        // columns `i`, `i + 4`, `i + 8` and `i + 12` are in the quarters of four registers
        for i in 0..4 {
            let [a, b, c, d] = [quarters[i], quarters[4 + i], quarters[8 + i], quarters[12 + i]];
            let (ab, cd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0x88>(c, d));
            let (ab_odd, cd_odd) = (_mm512_shuffle_f32x4::<0xdd>(a, b), _mm512_shuffle_f32x4::<0xdd>(c, d));
            let to = to.offset(i as isize * width);
            _mm512_storeu_ps(to, _mm512_shuffle_f32x4::<0x88>(ab, cd));
            _mm512_storeu_ps(to.offset(4 * width), _mm512_shuffle_f32x4::<0x88>(ab_odd, cd_odd));
            _mm512_storeu_ps(to.offset(8 * width), _mm512_shuffle_f32x4::<0xdd>(ab, cd));
            _mm512_storeu_ps(to.offset(12 * width), _mm512_shuffle_f32x4::<0xdd>(ab_odd, cd_odd));
        }
    }
}
