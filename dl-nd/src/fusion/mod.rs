//! Fusion of pointwise operations.
//!
//! Pointwise operations on large tensors are deferred: their results are lazy tensors. When the
//! elements of a lazy tensor are needed, its expression is compiled into a straight-line program,
//! and the program runs over blocks of elements that fit into the L1 cache. A chain of pointwise
//! operations thus reads its operands and writes its result once.
//!
//! An instruction applies one operation, or a few cheap ones, to a block. Its loop is compiled for
//! the instruction set at hand: AVX-512, AVX2, or the baseline of the target.
//!
//! Invariant: the arithmetic of an element must not depend on its position. Chunks, blocks and
//! threads therefore do not change a bit of a result. The instruction set does, but only in
//! elementary functions that use fused multiply-adds.

mod block_loops;
mod compile;
mod defer;
mod eager;
mod fused_ops;
mod in_place;
#[allow(unsafe_code, reason = "what instructions read and write is looked up in a list of addresses")]
mod interpret;
mod loop_table;
mod loops;
mod multi_output;
mod on_device;
mod pairwise_sum;
mod pointwise_loop;
#[allow(unsafe_code, reason = "a hint to the processor is an intrinsic")]
mod prefetch;
mod program;
mod select;
#[cfg(test)]
mod tests;

pub(crate) use block_loops::{BlockLoop, LoopOperand, block_loops};
pub(crate) use defer::{is_small, nanoseconds_until_deferred, realize, should_defer, sum_and_realize};
pub(crate) use eager::{binary, broadcast, repeat, unary, with_number};
pub(crate) use loops::{VectorLoop, add_assign, canonicalize_nan, canonicalize_nans, map_in_place, sgd_update};
pub(crate) use on_device::{compute_on_device, filled_on, number_later, table, view_on};
pub(crate) use pairwise_sum::{PairwiseSum, RUN_LEN, combine_chunk_sums, sum_in_order, sums_in_order};
pub(crate) use pointwise_loop::PointwiseLoop;
pub(crate) use prefetch::{prefetch, prefetch_into_l2};
pub(crate) use program::{BroadcastStrides, CHUNK_LEN, load, vector_nanoseconds};

pub(crate) use crate::tensor::moved;

use crate::tensor::aligned::AlignedBuf;
use crate::tensor::{Element, LazyTensor, Rank, Storage};
use program::Program;

/// Computes the elements of a lazy tensor.
pub(crate) fn compute<A: Element, D: Rank>(lazy: &LazyTensor<A, D>) -> Storage<A, D> {
    in_place::compute(lazy).unwrap_or_else(|| compute_all(&[lazy]).pop().expect("one result for one formula"))
}

/// Computes the elements of at most `MAX_RESULTS` lazy tensors, which must have the same shape.
pub(crate) fn compute_all<A: Element, D: Rank>(tensors: &[&LazyTensor<A, D>]) -> Vec<Storage<A, D>> {
    run(tensors, false).1
}

/// Sums the elements of a lazy tensor without storing them, and computes and stores those of
/// `others` in the same run. The sum is the same, to the bit, as that of the stored elements.
pub(crate) fn sum<A: Element, D: Rank>(lazy: &LazyTensor<A, D>, others: &[&LazyTensor<A, D>]) -> A {
    let tensors: Vec<&LazyTensor<A, D>> = std::iter::once(lazy).chain(others.iter().copied()).collect();
    let (sum, computed) = run(&tensors, true);
    others.iter().zip(computed).for_each(|(lazy, elements)| lazy.keep(elements));
    sum
}

/// Runs the program of these lazy tensors. When `sums`, the first one is only summed, and the
/// returned elements are those of the others.
fn run<A: Element, D: Rank>(tensors: &[&LazyTensor<A, D>], sums: bool) -> (A, Vec<Storage<A, D>>) {
    let (program, kept) = Program::of(tensors, sums);
    let summed = usize::from(sums);
    let mut allocate_results: Vec<AlignedBuf<A>> = program.allocate_results();
    let sum = program.run(&mut allocate_results);
    let mut results: Vec<Storage<A, D>> = allocate_results.into_iter().map(|room| tensors[0].elements(room)).collect();
    kept.into_iter().for_each(|(lazy, result)| lazy.keep(results[result - summed].clone()));
    results.truncate(tensors.len() - summed);
    (sum, results)
}
