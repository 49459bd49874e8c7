//! Programs of pointwise operations, and how they are divided into chunks and blocks.

use super::interpret::{BlockRunner, CheckedProgram, with_registers};
use super::loops::{MultiLoop, VectorLoop};
use super::pairwise_sum::{PairwiseSum, combine_chunk_sums};
use super::prefetch::PrefetchSpan;
use crate::tensor::Element;
use crate::tensor::aligned::{self, AlignedBuf};
use dl_core::parallel;
use ndarray::{ArcArray, IxDyn};

/// A register: some ten of them fit into the nearest cache.
pub(super) const BLOCK_BYTES: usize = 2048;
/// What one thread does in a row, at most.
pub(crate) const CHUNK_LEN: usize = 1 << 15;
/// A piece that takes longer is halved, four times at most: so long somebody may have to wait for
/// the last one.
pub(super) const MAX_CHUNK_NANOSECONDS: f64 = 40_000.0;
/// So many results a program may have.
pub(crate) const MAX_RESULTS: usize = 16;

/// A program for tensors of one shape.
pub(super) struct Program<A> {
    pub(super) shape: Vec<usize>,
    /// Those of this shape, in row-major order.
    pub(super) operands: Vec<ArcArray<A, IxDyn>>,
    pub(super) broadcasts: Vec<BroadcastOperand<A>>,
    /// The numbers in it: each fills a register from the beginning.
    pub(super) numbers: Vec<(A, usize)>,
    pub(super) instructions: Vec<Instruction<A>>,
    /// How they compute a whole block, if meanwhile it is worth while to ask for what the next one
    /// touches.
    pub(super) prefetch_plan: Vec<PrefetchSpan>,
    pub(super) registers: usize,
    /// The place whose elements are summed.
    pub(super) summed: Option<usize>,
    pub(super) results: usize,
}

/// An operand that is repeated, in row-major order.
pub(super) struct BroadcastOperand<A> {
    pub(super) array: ArcArray<A, IxDyn>,
    pub(super) strides: BroadcastStrides,
}

/// How a tensor is repeated in the shape to which it broadcasts.
pub(super) struct BroadcastStrides {
    /// The lengths of the axes of that shape. What lies side by side in the tensor, or is repeated
    /// together, is one axis.
    pub(super) shape: Vec<usize>,
    /// The [steps] along them.
    pub(super) steps: Vec<usize>,
}

pub(super) struct Instruction<A> {
    pub(super) opcode: Opcode<A>,
    /// A rough estimate of the time for an element.
    pub(super) nanoseconds: f64,
}

/// An instruction, with the [slots](run) that it reads, and those where it writes.
pub(super) enum Opcode<A> {
    Map(VectorLoop<A>, [usize; 4], usize),
    Map2(MultiLoop<A, 2>, [usize; 4], [usize; 2]),
    Map3(MultiLoop<A, 3>, [usize; 4], [usize; 3]),
    /// The part of a repeated operand that belongs to the block.
    Load(usize, usize),
}

/// So many elements are in a piece, which take so long each: a power of two, so that the sum of a
/// piece is that of a whole subtree.
pub(super) fn chunk_len(nanoseconds: f64) -> usize {
    let is_long = |halvings: &usize| (CHUNK_LEN >> halvings) as f64 * nanoseconds > MAX_CHUNK_NANOSECONDS;
    CHUNK_LEN >> (0..4).take_while(is_long).count()
}

/// So many elements are in a block: whole runs of a sum.
pub(super) const fn block_len<A>() -> usize {
    BLOCK_BYTES / size_of::<A>()
}

