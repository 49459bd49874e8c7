//! Programs of pointwise operations, and their division into chunks and blocks.

use super::interpret::{BlockRunner, CheckedProgram, with_registers};
use super::loops::{MultiLoop, VectorLoop};
use super::pairwise_sum::{PairwiseSum, combine_chunk_sums};
use super::prefetch::PrefetchSpan;
use crate::tensor::Element;
use crate::tensor::aligned::{self, AlignedBuf};
use dl_core::parallel;
use ndarray::{ArcArray, IxDyn};

/// The size of a virtual register. About ten of them fit into the L1 cache.
pub(super) const BLOCK_BYTES: usize = 2048;
/// The number of elements that one thread computes at a time, at most.
pub(crate) const CHUNK_LEN: usize = 1 << 15;
/// A chunk that takes longer than this is halved, at most four times: it bounds the time that other
/// threads wait for the last chunk.
pub(super) const MAX_CHUNK_NANOSECONDS: f64 = 40_000.0;
/// The maximum number of results of a program.
pub(crate) const MAX_RESULTS: usize = 16;

/// A program over tensors of one shape.
pub(super) struct Program<A> {
    pub(super) shape: Vec<usize>,
    /// The operands of this shape, in row-major order.
    pub(super) operands: Vec<ArcArray<A, IxDyn>>,
    pub(super) broadcasts: Vec<BroadcastOperand<A>>,
    /// Constants, each with the register that it fills before the first block.
    pub(super) numbers: Vec<(A, usize)>,
    pub(super) instructions: Vec<Instruction<A>>,
    /// How a whole block is computed with software prefetch; empty if prefetching does not pay.
    pub(super) prefetch_plan: Vec<PrefetchSpan>,
    pub(super) registers: usize,
    /// The slot that is summed.
    pub(super) summed: Option<usize>,
    pub(super) results: usize,
}

/// An operand that is broadcast, in row-major order.
pub(super) struct BroadcastOperand<A> {
    pub(super) array: ArcArray<A, IxDyn>,
    pub(super) strides: BroadcastStrides,
}

/// How a tensor is repeated in the shape to which it broadcasts.
pub(crate) struct BroadcastStrides {
    /// The lengths of the axes of that shape. Adjacent axes that can be walked with one stride are
    /// merged.
    pub(super) shape: Vec<usize>,
    /// The stride of the tensor along each of these axes; 0 where it is repeated.
    pub(super) strides: Vec<usize>,
}

pub(super) struct Instruction<A> {
    pub(super) opcode: Opcode<A>,
    /// The estimated time per element.
    pub(super) nanoseconds: f64,
}

/// The operation of an instruction, with the [slots](super::interpret) that it reads and those that
/// it writes.
pub(super) enum Opcode<A> {
    Map(VectorLoop<A>, [usize; 4], usize),
    Map2(MultiLoop<A, 2>, [usize; 4], [usize; 2]),
    Map3(MultiLoop<A, 3>, [usize; 4], [usize; 3]),
    /// Copies the part of a broadcast operand that belongs to the block.
    Load(usize, usize),
}

/// The length of a chunk, given the time per element. It is a power of two, so that the sum of a
/// chunk is that of a whole subtree of the pairwise summation.
pub(super) fn chunk_len(nanoseconds: f64) -> usize {
    let is_long = |halvings: &usize| (CHUNK_LEN >> halvings) as f64 * nanoseconds > MAX_CHUNK_NANOSECONDS;
    CHUNK_LEN >> (0..4).take_while(is_long).count()
}

/// The number of elements of a block, a multiple of the run length of a pairwise sum.
pub(super) const fn block_len<A>() -> usize {
    BLOCK_BYTES / size_of::<A>()
}

impl<A: Element> Program<A> {
    /// The number of elements of each result.
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Allocates the results. Each gets the page color that the fewest other tensors of the program
    /// have.
    pub(super) fn allocate_results(&self) -> Vec<AlignedBuf<A>> {
        let mut tensors = [0; aligned::COLORS];
        for operand in &self.operands {
            tensors[aligned::color_of(operand.as_ptr())] += 1;
        }
        let room = |_| {
            let part = (0..aligned::COLORS).min_by_key(|&part| tensors[part]).expect("there are parts");
            tensors[part] += 1;
            AlignedBuf::with_color(self.len(), part)
        };
        (0..self.results).map(room).collect()
    }

