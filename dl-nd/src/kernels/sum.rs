//! Pairwise sums of arrays: of all elements, and along an axis. The order of the additions depends
//! on the shape and the strides only.

use super::reduce_in_chunks;
use crate::fusion::{CHUNK_LEN, PairwiseSum, RUN_LEN, combine_chunk_sums};
use crate::tensor::{Element, zeros};
use dl_core::parallel;
use dl_core::simd::vectorized;
use ndarray::{Array, ArrayD, ArrayView, ArrayView1, ArrayView2, ArrayViewD, ArrayViewMut, Axis, Dimension};

/// The sum of all elements.
pub(crate) fn sum_all<A: Element>(x: ArrayViewD<'_, A>) -> A {
    if x.len() <= RUN_LEN {
        return x.sum();
    }
    if let Some(elements) = x.as_slice_memory_order() {
        return sum_slice(elements);
    }
    let longest = x.max_stride_axis();
    let axis = if x.len_of(longest) > 1 { longest } else { longest_axis(&x) };
    let half = x.len_of(axis) / 2;
    let (left, right) = x.split_at(axis, half);
    sum_all(left) + sum_all(right)
}

fn longest_axis<A>(x: &ArrayViewD<'_, A>) -> Axis {
    Axis((0..x.ndim()).max_by_key(|&axis| x.shape()[axis]).unwrap_or(0))
}

/// The sum of a chunk is that of a whole subtree, so the division into chunks does not change the
/// result.
fn sum_slice<A: Element>(elements: &[A]) -> A {
    let len = elements.len();
    let mut sums = vec![A::zero(); len.div_ceil(CHUNK_LEN)];
    parallel::for_each_mut(&mut sums, 0.1 * CHUNK_LEN.min(len) as f64, |index, total| {
        let mut sum = PairwiseSum::new();
        sum.add_all(&elements[index * CHUNK_LEN..len.min((index + 1) * CHUNK_LEN)]);
        *total = sum.total();
    });
    combine_chunk_sums(sums.into_iter(), CHUNK_LEN, len)
}

/// The sums along an axis, which is kept with length 1.
pub(crate) fn sum_along<A: Element>(x: ArrayViewD<'_, A>, axis: usize) -> ArrayD<A> {
    reduce_in_chunks(x, &[axis], 0.4, |x| {
        let sum = |lane: &[A]| ArrayView1::from(lane).sum();
        sum_contiguous_lanes(&x, Axis(axis), sum).unwrap_or_else(|| sum_in_halves(x, Axis(axis)))
    })
}

/// The sums of squares along an axis, which is kept with length 1. The squares are not stored.
pub(crate) fn sum_squares_along<A: Element>(x: ArrayViewD<'_, A>, axis: usize) -> ArrayD<A> {
    reduce_in_chunks(x, &[axis], 0.6, |x| {
        let sum = |lane: &[A]| {
            let mut squares = [A::zero(); RUN_LEN];
            squares.iter_mut().zip(lane).for_each(|(square, &x)| *square = x * x);
            ArrayView1::from(&squares[..lane.len()]).sum()
        };
        let lanes = sum_contiguous_lanes(&x, Axis(axis), sum);
        lanes.unwrap_or_else(|| sum_in_halves(x.mapv(|x| x * x).view(), Axis(axis)))
    })
}

/// The sums of more than [`RUN_LEN`] terms along a contiguous axis, in the order of
/// [`sum_in_halves`], but each lane is read once. `sum` is that of at most [`RUN_LEN`] elements.
fn sum_contiguous_lanes<A: Element>(
    x: &ArrayViewD<'_, A>,
    axis: Axis,
    sum: impl Fn(&[A]) -> A + Copy,
) -> Option<ArrayD<A>> {
    let is_contiguous = x.strides()[axis.index()] == 1 && !x.strides().contains(&0);
    let sum_of = |lane: ArrayView1<'_, A>| sum_lane(lane.to_slice().expect("a contiguous lane"), sum);
    (x.len_of(axis) > RUN_LEN && is_contiguous).then(|| x.map_axis(axis, sum_of).insert_axis(axis))
}

fn sum_in_halves<A: Element>(x: ArrayViewD<'_, A>, axis: Axis) -> ArrayD<A> {
    if x.len_of(axis) <= RUN_LEN {
        // the usual case, such as the gradient of a bias
        if let Some(sums) = sum_rows(&x, axis) {
            let mut shape = x.shape().to_vec();
            shape[axis.index()] = 1;
            return ArrayD::from_shape_vec(shape, sums).expect("a sum for each column");
        }
        return x.sum_axis(axis).insert_axis(axis);
    }
    let half = x.len_of(axis) / 2;
    let (left, right) = x.split_at(axis, half);
    let mut sums = sum_in_halves(left, axis);
    sums.zip_mut_with(&sum_in_halves(right, axis), |sum, &right| *sum = *sum + right);
    sums
}

fn sum_lane<A: Element>(x: &[A], sum: impl Fn(&[A]) -> A + Copy) -> A {
    if x.len() <= RUN_LEN {
        return sum(x);
    }
    let (left, right) = x.split_at(x.len() / 2);
    sum_lane(left, sum) + sum_lane(right, sum)
}

/// Adds parts to `sum`: in their order, or the sums of the halves of a long list.
pub(crate) fn add_in_halves<'a, A: Element, D: Dimension, P: Copy>(
    order: &[P],
    part: &impl Fn(P) -> ArrayView<'a, A, D>,
    mut sum: ArrayViewMut<'_, A, D>,
) {
    if order.len() <= RUN_LEN {
        return order.iter().for_each(|&at| sum.zip_mut_with(&part(at), |sum, &term| *sum = *sum + term));
    }
    let (left, right) = order.split_at(order.len() / 2);
    let mut other = Array::from_elem(sum.raw_dim(), A::zero());
    add_in_halves(left, part, sum.view_mut());
    add_in_halves(right, part, other.view_mut());
    sum.zip_mut_with(&other, |sum, &other| *sum = *sum + other);
}

