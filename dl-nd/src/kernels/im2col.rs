//! im2col: the patches of a convolution, the elements under each position of the window.

use super::conv::{ConvGeometry, matrix, slice_axis};
use super::{SPATIAL, Window};
use crate::tensor::{Element, zeros};
use dl_core::buffers;
use dl_core::simd::vectorized;
use ndarray::ArrayView2;
use std::borrow::Cow;
use std::ops::Range;

/// Some columns of the patches: positions of the window, as runs along the last axis.
#[derive(Clone)]
pub(super) struct PatchColumns {
    range: Range<usize>,
    runs: Vec<ColumnRun>,
}

#[derive(Clone)]
struct ColumnRun {
    /// The index of its first column.
    start: usize,
    len: usize,
    /// The position of its first column.
    position: [usize; SPATIAL],
    /// The offset of the window at that position, in a padded channel.
    at: usize,
}

impl PatchColumns {
    pub(super) fn new(layout: &PatchLayout<'_>, range: Range<usize>) -> Self {
        let PatchLayout { geometry, lengths: [_, lines, length], .. } = *layout;
        let [_, height, width] = geometry.output;
        let strides = geometry.windows.map(|window| window.stride);
        let mut runs = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let (line, column) = (next / width, next % width);
            let len = (width - column).min(range.end - next);
            let position = [line / height, line % height, column];
            let [plane, line, from] = std::array::from_fn(|axis| position[axis] * strides[axis]);
            let at = (plane * lines + line) * length + from;
            runs.push(ColumnRun { start: next - range.start, len, position, at });
            next += len;
        }
        PatchColumns { range, runs }
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    pub(super) fn len(&self) -> usize {
        self.range.len()
    }
}

/// The layout of the padded samples, and the offsets of the taps; the same for all samples.
pub(super) struct PatchLayout<'a> {
    geometry: &'a ConvGeometry,
    /// The lengths of the spatial axes including padding, or without it if it would be too large.
    lengths: [usize; SPATIAL],
    /// The padding before the first element of each axis.
    padding: [usize; SPATIAL],
    /// The offset of each row of the patches for the first position of the window. Empty if the
    /// samples are not padded.
    taps: Vec<usize>,
}

impl<'a> PatchLayout<'a> {
    pub(super) fn of(geometry: &'a ConvGeometry) -> Self {
        let (lengths, padding, is_whole) = padded(geometry);
        let [depth, height, width] = lengths;
        let channels = if is_whole { geometry.inputs } else { 0 };
        let along =
            |axis: usize| (0..geometry.windows[axis].kernel).map(move |tap| tap * geometry.windows[axis].dilation);
        let mut taps = Vec::new();
        for plane in (0..channels).flat_map(|channel| along(0).map(move |plane| channel * depth + plane)) {
            for line in along(1).map(|line| plane * height + line) {
                taps.extend(along(2).map(|column| line * width + column));
            }
        }
        PatchLayout { geometry, lengths, padding, taps }
    }
}

/// The channels of one sample and group with their padding, so that all windows are in bounds.
pub(super) struct PaddedSample<'a, A: Element> {
    layout: &'a PatchLayout<'a>,
    elements: Cow<'a, [A]>,
}

impl<'a, A: Element> PaddedSample<'a, A> {
    pub(super) fn of(layout: &'a PatchLayout<'a>, x: &'a [A]) -> Self {
        let mut samples = PaddedSample { layout, elements: Cow::Borrowed(x) };
        if samples.is_padded() {
            let inputs = layout.geometry.inputs;
            let mut elements = zeros(inputs * layout.lengths.iter().product::<usize>());
            samples.lines(inputs, |from, to, len| {
                elements[to..to + len].copy_from_slice(&x[from..from + len]);
            });
            samples.elements = Cow::Owned(elements);
        }
        samples
    }

    /// Zeros to accumulate into, for `channels` channels.
    pub(super) fn empty(layout: &'a PatchLayout<'a>, channels: usize) -> Self {
        let mut samples = PaddedSample { layout, elements: Cow::Owned(Vec::new()) };
        if samples.is_padded() {
            samples.elements = Cow::Owned(zeros(channels * layout.lengths.iter().product::<usize>()));
        }
        samples
    }

