//! Instructions that are computed together, because one of them reads what the other one reads or
//! writes: what they have in common is fetched once, and an instruction less begins.
//!
//! Deltas are such: both sides of a product get theirs by another product with the same delta, and
//! where an operation has several readers, one of them often computes with nothing else.

use super::compile::{Pattern, Selection};
use super::fused_ops::FusedOp;
use dl_core::Binary;

/// Joins instructions with earlier ones, of the steps of a program. Whether a step is there before
/// another one is computed says `is_there`.
pub(super) fn join(selections: &mut [Option<Selection>], is_there: impl Fn(usize, usize) -> bool) {
    for first in 0..selections.len() {
        let Some([a, b]) = product(&selections[first]) else { continue };
        let (now, later) = selections.split_at_mut(first + 1);
        let is_there = |value: usize| is_there(value, first);
        let selection = with_reader(first, [a, b], later, &is_there).or_else(|| {
            let [of_a, of_b] = [a, b].map(|factor| products(factor, first + 1, later, &is_there));
            if of_b.len() > of_a.len() { with_products([b, a], &of_b) } else { with_products([a, b], &of_a) }
        });
        if let Some(selection) = selection {
            selection.extra_outputs.iter().for_each(|&value| later[value - first - 1] = None);
            now[first] = Some(selection);
        }
    }
}

/// The product of two steps, which is the step `first`, with one of the `later` ones that reads it.
fn with_reader(
    first: usize,
    [a, b]: [usize; 2],
    later: &[Option<Selection>],
    is_there: &impl Fn(usize) -> bool,
) -> Option<Selection> {
    later.iter().enumerate().find_map(|(index, reader)| {
        let Some(Selection { kind: Pattern::Fused(FusedOp::Two { first: op, next: last }), reads, .. }) = *reader
        else {
            return None;
        };
        let [left, right, other, _] = reads;
        let (next, between) = match (left == first, right == first) {
            (true, false) => (op.chained_left(), right),
            (false, true) => (op.chained_right(), left),
            _ => return None,
        };
        // which the product itself is not
        let joins = is_there(between) && is_there(other);
        let kind = Pattern::ProductAndMore { next, last };
        joins.then(|| Selection { kind, reads: [a, b, between, other], extra_outputs: vec![first + 1 + index] })
    })
}

/// The two next products with this factor, of the `later` steps, which begin with the step `from`;
/// and their other factors.
fn products(
    factor: usize,
    from: usize,
    later: &[Option<Selection>],
    is_there: &impl Fn(usize) -> bool,
) -> Vec<(usize, usize)> {
    let other = |[a, b]: [usize; 2]| if factor == a { Some(b) } else { (factor == b).then_some(a) };
    let values =
        later.iter().enumerate().filter_map(|(index, selection)| Some((from + index, other(product(selection)?)?)));
    values.filter(|&(_, other)| is_there(other)).take(2).collect()
}

/// A product, and others with the same factor.
fn with_products([factor, other]: [usize; 2], others: &[(usize, usize)]) -> Option<Selection> {
    let (kind, reads) = match *others {
        [(_, second)] => (Pattern::TwoProducts, [factor, other, second, factor]),
        [(_, second), (_, third)] => (Pattern::ThreeProducts, [factor, other, second, third]),
        _ => return None,
    };
    Some(Selection { kind, reads, extra_outputs: others.iter().map(|&(value, _)| value).collect() })
}

/// The factors of an instruction that is a product and nothing else.
fn product(selection: &Option<Selection>) -> Option<[usize; 2]> {
    match *selection {
        Some(Selection { kind: Pattern::Binary(Binary::Mul), reads: [a, b, ..], .. }) => Some([a, b]),
        _ => None,
    }
}
