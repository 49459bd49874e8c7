//! Squares that are transposed in registers.

/// So many rows and columns are moved at a time.
pub(super) const TRANSPOSE_BLOCK: usize = 4;

/// A square with its rows `row` apart becomes one with its columns `width` apart.
///
/// # Safety
/// Four rows of four numbers can be read, and four columns of four written.
#[inline(always)]
pub(super) unsafe fn transpose<A: Copy + 'static>(from: *const A, row: isize, to: *mut A, width: isize) {
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
        let rows: [[A; TRANSPOSE_BLOCK]; TRANSPOSE_BLOCK] =
            std::array::from_fn(|i| from.offset(i as isize * row).cast::<[A; TRANSPOSE_BLOCK]>().read_unaligned());
        let columns: [[A; TRANSPOSE_BLOCK]; TRANSPOSE_BLOCK] =
            std::array::from_fn(|column| rows.map(|row| row[column]));
        for (column, as_mut_slice) in columns.into_iter().enumerate() {
            to.offset(column as isize * width).cast::<[A; TRANSPOSE_BLOCK]>().write_unaligned(as_mut_slice);
        }
    }
}

/// The same for a square of 8 rows.
///
/// # Safety
/// Eight rows of eight numbers can be read, and eight columns of eight written; the processor has
/// AVX.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn transpose_8(from: *const f32, row: isize, to: *mut f32, width: isize) {
    use std::arch::x86_64::*;
    // no closures: what they call would be a call
    // SAFETY: as the caller says
    unsafe {
        for half in [0, 4] {
            // row `i` below row `i + 4`: four columns of each
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

/// The same for a square of 16 rows: lines of the cache, each of which is read once.
///
/// # Safety
/// Sixteen rows of sixteen numbers can be read, and sixteen columns of sixteen written; the
/// processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn transpose_16(from: *const f32, row: isize, to: *mut f32, width: isize) {
    use std::arch::x86_64::*;
    // no closures: what they call would be a call
    // SAFETY: as the caller says
    unsafe {
        let mut rows = [_mm512_setzero_ps(); 16];
        for (i, to) in rows.iter_mut().enumerate() {
            *to = _mm512_loadu_ps(from.offset(i as isize * row));
        }
        // in each quarter of a register, a square of four numbers of each four rows
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
        // column `i`, and those 4, 8 and 12 further on, are in the quarters of four registers
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
