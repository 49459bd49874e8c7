//! The kernels of convolution: blocked matrix products with im2col patches.
//!
//! For one sample and one group, `y = w · p`. `w` has a row per output channel. The *patches* `p`
//! have a column per position of the window and a row per element under it; their entries are
//! elements of `x` and zeros. Both gradients are products with `p` as well: `wᵀ = p · yᵀ`, and `p =
//! wᵀ · y`, added to the elements that the patches come from. Patches are built in blocks that fit
//! into a cache (`im2col.rs`).
//!
//! Samples, or parts of them, are tasks for several threads. The number of tasks and the order of
//! all sums depend on the shapes only.

use super::im2col::{PaddedSample, PatchColumns, PatchLayout};
use super::{SPATIAL, Window};
use crate::gemm::{self, Scratch, product_into};
use crate::tensor::Element;
use dl_core::{buffers, parallel};
use ndarray::{ArrayBase, ArrayView2, ArrayViewMut2, Axis, Ix2, RawData, Slice};
use std::ops::Range;

/// The maximum number of rows of a block of patches.
const PATCH_ROWS: usize = 512;
/// The number of columns of a block where they are columns of the result: as many as a product
/// keeps in registers.
const PATCH_COLUMNS: usize = 64;
/// The number of columns of a block where sums run over them.
const SUM_COLUMNS: usize = 256;
/// The target number of tasks of a kernel.
const CONV_TASKS: usize = 8;
/// The maximum number of elements of the partial sums of a weight gradient.
const MAX_WEIGHT_SUMS: usize = 1 << 20;

/// The lengths of all axes of a convolution.
#[derive(Debug)]
pub(crate) struct ConvGeometry {
    pub(crate) batch: usize,
    pub(crate) groups: usize,
    /// Channels of `x` in a group.
    pub(crate) inputs: usize,
    /// Channels of `y` in a group.
    pub(crate) outputs: usize,
    pub(crate) windows: [Window; SPATIAL],
    /// Spatial lengths of `x`.
    pub(crate) input: [usize; SPATIAL],
    /// Spatial lengths of `y`.
    pub(crate) output: [usize; SPATIAL],
}

impl ConvGeometry {
    /// The output `y`, of shape `[batch, outputs of all groups, output…]`.
    pub(crate) fn output<A: Element>(&self, x: &[A], w: &[A]) -> Vec<A> {
        let (taps, positions) = (self.taps(), self.positions());
        let layout = PatchLayout::of(self);
        let split = self.split(self.outputs);
        let outputs = self.outputs / split;
        self.fill_tasks(split, outputs * positions, |task, y| {
            let (part, within) = (task / split, task % split);
            let samples = PaddedSample::of(&layout, &x[nth(part, self.inputs * self.elements())]);
            let w = matrix(&w[nth(part % self.groups * split + within, outputs * taps)], outputs, taps);
            let mut y = matrix_mut(y, outputs, positions);
            self.blocks(&layout, 0..taps, PATCH_ROWS, PATCH_COLUMNS, |rows, columns, scratch| {
                let patches = samples.patches(&rows, &columns, scratch);
                let beta = A::of(if rows.start == 0 { 0.0 } else { 1.0 });
                let (w, mut y) = (slice_axis(w, 1, rows), slice_axis(y.view_mut(), 1, columns.range()));
                product_into(A::of(1.0), w, patches, beta, &mut y);
            });
            samples.give_back();
        })
    }

