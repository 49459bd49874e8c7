//! The patches of a convolution: what is under each position of the window.

use super::kernel::{Geometry, cut, matrix};
use crate::element::Element;
use crate::window::{SPATIAL, Window, zeros};
use dl_core::buffers;
use ndarray::ArrayView2;
use std::borrow::Cow;
use std::ops::Range;

/// Some columns of the patches: positions of the window, which lie in runs along the last axis.
#[derive(Clone)]
pub(super) struct Columns {
    range: Range<usize>,
    runs: Vec<Run>,
}

#[derive(Clone)]
struct Run {
    /// Where it begins among the columns.
    start: usize,
    len: usize,
    /// The position of its first column.
    position: [usize; SPATIAL],
}

impl Columns {
    pub(super) fn new(geometry: &Geometry, range: Range<usize>) -> Self {
        let [_, height, width] = geometry.output;
        let mut runs = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let (line, column) = (next / width, next % width);
            let len = (width - column).min(range.end - next);
            let position = [line / height, line % height, column];
            runs.push(Run { start: next - range.start, len, position });
            next += len;
        }
        Columns { range, runs }
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    pub(super) fn len(&self) -> usize {
        self.range.len()
    }
}

/// The channels of one sample and group, with their padding, so that every window lies inside.
pub(super) struct Samples<'a, A: Element> {
    geometry: &'a Geometry,
    elements: Cow<'a, [A]>,
    /// The lengths of the spatial axes, padding included; without, if it is too much.
    lengths: [usize; SPATIAL],
    /// How much padding comes first.
    padding: [usize; SPATIAL],
}

impl<'a, A: Element> Samples<'a, A> {
    pub(super) fn of(geometry: &'a Geometry, x: &'a [A]) -> Self {
        let (lengths, padding) = padded(geometry);
        let mut samples = Samples { geometry, elements: Cow::Borrowed(x), lengths, padding };
        if samples.is_padded() {
            let mut elements = zeros(geometry.inputs * lengths.iter().product::<usize>());
            samples.lines(geometry.inputs, |from, to, len| {
                elements[to..to + len].copy_from_slice(&x[from..from + len]);
            });
            samples.elements = Cow::Owned(elements);
        }
        samples
    }

    /// Zeros, to add to, for so many channels.
    pub(super) fn empty(geometry: &'a Geometry, channels: usize) -> Self {
        let (lengths, padding) = padded(geometry);
        let len = if padding == [0; SPATIAL] { 0 } else { channels * lengths.iter().product::<usize>() };
        Samples { geometry, elements: Cow::Owned(zeros(len)), lengths, padding }
    }

