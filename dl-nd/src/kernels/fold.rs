//! Products and extrema along axes. The order of the operations depends on the shape and the strides
//! only.

use crate::fusion::{CHUNK_LEN, canonicalize_nan};
use crate::tensor::Element;
use dl_core::simd::vectorized;
use dl_core::{buffers, parallel};
use ndarray::{ArrayD, ArrayViewD, CowArray, IxDyn};
use std::cmp::Reverse;

/// The lengths `[before, length, after]` around an axis.
pub(crate) fn around(shape: &[usize], axis: usize) -> [usize; 3] {
    [shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product()]
}

/// The same elements with their axes in the order in which they are in memory, in row-major order
/// (copied if they are not contiguous), and that order.
pub(crate) fn in_memory_order<A: Element>(x: ArrayViewD<'_, A>) -> (CowArray<'_, A, IxDyn>, Vec<usize>) {
    let mut order: Vec<usize> = (0..x.ndim()).collect();
    // stable: the axes of row-major order stay in place, also beside axes of length 1
    if !x.is_standard_layout() {
        order.sort_by_key(|&axis| Reverse(x.strides()[axis].unsigned_abs()));
    }
    let x = x.permuted_axes(order.clone());
    (if x.is_standard_layout() { x.into() } else { x.as_standard_layout().into_owned().into() }, order)
}

/// The order that brings permuted axes back.
pub(crate) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &axis)| back[axis] = to);
    back
}

/// Folds a tensor along some axes, which are kept with length 1. `value` must be associative, up to
/// rounding, and commutative. A fold of no elements is `empty`.
pub(crate) fn fold_axes<A: Element>(
    x: ArrayViewD<'_, A>,
    axes: &[usize],
    empty: A,
    value: impl Fn(A, A) -> A + Copy + Sync,
) -> ArrayD<A> {
    let Some(&first) = axes.first() else { return x.to_owned() };
    let (x, order) = in_memory_order(x);
    let place = |axis: usize| order.iter().position(|&other| other == axis).expect("it is one of the axes");
    // the axes beside the first one in memory are folded together with it
    let beside = |at: &usize| axes.contains(&order[*at]);
    let start = (0..place(first)).rev().take_while(beside).last().unwrap_or(place(first));
    let end = (start..x.ndim()).take_while(beside).count() + start;
    let (shape, elements) = (x.shape(), x.as_slice().expect("in row-major order"));
    let lengths = [&shape[..start], &shape[start..end], &shape[end..]].map(|lengths| lengths.iter().product());
    let mut reduced = shape.to_vec();
    reduced[start..end].fill(1);
    let folded = ArrayD::from_shape_vec(reduced, fold(elements, lengths, empty, value)).expect("one for each lane");
    let folded = folded.permuted_axes(inverse(&order));
    let rest: Vec<usize> = axes.iter().copied().filter(|&axis| !(start..end).contains(&place(axis))).collect();
    if rest.is_empty() { folded } else { fold_axes(folded.view(), &rest, empty, value) }
}

/// The number of elements of a row that are folded together. They stay in L1.
const SEGMENT_LEN: usize = 2048;
/// A chunk has at least this many rows, if there are more than twice as many.
const MIN_ROWS: usize = 16;

/// Folds `[before, rows, after]` along its rows.
fn fold<A: Element>(
    x: &[A],
    [before, rows, after]: [usize; 3],
    empty: A,
    value: impl Fn(A, A) -> A + Copy + Sync,
) -> Vec<A> {
    if x.is_empty() {
        return vec![empty; before * after];
    }
    // a long fold is divided into parts, whose results are folded
    let part = (CHUNK_LEN / after).max(MIN_ROWS);
    let part = if rows > 2 * part { part } else { rows };
    let parts = rows.div_ceil(part);
    let mut results = buffers::take_filled(before * parts * after);
    let len = results.len();
    let each = if after > CHUNK_LEN { CHUNK_LEN } else { (CHUNK_LEN / (part * after)).max(1) * after };
    let mut chunks: Vec<&mut [A]> = results.chunks_mut(each).collect();
    let nanoseconds = 0.3 * (x.len() * each.min(len) / len) as f64;
    parallel::for_each_mut(&mut chunks, nanoseconds, |chunk, to| {
        let mut done = 0;
        while done < to.len() {
            let (row, column) = ((chunk * each + done) / after, (chunk * each + done) % after);
            let now = (after - column).min(to.len() - done).min(SEGMENT_LEN);
            let first = row / parts * rows + row % parts * part;
            let count = part.min(rows - row % parts * part);
            let x = &x[first * after + column..][..(count - 1) * after + now];
            fold_rows(x, after, &mut to[done..done + now], value);
            done += now;
        }
    });
    if parts == 1 { results } else { fold(&results, [before, parts, after], empty, value) }
}

/// Folds rows that begin `step` elements apart, and are as long as the result.
fn fold_rows<A: Element>(x: &[A], step: usize, to: &mut [A], value: impl Fn(A, A) -> A) {
    vectorized(
        #[inline(always)]
        || {
            if step == 1 {
                to[0] = fold_row(x, &value);
            } else {
                to.copy_from_slice(&x[..to.len()]);
                for row in x.chunks(step).skip(1) {
                    for (to, &x) in to.iter_mut().zip(row) {
                        *to = value(*to, x);
                    }
                }
            }
            for to in to.iter_mut() {
                *to = canonicalize_nan(*to);
            }
        },
    );
}

/// Folds contiguous elements, of which there is at least one.
#[inline(always)]
fn fold_row<A: Element>(x: &[A], value: &impl Fn(A, A) -> A) -> A {
    const LANES: usize = 32;
    let (rows, rest) = x.as_chunks::<LANES>();
    let Some((first, rows)) = rows.split_first() else {
        return x[1..].iter().fold(x[0], |all, &next| value(all, next));
    };
    // a local, not a captured variable, so that it stays in registers
    let mut lanes = *first;
    for row in rows {
        for i in 0..LANES {
            lanes[i] = value(lanes[i], row[i]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = value(*lane, x);
    }
    let mut left = LANES;
    while left > 1 {
        left /= 2;
        for i in 0..left {
            lanes[i] = value(lanes[i], lanes[left + i]);
        }
    }
    lanes[0]
}
