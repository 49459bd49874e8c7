//! The kernels that a device has. The order of their additions is that of the host.

#![allow(missing_docs, reason = "for the crates that implement devices")]

use super::{Code, View};
use dl_core::{Binary, DType};

/// The elements that the first kernel of [`Work::SumAll`] adds to one.
const SUM_CHUNK: usize = 4096;

/// A kernel and its operands. The results have as many elements as the kernel computes, which is at
/// least one.
pub enum Work<'a> {
    /// A pointwise program. All operands and results have one shape.
    Map { code: &'a Code, numbers: &'a [f64], of: &'a [View], to: &'a [View] },
    /// The pairwise sum of more than 128 adjacent elements. Runs of 128 are summed in 32 lanes,
    /// lane by lane the terms 32 apart, then the halves of the lanes and `(a + c) + (b + d)` of the
    /// last four. The sums of the runs are the leaves of a binary tree.
    SumAll { of: &'a View, to: &'a View },
    /// Sums along an axis.
    Sum(Sum<'a>),
    /// Products or extrema along an axis.
    Fold(Fold<'a>),
    /// Matrix products.
    Product(Product<'a>),
    /// Elements at indices.
    Gather(Gather<'a>),
    /// Additions at indices.
    Scatter(Scatter<'a>),
    /// Recurrences along an axis.
    Scan(Scan<'a>),
    /// The order of the elements along an axis.
    Sort(Sort<'a>),
    /// Elements that are kept at random.
    RandomDrop(RandomDrop<'a>),
    /// Places of the maxima of windows.
    Maxima(Maxima<'a>),
    /// Products with a sparse matrix along an axis.
    SparseProduct(SparseProduct<'a>),
    /// A convolution, or one of its gradients.
    Convolve(Convolve<'a>),
}

/// The order in which at most 128 terms are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumOrder {
    /// From the first to the last.
    InTurn,
    /// In eight accumulators, of which the first and the fifth, and so on, are added; then the
    /// terms that are left.
    InEights,
    /// Any number of terms in runs of 128, which are the leaves of a binary tree.
    InRuns,
}

/// The sums of `[before, len, after]` along its second axis. More than 128 terms are halved.
pub struct Sum<'a> {
    pub of: &'a View,
    pub to: &'a View,
    pub before: usize,
    pub len: usize,
    pub after: usize,
    pub order: SumOrder,
}

/// The folds of `[before, rows, after]` along its second axis, `part` rows at a time; the result is
/// `[before, parts, after]`. Adjacent rows (`after` is 1) are folded in 32 lanes, then the halves
/// of the lanes; others from the first to the last.
pub struct Fold<'a> {
    pub of: &'a View,
    pub to: &'a View,
    pub op: Binary,
    pub before: usize,
    pub rows: usize,
    pub after: usize,
    pub part: usize,
}

/// The products of pairs of matrices: `[batch…, rows, depth] · [batch…, depth, columns]`, with the
/// same batch axes for the operands and the result, which is in row-major order.
///
/// An element is a chain of fused multiply-adds, in as few parts of equal length as none is longer
/// than 512; the parts are added in order. More than 8192 terms are halved at a multiple of 512.
pub struct Product<'a> {
    pub a: &'a View,
    pub b: &'a View,
    /// `[columns]`, added to the first part.
    pub row: Option<&'a View>,
    /// Whether negative elements become 0.
    pub relu: bool,
    pub to: &'a View,
    /// The number of accumulators of an inner product of adjacent elements, if this is one: term
    /// `i` belongs to accumulator `i` modulo this, and the halves are added. More than 4096 terms
    /// are halved. Otherwise 0.
    pub accumulators: usize,
}

/// `to[i] = of[i + at[i]]`, where an index counts neighbours that are `apart`. `of` and `at` have
/// the shape of `to`, and `of` does not move along the axis of the indices. An index that is not
/// below `length` gives 0 or −∞.
pub struct Gather<'a> {
    pub of: &'a View,
    pub at: &'a View,
    pub to: &'a View,
    pub apart: isize,
    pub length: usize,
    pub lowest: bool,
}

/// Adds `count` terms for each place beside an axis to the sums at their indices. `at` and `parts`
/// have the shape of `to` and do not move along the axis; their neighbours are `at_apart` and
/// `parts_apart` apart. No term is added at an index beyond the end.
pub struct Scatter<'a> {
    pub to: &'a View,
    pub at: &'a View,
    pub parts: &'a View,
    pub axis: usize,
    pub count: usize,
    pub at_apart: isize,
    pub parts_apart: isize,
    pub order: ScatterOrder,
}

/// The order in which more than 128 terms of one sum are added. Fewer are added in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterOrder {
    InTurn,
    /// The halves of the list, recursively, the first one to the sum.
    InHalves,
    /// As [`SumOrder::InRuns`], then to the sum.
    InRuns,
}

/// Scans of `[before, len, after]` along the second axis. All tensors are in row-major order.
pub struct Scan<'a> {
    pub op: ScanOp,
    pub of: &'a View,
    /// The second operand of a recurrence, or the first one again.
    pub with: &'a View,
    pub to: &'a View,
    pub before: usize,
    pub len: usize,
    pub after: usize,
    pub from_end: bool,
}

/// The result of a scan of the elements `x` of `of`. States begin at 0, or as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanOp {
    /// Sums with the sum of their rounding errors (Neumaier, 1974).
    Sum,
    /// `state = y + x · state` in `f64`, from 1 or 0 on, where `y` is that of `with`.
    Product {
        from_one: bool,
    },
    /// The same, where a state of 0 annihilates.
    Delta,
    LogSumExp,
    /// The index of the last extremum so far.
    ExtremeSoFar {
        largest: bool,
    },
    /// The index of the first extremum of all: one result for each lane.
    Extreme {
        largest: bool,
    },
}

/// The first `count` of the indices that sort the lanes of `[before, len, after]` along the second
/// axis. NaN is the largest element, and equal elements keep their order.
pub struct Sort<'a> {
    pub of: &'a View,
    pub to: &'a View,
    pub before: usize,
    pub len: usize,
    pub after: usize,
    pub count: usize,
    pub descending: bool,
}