/// The slices along the first axis as contiguous rows, if they are contiguous: for instance some
/// columns of a matrix, or some channels of a batch.
fn as_rows<'a, A: Element>(x: &ArrayViewD<'a, A>) -> Option<ArrayView2<'a, A>> {
    let rows = x.shape().first().copied().filter(|&rows| rows > 0)?;
    let rows = match x.to_slice() {
        Some(all) => ArrayView2::from_shape([rows, all.len() / rows], all).ok(),
        None => {
            let mut x = x.clone();
            while x.ndim() > 2 {
                if !x.merge_axes(Axis(1), Axis(2)) {
                    return None;
                }
                x.index_axis_inplace(Axis(1), 0);
            }
            x.into_dimensionality().ok()
        }
    };
    rows.filter(|rows| rows.row(0).as_slice().is_some())
}

/// The sums along an axis, of at most [`RUN_LEN`] terms, if adjacent sums are sums of adjacent
/// elements.
fn sum_rows<A: Element>(x: &ArrayViewD<'_, A>, axis: Axis) -> Option<Vec<A>> {
    if axis == Axis(0) {
        let rows = as_rows(x)?;
        return Some(sum_of_rows(rows.outer_iter().map(|row| row.to_slice().expect("a contiguous row")), rows.ncols()));
    }
    let (terms, width) = (x.len_of(axis), x.shape()[axis.index() + 1..].iter().product());
    let all = x.to_slice().filter(|all| !all.is_empty() && width > 1)?;
    let mut sums = zeros(all.len() / terms);
    for (part, sums) in all.chunks_exact(terms * width).zip(sums.chunks_exact_mut(width)) {
        add_rows(part.chunks_exact(width), sums);
    }
    Some(sums)
}

/// The sum of at most [`RUN_LEN`] rows of this length.
pub(crate) fn sum_of_rows<'a, A: Element>(rows: impl Iterator<Item = &'a [A]>, len: usize) -> Vec<A> {
    let mut sums = zeros(len);
    add_rows(rows, &mut sums);
    sums
}

/// Adds the rows to the sums, in order.
pub(super) fn add_rows<'a, A: Element>(mut rows: impl Iterator<Item = &'a [A]>, sums: &mut [A]) {
    vectorized(
        #[inline(always)]
        || {
            for row in rows.by_ref() {
                for (sum, &x) in sums.iter_mut().zip(row) {
                    *sum = *sum + x;
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array1, s};

    const COUNT: usize = 300_003;

    fn tenths() -> Array1<f32> {
        Array1::from_elem(COUNT, 0.1)
    }

    fn is_right(sum: f32) {
        let right = COUNT as f32 * 0.1;
        assert!((sum - right).abs() < 1e-6 * right, "{sum} instead of {right}");
    }

    #[test]
    fn sum_of_many_tenths_is_accurate() {
        is_right(sum_all(tenths().view().into_dyn()));
        let strided = Array::from_elem((2 * COUNT,), 0.1_f32);
        is_right(sum_all(strided.slice_axis(Axis(0), ndarray::Slice::new(0, None, 2)).into_dyn()));
        let columns = Array::from_elem((COUNT, 2), 0.1_f32);
        sum_along(columns.view().into_dyn(), 0).iter().for_each(|&sum| is_right(sum));
        sum_along(columns.t().into_dyn(), 1).iter().for_each(|&sum| is_right(sum));
        let mut sum = PairwiseSum::new();
        tenths().iter().for_each(|&term| sum.add_in_order(&[term]));
        is_right(sum.total());
    }

    /// The loop over contiguous rows gives the same bits as the general one.
    #[test]
    fn contiguous_rows_give_same_bits() {
        let x = Array::from_shape_fn((100, 40), |(i, j)| (i * 7 + j) as f32 * 0.1);
        let by_lanes =
            |x: ArrayView2<'_, f32>| x.columns().into_iter().map(|lane| lane.iter().sum()).collect::<Vec<f32>>();
        let column_major = Array::from_shape_fn((40, 100), |(j, i)| x[[i, j]]).reversed_axes();
        for x in [x.view(), x.slice(s![.., 3..30]), x.slice(s![..;2, ..]), x.slice(s![.., ..;3]), column_major.view()] {
            let is_in_rows = x.row(0).as_slice().is_some();
            assert_eq!(as_rows(&x.into_dyn()).is_some(), is_in_rows);
            if is_in_rows {
                assert_eq!(sum_along(x.into_dyn(), 0).into_raw_vec_and_offset().0, by_lanes(x));
            }
        }
        let samples = Array::from_shape_fn((10, 4, 5, 6), |(i, j, k, l)| (i * 7 + j * 5 + k * 3 + l) as f32 * 0.1);
        let channels = samples.slice(s![.., 1..3, .., ..]);
        let rows = channels.to_shape((10, 60)).expect("one element each");
        assert!(
            as_rows(&channels.into_dyn()).is_some()
                && as_rows(&samples.slice(s![.., .., ..2, ..]).into_dyn()).is_none()
        );
        assert_eq!(sum_along(channels.into_dyn(), 0).into_raw_vec_and_offset().0, by_lanes(rows.view()));
        // along the second axis of each sample
        let by_sample = samples
            .outer_iter()
            .flat_map(|sample| by_lanes(sample.to_shape((4, 30)).expect("one element each").view()));
        assert!(sum_along(samples.view().into_dyn(), 1).into_iter().eq(by_sample));
    }
}
