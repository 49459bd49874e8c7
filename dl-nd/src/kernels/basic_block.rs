//! Basic blocks of compiled functions.
//!
//! The operations and shapes are known beforehand, so a run checks and allocates nothing for each
//! operation. All that a block computes is in one memory, which is small and stays in the cache.

use super::sum::add_rows;
use crate::fusion::{BlockLoop, LoopOperand, PointwiseLoop, VectorLoop, add_assign, block_loops, canonicalize_nans};
use crate::gemm::{self, Epilogue, MatrixRef};
use crate::tensor::Element;
use dl_core::{BasicBlock, BlockInstruction, BlockKernel, BlockOp, BlockRead, Elements, PointwiseOp, buffers};
use ndarray::ArcArray1;
use smallvec::SmallVec;
use std::any::Any;
use std::ops::Range;

/// An element type of blocks.
pub(crate) trait OfBlock: Element {
    fn of_block<'a>(elements: &'a Elements<'_>) -> &'a [Self];
}

/// A block with its loops and operands looked up.
pub(super) struct Compiled<A> {
    instructions: Vec<Instruction<A>>,
    /// The numbers that loops read, each as an array.
    numbers: Vec<A>,
    /// The number of elements of its memory.
    memory: usize,
    /// The results. They are copied, one after the other.
    results: Vec<Operand>,
    /// The number of elements of all results.
    len: usize,
}

struct Instruction<A> {
    work: Work<A>,
    start: usize,
    len: usize,
    is_stored: bool,
}

enum Work<A> {
    /// Pointwise operations on arrays of one length. The flag says whether there are more than two.
    Loop(VectorLoop<A>, [Operand; 4], bool),
    /// A pointwise operation with an operand that is repeated.
    Repeating(PointwiseLoop<A>, [Operand; 2]),
    Other(BlockOp, SmallVec<[Operand; 3]>),
}

/// Elements of an array, or of the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Operand {
    /// 0 for the numbers, 1 for the first input; `MEMORY` for the memory.
    array: usize,
    start: usize,
    end: usize,
}

const NUMBERS: usize = 0;
const MEMORY: usize = usize::MAX;

impl Operand {
    fn of(read: &BlockRead) -> Self {
        let array = read.input.map_or(MEMORY, |input| NUMBERS + 1 + input);
        Operand { array, start: read.range.start, end: read.range.end }
    }

    #[inline(always)]
    fn elements<'a, A>(self, arrays: &[&'a [A]], memory: &'a [A]) -> &'a [A] {
        &arrays.get(self.array).copied().unwrap_or(memory)[self.start..self.end]
    }
}

impl<A: Element> Compiled<A> {
    pub(super) fn new(block: BasicBlock) -> Self {
        let pointwise = Pointwise::of(&block);
        let mut loops = block_loops::<A>(&pointwise.operations, &pointwise.results).into_iter();
        let mut numbers = Vec::new();
        let mut number = |number: A, len: usize| {
            numbers.resize(numbers.len() + len, number);
            Operand { array: NUMBERS, start: numbers.len() - len, end: numbers.len() }
        };
        let mut instructions = Vec::new();
        for BlockInstruction { op, reads, writes, is_stored } in block.instructions {
            let work = match op {
                BlockOp::Pointwise(_) if !repeats(&reads, &writes) => {
                    let found = loops.next().expect("there is an entry for each operation");
                    let Some(BlockLoop { compute, reads, has_many }) = found else { continue };
                    let operand = |read| match read {
                        LoopOperand::Array(at) => pointwise.arrays[at],
                        LoopOperand::Operation(at) => pointwise.written[at],
                        LoopOperand::Number(value) => number(value, writes.len()),
                    };
                    Work::Loop(compute, reads.map(operand), has_many)
                }
                BlockOp::Pointwise(op) => {
                    Work::Repeating(PointwiseLoop::of(op), [&reads[0], &reads[reads.len() - 1]].map(Operand::of))
                }
                op => Work::Other(op, reads.iter().map(Operand::of).collect()),
            };
            instructions.push(Instruction { work, start: writes.start, len: writes.len(), is_stored });
        }
        Compiled {
            instructions,
            numbers,
            memory: block.len,
            len: block.results.iter().map(|read| read.range.len()).sum(),
            results: block.results.iter().map(Operand::of).collect(),
        }
    }
}

/// Whether a pointwise operation repeats an operand.
fn repeats(reads: &[BlockRead], writes: &Range<usize>) -> bool {
    reads.iter().any(|read| read.range.len() != writes.len())
}

/// The pointwise operations of a block that repeat no operand.
struct Pointwise<A> {
    operations: Vec<(PointwiseOp, [LoopOperand<A>; 2])>,
    /// The arrays that they read, besides their results.
    arrays: Vec<Operand>,
    /// Their results.
    written: Vec<Operand>,
    /// Those with results that are not only read, as a whole, by others of them.
    results: Vec<usize>,
}

