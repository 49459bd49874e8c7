//! Parallel loops over the lanes of a tensor. The chunks depend on the shape only, and each result
//! on its own lane, so the bits do not depend on the threads.

use crate::fusion::CHUNK_LEN;
use crate::tensor::{Element, Item, Rank};
use dl_core::parallel;
use ndarray::{Array, ArrayD, ArrayView, ArrayView1, ArrayViewD, ArrayViewMut1, Axis};

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

/// Calls `work` with each lane of `x` along an axis and the lane of `y` at the same place.
/// `nanoseconds` is the estimated time for an element of `x`.
pub(crate) fn for_each_lane_pair<A: Item, B: Item, D: Rank>(
    x: ArrayView<'_, A, D>,
    y: &mut Array<B, D>,
    axis: usize,
    nanoseconds: f64,
    work: impl Fn(ArrayView1<'_, A>, ArrayViewMut1<'_, B>) + Sync,
) {
    let each = nanoseconds * x.len_of(Axis(axis)) as f64;
    let mut lanes: Vec<_> = x.lanes(Axis(axis)).into_iter().zip(y.lanes_mut(Axis(axis))).collect();
    parallel::for_each_mut(&mut lanes, each, |_, (x, y)| work(x.view(), y.view_mut()));
}
