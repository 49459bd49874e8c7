//! Instructions that are computed together, because one of them reads what the other one reads or
//! writes: what they have in common is fetched once, and an instruction less begins.
//!
//! Deltas are such: both sides of a product get theirs by another product with the same delta, and
//! where an operation has several readers, one of them often computes with nothing else.

use super::compile::{InstrKind, SelectedInstr};
use super::fused_ops::FusedOp;
use dl_core::Binary;

/// Joins instructions with earlier ones, of the steps of a program. Whether a step is there before
/// another one is computed says `is_there`.
pub(super) fn join(codes: &mut [Option<SelectedInstr>], is_there: impl Fn(usize, usize) -> bool) {
    for first in 0..codes.len() {
        let Some([a, b]) = product(&codes[first]) else { continue };
        let (now, later) = codes.split_at_mut(first + 1);
        let is_there = |step: usize| is_there(step, first);
        let code = with_reader(first, [a, b], later, &is_there).or_else(|| {
            let [of_a, of_b] = [a, b].map(|factor| products(factor, first + 1, later, &is_there));
            if of_b.len() > of_a.len() { with_products([b, a], &of_b) } else { with_products([a, b], &of_a) }
        });
        if let Some(code) = code {
            code.extra_outputs.iter().for_each(|&step| later[step - first - 1] = None);
            now[first] = Some(code);
        }
    }
}

/// The product of two steps, which is the step `first`, with one of the `later` ones that reads it.
fn with_reader(
    first: usize,
    [a, b]: [usize; 2],
    later: &[Option<SelectedInstr>],
    is_there: &impl Fn(usize) -> bool,
) -> Option<SelectedInstr> {
    later.iter().enumerate().find_map(|(index, reader)| {
        let Some(SelectedInstr { kind: InstrKind::FusedOp(FusedOp::Two { first: op, next: last }), reads, .. }) =
            *reader
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
        let kind = InstrKind::ProductAndMore { next, last };
        joins.then(|| SelectedInstr { kind, reads: [a, b, between, other], extra_outputs: vec![first + 1 + index] })
    })
}

/// The two next products with this factor, of the `later` steps, which begin with the step `from`;
/// and their other factors.
fn products(
    factor: usize,
    from: usize,
    later: &[Option<SelectedInstr>],
    is_there: &impl Fn(usize) -> bool,
) -> Vec<(usize, usize)> {
    let other = |[a, b]: [usize; 2]| if factor == a { Some(b) } else { (factor == b).then_some(a) };
    let steps = later.iter().enumerate().filter_map(|(index, code)| Some((from + index, other(product(code)?)?)));
    steps.filter(|&(_, other)| is_there(other)).take(2).collect()
}

/// A product, and others with the same factor.
fn with_products([factor, other]: [usize; 2], others: &[(usize, usize)]) -> Option<SelectedInstr> {
    let (kind, reads) = match *others {
        [(_, second)] => (InstrKind::TwoProducts, [factor, other, second, factor]),
        [(_, second), (_, third)] => (InstrKind::ThreeProducts, [factor, other, second, third]),
        _ => return None,
    };
    Some(SelectedInstr { kind, reads, extra_outputs: others.iter().map(|&(step, _)| step).collect() })
}

/// The factors of an instruction that is a product and nothing else.
fn product(code: &Option<SelectedInstr>) -> Option<[usize; 2]> {
    match *code {
        Some(SelectedInstr { kind: InstrKind::Binary(Binary::Mul), reads: [a, b, ..], .. }) => Some([a, b]),
        _ => None,
    }
}
