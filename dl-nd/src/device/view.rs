//! Strided views of the memory of a device. Movements of elements are changes of a view.

use super::{Buffer, Check, Device, Program, Readout, Span};
use dl_core::{DType, Result};
use std::ops::Range;
use std::sync::Arc;

/// The elements of a tensor in the memory of a device.
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) buffer: Arc<Buffer>,
    /// The type of the elements.
    pub dtype: DType,
    /// The position of the first element in the buffer, in elements.
    pub offset: usize,
    /// The lengths of the axes.
    pub shape: Vec<usize>,
    /// The distances between neighbours along each axis, in elements; 0 where one is repeated.
    pub strides: Vec<isize>,
    /// The checks of these elements, which are indices.
    pub checks: Vec<Check>,
}

/// The strides of row-major order, as `ndarray` has them.
pub(crate) fn row_major(shape: &[usize]) -> Vec<isize> {
    if shape.contains(&0) {
        return vec![0; shape.len()];
    }
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    strides
}

impl View {
    /// Room for a tensor in row-major order.
    pub(crate) fn new(device: &Arc<dyn Device>, dtype: DType, shape: &[usize]) -> Result<View> {
        let len: usize = shape.iter().product();
        let buffer = Buffer::new(device, len * dtype.size())?;
        Ok(View { buffer, dtype, offset: 0, shape: shape.to_vec(), strides: row_major(shape), checks: Vec::new() })
    }

    /// The memory that the elements are in.
    pub fn span(&self) -> Span {
        self.buffer.span
    }

