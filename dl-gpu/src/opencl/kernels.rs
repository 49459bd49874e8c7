//! The kernel of each work, its memory and its argument.

use super::{OpenCl, State, set, set_memory};
use crate::layout::{self, Place, Shape, offset};
use dl_core::{Binary, DType, Result};
use dl_nd::device::{
    ConvForm, Convolve, Fold, Gather, Maxima, Product, RandomDrop, Scan, ScanOp, Scatter, SparseProduct,
};
use dl_nd::device::{Sort, Span, Sum, SumOrder, View, Work};

impl OpenCl {
    /// Queues the kernels of this work.
    pub(super) fn queue_work(&self, state: &mut State, work: &Work<'_>) -> Result<()> {
        let dtype = match work {
            Work::Map { code, .. } => code.element,
            Work::SumAll { to, .. } | Work::Sum(Sum { to, .. }) => to.dtype,
            Work::Fold(Fold { to, .. }) | Work::Product(Product { to, .. }) => to.dtype,
            Work::Gather(Gather { of, .. }) | Work::Scan(Scan { of, .. }) | Work::Sort(Sort { of, .. }) => of.dtype,
            Work::Maxima(Maxima { of, .. }) | Work::SparseProduct(SparseProduct { of, .. }) => of.dtype,
            Work::Convolve(Convolve { to, .. }) => to.dtype,
            Work::Scatter(Scatter { to, .. }) | Work::RandomDrop(RandomDrop { to, .. }) => to.dtype,
        };
        if dtype == DType::F64 && !self.double {
            return Err(self.error("has no arithmetic of `f64`", "use `f32`"));
        }
        match *work {
            Work::Map { code, numbers, of, to } => {
                let views: Vec<&View> = of.iter().chain(to).collect();
                let each = numbers.iter();
                match dtype {
                    DType::F64 => self.map(state, code, numbers.to_vec(), &views, &to[0].shape),
                    DType::F32 => {
                        self.map(state, code, each.map(|&x| x as f32).collect::<Vec<_>>(), &views, &to[0].shape)
                    }
                    _ => self.map(state, code, each.map(|&x| x as i64).collect::<Vec<_>>(), &views, &to[0].shape),
                }
            }
            Work::SumAll { of, to } => self.sum_all(state, of, to),
            Work::Sum(Sum { of, to, before, len, after, order }) => {
                let order = match order {
                    SumOrder::InTurn => 0,
                    SumOrder::InEights => 1,
                    SumOrder::InRuns => 2,
                };
                let [first, terms, last] = [before, len, after].map(|length| length as u64);
                let sum = layout::Sum { of: offset(of), to: offset(to), before: first, len: terms, after: last, order };
                self.run_on(state, dtype, "dl_sum", before * after, &[of, to], &sum)
            }
            Work::Fold(Fold { of, to, op, before, rows, after, part }) => {
                let [before, rows, after, part] = [before, rows, after, part].map(|length| length as u64);
                let op = match op {
                    Binary::Mul => 0,
                    Binary::Max => 1,
                    _ => 2,
                };
                let fold = layout::Fold { of: offset(of), to: offset(to), before, rows, after, part, op };
                self.run_on(state, dtype, "dl_fold", to.len(), &[of, to], &fold)
            }
            Work::Product(ref product) => self.product(state, dtype, product),
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
                self.run_on(state, dtype, "dl_gather", to.len(), &[of, at, to], &gather)
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
                self.run_on(state, dtype, "dl_scatter", to.len(), &[to, at, parts], &scatter)
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
                if matches!(op, ScanOp::Product { .. } | ScanOp::Delta) && !self.double {
                    return Err(self.error("has no arithmetic of `f64`", "this recurrence needs it"));
                }
                let lanes = before * after;
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
                };
                self.run_on(state, dtype, "dl_scan", lanes, &[of, with, to], &scan)
            }
            Work::Sort(Sort { of, to, before, len, after, count, descending }) => {
                let threads = before * len * after;
                let [before, len, after, count] = [before, len, after, count].map(|length| length as u64);
                let (of_offset, to_offset, descending) = (offset(of), offset(to), descending.into());
                let sort = layout::Sort { of: of_offset, to: to_offset, before, len, after, count, descending };
                self.run_on(state, dtype, "dl_sort", threads, &[of, to], &sort)
            }
            Work::Maxima(Maxima { of, to, channels, regions }) => {
                let maxima = layout::Maxima {
                    of: offset(of),
                    to: offset(to),
                    channels: channels as u64,
                    regions: regions.map(layout::region),
                };
                self.run_on(state, dtype, "dl_maxima", to.len(), &[of, to], &maxima)
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
                self.run_on(state, dtype, "dl_rows", to.len(), &[of, starts, factors, to], &rows)
            }
            Work::Convolve(ref conv) => {
                let &Convolve { form, left, right, to, axes, .. } = conv;
                let name = match form {
                    ConvForm::Output => "dl_conv_output",
                    ConvForm::Weight => "dl_conv_weight",
                    ConvForm::Input => "dl_conv_input",
                };
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
                self.run_on(state, dtype, name, to.len(), &[left, right, to], &argument)
            }
            Work::RandomDrop(ref dropout) => match dtype {
                DType::F64 => self.dropout(state, dtype, dropout, dropout.scale),
                _ => self.dropout(state, dtype, dropout, dropout.scale as f32),
            },
        }
    }

    /// Queues a kernel that has the memory of these views and a struct as arguments.
    fn run_on<S>(
        &self,
        state: &mut State,
        dtype: DType,
        name: &'static str,
        len: usize,
        views: &[&View],
        argument: &S,
    ) -> Result<()> {
        self.run(state, dtype, name, len as u64, |call, arena| {
            views.iter().for_each(|view| set_memory(call, arena, view.span()));
            set(call, argument);
        })
    }

    fn sum_all(&self, state: &mut State, of: &View, to: &View) -> Result<()> {
        /// As in the source.
        const CHUNK: u64 = 4096;
        let (len, dtype) = (of.len() as u64, of.dtype);
        let chunks = len.div_ceil(CHUNK);
        let sums = self.take(state, chunks as usize * dtype.size())?;
        let start = (sums.start / dtype.size()) as u64;
        let mut sum = |name, of: (Span, u64), to: (Span, u64), threads| {
            self.run(state, dtype, name, threads, |call, arena| {
                for (span, offset) in [of, to] {
                    set_memory(call, arena, span);
                    set(call, &offset);
                }
                set(call, &len);
            })
        };
        let summed = sum("dl_chunk_sums", (of.span(), offset(of)), (sums, start), chunks)
            .and_then(|()| sum("dl_sum_of_chunks", (sums, start), (to.span(), offset(to)), 1));
        state.arena.give_back(sums);
        summed
    }

    fn product(&self, state: &mut State, dtype: DType, product: &Product<'_>) -> Result<()> {
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
        };
        self.run_on(state, dtype, "dl_product", to.len(), &[a, b, row.unwrap_or(a), to], &argument)
    }

    fn dropout<T>(&self, state: &mut State, dtype: DType, dropout: &RandomDrop<'_>, scale: T) -> Result<()> {
        let &RandomDrop { of, to, key, below, .. } = dropout;
        let len = of.len();
        let argument = layout::Dropout { of: offset(of), to: offset(to), len: len as u64, below, key, scale };
        self.run_on(state, dtype, "dl_dropout", len.div_ceil(16), &[of, to], &argument)
    }
}