    /// Visits the lines of the unpadded samples: their offsets there and in the padded ones, and
    /// their length.
    fn lines(&self, channels: usize, mut each: impl FnMut(usize, usize, usize)) {
        let (input, lengths, padding) = (self.layout.geometry.input, self.layout.lengths, self.layout.padding);
        let common: [usize; SPATIAL] = std::array::from_fn(|axis| input[axis].min(lengths[axis] - padding[axis]));
        for channel in 0..channels {
            for plane in 0..common[0] {
                for line in 0..common[1] {
                    let from = ((channel * input[0] + plane) * input[1] + line) * input[2];
                    let to = (channel * lengths[0] + plane + padding[0]) * lengths[1] + line + padding[1];
                    each(from, to * lengths[2] + padding[2], common[2]);
                }
            }
        }
    }

    /// A block of the patches.
    pub(super) fn patches<'b>(
        &'b self,
        rows: &Range<usize>,
        columns: &PatchColumns,
        scratch: &'b mut [A],
    ) -> ArrayView2<'b, A> {
        if self.layout.geometry.is_pointwise() {
            let patches = matrix(&self.elements, self.layout.geometry.inputs, self.layout.geometry.elements());
            return slice_axis(slice_axis(patches, 0, rows.clone()), 1, columns.range());
        }
        let step = self.layout.geometry.windows[2].stride;
        let mut lines = scratch.chunks_exact_mut(columns.len());
        if let (Some(taps), 1) = (self.layout.taps.get(rows.clone()), step) {
            vectorized(
                #[inline(always)]
                || {
                    for (&tap, line) in taps.iter().zip(lines.by_ref()) {
                        let elements = &self.elements[tap..];
                        for run in &columns.runs {
                            copy(&mut line[run.start..run.start + run.len], &elements[run.at..run.at + run.len]);
                        }
                    }
                },
            );
            return matrix(scratch, rows.len(), columns.len());
        }
        for (row, line) in rows.clone().zip(lines) {
            self.runs(row, columns, |run, from| match from {
                None => line[run].fill(A::of(0.0)),
                Some(from) => {
                    let from = self.elements[from..].iter().step_by(step);
                    line[run].iter_mut().zip(from).for_each(|(to, &x)| *to = x);
                }
            });
        }
        matrix(scratch, rows.len(), columns.len())
    }

    /// Adds a block of patches to the elements that they come from: of the padded samples, or of
    /// `x` if there is no padding.
    pub(super) fn add(&mut self, x: &mut [A], rows: &Range<usize>, columns: &PatchColumns, patches: &[A]) {
        let mut elements = std::mem::take(self.elements.to_mut());
        let to = if self.is_padded() { &mut elements[..] } else { x };
        let step = self.layout.geometry.windows[2].stride;
        let mut lines = patches.chunks_exact(columns.len());
        if let (Some(taps), 1) = (self.layout.taps.get(rows.clone()), step) {
            vectorized(
                #[inline(always)]
                || {
                    for (&tap, line) in taps.iter().zip(lines.by_ref()) {
                        let to = &mut to[tap..];
                        for run in &columns.runs {
                            add(&mut to[run.at..run.at + run.len], &line[run.start..run.start + run.len]);
                        }
                    }
                },
            );
            self.elements = Cow::Owned(elements);
            return;
        }
        for (row, line) in rows.clone().zip(lines) {
            self.runs(row, columns, |run, from| {
                if let Some(from) = from {
                    let to = to[from..].iter_mut().step_by(step);
                    to.zip(&line[run]).for_each(|(x, &patch)| *x = *x + patch);
                }
            });
        }
        self.elements = Cow::Owned(elements);
    }

    /// Adds the padded samples to `x`, without the padding.
    pub(super) fn add_to(self, x: &mut [A]) {
        if self.is_padded() {
            let channels = x.len() / self.layout.geometry.elements();
            self.lines(channels, |to, from, len| add(&mut x[to..to + len], &self.elements[from..from + len]));
        }
        self.give_back();
    }

    pub(super) fn give_back(self) {
        if let Cow::Owned(elements) = self.elements {
            buffers::give_back(elements);
        }
    }

    fn is_padded(&self) -> bool {
        self.layout.padding != [0; SPATIAL] || self.layout.lengths != self.layout.geometry.input
    }

    /// Visits the runs of columns of a row of the patches. A run starts at an element of the
    /// samples and proceeds in steps of the last stride, or it lies in padding that is not stored.
    fn runs(&self, row: usize, columns: &PatchColumns, mut each: impl FnMut(Range<usize>, Option<usize>)) {
        let PatchLayout { geometry, lengths: [depth, height, width], ref taps, .. } = *self.layout;
        if let Some(tap) = taps.get(row) {
            columns.runs.iter().for_each(|run| each(run.start..run.start + run.len, Some(tap + run.at)));
            return;
        }
        let [deep, high, wide] = geometry.windows;
        let (line, column_tap) = (row / wide.kernel, row % wide.kernel);
        let (plane, line_tap) = (line / high.kernel, line % high.kernel);
        let (channel, plane_tap) = (plane / deep.kernel, plane % deep.kernel);
        let inside = |axis: usize, tap| {
            let ConvGeometry { windows, input, output, .. } = geometry;
            windows[axis].inside(tap, input[axis], output[axis])
        };
        let (planes, lines, inner) = (inside(0, plane_tap), inside(1, line_tap), inside(2, column_tap));
        for run in &columns.runs {
            let [plane, line, from] = run.position;
            let to = from + run.len;
            let at = |column: usize| run.start + column - from;
            if !planes.contains(&plane) || !lines.contains(&line) {
                each(at(from)..at(to), None);
                continue;
            }
            let (first, end) = (inner.start.clamp(from, to), inner.end.clamp(from, to));
            each(at(from)..at(first), None);
            if first < end {
                let plane = channel * depth + deep.position(plane, plane_tap);
                let line = plane * height + high.position(line, line_tap);
                each(at(first)..at(end), Some(line * width + wide.position(first, column_tap)));
            }
            each(at(end)..at(to), None);
        }
    }
}

