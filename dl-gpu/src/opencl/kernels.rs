//! The kernel of each work, its memory and its argument.

use super::{OpenCl, State};
use crate::layout::{self, Argument, Place, Shape, offset};
use dl_core::{Binary, DType, Result};
use dl_nd::device::{Convolve, Fold, Gather, Maxima, Product, RandomDrop, Scan, ScanOp, Scatter, SparseProduct};
use dl_nd::device::{Sort, Sum, SumOrder, View, Work};
use std::iter::once;

impl OpenCl {
    /// Records the kernels of this work.
    pub(super) fn queue_work(&self, state: &mut State, work: &Work<'_>) -> Result<()> {
        let dtype = work.dtype();
        if dtype == DType::F64 && !self.target.double {
            return Err(self.error("has no arithmetic of `f64`", "use `f32`"));
        }
        match *work {
            Work::Map { code, numbers, .. } => {
                let each = numbers.iter();
                match dtype {
                    DType::F64 => self.map(state, work, code, numbers),
                    DType::F32 => self.map(state, work, code, &each.map(|&x| x as f32).collect::<Vec<_>>()),
                    _ => self.map(state, work, code, &each.map(|&x| x as i64).collect::<Vec<_>>()),
                }
            }
            Work::SumAll { of, to } => self.sum_all(state, work, of, to),
            Work::Sum(Sum { of, to, before, len, after, order }) => {
                let order = match order {
                    SumOrder::InTurn => 0,
                    SumOrder::InEights => 1,
                    SumOrder::InRuns => 2,
                };
                let [first, terms, last] = [before, len, after].map(|length| length as u64);
                let sum = layout::Sum { of: offset(of), to: offset(to), before: first, len: terms, after: last, order };
                self.record_work(state, work, &sum)
            }
            Work::Fold(Fold { of, to, op, before, rows, after, part }) => {
                let [before, rows, after, part] = [before, rows, after, part].map(|length| length as u64);
                let op = match op {
                    Binary::Mul => 0,
                    Binary::Max => 1,
                    _ => 2,
                };
                let fold = layout::Fold { of: offset(of), to: offset(to), before, rows, after, part, op };
                self.record_work(state, work, &fold)
            }
            Work::Product(ref product) => self.product(state, work, product),
            Work::Gather(Gather { of, at, to, apart, length, lowest }) => {
                let gather = layout::Gather {
                    shape: Shape::new(&to.shape)?,
                    of: Place::new(of, dtype)?,
                    at: Place::new(at, at.dtype)?,
                    to: Place::new(to, dtype)?,
                    apart: apart as i64,
                    length: length as u64,
                    lowest: lowest.into(),
                };
                self.record_work(state, work, &gather)
            }
            Work::Scatter(Scatter { to, at, parts, axis, count, at_apart, parts_apart, order }) => {
                let scatter = layout::Scatter {
                    shape: Shape::new(&to.shape)?,
                    to: Place::new(to, dtype)?,
                    at: Place::new(at, at.dtype)?,
                    parts: Place::new(parts, dtype)?,
                    count: count as u64,
                    at_apart: at_apart as i64,
                    parts_apart: parts_apart as i64,
                    axis: axis as i32,
                    order: order as i32,
                };
                self.record_work(state, work, &scatter)
            }
            Work::Scan(Scan { op, of, with, to, before, len, after, from_end }) => {
                let (code, initial) = match op {
                    ScanOp::Sum => (0, 0),
                    ScanOp::Product { from_one } => (1, from_one.into()),
                    ScanOp::Delta => (2, 0),
                    ScanOp::LogSumExp => (3, 0),
                    ScanOp::ExtremeSoFar { largest } => (5 - i32::from(largest), 0),
                    ScanOp::Extreme { largest } => (7 - i32::from(largest), 0),
                };
                if matches!(op, ScanOp::Product { .. } | ScanOp::Delta) && !self.target.double {
                    return Err(self.error("has no arithmetic of `f64`", "this recurrence needs it"));
                }
                let [before, len, after] = [before, len, after].map(|length| length as u64);
                let (of_offset, with_offset, to_offset) = (offset(of), offset(with), offset(to));
                let scan = layout::Scan {
                    of: of_offset,
                    with: with_offset,
                    to: to_offset,
                    before,
                    len,
                    after,
                    op: code,
                    from_end: from_end.into(),
                    initial,
                    unused: 0,
                };
                self.record_work(state, work, &scan)
            }
            Work::Sort(Sort { of, to, before, len, after, count, descending }) => {
                let [before, len, after, count] = [before, len, after, count].map(|length| length as u64);
                let (of_offset, to_offset, descending) = (offset(of), offset(to), descending.into());
                let sort = layout::Sort { of: of_offset, to: to_offset, before, len, after, count, descending };
                self.record_work(state, work, &sort)
            }
            Work::Maxima(Maxima { of, to, channels, regions }) => {
                let maxima = layout::Maxima {
                    of: offset(of),
                    to: offset(to),
                    channels: channels as u64,
                    regions: regions.map(layout::region),
                };
                self.record_work(state, work, &maxima)
            }
            Work::SparseProduct(SparseProduct { of, to, starts, factors, before, length, outputs, inner }) => {
                let [before, length, outputs, inner] = [before, length, outputs, inner].map(|length| length as u64);
                let rows = layout::Rows {
                    of: offset(of),
                    to: offset(to),
                    starts: offset(starts),
                    factors: offset(factors),
                    before,
                    length,
                    outputs,
                    inner,
                };
                self.record_work(state, work, &rows)
            }
            Work::Convolve(ref conv) => {
                let &Convolve { left, right, to, axes, .. } = conv;
                let argument = layout::Conv {
                    left: offset(left),
                    right: offset(right),
                    to: offset(to),
                    batch: conv.batch as u64,
                    groups: conv.groups as u64,
                    inputs: conv.inputs as u64,
                    outputs: conv.outputs as u64,
                    by_samples: conv.by_samples as u64,
                    by_rows: conv.by_rows as u64,
                    axes: axes.map(layout::region),
                    accumulators: conv.accumulators as i32,
                    is_pointwise: conv.is_pointwise.into(),
                };
                self.record_work(state, work, &argument)
            }
            Work::RandomDrop(ref dropout) => match dtype {
                DType::F64 => self.dropout(state, work, dropout, dropout.scale),
                _ => self.dropout(state, work, dropout, dropout.scale as f32),
            },
        }
    }

