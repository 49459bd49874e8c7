//! What is computed along some axes, in pieces along another one, so that several threads can share
//! it. The pieces depend on the shape alone, and each result on its own lane: so bits do not depend
//! on who computes what.

use crate::fusion::CHUNK_LEN;
use crate::tensor::Element;
use dl_core::parallel;
use ndarray::{ArrayD, ArrayView1, ArrayViewD, ArrayViewMut1, Axis};

/// So many elements of a row are taken together at least.
const MIN_ROW_LEN: usize = 128;

/// Reduces a tensor along some axes, which stay, with length 1, in about so many nanoseconds for an
/// element.
pub(crate) fn reduce_in_chunks<A: Element>(
    x: ArrayViewD<'_, A>,
    axes: &[usize],
    nanoseconds: f64,
    reduce: impl Fn(ArrayViewD<'_, A>) -> ArrayD<A> + Sync,
) -> ArrayD<A> {
    let most = |axis: usize| x.shape()[axis] / if x.strides()[axis].abs() == 1 { MIN_ROW_LEN } else { 1 };
    let others = (0..x.ndim()).filter(|axis| !axes.contains(axis));
    // the first one of several: so what lies within a piece is in as few parts as possible
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

/// What is read, and where the result goes.
pub(crate) type Lane<'a, A> = (ArrayView1<'a, A>, ArrayViewMut1<'a, A>);

/// A multiple of the widest register: of so many elements none is computed on its own.
pub(crate) const LANE_GROUP: usize = 16;

/// So many elements are given out together, as whole registers of lanes if there are that many:
/// what is computed of them stays in the nearest cache.
const LANE_GROUP_LEN: usize = 512;

/// Reads lanes of length `len` and writes as many others, in about so many nanoseconds for an
/// element. `work` is given some lanes that come one after the other, and told the number of the
/// first.
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
