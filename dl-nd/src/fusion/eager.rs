//! Single operations on slices. For small tensors this is cheaper than compiling a program.

use super::program::{BroadcastStrides, CHUNK_LEN, load};
use super::{PointwiseLoop, loop_table, loops};
use crate::tensor::Element;
use dl_core::{Binary, Unary, buffers, parallel};
use std::borrow::Cow;

/// Applies an operation to each element.
pub(crate) fn unary<A: Element>(op: Unary, x: &[A]) -> Vec<A> {
    let mut result = buffers::take_filled(x.len());
    (loop_table::loops::<A>().unary)(op)([x; 4], &mut result);
    loops::canonicalize_nans(&mut result);
    result
}

/// Applies an operation to each element and a number, which is the left operand when `left`.
pub(crate) fn with_number<A: Element>(op: Binary, x: &[A], number: A, left: bool) -> Vec<A> {
    let mut result = buffers::take_filled(x.len());
    PointwiseLoop::with_number(op, number, left).run(x, x, &mut result);
    loops::canonicalize_nans(&mut result);
    result
}

/// Applies an operation to pairs of elements.
pub(crate) fn binary<A: Element>(op: Binary, a: &[A], b: &[A]) -> Vec<A> {
    let mut result = buffers::take_filled(a.len());
    (loop_table::loops::<A>().binary)(op)([a, b, b, b], &mut result);
    loops::canonicalize_nans(&mut result);
    result
}

/// Applies an operation to two operands that broadcast to `shape`.
pub(crate) fn broadcast<A: Element>(
    op: Binary,
    (a, shape_a): (&[A], &[usize]),
    (b, shape_b): (&[A], &[usize]),
    shape: &[usize],
) -> Vec<A> {
    let len: usize = shape.iter().product();
    let whole = |x, own| if <[A]>::len(x) == len { Cow::Borrowed(x) } else { Cow::Owned(repeat(x, own, shape)) };
    let (a, b) = (whole(a, shape_a), whole(b, shape_b));
    let result = binary(op, &a, &b);
    for operand in [a, b] {
        if let Cow::Owned(strides) = operand {
            buffers::give_back(strides);
        }
    }
    result
}

/// Broadcasts a tensor of shape `own` to `shape`.
pub(crate) fn repeat<A: Element>(x: &[A], own: &[usize], shape: &[usize]) -> Vec<A> {
    let mut result = buffers::take_filled(shape.iter().product());
    let rows = own.iter().position(|&length| length != 1).unwrap_or(own.len());
    match *x {
        _ if result.is_empty() => {}
        [element] => result.fill(element),
        // repeated rows, such as the bias of a layer
        _ if shape.ends_with(&own[rows..]) => fill(&mut result, x),
        _ => load(x, &BroadcastStrides::of(own, shape), 0, &mut result),
    }
    result
}

/// Fills the rows with copies of a row.
fn fill<A: Element>(rows: &mut [A], row: &[A]) {
    let fill = |rows: &mut [A]| rows.chunks_exact_mut(row.len()).for_each(|to| to.copy_from_slice(row));
    if rows.len() <= CHUNK_LEN {
        return fill(rows);
    }
    let mut chunks: Vec<&mut [A]> = rows.chunks_mut(CHUNK_LEN.next_multiple_of(row.len())).collect();
    parallel::for_each_mut(&mut chunks, 0.1 * CHUNK_LEN as f64, |_, chunk| fill(chunk));
}