/// Elements multiplied by a number, or 0 where a draw of 32 bits is below `below`. Element `i` gets
/// word `i` of ChaCha with 8 rounds and this key.
pub struct RandomDrop<'a> {
    pub of: &'a View,
    pub to: &'a View,
    pub key: [u32; 8],
    pub below: u64,
    pub scale: f64,
}

/// The windows along an axis. Without a kernel they are equal bins.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
    pub length: usize,
    pub outputs: usize,
}

/// The place of the maximum of each window in its channel, in row-major order: that of the first
/// one, or of the last NaN. All ones where a window has no element.
pub struct Maxima<'a> {
    pub of: &'a View,
    pub to: &'a View,
    pub channels: usize,
    pub regions: [Region; 3],
}

/// The lanes of `[before, length, inner]` along the second axis times the rows of a sparse matrix,
/// divided by the divisor of the row. More than 128 terms are halved. Where that is not finite, the
/// factors are divided first.
pub struct SparseProduct<'a> {
    pub of: &'a View,
    pub to: &'a View,
    /// The first term of each row, the number of terms, and the place of each term.
    pub starts: &'a View,
    /// The divisor of each row, and the factor of each term.
    pub factors: &'a View,
    pub before: usize,
    pub length: usize,
    pub outputs: usize,
    pub inner: usize,
}

/// Which of `y = w ∗ x` a convolution computes, from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvForm {
    /// `y` from `x` and `w`. The taps are summed in blocks of 512.
    Output,
    /// The gradient of `w` from `x` and `y`. Positions are summed in blocks of 256, those of a
    /// sample before those of the next one; the sums of `by_samples` parts of the samples are
    /// added.
    Weight,
    /// The gradient of `x` from `y` and `w`. The channels of `y` are summed as the terms of a
    /// product, and these sums are added by blocks of 64 positions, and in a block by taps.
    Input,
}

/// A convolution. All tensors are in row-major order. A block is a chain of multiply-adds. It is an
/// inner product in accumulators, as in [`Product`], where the host computes a row or a column of
/// adjacent elements.
pub struct Convolve<'a> {
    pub form: ConvForm,
    pub left: &'a View,
    pub right: &'a View,
    pub to: &'a View,
    pub batch: usize,
    pub groups: usize,
    /// Channels of `x` and of `y` in a group.
    pub inputs: usize,
    pub outputs: usize,
    /// The windows, with the lengths of `x` and of `y`.
    pub axes: [Region; 3],
    pub by_samples: usize,
    /// The number of parts of the taps of a weight gradient.
    pub by_rows: usize,
    /// Whether the patches are the elements of `x`.
    pub is_pointwise: bool,
    /// As in [`Product`], if it is one.
    pub accumulators: usize,
}

