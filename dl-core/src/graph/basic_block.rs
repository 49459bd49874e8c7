//! Basic blocks: operations on small tensors in order, as data.
//!
//! A block has one memory for all that it computes. Only results are copied out of it.

use crate::graph::pointwise::PointwiseOp;
use crate::graph::value::Value;
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;

/// An operation on arrays of numbers of one type in row-major order. The shapes are known.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub enum BlockOp {
    /// The operands are as long as the result, or rows of it that are repeated.
    Pointwise(PointwiseOp),
    /// The sum of the operands, from the first to the last.
    Sum,
    /// The product of two matrices, each of which may be stored transposed. A third operand is added
    /// to each row.
    Product { shape: [usize; 3], transposed: [bool; 2], relu: bool },
    /// A part of the operand.
    Part(Part),
    /// Zeros, to which each operand is added at its place.
    AddParts(SmallVec<[Part; 4]>),
    /// The sum of the rows of a matrix with so many columns.
    SumOfRows { columns: usize },
    /// The operand, repeated to fill the result.
    Repeat,
    /// The rows of several matrices side by side. All have this many rows.
    Join { rows: usize },
}

/// Runs of elements at equal distances.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub start: usize,
    /// The length of a run.
    pub len: usize,
    /// The distance between the starts of two runs.
    pub stride: usize,
    pub runs: usize,
}

impl BlockOp {
    /// Whether elements of the result depend on elements at the same position only.
    #[must_use]
    pub fn is_pointwise(&self) -> bool {
        matches!(self, BlockOp::Pointwise(_))
    }
}

impl Part {
    /// All `len` elements.
    #[must_use]
    pub fn whole(len: usize) -> Part {
        Part { start: 0, len, stride: len, runs: 1 }
    }

    /// The range of elements, if there is no gap.
    #[must_use]
    pub fn range(&self) -> Option<Range<usize>> {
        (self.runs == 1 || self.stride == self.len).then(|| self.start..self.start + self.runs * self.len)
    }

    /// The range of each run.
    pub fn each(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.runs).map(move |run| self.start + run * self.stride).map(move |start| start..start + self.len)
    }
}

/// Elements that an instruction reads: of an input, or of the memory.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct BlockRead {
    pub input: Option<usize>,
    pub range: Range<usize>,
}

/// An instruction. It reads inputs, and memory before that which it writes.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct BlockInstruction {
    pub op: BlockOp,
    pub reads: SmallVec<[BlockRead; 3]>,
    pub writes: Range<usize>,
    /// Whether a NaN must be made canonical, as in a tensor: the result of a pointwise operation
    /// that other operations or the results of the block read.
    pub is_stored: bool,
}

/// Instructions in order, on a memory of `len` elements.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BasicBlock {
    pub instructions: Vec<BlockInstruction>,
    pub len: usize,
    /// The results. They are copied, one after the other.
    pub results: Vec<BlockRead>,
}

/// The type of the elements of a block.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    F32,
    F64,
}

/// The elements of a tensor in row-major order.
#[doc(hidden)]
#[derive(Debug)]
pub enum Elements<'a> {
    F32(Cow<'a, [f32]>),
    F64(Cow<'a, [f64]>),
}

impl Elements<'_> {
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Elements::F32(elements) => elements.len(),
            Elements::F64(elements) => elements.len(),
        }
    }

    /// Whether the value has them in this order.
    #[must_use]
    pub fn in_place(&self) -> bool {
        matches!(self, Elements::F32(Cow::Borrowed(_)) | Elements::F64(Cow::Borrowed(_)))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A block that is compiled for an element type.
#[doc(hidden)]
pub trait BlockKernel: Send + Sync {
    /// Runs the block, and calls `read` with the array of all results.
    fn run(&self, inputs: &[Elements<'_>], read: &mut dyn FnMut(&dyn Any));
}

/// The value that begins at an element of the array of results.
#[doc(hidden)]
pub type BlockView = Box<dyn Fn(&dyn Any) -> Value + Send + Sync>;