    /// Computes the results, and returns the sum of the summed slot.
    pub(super) fn run(&self, results: &mut [AlignedBuf<A>]) -> A {
        let nanoseconds = self.nanoseconds() + transfer_nanoseconds::<A>(self.streams());
        let each = chunk_len(nanoseconds);
        let mut checked = CheckedProgram::new(self, results.iter_mut().map(AlignedBuf::elements).collect());
        let mut chunks = checked.chunks(each);
        parallel::for_each_mut(&mut chunks, nanoseconds * each.min(self.len()) as f64, |_, chunk| {
            chunk.sum = with_registers(self, |registers| self.run_blocks(BlockRunner::new(chunk, registers)));
        });
        let sum = |_| combine_chunk_sums(chunks.into_iter().map(|chunk| chunk.sum), each, self.len());
        self.summed.map_or_else(A::zero, sum)
    }

    /// Must not be inlined into the closure: captured variables would be reloaded for each block.
    #[inline(never)]
    pub(super) fn run_blocks(&self, mut blocks: BlockRunner<'_, A>) -> A {
        let mut sum = PairwiseSum::new();
        while blocks.next() {
            blocks.run();
            if let Some(slot) = self.summed {
                sum.add_all(blocks.get(slot));
            }
        }
        sum.total()
    }

    /// The number of tensors in memory that the program reads or writes.
    pub(super) fn streams(&self) -> usize {
        self.results + self.operands.len()
    }

    /// The number of slots: operands, results and registers.
    pub(super) fn slots(&self) -> usize {
        self.streams() + self.registers
    }

    /// The estimated time to compute an element.
    pub(super) fn nanoseconds(&self) -> f64 {
        self.instructions.iter().map(|instruction| instruction.nanoseconds).sum()
    }
}

/// The estimated time per element of a long loop, from the cost of the operation on a single
/// number. A vector register has 4 to 16 lanes.
pub(crate) fn vector_nanoseconds(cost: f64) -> f64 {
    cost / 8.0
}

/// The estimated time to move an element of each of these streams between cores.
pub(super) fn transfer_nanoseconds<A>(streams: usize) -> f64 {
    0.05 * (streams * size_of::<A>()) as f64
}

/// The elements of an operand.
pub(super) fn elements<A>(operand: &ArcArray<A, IxDyn>) -> &[A] {
    operand.as_slice().expect("operands are in row-major order")
}

/// The strides of a tensor in row-major order along the axes of a shape to which it broadcasts; 0
/// where it is repeated.
pub(super) fn strides_of(own: &[usize], shape: &[usize]) -> Vec<usize> {
    let missing = shape.len() - own.len();
    let mut strides = vec![0; shape.len()];
    let mut stride = 1;
    for (axis, &length) in own.iter().enumerate().rev() {
        if length != 1 {
            strides[missing + axis] = stride;
        }
        stride *= length;
    }
    strides
}

impl BroadcastStrides {
    /// For a tensor of shape `own`, broadcast to `shape`.
    pub(crate) fn of(own: &[usize], shape: &[usize]) -> Self {
        let mut strides = BroadcastStrides { shape: Vec::new(), strides: Vec::new() };
        for (&length, stride) in shape.iter().zip(strides_of(own, shape)) {
            match (strides.shape.last_mut(), strides.strides.last_mut()) {
                (Some(outer), Some(outer_stride)) if *outer_stride == stride * length => {
                    *outer *= length;
                    *outer_stride = stride;
                }
                _ => {
                    strides.shape.push(length);
                    strides.strides.push(stride);
                }
            }
        }
        strides
    }
}

/// Writes the elements of the broadcast tensor from position `start` on, as many as `to` has.
pub(crate) fn load<A: Copy>(
    elements: &[A],
    BroadcastStrides { shape, strides }: &BroadcastStrides,
    start: usize,
    to: &mut [A],
) {
    let (&length, outer) = shape.split_last().expect("there are axes along which it is repeated");
    let (&stride, outer_strides) = strides.split_last().expect("a step for each axis");
    let (mut row, mut column) = (start / length, start % length);
    let mut done = 0;
    while done < to.len() {
        let now = (length - column).min(to.len() - done);
        let mut rest = row;
        let mut slot = column * stride;
        for (&length, &stride) in outer.iter().zip(outer_strides).rev() {
            slot += rest % length * stride;
            rest /= length;
        }
        let to = &mut to[done..done + now];
        match stride {
            0 => to.fill(elements[slot]),
            1 => to.copy_from_slice(&elements[slot..slot + now]),
            _ => to.iter_mut().zip(elements[slot..].iter().step_by(stride)).for_each(|(to, &x)| *to = x),
        }
        done += now;
        (row, column) = (row + 1, 0);
    }
}