    /// Records the kernel of this work, which has the memory of its views and a struct as arguments.
    fn record_work(&self, state: &mut State, work: &Work<'_>, argument: &impl Argument) -> Result<()> {
        let kernel = self.kernel(state, work.dtype(), work.kernel())?;
        let (reads, writes) = (work.reads().map(View::span), work.writes().iter().map(View::written));
        self.record(state, kernel, work.threads(), argument.bytes(), reads, writes)
    }

    fn sum_all(&self, state: &mut State, work: &Work<'_>, of: &View, to: &View) -> Result<()> {
        let (len, dtype) = (of.len() as u64, of.dtype);
        let [first, second] =
            [self.kernel(state, dtype, work.kernel())?, self.kernel(state, dtype, "dl_sum_of_chunks")?];
        let sums = self.take(state, work.threads() as usize * dtype.size())?;
        let start = (sums.start / dtype.size()) as u64;
        let chunks = layout::SumAll { of: offset(of), to: start, len };
        let total = layout::SumAll { of: start, to: offset(to), len };
        let summed = self
            .record(state, first, work.threads(), chunks.bytes(), once(of.span()), once((sums, 0..sums.bytes)))
            .and_then(|()| self.record(state, second, 1, total.bytes(), once(sums), once(to.written())));
        state.give_back(sums);
        summed
    }

    fn product(&self, state: &mut State, work: &Work<'_>, product: &Product<'_>) -> Result<()> {
        let &Product { a, b, row, relu, to, accumulators } = product;
        let axes = a.shape.len();
        let [rows, depth, columns] =
            [a.shape[axes - 2], a.shape[axes - 1], b.shape[axes - 1]].map(|length| length as u64);
        let stride = |view: &View, axis: usize| view.strides[axis] as u64;
        let argument = layout::Product {
            shape: Shape::new(&a.shape[..axes - 2])?,
            rows,
            depth,
            columns,
            a_row: stride(a, axes - 2),
            a_term: stride(a, axes - 1),
            b_column: stride(b, axes - 1),
            b_term: stride(b, axes - 2),
            row: row.map_or(0, offset),
            to: offset(to),
            a: Place::of_axes(a, axes - 2)?,
            b: Place::of_axes(b, axes - 2)?,
            with_row: row.is_some().into(),
            relu: relu.into(),
            accumulators: accumulators as i32,
            unused: 0,
        };
        self.record_work(state, work, &argument)
    }

    fn dropout<T: Copy + Default>(
        &self,
        state: &mut State,
        work: &Work<'_>,
        dropout: &RandomDrop<'_>,
        scale: T,
    ) -> Result<()>
    where
        layout::Dropout<T>: Argument,
    {
        let &RandomDrop { of, to, key, below, .. } = dropout;
        let (len, unused) = (of.len() as u64, T::default());
        let argument = layout::Dropout { of: offset(of), to: offset(to), len, below, key, scale, unused };
        self.record_work(state, work, &argument)
    }
}