    /// The lines that these samples and those without padding have in common: where each begins there and here, and its length.
    fn lines(&self, channels: usize, mut each: impl FnMut(usize, usize, usize)) {
        let (input, lengths, padding) = (self.geometry.input, self.lengths, self.padding);
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
        columns: &Columns,
        room: &'b mut [A],
    ) -> ArrayView2<'b, A> {
        if self.is_pointwise() {
            let patches = matrix(&self.elements, self.geometry.inputs, self.geometry.elements());
            return cut(cut(patches, 0, rows.clone()), 1, columns.range());
        }
        let step = self.geometry.windows[2].stride;
        for (row, line) in rows.clone().zip(room.chunks_exact_mut(columns.len())) {
            self.runs(row, columns, |run, from| match from {
                None => line[run].fill(A::of(0.0)),
                Some(from) if step == 1 => copy(&mut line[run.clone()], &self.elements[from..from + run.len()]),
                Some(from) => {
                    let from = self.elements[from..].iter().step_by(step);
                    line[run].iter_mut().zip(from).for_each(|(to, &x)| *to = x);
                }
            });
        }
        matrix(room, rows.len(), columns.len())
    }

    /// Adds a block of patches where they come from: here, or to `x` if there is no padding here.
    pub(super) fn add(&mut self, x: &mut [A], rows: &Range<usize>, columns: &Columns, patches: &[A]) {
        let mut elements = std::mem::take(self.elements.to_mut());
        let to = if self.is_padded() { &mut elements[..] } else { x };
        let step = self.geometry.windows[2].stride;
        for (row, line) in rows.clone().zip(patches.chunks_exact(columns.len())) {
            self.runs(row, columns, |run, from| match from {
                None => {}
                Some(from) if step == 1 => add(&mut to[from..from + run.len()], &line[run]),
                Some(from) => {
                    let to = to[from..].iter_mut().step_by(step);
                    to.zip(&line[run]).for_each(|(x, &patch)| *x = *x + patch);
                }
            });
        }
        self.elements = Cow::Owned(elements);
    }

    /// Adds what is here, without the padding.
    pub(super) fn add_to(self, x: &mut [A]) {
        if self.is_padded() {
            let channels = x.len() / self.geometry.elements();
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
        self.padding != [0; SPATIAL]
    }

    /// Whether the patches are the samples themselves.
    fn is_pointwise(&self) -> bool {
        // one tap alone, whatever its distance from others
        let is_point = |&window: &Window| Window { dilation: 1, ..window } == Window::POINT;
        self.geometry.input == self.geometry.output && self.geometry.windows.iter().all(is_point)
    }

    /// Goes through a row of the patches. Each run of columns comes from the samples, from this element on in steps of the last stride; or it is padding that
    /// the samples do not have.
    #[inline(always)]
    fn runs(&self, row: usize, columns: &Columns, mut each: impl FnMut(Range<usize>, Option<usize>)) {
        let [deep, high, wide] = self.geometry.windows;
        let (row, column_tap) = (row / wide.kernel, row % wide.kernel);
        let (row, line_tap) = (row / high.kernel, row % high.kernel);
        let (channel, plane_tap) = (row / deep.kernel, row % deep.kernel);
        let [depth, height, width] = self.lengths;
        if self.padding == self.geometry.windows.map(|window| window.padding) {
            let tap = (plane_tap * deep.dilation * height + line_tap * high.dilation) * width;
            let from = channel * depth * height * width + tap + column_tap * wide.dilation;
            for run in &columns.runs {
                let [plane, line, column] = run.position;
                let at = (plane * deep.stride * height + line * high.stride) * width + column * wide.stride;
                each(run.start..run.start + run.len, Some(from + at));
            }
            return;
        }
        let inside = |axis: usize, tap| {
            let Geometry { windows, input, output, .. } = self.geometry;
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
                let plane = channel * depth + deep.place(plane, plane_tap);
                let line = plane * height + high.place(line, line_tap);
                each(at(first)..at(end), Some(line * width + wide.place(first, column_tap)));
            }
            each(at(end)..at(to), None);
        }
    }
}

/// The lengths of samples with their padding, and how much of it comes first. Where it would be much more than the samples, they stay without.
fn padded(geometry: &Geometry) -> ([usize; SPATIAL], [usize; SPATIAL]) {
    let (input, output, windows) = (geometry.input, geometry.output, geometry.windows);
    let padding = windows.map(|window| window.padding);
    if padding == [0; SPATIAL] {
        return (input, padding);
    }
    let lengths: [usize; SPATIAL] = std::array::from_fn(|axis| {
        let Window { kernel, stride, dilation, .. } = windows[axis];
        // no longer than the windows reach, but long enough for what comes first
        ((output[axis].max(1) - 1).saturating_mul(stride))
            .saturating_add((kernel - 1) * dilation + 1)
            .max(padding[axis])
    });
    let size = lengths.iter().fold(1_usize, |size, &length| size.saturating_mul(length));
    if size <= 4 * geometry.elements() + 256 { (lengths, padding) } else { (input, [0; SPATIAL]) }
}

/// So many numbers are moved at a time: a few instructions, where a call would take longer than the copy.
const CHUNK: usize = 8;

#[inline(always)]
fn copy<A: Element>(to: &mut [A], from: &[A]) {
    let len = to.len();
    if len < CHUNK {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = from);
        return;
    }
    let mut at = 0;
    while at + CHUNK < len {
        to[at..at + CHUNK].copy_from_slice(&from[at..at + CHUNK]);
        at += CHUNK;
    }
    // the last ones, some of them for the second time
    to[len - CHUNK..].copy_from_slice(&from[len - CHUNK..len]);
}

#[inline(always)]
fn add<A: Element>(to: &mut [A], from: &[A]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = *to + from);
}
