//! Selection along an axis by indices, and the adjoint additions, on elements in row-major order.
//!
//! A tensor is `[before, length, after]` around the axis. Indices must be below `length`.

use super::add_in_halves;
use super::lanes::{LANE_GROUP, from_lanes, to_lanes};
use crate::fusion::{CHUNK_LEN, RUN_LEN, sum_in_order};
use crate::tensor::Element;
use dl_core::{buffers, parallel};
use ndarray::{ArrayView1, ArrayViewMut1, ArrayViewMut3, Axis};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The estimated time to select or to add an element, in nanoseconds.
const NANOSECONDS: f64 = 0.7;

/// Calls `work` with parts of a result in row-major order, and the index of the first element of
/// each. `width` elements stay together.
pub(crate) fn fill<A: Element>(len: usize, width: usize, work: impl Fn(usize, &mut [A]) + Sync) -> Vec<A> {
    let mut result = buffers::take_filled(len);
    let each = (CHUNK_LEN / width.max(1)).max(1) * width.max(1);
    let mut parts: Vec<&mut [A]> = result.chunks_mut(each).collect();
    parallel::for_each_mut(&mut parts, NANOSECONDS * each.min(len) as f64, |part, to| work(part * each, to));
    result
}

/// Whether all indices are below `length`.
pub(crate) fn all_below(indices: &[usize], length: usize) -> bool {
    let fits = |indices: &[usize]| indices.iter().fold(true, |fit, &index| fit & (index < length));
    let all = AtomicBool::new(true);
    let chunks = indices.len().div_ceil(CHUNK_LEN);
    parallel::for_each(chunks, 0.5 * CHUNK_LEN.min(indices.len()) as f64, |chunk| {
        if !fits(&indices[chunk * CHUNK_LEN..indices.len().min((chunk + 1) * CHUNK_LEN)]) {
            all.store(false, Relaxed);
        }
    });
    all.into_inner()
}

/// The slices at these indices: `[before, indices, after]`.
pub(crate) fn take<A: Element>(x: &[A], [before, length, after]: [usize; 3], indices: &[usize]) -> Vec<A> {
    let count = indices.len();
    fill(before * count * after, after, |first, mut to| {
        let mut first = first / after;
        while !to.is_empty() {
            // the slices in one block
            let (block, number) = (first / count, first % count);
            let now = (count - number).min(to.len() / after);
            let x = &x[block * length * after..][..length * after];
            let (slices, rest) = to.split_at_mut(now * after);
            let indices = &indices[number..number + now];
            match after {
                1 => slices.iter_mut().zip(indices).for_each(|(to, &index)| *to = x[index]),
                _ => slices.chunks_exact_mut(after).zip(indices).for_each(|(to, &index)| {
                    to.copy_from_slice(&x[index * after..][..after]);
                }),
            }
            (to, first) = (rest, first + now);
        }
    })
}

/// The indices that occur more often than a run of a sum is long. Their terms are summed in halves.
struct Frequent {
    /// The number of occurrences of each index; empty if none is frequent.
    counts: Vec<usize>,
    /// The places of the frequent indices, sorted by index.
    order: Vec<usize>,
}

impl Frequent {
    fn of(indices: &[usize], length: usize) -> Self {
        let mut counts = vec![0; if indices.len() > RUN_LEN { length } else { 0 }];
        if !counts.is_empty() {
            indices.iter().for_each(|&index| counts[index] += 1);
        }
        if counts.iter().all(|&count| count <= RUN_LEN) {
            return Frequent { counts: Vec::new(), order: Vec::new() };
        }
        let mut order: Vec<usize> = (0..indices.len()).filter(|&at| counts[indices[at]] > RUN_LEN).collect();
        order.sort_by_key(|&at| indices[at]);
        Frequent { counts, order }
    }

    fn has(&self, index: usize) -> bool {
        self.counts.get(index).is_some_and(|&count| count > RUN_LEN)
    }
}

/// Adds the slices `[before, indices, after]` of `parts` at their indices, in order.
pub(crate) fn add_taken<A: Element>(
    whole: &mut [A],
    [before, length, after]: [usize; 3],
    indices: &[usize],
    parts: &[A],
) {
    if whole.is_empty() || parts.is_empty() {
        return;
    }
    let frequent = Frequent::of(indices, length);
    // the slices from `first` on of one block
    let add = |block: usize, first: usize, to: &mut [A]| {
        let slice = |index: usize| index.checked_sub(first).map(|index| index * after..(index + 1) * after);
        let part = |number: usize| &parts[(block * indices.len() + number) * after..][..after];
        for (number, &index) in indices.iter().enumerate().filter(|&(_, &index)| !frequent.has(index)) {
            let to = slice(index).and_then(|slice| to.get_mut(slice));
            to.into_iter().flatten().zip(part(number)).for_each(|(sum, &part)| *sum = *sum + part);
        }
        for of_one in frequent.order.chunk_by(|&a, &b| indices[a] == indices[b]) {
            if let Some(to) = slice(indices[of_one[0]]).and_then(|slice| to.get_mut(slice)) {
                add_in_halves(of_one, &|number| ArrayView1::from(part(number)), ArrayViewMut1::from(to));
            }
        }
    };
    let (block, nanoseconds) = (length * after, NANOSECONDS * parts.len() as f64);
    if before > 1 {
        let each = (CHUNK_LEN / block).max(1);
        let mut chunks: Vec<&mut [A]> = whole.chunks_mut(each * block).collect();
        let nanoseconds = nanoseconds / chunks.len() as f64;
        parallel::for_each_mut(&mut chunks, nanoseconds, |chunk, blocks| {
            blocks.chunks_exact_mut(block).enumerate().for_each(|(nth, to)| add(chunk * each + nth, 0, to));
        });
    } else {
        // each chunk reads all indices
        let each = length.div_ceil(8);
        let mut chunks: Vec<&mut [A]> = whole.chunks_mut(each * after).collect();
        match parallel::is_divided(chunks.len(), nanoseconds / 8.0) {
            true => parallel::for_each_mut(&mut chunks, nanoseconds / 8.0, |chunk, to| add(0, chunk * each, to)),
            false => add(0, 0, whole),
        }
    }
}

