//! The kernels of convolution: products of matrices, block by block.
//!
//! For one sample and one group, `y = w · p`: `w` has a row for each output channel, and `p`, the *patches*, has a
//! column for each position of the window and a row for each element under it. `p` is nothing but elements of `x` and
//! zeros, so the two gradients are products with `p` as well: `w = y · pᵀ`, and `p = wᵀ · y` added up where its
//! elements come from. `p` is made in blocks that fit into a cache; the order of all sums depends on the shapes alone.

use crate::element::Element;
use crate::gemm::product_into;
use crate::window::{SPATIAL, Window, zeros};
use dl_core::buffers;
use ndarray::{ArrayBase, ArrayView2, ArrayViewMut2, Axis, Ix2, RawData, Slice};
use std::ops::Range;

/// A block of patches has at most this many rows. The product of matrices works in blocks of this depth anyway.
const ROWS: usize = 256;
/// A block of patches takes at most this much memory.
const BLOCK_BYTES: usize = 256 << 10;

/// The lengths of all axes of a convolution.
#[derive(Debug)]
pub(super) struct Geometry {
    pub(super) batch: usize,
    pub(super) groups: usize,
    /// Channels of `x` in a group.
    pub(super) inputs: usize,
    /// Channels of `y` in a group.
    pub(super) outputs: usize,
    pub(super) windows: [Window; SPATIAL],
    /// Spatial lengths of `x`.
    pub(super) input: [usize; SPATIAL],
    /// Spatial lengths of `y`.
    pub(super) output: [usize; SPATIAL],
}

/// Where a block of patches belongs: the elements of its sample and group, and which part of the patches it is.
struct Block {
    x: Range<usize>,
    w: Range<usize>,
    y: Range<usize>,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Geometry {
    /// The output `y`, of shape `[batch, outputs of all groups, output…]`.
    pub(super) fn output<A: Element>(&self, x: &[A], w: &[A]) -> Vec<A> {
        let mut y = zeros(self.outputs * self.groups * self.batch * self.positions());
        self.blocks(|Block { x: in_x, w: in_w, y: in_y, rows, columns }, room| {
            let patches = self.patches(&x[in_x], &rows, &columns, room);
            let w = self.per_output(&w[in_w], rows);
            add_product(w, patches, self.per_output_mut(&mut y[in_y], columns));
        });
        y
    }

    /// The gradient of the weight, of shape `[outputs of all groups, inputs, kernel…]`, for a delta `y` of the output.
    pub(super) fn weight<A: Element>(&self, x: &[A], y: &[A]) -> Vec<A> {
        let mut w = zeros(self.outputs * self.groups * self.taps());
        self.blocks(|Block { x: in_x, w: in_w, y: in_y, rows, columns }, room| {
            let patches = self.patches(&x[in_x], &rows, &columns, room);
            let y = self.per_output(&y[in_y], columns);
            add_product(y, patches.reversed_axes(), self.per_output_mut(&mut w[in_w], rows));
        });
        w
    }

    /// The gradient of the input, of shape `[batch, inputs of all groups, input…]`, for a delta `y` of the output.
    pub(super) fn input<A: Element>(&self, y: &[A], w: &[A]) -> Vec<A> {
        let mut x = zeros(self.inputs * self.groups * self.batch * self.elements());
        self.blocks(|Block { x: in_x, w: in_w, y: in_y, rows, columns }, room| {
            let w = self.per_output(&w[in_w], rows.clone()).reversed_axes();
            let y = self.per_output(&y[in_y], columns.clone());
            room.fill(A::of(0.0));
            add_product(w, y, matrix_mut(room, rows.len(), columns.len()));
            self.add_patches(&mut x[in_x], &rows, &columns, room);
        });
        x
    }

    /// How many multiplications each of the kernels takes.
    pub(super) fn multiplications(&self) -> f64 {
        [self.batch, self.groups, self.outputs, self.positions(), self.taps()].iter().map(|&n| n as f64).product()
    }

    /// Elements of `x` in a channel.
    fn elements(&self) -> usize {
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

    /// These columns of a matrix with a row for each output channel of a group.
    fn per_output<'a, A>(&self, elements: &'a [A], columns: Range<usize>) -> ArrayView2<'a, A> {
        part(matrix(elements, self.outputs, elements.len() / self.outputs), 1, columns)
    }

