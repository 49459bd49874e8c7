//! Parallel loops over the lanes of a tensor. The chunks depend on the shape only, and each result
//! on its own lane, so the bits do not depend on the threads.

use super::around;
use crate::fusion::CHUNK_LEN;
use crate::tensor::{Element, Item, Rank};
use dl_core::parallel;
use ndarray::{
    Array, ArrayD, ArrayView, ArrayView1, ArrayViewD, ArrayViewMut1, ArrayViewMut2, ArrayViewMut3, ArrayViewMutD, Axis,
};

/// The minimum length of a contiguous part of a row in a chunk.
const MIN_ROW_LEN: usize = 128;

/// Reduces a tensor along some axes, which are kept with length 1. `nanoseconds` is the estimated
/// time per element.
pub(crate) fn reduce_in_chunks<A: Element>(
    x: ArrayViewD<'_, A>,
    axes: &[usize],
    nanoseconds: f64,
    reduce: impl Fn(ArrayViewD<'_, A>) -> ArrayD<A> + Sync,
) -> ArrayD<A> {
    let most = |axis: usize| x.shape()[axis] / if x.strides()[axis].abs() == 1 { MIN_ROW_LEN } else { 1 };
    let others = (0..x.ndim()).filter(|axis| !axes.contains(axis));
    // the first of several axes: the elements of a chunk are then in few contiguous parts
    let across = others.rev().max_by_key(|&axis| most(axis));
    let chunks = across.map_or(0, |axis| most(axis).min(x.len() / CHUNK_LEN));
    let (Some(across), 2..) = (across, chunks) else { return reduce(x) };
    let each = x.shape()[across].div_ceil(chunks);
    let mut kept = x.raw_dim();
    axes.iter().for_each(|&axis| kept[axis] = 1);
    let mut whole = ArrayD::zeros(kept);
    let places = whole.axis_chunks_iter_mut(Axis(across), each);
    let mut parts: Vec<_> = x.axis_chunks_iter(Axis(across), each).zip(places).collect();
    let nanoseconds = nanoseconds * x.len() as f64 / parts.len() as f64;
    parallel::for_each_mut(&mut parts, nanoseconds, |_, (part, to)| to.assign(&reduce(part.view())));
    whole
}

/// An input lane and its output lane.
pub(crate) type Lane<'a, A> = (ArrayView1<'a, A>, ArrayViewMut1<'a, A>);

/// A multiple of the lanes of the widest register.
pub(crate) const LANE_GROUP: usize = 16;

/// The number of elements that are processed together. They stay in L1. The lanes are a multiple of
/// [`LANE_GROUP`] if there are that many.
const LANE_GROUP_LEN: usize = 512;

/// Calls `work` with groups of consecutive lanes and the index of the first lane of each. `count`
/// and `len` are the number and the length of the input lanes, `nanoseconds` is the estimated time
/// per element.
pub(crate) fn for_each_lane<'a, A: Element>(
    lanes: impl Iterator<Item = Lane<'a, A>>,
    (count, len): (usize, usize),
    nanoseconds: f64,
    work: impl Fn(usize, &mut [Lane<'_, A>]) + Sync,
) {
    let few = match LANE_GROUP_LEN / len.max(1) {
        few @ ..LANE_GROUP => few.max(1),
        few => few / LANE_GROUP * LANE_GROUP,
    };
    let run_in_order = |first: usize, lanes: &mut [Lane<'_, A>]| {
        for (chunk, lanes) in lanes.chunks_mut(few).enumerate() {
            work(first + chunk * few, lanes);
        }
    };
    let mut lanes: Vec<_> = lanes.collect();
    if count < 2 || count * len < 2 * CHUNK_LEN {
        return run_in_order(0, &mut lanes);
    }
    let each = (CHUNK_LEN / len).max(1);
    let mut chunks: Vec<_> = lanes.chunks_mut(each).collect();
    parallel::for_each_mut(&mut chunks, nanoseconds * (each * len) as f64, |chunk, lanes| {
        run_in_order(chunk * each, lanes)
    });
}

/// Calls `work` with each lane of `x` along an axis and the lane of `y` at the same place, both
/// contiguous: lanes that are not are copied, a cache line of them at a time. `y` must be in
/// row-major order. `nanoseconds` is the estimated time for an element of `x`.
pub(crate) fn for_each_lane_pair<A: Item, B: Item, D: Rank>(
    x: ArrayView<'_, A, D>,
    y: &mut Array<B, D>,
    axis: usize,
    nanoseconds: f64,
    work: impl Fn(&[A], &mut [B]) + Sync,
) {
    let ([before, length, after], count) = (around(x.shape(), axis), y.shape()[axis]);
    if x.is_empty() || y.is_empty() {
        return;
    }
    let x = x.as_standard_layout();
    let (x, y) = (x.as_slice().expect("in row-major order"), y.as_slice_mut().expect("in row-major order"));
    if after == 1 {
        let each = (CHUNK_LEN / length).max(1);
        let mut parts: Vec<_> = x.chunks(each * length).zip(y.chunks_mut(each * count)).collect();
        return parallel::for_each_mut(&mut parts, nanoseconds * (each * length) as f64, |_, (x, y)| {
            x.chunks_exact(length).zip(y.chunks_exact_mut(count)).for_each(|(x, y)| work(x, y));
        });
    }
    let mut y = ArrayViewMut3::from_shape([before, count, after], y).expect("as many elements");
    let mut blocks: Vec<_> = x.chunks_exact(length * after).zip(y.outer_iter_mut()).collect();
    let groups = blocks.iter_mut().flat_map(|(x, y)| {
        let groups = y.axis_chunks_iter_mut(Axis(1), LANE_GROUP).enumerate();
        groups.map(|(group, y)| (&x[group * LANE_GROUP..], y))
    });
    let mut groups: Vec<_> = groups.collect();
    parallel::for_each_mut(&mut groups, nanoseconds * (LANE_GROUP * length) as f64, |_, (x, y)| {
        // a stride of a power of two would put all lanes into the same set of the cache
        let (width, stride) = (y.ncols(), length + LANE_GROUP);
        let lanes = to_lanes(x.chunks(after), width, stride);
        let mut results = to_lanes(y.outer_iter().map(|row| row.to_slice().expect("contiguous rows")), width, count);
        let lanes = lanes.chunks_exact(stride).map(|lane| &lane[..length]);
        lanes.zip(results.chunks_exact_mut(count)).for_each(|(x, y)| work(x, y));
        from_lanes(&results, count, y);
    });
}

/// Copies the first `width` columns of some rows to lanes, which begin `stride` elements apart.
pub(super) fn to_lanes<'a, T: Copy + 'a>(rows: impl Iterator<Item = &'a [T]>, width: usize, stride: usize) -> Vec<T> {
    let mut lanes = Vec::new();
    for (step, row) in rows.enumerate() {
        if step == 0 {
            lanes.resize(width * stride, row[0]);
        }
        row[..width].iter().enumerate().for_each(|(lane, &x)| lanes[lane * stride + step] = x);
    }
    lanes
}

/// Copies lanes back to the columns.
pub(super) fn from_lanes<T: Copy>(lanes: &[T], stride: usize, columns: &mut ArrayViewMut2<'_, T>) {
    for (step, mut row) in columns.outer_iter_mut().enumerate() {
        row.iter_mut().enumerate().for_each(|(lane, y)| *y = lanes[lane * stride + step]);
    }
}

/// Calls `each` with all pairs of elements of two arrays of the same shape.
pub(crate) fn zip_in_parts<A: Item, B: Item>(
    mut to: ArrayViewMutD<'_, A>,
    from: ArrayViewD<'_, B>,
    each: impl Fn(&mut A, &B) + Sync,
) {
    let axis = (0..to.ndim()).find(|&axis| to.shape()[axis] > 1).unwrap_or(0);
    let parts = (to.len() / CHUNK_LEN).min(to.shape().get(axis).copied().unwrap_or(1));
    if parts < 2 {
        return to.zip_mut_with(&from, each);
    }
    let rows = to.shape()[axis].div_ceil(parts);
    let mut parts: Vec<_> =
        to.axis_chunks_iter_mut(Axis(axis), rows).zip(from.axis_chunks_iter(Axis(axis), rows)).collect();
    parallel::for_each_mut(&mut parts, 0.5 * CHUNK_LEN as f64, |_, (to, from)| to.zip_mut_with(from, &each));
}

/// The larger number; NaN if either is.
#[inline(always)]
pub(crate) fn larger<A: Element>(largest: A, x: A) -> A {
    if x > largest || x.is_nan() { x } else { largest }
}

/// The largest element; NaN if there is one, −∞ of no elements.
#[inline(always)]
pub(crate) fn largest_of<A: Element>(x: &[A]) -> A {
    let (rows, rest) = x.as_chunks::<LANE_GROUP>();
    // a local, not a captured variable, so that it stays in registers
    let mut maxima = [A::neg_infinity(); LANE_GROUP];
    maxima[..rest.len()].copy_from_slice(rest);
    for row in rows {
        for i in 0..LANE_GROUP {
            maxima[i] = larger(maxima[i], row[i]);
        }
    }
    let mut left = LANE_GROUP;
    while left > 1 {
        left /= 2;
        for i in 0..left {
            maxima[i] = larger(maxima[i], maxima[left + i]);
        }
    }
    maxima[0]
}