    /// The gradient of the input, of shape `[batch, inputs of all groups, input…]`, for a delta `y`
    /// of the output.
    pub(crate) fn input<A: Element>(&self, y: &[A], w: &[A]) -> Vec<A> {
        let (taps, positions) = (self.taps(), self.positions());
        let layout = PatchLayout::of(self);
        let split = self.split(self.inputs);
        let inputs = self.inputs / split;
        self.fill_tasks(split, inputs * self.elements(), |task, x| {
            let (part, within) = (task / split, task % split);
            let w = matrix(&w[nth(part % self.groups, self.outputs * taps)], self.outputs, taps);
            let w = slice_axis(w, 1, nth(within, taps / split));
            let y = matrix(&y[nth(part, self.outputs * positions)], self.outputs, positions);
            let mut samples = PaddedSample::empty(&layout, inputs);
            x.fill(A::of(0.0));
            self.blocks(&layout, 0..taps / split, PATCH_ROWS, PATCH_COLUMNS, |rows, columns, scratch| {
                let mut patches = matrix_mut(scratch, rows.len(), columns.len());
                let (w, y) = (slice_axis(w, 1, rows.clone()).reversed_axes(), slice_axis(y, 1, columns.range()));
                product_into(A::of(1.0), w, y, A::of(0.0), &mut patches);
                samples.add(x, &rows, &columns, scratch);
            });
            samples.add_to(x);
        })
    }

    /// The gradient of the weight, of shape `[outputs of all groups, inputs, kernel…]`, for a delta
    /// `y` of the output.
    pub(crate) fn weight<A: Element>(&self, x: &[A], y: &[A]) -> Vec<A> {
        let (taps, outputs, positions) = (self.taps(), self.outputs, self.positions());
        let layout = PatchLayout::of(self);
        let len = self.groups * taps * outputs;
        // each task sums over some of the samples, for some of the rows of the patches: `[taps,
        // outputs]`
        let [by_samples, by_rows] = self.weight_parts();
        let tasks = by_samples * self.groups;
        let mut sums: Vec<A> = buffers::take_filled(by_samples * len);
        let mut parts: Vec<(usize, Range<usize>, &mut [A])> = Vec::with_capacity(tasks * by_rows);
        for (task, mut sums) in sums.chunks_exact_mut(taps * outputs).enumerate() {
            for rows in ranges(taps, taps.div_ceil(by_rows)) {
                let (these, others) = sums.split_at_mut(rows.len() * outputs);
                parts.push((task, rows, these));
                sums = others;
            }
        }
        let nanoseconds = self.nanoseconds() / parts.len() as f64;
        parallel::for_each_mut(&mut parts, nanoseconds, |_, (task, rows, sums)| {
            let (some, group) = (*task / self.groups, *task % self.groups);
            let first = rows.start;
            let mut sums = matrix_mut(sums, rows.len(), outputs);
            let samples = some * self.batch / by_samples..(some + 1) * self.batch / by_samples;
            for sample in samples.clone() {
                let part = sample * self.groups + group;
                let padded = PaddedSample::of(&layout, &x[nth(part, self.inputs * self.elements())]);
                let y = matrix(&y[nth(part, outputs * positions)], outputs, positions);
                let is_first = sample == samples.start;
                self.blocks(&layout, rows.clone(), PATCH_ROWS, SUM_COLUMNS, |rows, columns, scratch| {
                    let beta = A::of(if is_first && columns.range().start == 0 { 0.0 } else { 1.0 });
                    let patches = padded.patches(&rows, &columns, scratch);
                    let y = slice_axis(y, 1, columns.range()).reversed_axes();
                    let mut sums = slice_axis(sums.view_mut(), 0, rows.start - first..rows.end - first);
                    product_into(A::of(1.0), patches, y, beta, &mut sums);
                });
                padded.give_back();
            }
        });
        let (first, others) = sums.split_at_mut(len);
        for other in others.chunks_exact(len) {
            first.iter_mut().zip(other).for_each(|(sum, &other)| *sum = *sum + other);
        }
        let mut w = buffers::take_filled(len);
        for (w, sums) in w.chunks_exact_mut(taps * outputs).zip(first.chunks_exact(taps * outputs)) {
            matrix_mut(w, outputs, taps).assign(&matrix(sums, taps, outputs).reversed_axes());
        }
        buffers::give_back(sums);
        w
    }

    /// The number of parts of the samples, and of the rows of the patches, for the gradient of the
    /// weight.
    pub(crate) fn weight_parts(&self) -> [usize; 2] {
        let len = self.groups * self.taps() * self.outputs;
        let by_samples = CONV_TASKS.min(self.batch).min(MAX_WEIGHT_SUMS / len).max(1);
        [by_samples, (CONV_TASKS / (by_samples * self.groups)).min(self.taps() / 24).max(1)]
    }

