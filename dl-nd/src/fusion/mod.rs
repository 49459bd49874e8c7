//! Pointwise operations as a straight-line program, which runs over blocks of elements that fit
//! into the nearest cache.
//!
//! An instruction does for a block what its operation does for an element, compiled for the
//! instruction set at hand: AVX-512, AVX2, or what every processor of its kind has. The arithmetic
//! of an element does not depend on its place, so blocks do not decide about the bits of a result;
//! the instruction set does only where elementary functions fuse a product and a sum.

mod compile;
mod defer;
mod eager;
mod elements;
mod fused_ops;
mod in_place;
#[allow(unsafe_code, reason = "what instructions read and write is looked up in a list of addresses")]
mod interpret;
mod loop_table;
mod loops;
mod multi_output;
mod pairwise_sum;
#[allow(unsafe_code, reason = "a hint to the processor is an intrinsic")]
mod prefetch;
mod program;
#[cfg(test)]
mod tests;

pub(crate) use defer::{nanoseconds_until_deferred, should_defer, sum_and_realize};
pub(crate) use eager::{binary, broadcast, repeat, unary, with_number};
pub(crate) use loops::{add_assign, canonicalize_nan, map_in_place, sgd_update};
pub(crate) use pairwise_sum::{PairwiseSum, RUN_LEN, combine_chunk_sums, sum_in_order};
pub(crate) use prefetch::prefetch;
pub(crate) use program::{CHUNK_LEN, vector_nanoseconds};

use crate::tensor::aligned::AlignedBuf;
use crate::tensor::{Element, LazyTensor, Rank, Storage};
use program::Program;

/// The elements of this formula.
pub(crate) fn compute<A: Element, D: Rank>(lazy: &LazyTensor<A, D>) -> Storage<A, D> {
    in_place::compute(lazy).unwrap_or_else(|| compute_all(&[lazy]).pop().expect("one result for one formula"))
}

/// The elements of these formulas, at most [`MAX_RESULTS`], which have one shape.
pub(crate) fn compute_all<A: Element, D: Rank>(tensors: &[&LazyTensor<A, D>]) -> Vec<Storage<A, D>> {
    run(tensors, false).1
}

/// The sum of the elements of this formula, which are not kept, and the elements of others, which
/// are. To the bit the sum of the elements as they would be.
pub(crate) fn sum<A: Element, D: Rank>(lazy: &LazyTensor<A, D>, others: &[&LazyTensor<A, D>]) -> A {
    let tensors: Vec<&LazyTensor<A, D>> = std::iter::once(lazy).chain(others.iter().copied()).collect();
    let (sum, computed) = run(&tensors, true);
    others.iter().zip(computed).for_each(|(lazy, elements)| lazy.keep(elements));
    sum
}

/// The elements of these formulas; when `sums`, the first one is only summed, and those are the
/// elements of the others.
fn run<A: Element, D: Rank>(tensors: &[&LazyTensor<A, D>], sums: bool) -> (A, Vec<Storage<A, D>>) {
    let (program, kept) = Program::of(tensors, sums);
    let summed = usize::from(sums);
    let mut rooms: Vec<AlignedBuf<A>> = program.rooms();
    let sum = program.run(&mut rooms);
    let mut results: Vec<Storage<A, D>> = rooms.into_iter().map(|room| tensors[0].elements(room)).collect();
    kept.into_iter().for_each(|(lazy, result)| lazy.keep(results[result - summed].clone()));
    results.truncate(tensors.len() - summed);
    (sum, results)
}