impl<A: Element> Program<A> {
    /// How many elements each result has.
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Room for the results, each in the part of a page where the fewest other tensors begin.
    pub(super) fn rooms(&self) -> Vec<AlignedBuf<A>> {
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

    /// Computes the results, and the sum of what is summed.
    pub(super) fn run(&self, results: &mut [AlignedBuf<A>]) -> A {
        let nanoseconds = self.nanoseconds() + transfer_nanoseconds::<A>(self.streams());
        let each = chunk_len(nanoseconds);
        let mut checked = CheckedProgram::new(self, results.iter_mut().map(AlignedBuf::elements).collect());
        let mut chunks = checked.chunks(each);
        parallel::for_each_mut(&mut chunks, nanoseconds * each.min(self.len()) as f64, |_, chunk| {
            chunk.sum = with_registers(self, |registers| self.run_blocks(BlockRunner::new(chunk, registers)));
        });
        match self.summed {
            Some(_) => combine_chunk_sums(chunks.into_iter().map(|chunk| chunk.sum), each, self.len()),
            None => A::zero(),
        }
    }

    /// Not inlined: what is in a closure is looked up there, block by block.
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

    /// How many tensors are read or written line by line.
    pub(super) fn streams(&self) -> usize {
        self.results + self.operands.len()
    }

    /// How many places there are: operands, results and registers.
    pub(super) fn slots(&self) -> usize {
        self.streams() + self.registers
    }

    /// A rough estimate of the time to compute an element.
    pub(super) fn nanoseconds(&self) -> f64 {
        self.instructions.iter().map(|instruction| instruction.nanoseconds).sum()
    }
}

/// About how long an operation takes for an element, of many, that takes so long for a single
/// number: vectors have four to sixteen of them.
pub(crate) fn vector_nanoseconds(cost: f64) -> f64 {
    cost / 8.0
}

/// About how long it takes to move an element of so many tensors between a core and what another
/// one may have written.
pub(super) fn transfer_nanoseconds<A>(streams: usize) -> f64 {
    0.05 * (streams * size_of::<A>()) as f64
}

/// The elements of an operand.
pub(super) fn elements<A>(operand: &ArcArray<A, IxDyn>) -> &[A] {
    operand.as_slice().expect("operands are in row-major order")
}

/// By how many elements a tensor in row-major order goes on with a step along each axis of a shape
/// to which it broadcasts: by none where it is repeated.
pub(super) fn steps(own: &[usize], shape: &[usize]) -> Vec<usize> {
    let missing = shape.len() - own.len();
    let mut steps = vec![0; shape.len()];
    let mut step = 1;
    for (axis, &length) in own.iter().enumerate().rev() {
        if length != 1 {
            steps[missing + axis] = step;
        }
        step *= length;
    }
    steps
}

impl BroadcastStrides {
    /// A tensor of this shape, repeated to another one.
    pub(super) fn of(own: &[usize], shape: &[usize]) -> Self {
        let mut strides = BroadcastStrides { shape: Vec::new(), steps: Vec::new() };
        for (&length, step) in shape.iter().zip(steps(own, shape)) {
            match (strides.shape.last_mut(), strides.steps.last_mut()) {
                (Some(outer), Some(outer_step)) if *outer_step == step * length => {
                    *outer *= length;
                    *outer_step = step;
                }
                _ => {
                    strides.shape.push(length);
                    strides.steps.push(step);
                }
            }
        }
        strides
    }
}

/// A part of a tensor that is repeated: from the element `start` on, as many as there is room for.
pub(super) fn load<A: Element>(
    elements: &[A],
    BroadcastStrides { shape, steps }: &BroadcastStrides,
    start: usize,
    to: &mut [A],
) {
    let (&length, outer) = shape.split_last().expect("there are axes along which it is repeated");
    let (&step, outer_steps) = steps.split_last().expect("a step for each axis");
    let (mut row, mut column) = (start / length, start % length);
    let mut done = 0;
    while done < to.len() {
        let now = (length - column).min(to.len() - done);
        let mut rest = row;
        let mut slot = column * step;
        for (&length, &step) in outer.iter().zip(outer_steps).rev() {
            slot += rest % length * step;
            rest /= length;
        }
        let to = &mut to[done..done + now];
        match step {
            0 => to.fill(elements[slot]),
            1 => to.copy_from_slice(&elements[slot..slot + now]),
            _ => to.iter_mut().zip(elements[slot..].iter().step_by(step)).for_each(|(to, &x)| *to = x),
        }
        done += now;
        (row, column) = (row + 1, 0);
    }
}