    /// Whether the patches are the samples themselves.
    pub(crate) fn is_pointwise(&self) -> bool {
        // the distance of a single tap does not matter
        let is_point = |&window: &Window| Window { dilation: 1, ..window } == Window::POINT;
        self.input == self.output && self.windows.iter().all(is_point)
    }

    /// Fills a result in parallel: the samples and groups, or equal parts of them. `work` must
    /// write all of its part.
    fn fill_tasks<A: Element>(&self, split: usize, each: usize, work: impl Fn(usize, &mut [A]) + Sync) -> Vec<A> {
        let tasks = self.batch * self.groups * split;
        gemm::fill_chunks(tasks * each, each, self.nanoseconds() / tasks.max(1) as f64, work)
    }

    /// The number of equal parts into which the channels of a sample and group are divided, so that
    /// there are enough tasks.
    fn split(&self, channels: usize) -> usize {
        let wanted = CONV_TASKS / (self.batch * self.groups).max(1);
        (1..=wanted.min(channels)).rev().find(|&split| channels.is_multiple_of(split)).unwrap_or(1)
    }

    /// The estimated time of each of the kernels on one thread.
    pub(crate) fn nanoseconds(&self) -> f64 {
        let patches = [self.batch, self.groups, self.inputs].into_iter().chain(self.output);
        let patches = patches.chain(self.windows.map(|window| window.kernel)).map(|length| length as f64);
        patches.product::<f64>() * (0.3 + 0.016 * self.outputs as f64)
    }

    /// Elements of `x` in a channel.
    pub(crate) fn elements(&self) -> usize {
        self.input.iter().product()
    }

    /// Positions of the window: elements of `y` in a channel, columns of the patches.
    fn positions(&self) -> usize {
        self.output.iter().product()
    }

    /// Elements of `x` under the window, over all channels of a group: rows of the patches.
    fn taps(&self) -> usize {
        self.inputs * self.windows.iter().map(|window| window.kernel).product::<usize>()
    }

    /// Visits blocks of the patches of one sample and group, in a fixed order, with scratch memory
    /// for each.
    fn blocks<A: Element>(
        &self,
        layout: &PatchLayout<'_>,
        rows: Range<usize>,
        high: usize,
        wide: usize,
        mut work: impl FnMut(Range<usize>, PatchColumns, &mut [A]),
    ) {
        let mut scratch = Scratch::take(rows.len().min(high) * self.positions().min(wide));
        for columns in ranges(self.positions(), wide) {
            let columns = PatchColumns::new(layout, columns);
            for part in ranges(rows.len(), high) {
                let scratch = &mut scratch.as_mut_slice()[..part.len() * columns.len()];
                work(rows.start + part.start..rows.start + part.end, columns.clone(), scratch);
            }
        }
    }
}

pub(super) fn matrix<A>(elements: &[A], rows: usize, columns: usize) -> ArrayView2<'_, A> {
    ArrayView2::from_shape((rows, columns), elements).expect("as many elements as a matrix has")
}

fn matrix_mut<A>(elements: &mut [A], rows: usize, columns: usize) -> ArrayViewMut2<'_, A> {
    ArrayViewMut2::from_shape((rows, columns), elements).expect("as many elements as a matrix has")
}

/// A range of the rows (axis 0) or columns (axis 1) of a matrix.
pub(super) fn slice_axis<S: RawData>(
    mut matrix: ArrayBase<S, Ix2>,
    axis: usize,
    range: Range<usize>,
) -> ArrayBase<S, Ix2> {
    matrix.slice_axis_inplace(Axis(axis), Slice::from(range));
    matrix
}

/// Divides `0..len` into ranges of at most `by`.
fn ranges(len: usize, by: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(by.max(1)).map(move |from| from..len.min(from + by))
}

/// The range of part `index` of length `len`.
fn nth(index: usize, len: usize) -> Range<usize> {
    index * len..(index + 1) * len
}