/// One element along the axis for each index: `[before, count, after]`, as the indices.
pub(crate) fn gather<A: Element>(x: &[A], [before, length, after]: [usize; 3], indices: &[usize]) -> Vec<A> {
    let count = indices.len() / (before * after).max(1);
    // the elements of a line are in one block, and their indices are contiguous
    let (line, lines) = if after == 1 { (count, 1) } else { (after, count) };
    fill(indices.len(), 1, |first, to| {
        let mut done = 0;
        while done < to.len() {
            let (nth, start) = ((first + done) / line, (first + done) % line);
            let now = (line - start).min(to.len() - done);
            let block = &x[nth / lines * length * after..][..length * after];
            let pairs = to[done..done + now].iter_mut().zip(&indices[first + done..]);
            match after {
                1 => pairs.for_each(|(to, &index)| *to = block[index]),
                _ => pairs.zip(start..).for_each(|((to, &index), column)| *to = block[index * after + column]),
            }
            done += now;
        }
    })
}

/// The number of lanes that are copied together. They stay in L2.
const LANES: usize = 32;

/// Adds the elements of `source`, which has the shape of the indices, at their indices along the
/// axis, in order.
pub(crate) fn scatter_add<A: Element>(sums: &mut [A], shape: [usize; 3], indices: &[usize], source: &[A]) {
    let [before, length, after] = shape;
    if indices.is_empty() {
        return;
    }
    let count = indices.len() / (before * after);
    let nanoseconds = |lanes: usize| 2.0 * NANOSECONDS * (lanes * count) as f64;
    if after == 1 {
        let each = (CHUNK_LEN / length.max(count)).max(1);
        let lists = indices.chunks(each * count).zip(source.chunks(each * count));
        let mut parts: Vec<_> = sums.chunks_mut(each * length).zip(lists).collect();
        return parallel::for_each_mut(&mut parts, nanoseconds(each), |_, (sums, (indices, source))| {
            let lists = indices.chunks(count).zip(source.chunks(count));
            sums.chunks_mut(length).zip(lists).for_each(|(sums, (indices, terms))| add_lane(sums, indices, terms));
        });
    }
    let mut sums = ArrayViewMut3::from_shape(shape, sums).expect("as many elements");
    let mut blocks: Vec<_> = sums.outer_iter_mut().collect();
    let groups = blocks.iter_mut().enumerate().flat_map(|(block, sums)| {
        let groups = sums.axis_chunks_iter_mut(Axis(1), LANES).enumerate();
        groups.map(move |(group, sums)| (block * count * after + group * LANES, sums))
    });
    let mut groups: Vec<_> = groups.collect();
    parallel::for_each_mut(&mut groups, nanoseconds(LANES), |_, (first, sums)| {
        let width = sums.ncols();
        let [list, stride] = [count, length].map(|len| len + LANE_GROUP);
        let indices = to_lanes(indices[*first..].chunks(after).take(count), width, list);
        let terms = to_lanes(source[*first..].chunks(after).take(count), width, list);
        let rows = sums.outer_iter().map(|row| row.to_slice().expect("contiguous rows"));
        let mut lanes = to_lanes(rows, width, stride);
        let lists = indices.chunks(list).zip(terms.chunks(list));
        for (sums, (indices, terms)) in lanes.chunks_mut(stride).zip(lists) {
            add_lane(&mut sums[..length], &indices[..count], &terms[..count]);
        }
        from_lanes(&lanes, stride, sums);
    });
}

/// Adds terms at their indices, in order.
fn add_lane<A: Element>(sums: &mut [A], indices: &[usize], terms: &[A]) {
    let frequent = Frequent::of(indices, sums.len());
    for (&index, &term) in indices.iter().zip(terms).filter(|&(&index, _)| !frequent.has(index)) {
        sums[index] = sums[index] + term;
    }
    for of_one in frequent.order.chunk_by(|&a, &b| indices[a] == indices[b]) {
        let terms: Vec<A> = of_one.iter().map(|&at| terms[at]).collect();
        let sum = &mut sums[indices[of_one[0]]];
        *sum = *sum + sum_in_order(&terms);
    }
}
