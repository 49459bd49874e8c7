//! Vectors of sixteen `f32`, used by all tensor kernels: one register with AVX-512, two with AVX2.
//! Both modules have the same functions, and define the tile sizes of products that fit their
//! registers.
#[cfg_attr(target_feature = "avx512f", allow(dead_code, reason = "the other one is in use"))]
mod avx2;
#[cfg_attr(not(target_feature = "avx512f"), allow(dead_code, reason = "the other one is in use"))]
mod avx512;

#[cfg(not(target_feature = "avx512f"))]
pub(crate) use avx2::*;
#[cfg(target_feature = "avx512f")]
pub(crate) use avx512::*;

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(v: V) -> [f32; 16] {
        let mut numbers = [0.0; 16];
        st(numbers.as_mut_ptr(), v);
        numbers
    }
    fn vector(number: impl Fn(usize) -> f32) -> V {
        let numbers: [f32; 16] = std::array::from_fn(number);
        ld(numbers.as_ptr())
    }

    #[test]
    fn rows_become_columns() {
        let rows: [V; 16] = std::array::from_fn(|i| vector(|j| (16 * i + j) as f32));
        let mut turned = rows;
        unsafe { transpose_regs(&mut turned) };
        let mut matrix = [0.0; 16 * 20];
        rows.iter().enumerate().for_each(|(i, &row)| st(matrix[20 * i..][..16].as_mut_ptr(), row));
        let mut other = [0.0; 16 * 18];
        unsafe { transpose(matrix.as_ptr(), 20, other.as_mut_ptr(), 18) };
        for i in 0..16 {
            let column: [f32; 16] = std::array::from_fn(|j| (16 * j + i) as f32);
            assert_eq!(numbers(turned[i]), column);
            assert_eq!(other[18 * i..][..16], column);
        }
        let sums_of_rows: [f32; 16] = std::array::from_fn(|i| (0..16).map(|j| (16 * i + j) as f32).sum());
        assert_eq!(numbers(unsafe { sums(rows) }), sums_of_rows);
    }

    #[test]
    fn a_bit_of_a_mask_is_a_lane() {
        let mask = 0b1001_0001_1000_0010;
        let is_in = |i: usize| mask >> i & 1 == 1;
        let (v, other) = (vector(|i| i as f32 + 1.0), vector(|i| -1.0 - i as f32));
        let expected = |yes: fn(usize) -> f32, no: fn(usize) -> f32| -> [f32; 16] {
            std::array::from_fn(|i| if is_in(i) { yes(i) } else { no(i) })
        };
        assert_eq!(numbers(keep(mask, v)), expected(|i| i as f32 + 1.0, |_| 0.0));
        assert_eq!(numbers(replace(other, mask, v)), expected(|i| i as f32 + 1.0, |i| -1.0 - i as f32));
        assert_eq!(positive(replace(other, mask, v)), mask);
        assert_eq!(equal(replace(other, mask, v), v), mask);
        let z = vector(|i| [0.0, -0.0, f32::NAN, 1.0][i % 4]);
        assert_eq!(numbers(mask_pos(v, z)), std::array::from_fn(|i| if i % 4 == 3 { i as f32 + 1.0 } else { 0.0 }));
    }

    #[test]
    fn all_lanes_count() {
        for lane in 0..16 {
            let v = vector(|i| if i == lane { 3.0 } else { 1.0 });
            assert_eq!((hsum(v), hproduct(v), hmax(v)), (18.0, 3.0, 3.0));
        }
    }

    #[test]
    fn a_power_of_two_that_is_too_small_is_zero() {
        let n = vector(|i| [-126.0, -127.0, -1e9, f32::NEG_INFINITY, -1.0, 0.0, 1.0, 127.0][i % 8]);
        let right = |i: usize| if (1..4).contains(&(i % 8)) { 0.0 } else { 1.5 * numbers(n)[i].exp2() };
        let found = numbers(scale(set(1.5), n));
        // some numbers are subnormal, which only one of the two modules supports
        assert!((0..16).all(|i| (found[i] - right(i)).abs() <= 1.5 * f32::MIN_POSITIVE));
    }
}
