//! The kernels that a device has. The order of their additions is that of the host.

#![allow(missing_docs, reason = "for the crates that implement devices")]

use super::{Code, View};
use dl_core::Binary;

/// A kernel and its operands. The results have as many elements as the kernel computes, which is at
/// least one.
pub enum Work<'a> {
    /// A pointwise program. All operands and results have one shape and one type.
    Map { code: &'a Code, numbers: &'a [f64], of: &'a [View], to: &'a [View] },
    /// Conversion between `f32` and `f64`.
    Cast { of: &'a View, to: &'a View },
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
}

/// The order in which at most 128 terms are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumOrder {
    /// From the first to the last.
    InTurn,
    /// In eight accumulators, of which the first and the fifth, and so on, are added; then the terms
    /// that are left.
    InEights,
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
/// `[before, parts, after]`. Adjacent rows (`after` is 1) are folded in 32 lanes, then the halves of
/// the lanes; others from the first to the last.
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
    /// The number of accumulators of an inner product of adjacent elements, if this is one: term `i`
    /// belongs to accumulator `i` modulo this, and the halves are added. More than 4096 terms are
    /// halved. Otherwise 0.
    pub accumulators: usize,
}

impl Work<'_> {
    /// The number of kernels that it takes.
    pub fn launches(&self) -> u64 {
        match self {
            Work::SumAll { .. } => 2,
            _ => 1,
        }
    }
}