    fn per_output_mut<'a, A>(&self, elements: &'a mut [A], columns: Range<usize>) -> ArrayViewMut2<'a, A> {
        let len = elements.len();
        part(matrix_mut(elements, self.outputs, len / self.outputs), 1, columns)
    }

    /// Goes through all blocks of patches, in a fixed order, with room for each.
    fn blocks<A: Element>(&self, mut work: impl FnMut(Block, &mut [A])) {
        let (taps, positions, outputs) = (self.taps(), self.positions(), self.outputs);
        if [self.batch, self.groups, taps, positions, outputs].contains(&0) {
            return;
        }
        let height = taps.min(ROWS);
        let width = positions.min(BLOCK_BYTES / size_of::<A>() / height);
        let mut room = zeros(height * width);
        for part in 0..self.batch * self.groups {
            for columns in chunks(positions, width) {
                for rows in chunks(taps, height) {
                    let room = &mut room[..rows.len() * columns.len()];
                    let x = nth(part, self.inputs * self.elements());
                    let w = nth(part % self.groups, outputs * taps);
                    let y = nth(part, outputs * positions);
                    work(Block { x, w, y, rows, columns: columns.clone() }, room);
                }
            }
        }
        buffers::give_back(room);
    }

    /// A block of the patches of `x`, which is one sample and group.
    fn patches<'a, A: Element>(
        &self,
        x: &'a [A],
        rows: &Range<usize>,
        columns: &Range<usize>,
        room: &'a mut [A],
    ) -> ArrayView2<'a, A> {
        if self.is_pointwise() {
            let patches = matrix(x, self.inputs, self.elements());
            return part(part(patches, 0, rows.clone()), 1, columns.clone());
        }
        let step = self.windows[2].stride;
        for (row, line) in rows.clone().zip(room.chunks_exact_mut(columns.len())) {
            self.runs(row, columns, |run, from| match from {
                None => line[run].fill(A::of(0.0)),
                Some(from) if step == 1 => line[run.clone()].copy_from_slice(&x[from..from + run.len()]),
                Some(from) => line[run].iter_mut().zip(x[from..].iter().step_by(step)).for_each(|(to, &x)| *to = x),
            });
        }
        matrix(room, rows.len(), columns.len())
    }

    /// Adds a block of patches to the elements of `x`, one sample and group, where they come from.
    fn add_patches<A: Element>(&self, x: &mut [A], rows: &Range<usize>, columns: &Range<usize>, patches: &[A]) {
        let step = self.windows[2].stride;
        for (row, line) in rows.clone().zip(patches.chunks_exact(columns.len())) {
            self.runs(row, columns, |run, to| {
                if let Some(to) = to {
                    line[run].iter().zip(x[to..].iter_mut().step_by(step)).for_each(|(&patch, x)| *x = *x + patch);
                }
            });
        }
    }

    /// Whether the patches are `x` itself.
    fn is_pointwise(&self) -> bool {
        // one tap alone, whatever its distance from others
        let is_point = |&window: &Window| Window { dilation: 1, ..window } == Window::POINT;
        self.input == self.output && self.windows.iter().all(is_point)
    }

    /// Goes through a row of the patches. Each run of columns is padding, or else comes from `x`, from this element on
    /// in steps of the last stride.
    fn runs(&self, row: usize, columns: &Range<usize>, mut each: impl FnMut(Range<usize>, Option<usize>)) {
        let [deep, high, wide] = self.windows;
        let [_, height, width] = self.output;
        let (row, column_tap) = (row / wide.kernel, row % wide.kernel);
        let (row, line_tap) = (row / high.kernel, row % high.kernel);
        let (channel, plane_tap) = (row / deep.kernel, row % deep.kernel);
        let inside = |axis: usize, tap| self.windows[axis].inside(tap, self.input[axis], self.output[axis]);
        let (planes, lines, inner) = (inside(0, plane_tap), inside(1, line_tap), inside(2, column_tap));

        let mut next = columns.start;
        while next < columns.end {
            let (line, from) = (next / width, next % width);
            let (plane, line) = (line / height, line % height);
            let to = width.min(from + columns.end - next);
            let at = |column: usize| next - columns.start + column - from;
            if planes.contains(&plane) && lines.contains(&line) {
                let (first, end) = (inner.start.clamp(from, to), inner.end.clamp(from, to));
                each(at(from)..at(first), None);
                if first < end {
                    let plane = channel * self.input[0] + deep.place(plane, plane_tap);
                    let line = plane * self.input[1] + high.place(line, line_tap);
                    each(at(first)..at(end), Some(line * self.input[2] + wide.place(first, column_tap)));
                }
                each(at(end)..at(to), None);
            } else {
                each(at(from)..at(to), None);
            }
            next += to - from;
        }
    }
}

/// `c += a · b`.
fn add_product<A: Element>(a: ArrayView2<'_, A>, b: ArrayView2<'_, A>, mut c: ArrayViewMut2<'_, A>) {
    product_into(A::of(1.0), a, b, A::of(1.0), &mut c);
}

fn matrix<A>(elements: &[A], rows: usize, columns: usize) -> ArrayView2<'_, A> {
    ArrayView2::from_shape((rows, columns), elements).expect("as many elements as a matrix has")
}

fn matrix_mut<A>(elements: &mut [A], rows: usize, columns: usize) -> ArrayViewMut2<'_, A> {
    ArrayViewMut2::from_shape((rows, columns), elements).expect("as many elements as a matrix has")
}

/// A range of the rows (axis 0) or columns (axis 1) of a matrix.
fn part<S: RawData>(mut matrix: ArrayBase<S, Ix2>, axis: usize, range: Range<usize>) -> ArrayBase<S, Ix2> {
    matrix.slice_axis_inplace(Axis(axis), Slice::from(range));
    matrix
}

/// The ranges of at most `by` that `0..len` consists of.
fn chunks(len: usize, by: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(by).map(move |from| from..len.min(from + by))
}

/// The range of part `index`, when each has this length.
fn nth(index: usize, len: usize) -> Range<usize> {
    index * len..(index + 1) * len
}
