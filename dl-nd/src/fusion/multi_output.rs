//! Instructions with several outputs. Instructions that share operands are merged, so that the
//! operands are loaded once and the overhead of an instruction is saved.
//!
//! Backward passes produce such instructions: the deltas of both factors of a product are products
//! with the same delta.

use super::fused_ops::{ChainOp, FusedOp};
use super::select::{Pattern, Selection};
use dl_core::Binary;

/// Merges instructions with earlier ones. `is_there(value, before)` returns whether a value is
/// available before another one is computed.
pub(super) fn join(selections: &mut [Option<Selection>], is_there: impl Fn(usize, usize) -> bool) {
    for first in 0..selections.len() {
        let Some((strong, [a, b])) = product(&selections[first]) else { continue };
        let (now, later) = selections.split_at_mut(first + 1);
        let is_there = |value: usize| is_there(value, first);
        let selection = with_reader(first, strong, [a, b], later, &is_there).or_else(|| {
            let [of_a, of_b] = [a, b].map(|factor| products(factor, strong, first + 1, later, &is_there));
            match !strong && of_b.len() > of_a.len() {
                true => with_products(strong, [b, a], &of_b),
                false => with_products(strong, [a, b], &of_a),
            }
        });
        if let Some(selection) = selection {
            selection.extra_outputs.iter().for_each(|&value| later[value - first - 1] = None);
            now[first] = Some(selection);
        }
    }
}

/// Merges the product `first = a · b` with one of the `later` instructions that reads it.
fn with_reader(
    first: usize,
    strong: bool,
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
        // excludes a second use of the product itself
        let is_plain = |op: ChainOp| !matches!(op, ChainOp::StrongMul | ChainOp::StrongMulBy);
        let joins = is_there(between) && is_there(other) && is_plain(next) && is_plain(last);
        let kind = Pattern::ProductAndMore { strong, next, last };
        joins.then(|| Selection { kind, reads: [a, b, between, other], extra_outputs: vec![first + 1 + index] })
    })
}

/// The next two products with this factor among the `later` values, which begin with value `from`,
/// and their other factors. Strong products share the left factor.
fn products(
    factor: usize,
    strong: bool,
    from: usize,
    later: &[Option<Selection>],
    is_there: &impl Fn(usize) -> bool,
) -> Vec<(usize, usize)> {
    let other = |(is_strong, [a, b]): (bool, [usize; 2])| match is_strong == strong {
        true if factor == a => Some(b),
        true if factor == b && !strong => Some(a),
        _ => None,
    };
    let values =
        later.iter().enumerate().filter_map(|(index, selection)| Some((from + index, other(product(selection)?)?)));
    values.filter(|&(_, other)| is_there(other)).take(2).collect()
}

/// Merges products that share a factor.
fn with_products(strong: bool, [factor, other]: [usize; 2], others: &[(usize, usize)]) -> Option<Selection> {
    let (kind, reads) = match *others {
        [(_, second)] => (Pattern::TwoProducts(strong), [factor, other, second, factor]),
        [(_, second), (_, third)] => (Pattern::ThreeProducts(strong), [factor, other, second, third]),
        _ => return None,
    };
    Some(Selection { kind, reads, extra_outputs: others.iter().map(|&(value, _)| value).collect() })
}

/// The factors of an instruction that is a single product, and whether it is strong.
fn product(selection: &Option<Selection>) -> Option<(bool, [usize; 2])> {
    match *selection {
        Some(Selection {
            kind: Pattern::Binary(op @ (Binary::Mul | Binary::StrongMul)), reads: [a, b, ..], ..
        }) => Some((op == Binary::StrongMul, [a, b])),
        _ => None,
    }
}
