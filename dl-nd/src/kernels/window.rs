//! The geometry of convolution and pooling: a window that moves along an axis.

use dl_core::{Error, Result};
use std::iter::StepBy;
use std::ops::Range;

/// The number of spatial axes of the kernels. Missing axes are added in front, with length 1.
pub(crate) const SPATIAL: usize = 3;

/// Extends settings of the last axes by `rest` for the axes in front of them.
pub(crate) fn pad_spatial<T: Copy>(last: &[T], rest: T) -> [T; SPATIAL] {
    let mut all = [rest; SPATIAL];
    all[SPATIAL - last.len()..].copy_from_slice(last);
    all
}

/// The maximum length of windows and padded axes, so that sums of lengths cannot overflow.
const MAX_AXIS_LEN: usize = usize::MAX / 4;

/// A window with `kernel` taps at a distance of `dilation`. It moves by `stride`, along an axis
/// with `padding` before it and `padding_end` after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) padding_end: usize,
    pub(crate) dilation: usize,
}

/// The windows along several axes. Without a padding it keeps the lengths, for a stride of 1, and
/// an odd one is longer at the end.
pub(crate) fn windows<const N: usize>(
    kernel: [usize; N],
    stride: [usize; N],
    padding: Option<[usize; N]>,
    dilation: [usize; N],
) -> [Window; N] {
    std::array::from_fn(|i| {
        let (kernel, stride, dilation) = (kernel[i], stride[i], dilation[i]);
        let both = kernel.saturating_sub(1).saturating_mul(dilation);
        let [padding, padding_end] = padding.map_or([both / 2, both.div_ceil(2)], |padding| [padding[i]; 2]);
        Window { kernel, stride, padding, padding_end, dilation }
    })
}

impl Window {
    /// The window of an axis that is not convolved.
    pub(crate) const POINT: Window = Window { kernel: 1, stride: 1, padding: 0, padding_end: 0, dilation: 1 };

    /// The distance from its first tap to its last, inclusive.
    fn span(self) -> usize {
        self.dilation * (self.kernel - 1) + 1
    }

    /// Fails if the settings are invalid for an axis of this length.
    fn check(self, shape: &[usize], axis: usize) -> Result<()> {
        let Window { kernel, stride, padding, padding_end, dilation } = self;
        for (what, setting) in [("kernel", kernel), ("stride", stride), ("dilation", dilation)] {
            if setting == 0 {
                return Err(Error::invalid(format!("a {what} of 0 along axis {axis} of {shape:?}")));
            }
        }
        if shape[axis] == 0 {
            return Err(Error::shape(format!("axis {axis} of {shape:?} has length 0")));
        }
        let span = (kernel - 1).checked_mul(dilation).and_then(|last| last.checked_add(1));
        let padded = padding.checked_add(padding_end).and_then(|padding| padding.checked_add(shape[axis]));
        if [span, padded].iter().all(|length| length.is_some_and(|length| length <= MAX_AXIS_LEN)) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a kernel of {kernel}, with padding {padding} and dilation {dilation}, is too large along axis {axis} of {shape:?}"
        )))
    }

    /// The number of windows along this axis: `⌊(length + 2·padding − dilation·(kernel − 1) − 1) /
    /// stride⌋ + 1`. With `ceil` the quotient is rounded up, unless the last window would start in
    /// the padding at the end.
    pub(crate) fn outputs(self, shape: &[usize], axis: usize, ceil: bool) -> Result<usize> {
        self.check(shape, axis)?;
        let Window { kernel, stride, padding, dilation, .. } = self;
        let (span, padded) = (self.span(), shape[axis] + padding + self.padding_end);
        // a quotient above −1 is rounded up to 0: there is one window, longer than the axis
        if span > padded && !(ceil && span - padded < stride) {
            return Err(Error::shape(format!(
                "along axis {axis} of {shape:?}, a kernel of {kernel} with dilation {dilation} spans {span} elements, but with \
                 padding {padding} there are {padded}"
            )));
        }
        let rest = padded.saturating_sub(span);
        let last = if ceil { rest.div_ceil(stride) } else { rest / stride };
        let starts_behind = last.saturating_mul(stride) >= shape[axis] + padding;
        Ok(if ceil && starts_behind { last } else { last + 1 })
    }

    /// The length of an axis with this many windows, for a transposed convolution: `(length −
    /// 1)·stride − 2·padding + dilation·(kernel − 1) + output_padding + 1`.
    pub(crate) fn inputs(self, shape: &[usize], axis: usize, output_padding: usize) -> Result<usize> {
        self.check(shape, axis)?;
        let Window { kernel, stride, padding, padding_end, dilation } = self;
        if output_padding >= stride.max(dilation) {
            return Err(Error::invalid(format!(
                "an output padding of {output_padding} along axis {axis} is less neither than the stride, {stride}, nor than the \
                 dilation, {dilation}"
            )));
        }
        let moved = (shape[axis] - 1).checked_mul(stride).filter(|&moved| moved <= MAX_AXIS_LEN);
        let padded = moved.and_then(|moved| moved.checked_add(self.span() + output_padding));
        match padded.filter(|&padded| padded <= MAX_AXIS_LEN) {
            None => Err(Error::invalid(format!("a stride of {stride} is too large along axis {axis} of {shape:?}"))),
            Some(padded) if padded > padding + padding_end => Ok(padded - padding - padding_end),
            Some(padded) => Err(Error::shape(format!(
                "along axis {axis} of {shape:?}, a kernel of {kernel} with stride {stride} and dilation {dilation} makes {padded} \
                 elements, and nothing is left without the padding of {padding} at either end"
            ))),
        }
    }

    /// The elements, out of `length`, under the taps of window `at`.
    pub(crate) fn positions(self, at: usize, length: usize) -> StepBy<Range<usize>> {
        let start = at * self.stride;
        let in_padding = self.padding.saturating_sub(start).div_ceil(self.dilation);
        let first = start + in_padding * self.dilation - self.padding;
        let end = (start + self.span()).saturating_sub(self.padding).min(length);
        (first..end).step_by(self.dilation)
    }

    /// The number of taps of window `at` over elements or padding. Fewer than all only at the end
    /// of an axis with a rounded-up number of windows.
    pub(crate) fn taps(self, at: usize, length: usize) -> usize {
        let start = at * self.stride;
        let end = (start + self.span()).min(length + self.padding + self.padding_end);
        (end - start).div_ceil(self.dilation)
    }

    /// The windows, out of `outputs`, that have tap number `tap` over one of `length` elements.
    pub(crate) fn inside(self, tap: usize, length: usize, outputs: usize) -> Range<usize> {
        let offset = tap * self.dilation;
        let first = self.padding.saturating_sub(offset).div_ceil(self.stride);
        let end = (length + self.padding).saturating_sub(offset).div_ceil(self.stride);
        first.min(outputs)..end.min(outputs)
    }

    /// The element under tap `tap` of window `at`, which must be [`inside`](Window::inside).
    pub(crate) fn position(self, at: usize, tap: usize) -> usize {
        at * self.stride + tap * self.dilation - self.padding
    }
}