impl<'a> Work<'a> {
    /// The type of the elements that it computes with.
    pub fn dtype(&self) -> DType {
        match self {
            Work::Map { code, .. } => code.element,
            Work::SumAll { to, .. } | Work::Sum(Sum { to, .. }) => to.dtype,
            Work::Fold(Fold { to, .. }) | Work::Product(Product { to, .. }) => to.dtype,
            Work::Gather(Gather { of, .. }) | Work::Scan(Scan { of, .. }) | Work::Sort(Sort { of, .. }) => of.dtype,
            Work::Maxima(Maxima { of, .. }) | Work::SparseProduct(SparseProduct { of, .. }) => of.dtype,
            Work::Convolve(Convolve { to, .. }) => to.dtype,
            Work::Scatter(Scatter { to, .. }) | Work::RandomDrop(RandomDrop { to, .. }) => to.dtype,
        }
    }

    /// The name of its kernel, the first of two for [`Work::SumAll`].
    pub fn kernel(&self) -> &'static str {
        match self {
            Work::Map { .. } => "dl_map",
            Work::SumAll { .. } => "dl_chunk_sums",
            Work::Sum(_) => "dl_sum",
            Work::Fold(_) => "dl_fold",
            Work::Product(_) => "dl_product",
            Work::Gather(_) => "dl_gather",
            Work::Scatter(_) => "dl_scatter",
            Work::Scan(_) => "dl_scan",
            Work::Sort(_) => "dl_sort",
            Work::RandomDrop(_) => "dl_dropout",
            Work::Maxima(_) => "dl_maxima",
            Work::SparseProduct(_) => "dl_rows",
            Work::Convolve(Convolve { form: ConvForm::Output, .. }) => "dl_conv_output",
            Work::Convolve(Convolve { form: ConvForm::Weight, .. }) => "dl_conv_weight",
            Work::Convolve(Convolve { form: ConvForm::Input, .. }) => "dl_conv_input",
        }
    }

    /// What it reads, in the order of the arguments of its kernel.
    pub fn reads(&self) -> impl Iterator<Item = &'a View> + Clone + use<'a> {
        let (some, many): ([Option<&View>; 3], &[View]) = match *self {
            Work::Map { of, .. } => ([None; 3], of),
            Work::SumAll { of, .. } | Work::Sum(Sum { of, .. }) | Work::Fold(Fold { of, .. }) => {
                ([Some(of), None, None], &[])
            }
            Work::Product(Product { a, b, row, .. }) => ([Some(a), Some(b), Some(row.unwrap_or(a))], &[]),
            Work::Gather(Gather { of, at, .. }) => ([Some(of), Some(at), None], &[]),
            Work::Scatter(Scatter { at, parts, .. }) => ([Some(at), Some(parts), None], &[]),
            Work::Scan(Scan { of, with, .. }) => ([Some(of), Some(with), None], &[]),
            Work::Sort(Sort { of, .. }) | Work::RandomDrop(RandomDrop { of, .. }) => ([Some(of), None, None], &[]),
            Work::Maxima(Maxima { of, .. }) => ([Some(of), None, None], &[]),
            Work::SparseProduct(SparseProduct { of, starts, factors, .. }) => {
                ([Some(of), Some(starts), Some(factors)], &[])
            }
            Work::Convolve(Convolve { left, right, .. }) => ([Some(left), Some(right), None], &[]),
        };
        some.into_iter().flatten().chain(many)
    }

    /// What it writes, after that in the order of the arguments.
    pub fn writes(&self) -> &'a [View] {
        use std::slice::from_ref;
        match *self {
            Work::Map { to, .. } => to,
            Work::SumAll { to, .. } | Work::Sum(Sum { to, .. }) | Work::Fold(Fold { to, .. }) => from_ref(to),
            Work::Product(Product { to, .. }) | Work::Gather(Gather { to, .. }) => from_ref(to),
            Work::Scatter(Scatter { to, .. }) | Work::Scan(Scan { to, .. }) => from_ref(to),
            Work::Sort(Sort { to, .. }) | Work::RandomDrop(RandomDrop { to, .. }) => from_ref(to),
            Work::Maxima(Maxima { to, .. }) | Work::SparseProduct(SparseProduct { to, .. }) => from_ref(to),
            Work::Convolve(Convolve { to, .. }) => from_ref(to),
        }
    }

    /// The number of threads of its kernel.
    pub fn threads(&self) -> u64 {
        let threads = match *self {
            Work::Scan(Scan { before, after, .. }) => before * after,
            Work::Sort(Sort { before, len, after, .. }) => before * len * after,
            Work::RandomDrop(RandomDrop { of, .. }) => of.len().div_ceil(16),
            Work::SumAll { of, .. } => of.len().div_ceil(SUM_CHUNK),
            _ => self.writes()[0].len(),
        };
        threads as u64
    }
}