    /// That memory, and the range of its bytes that a kernel writes for these elements, which are not
    /// empty.
    pub fn written(&self) -> (Span, Range<usize>) {
        let far = |sign: isize| -> isize {
            let ends = self.shape.iter().zip(&self.strides).map(|(&length, &stride)| stride * (length as isize - 1));
            ends.filter(|end| end.signum() == sign).sum()
        };
        let bytes = |place: isize| self.offset.wrapping_add_signed(place) * self.dtype.size();
        (self.span(), bytes(far(-1))..bytes(far(1) + 1))
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.buffer.device
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the elements are adjacent, in row-major order. The stride of an axis of length 1
    /// does not count.
    pub fn is_contiguous(&self) -> bool {
        let mut stride = 1;
        self.shape.iter().zip(&self.strides).rev().all(|(&length, &own)| {
            let fits = length == 1 || own == stride;
            stride *= length as isize;
            fits || self.is_empty()
        })
    }

    pub(crate) fn permuted(mut self, order: &[usize]) -> View {
        self.shape = order.iter().map(|&axis| self.shape[axis]).collect();
        self.strides = order.iter().map(|&axis| self.strides[axis]).collect();
        self
    }

    /// The elements `start, start + step, …` of an axis, `length` of them.
    pub(crate) fn sliced(mut self, axis: usize, start: usize, length: usize, step: isize) -> View {
        self.offset = self.offset.wrapping_add_signed(self.strides[axis] * start as isize);
        self.shape[axis] = length;
        self.strides[axis] *= step;
        self
    }

    /// Without an axis, of which one position is left.
    pub(crate) fn without(mut self, axis: usize) -> View {
        self.shape.remove(axis);
        self.strides.remove(axis);
        self
    }

    /// With an axis of length 1 at this position.
    pub(crate) fn inserted(mut self, axis: usize) -> View {
        self.shape.insert(axis, 1);
        self.strides.insert(axis, 1);
        self
    }

    /// Repeated to a shape that this one broadcasts to.
    pub(crate) fn broadcast(mut self, shape: &[usize]) -> View {
        while self.shape.len() < shape.len() {
            self = self.inserted(0);
        }
        for (axis, &length) in shape.iter().enumerate() {
            if self.shape[axis] != length {
                (self.shape[axis], self.strides[axis]) = (length, 0);
            }
        }
        self
    }

    /// The diagonal `k` of a matrix.
    pub(crate) fn diagonal(mut self, k: isize) -> View {
        let (down, right) = (k.min(0).unsigned_abs(), k.max(0).unsigned_abs());
        let length = self.shape[0].saturating_sub(down).min(self.shape[1].saturating_sub(right));
        let start = self.strides[0] * down as isize + self.strides[1] * right as isize;
        self.offset = if length == 0 { self.offset } else { self.offset.wrapping_add_signed(start) };
        self.strides = vec![self.strides[0] + self.strides[1]];
        self.shape = vec![length];
        self
    }

    /// The matrix of the last two axes, if all others have length 1.
    pub(crate) fn last_two(mut self) -> View {
        while self.shape.len() > 2 {
            self = self.without(0);
        }
        self
    }

    /// In a shape that differs in axes of length 1 only.
    pub(crate) fn with_unit_axes(mut self, shape: &[usize]) -> View {
        let mut long =
            self.shape.iter().zip(&self.strides).filter(|&(&length, _)| length != 1).map(|(_, &stride)| stride);
        let mut stride = |&length: &usize| if length == 1 { 1 } else { long.next().expect("as many long axes") };
        let strides = shape.iter().map(&mut stride).collect();
        self.strides = strides;
        self.shape = shape.to_vec();
        self
    }

    /// In another shape with as many elements: a copy unless the elements are adjacent.
    pub(crate) fn reshaped(self, shape: &[usize]) -> Result<View> {
        let mut view = self.contiguous()?;
        (view.shape, view.strides) = (shape.to_vec(), row_major(shape));
        Ok(view)
    }

    /// In row-major order: a copy unless the elements are adjacent.
    pub(crate) fn contiguous(self) -> Result<View> {
        if self.is_contiguous() {
            return Ok(View { strides: row_major(&self.shape), ..self });
        }
        let to = View::new(self.device(), self.dtype, &self.shape)?;
        self.copy_to(&to)?;
        Ok(to)
    }

    /// Copies the elements to a view of the same shape, and converts them to its type.
    pub(crate) fn copy_to(&self, to: &View) -> Result<()> {
        // `f64` has all numbers of `f32`
        let is_wider = self.dtype == DType::F64 || !matches!(to.dtype, DType::F32 | DType::F64);
        let mut program = Program::new(if is_wider { self.dtype } else { to.dtype });
        program.load(self.clone());
        program.write(to)
    }

    /// Fills the elements with a number.
    pub(crate) fn fill(&self, number: f64) -> Result<()> {
        let mut program = Program::new(self.dtype);
        program.number(number);
        program.write(self)
    }

    /// Converted to another type.
    pub(crate) fn cast(&self, dtype: DType) -> Result<View> {
        if self.dtype == dtype {
            return Ok(self.clone());
        }
        let to = View::new(self.device(), dtype, &self.shape)?;
        self.copy_to(&to)?;
        Ok(to)
    }

    /// The bytes of the elements in row-major order. Waits for the device.
    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        let view = self.clone().contiguous()?;
        let mut reads = [view.readout()];
        view.device().read(&mut reads)?;
        let [read] = reads;
        read.result()
    }

    /// Fails if one of these tensors of a device depends on a check that has failed. Waits if such a
    /// check is pending.
    pub(crate) fn verify(views: &[View]) -> Result<()> {
        let Some(first) = views.first() else { return Ok(()) };
        let nothing = |view: &View| Readout { block: view.span(), start: 0, bytes: Vec::new(), failed: None };
        let mut reads: Vec<Readout> = views.iter().map(nothing).collect();
        first.device().read(&mut reads)?;
        reads.into_iter().try_for_each(|read| read.result().map(drop))
    }

    /// Room for the bytes of the elements, which must be adjacent.
    pub(super) fn readout(&self) -> Readout {
        let bytes = vec![0; self.len() * self.dtype.size()];
        Readout { block: self.span(), start: self.offset * self.dtype.size(), bytes, failed: None }
    }
}