impl<A: Element> Pointwise<A> {
    fn of(block: &BasicBlock) -> Self {
        let (mut arrays, mut results) = (Vec::new(), Vec::new());
        let (mut operations, mut written): (Vec<_>, Vec<Operand>) = (Vec::new(), Vec::new());
        let mut is_result = |read: &BlockRead, written: &[Operand]| {
            let overlaps = |&to: &usize| read.range.start < written[to].end && written[to].start < read.range.end;
            results.extend((0..written.len()).filter(|to| read.input.is_none() && overlaps(to)));
        };
        for BlockInstruction { op, reads, writes, .. } in &block.instructions {
            let &BlockOp::Pointwise(op) = op else {
                reads.iter().for_each(|read| is_result(read, &written));
                continue;
            };
            if repeats(reads, writes) {
                reads.iter().for_each(|read| is_result(read, &written));
                continue;
            }
            let mut operand = |read: &BlockRead| {
                let whole = Operand::of(read);
                written.iter().position(|&result| result == whole).map(LoopOperand::Operation).unwrap_or_else(|| {
                    is_result(read, &written);
                    arrays.push(whole);
                    LoopOperand::Array(arrays.len() - 1)
                })
            };
            let operands = [operand(&reads[0]), operand(&reads[reads.len() - 1])];
            operations.push((op, operands));
            written.push(Operand { array: MEMORY, start: writes.start, end: writes.end });
        }
        block.results.iter().for_each(|read| is_result(read, &written));
        results.sort_unstable();
        results.dedup();
        Pointwise { operations, arrays, written, results }
    }
}

impl<A: OfBlock> BlockKernel for Compiled<A> {
    fn run(&self, inputs: &[Elements<'_>], read: &mut dyn FnMut(&dyn Any)) {
        let mut arrays: SmallVec<[&[A]; 24]> = SmallVec::new();
        arrays.push(&self.numbers);
        for input in inputs {
            arrays.push(A::of_block(input));
        }
        let arrays = &arrays[..];
        let mut memory: Vec<A> = buffers::take_filled(self.memory);
        for Instruction { work, start, len, is_stored } in &self.instructions {
            let (before, to) = memory.split_at_mut(*start);
            let (before, to) = (&*before, &mut to[..*len]);
            match work {
                Work::Loop(compute, [a, b, c, d], has_many) => {
                    let [a, b] = [a, b].map(|read| read.elements(arrays, before));
                    let [c, d] = if *has_many { [c, d].map(|read| read.elements(arrays, before)) } else { [a, a] };
                    compute([a, b, c, d], to);
                }
                Work::Repeating(pointwise, [a, b]) => {
                    pointwise.run(a.elements(arrays, before), b.elements(arrays, before), to);
                }
                Work::Other(op, reads) => run(op, reads.len(), |which| reads[which].elements(arrays, before), to),
            }
            if *is_stored {
                canonicalize_nans(to);
            }
        }
        let mut results = buffers::take(self.len);
        for result in &self.results {
            results.extend_from_slice(result.elements(arrays, &memory));
        }
        buffers::give_back(memory);
        read(&ArcArray1::from_vec(results));
    }
}

/// An operation that is not pointwise.
fn run<'a, A: Element>(op: &BlockOp, reads: usize, read: impl Fn(usize) -> &'a [A], to: &mut [A]) {
    match op {
        BlockOp::Pointwise(_) => unreachable!("a pointwise operation has a loop"),
        BlockOp::Sum => {
            to.copy_from_slice(read(0));
            (1..reads).for_each(|term| add_assign(to, read(term)));
        }
        &BlockOp::Product { shape: [rows, depth, columns], transposed: [left, right], relu } => {
            let a = MatrixRef::of_elements(read(0), [rows, depth], left);
            let b = MatrixRef::of_elements(read(1), [depth, columns], right);
            let finish = if relu { Epilogue::Relu } else { Epilogue::None };
            gemm::product_over(a, b, (reads > 2).then(|| read(2)), finish, to);
        }
        BlockOp::Part(part) => {
            let whole = read(0);
            for (to, from) in to.chunks_exact_mut(part.len.max(1)).zip(part.each()) {
                to.copy_from_slice(&whole[from]);
            }
        }
        BlockOp::AddParts(parts) => {
            to.fill(A::zero());
            for (which, part) in parts.iter().enumerate() {
                for (range, from) in part.each().zip(read(which).chunks_exact(part.len.max(1))) {
                    add_assign(&mut to[range], from);
                }
            }
        }
        BlockOp::SumOfRows { columns } => {
            to.fill(A::zero());
            add_rows(read(0).chunks_exact((*columns).max(1)), to);
        }
        BlockOp::Repeat => {
            let row = read(0);
            to.chunks_exact_mut(row.len().max(1)).for_each(|to| to.copy_from_slice(row));
        }
        BlockOp::Join { rows } => {
            let width = to.len() / (*rows).max(1);
            let mut start = 0;
            for from in (0..reads).map(read) {
                let each = from.len() / (*rows).max(1);
                for (to, from) in to.chunks_exact_mut(width.max(1)).zip(from.chunks_exact(each.max(1))) {
                    to[start..start + each].copy_from_slice(from);
                }
                start += each;
            }
        }
    }
}
