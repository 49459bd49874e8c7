//! Basic blocks of compiled functions.
//!
//! The operations and shapes are known beforehand, so a run checks and allocates nothing for each
//! operation. All that a block computes is in one memory, which is small and stays in the cache.

use super::sum::add_rows;
use crate::fusion::{PointwiseLoop, add_assign, canonicalize_nans};
use crate::gemm::{self, Epilogue, MatrixRef};
use crate::tensor::Element;
use dl_core::{BasicBlock, BlockInstruction, BlockKernel, BlockOp, BlockRead, Elements, buffers};
use ndarray::ArcArray1;
use smallvec::SmallVec;
use std::any::Any;

/// An element type of blocks.
pub(crate) trait OfBlock: Element {
    fn of_block<'a>(elements: &'a Elements<'_>) -> &'a [Self];
}

/// A block with the loops of its pointwise operations.
pub(super) struct Compiled<A> {
    block: BasicBlock,
    /// One for each instruction; `None` if that is not pointwise.
    loops: Vec<Option<PointwiseLoop<A>>>,
    /// The number of elements of all results.
    len: usize,
}

impl<A: Element> Compiled<A> {
    pub(super) fn new(block: BasicBlock) -> Self {
        let pointwise = |instruction: &BlockInstruction| match instruction.op {
            BlockOp::Pointwise(op) => Some(PointwiseLoop::of(op)),
            _ => None,
        };
        let len = block.results.iter().map(|read| read.range.len()).sum();
        Compiled { loops: block.instructions.iter().map(pointwise).collect(), block, len }
    }
}

impl<A: OfBlock> BlockKernel for Compiled<A> {
    fn run(&self, inputs: &[Elements<'_>], read: &mut dyn FnMut(&dyn Any)) {
        let inputs: SmallVec<[&[A]; 16]> = inputs.iter().map(A::of_block).collect();
        let mut memory: Vec<A> = buffers::take_filled(self.block.len);
        for (instruction, pointwise) in self.block.instructions.iter().zip(&self.loops) {
            let (before, to) = memory.split_at_mut(instruction.writes.start);
            let to = &mut to[..instruction.writes.len()];
            let read = |read| elements(read, &inputs, before);
            match (pointwise, &instruction.reads[..]) {
                (Some(pointwise), [a]) => pointwise.run(read(a), read(a), to),
                (Some(pointwise), [a, b]) => pointwise.run(read(a), read(b), to),
                (_, reads) => run(&instruction.op, &reads.iter().map(read).collect::<SmallVec<[_; 4]>>(), to),
            }
            if instruction.is_stored {
                canonicalize_nans(to);
            }
        }
        let mut results = buffers::take(self.len);
        for result in &self.block.results {
            results.extend_from_slice(elements(result, &inputs, &memory));
        }
        buffers::give_back(memory);
        read(&ArcArray1::from_vec(results));
    }
}

fn elements<'a, A>(read: &BlockRead, inputs: &[&'a [A]], memory: &'a [A]) -> &'a [A] {
    &read.input.map_or(memory, |input| inputs[input])[read.range.clone()]
}

/// An operation that is not pointwise.
fn run<A: Element>(op: &BlockOp, reads: &[&[A]], to: &mut [A]) {
    match op {
        BlockOp::Pointwise(_) => unreachable!("a pointwise operation has a loop"),
        BlockOp::Sum => {
            to.copy_from_slice(reads[0]);
            reads[1..].iter().for_each(|term| add_assign(to, term));
        }
        &BlockOp::Product { shape: [rows, depth, columns], transposed: [left, right], relu } => {
            let a = MatrixRef::of_elements(reads[0], [rows, depth], left);
            let b = MatrixRef::of_elements(reads[1], [depth, columns], right);
            let finish = if relu { Epilogue::Relu } else { Epilogue::None };
            gemm::product_over(a, b, reads.get(2).copied(), finish, to);
        }
        BlockOp::Part(part) => {
            for (to, from) in to.chunks_exact_mut(part.len.max(1)).zip(part.each()) {
                to.copy_from_slice(&reads[0][from]);
            }
        }
        BlockOp::AddParts(parts) => {
            to.fill(A::zero());
            for (part, from) in parts.iter().zip(reads) {
                for (range, from) in part.each().zip(from.chunks_exact(part.len.max(1))) {
                    add_assign(&mut to[range], from);
                }
            }
        }
        BlockOp::SumOfRows { columns } => {
            to.fill(A::zero());
            add_rows(reads[0].chunks_exact((*columns).max(1)), to);
        }
        BlockOp::Repeat => {
            to.chunks_exact_mut(reads[0].len().max(1)).for_each(|to| to.copy_from_slice(reads[0]));
        }
        BlockOp::Join { rows } => {
            let width = to.len() / (*rows).max(1);
            let mut start = 0;
            for from in reads {
                let each = from.len() / (*rows).max(1);
                for (to, from) in to.chunks_exact_mut(width.max(1)).zip(from.chunks_exact(each.max(1))) {
                    to[start..start + each].copy_from_slice(from);
                }
                start += each;
            }
        }
    }
}