/// The lengths of the padded samples, the padding before the first element, and whether all windows
/// are within them. Padding is not stored if it would be much larger than the samples.
fn padded(geometry: &ConvGeometry) -> ([usize; SPATIAL], [usize; SPATIAL], bool) {
    let (input, output, windows) = (geometry.input, geometry.output, geometry.windows);
    let padding = windows.map(|window| window.padding);
    let reach: [usize; SPATIAL] = std::array::from_fn(|axis| {
        let Window { kernel, stride, dilation, .. } = windows[axis];
        ((output[axis].max(1) - 1).saturating_mul(stride)).saturating_add((kernel - 1) * dilation + 1)
    });
    if padding == [0; SPATIAL] && (0..SPATIAL).all(|axis| reach[axis] <= input[axis]) {
        return (input, padding, true);
    }
    // no longer than the reach, but long enough for the padding before the first element
    let lengths: [usize; SPATIAL] = std::array::from_fn(|axis| reach[axis].max(padding[axis]));
    let size = lengths.iter().fold(1_usize, |size, &length| size.saturating_mul(length));
    if size <= 4 * geometry.elements() + 256 { (lengths, padding, true) } else { (input, [0; SPATIAL], false) }
}

/// The number of elements copied at a time by inline code. A call of `memcpy` would take longer
/// than short copies.
const COPY_LEN: usize = 8;

#[inline(always)]
fn copy<A: Element>(to: &mut [A], from: &[A]) {
    let len = to.len();
    if len < COPY_LEN {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = from);
        return;
    }
    let mut at = 0;
    while at + COPY_LEN < len {
        to[at..at + COPY_LEN].copy_from_slice(&from[at..at + COPY_LEN]);
        at += COPY_LEN;
    }
    // the last elements, some of them for the second time
    to[len - COPY_LEN..].copy_from_slice(&from[len - COPY_LEN..len]);
}

#[inline(always)]
fn add<A: Element>(to: &mut [A], from: &[A]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = *to + from);
}
