//! Max pooling with adjacent windows of 2×2 elements, the usual case.
//!
//! The position of the first maximum of a window is a number below 4, in reading order, and an
//! element is in at most one window. The kernels process many windows of a line at a time, with
//! arithmetic instead of branches, which would be unpredictable.

use super::{SPATIAL, Window};
use crate::tensor::Element;
use dl_core::simd::vectorized;

/// The windows of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows2x2 {
    /// The lengths of the last two axes of the input.
    height: usize,
    width: usize,
    /// The number of windows along each of them.
    lines: usize,
    columns: usize,
}

impl Windows2x2 {
    /// Returns the geometry if these windows are adjacent and of 2×2 elements.
    pub(crate) fn of(windows: [Window; SPATIAL], lengths: [usize; SPATIAL], outputs: [usize; SPATIAL]) -> Option<Self> {
        const HALF: Window = Window { kernel: 2, stride: 2, padding: 0, padding_end: 0, dilation: 1 };
        let ([_, height, width], [_, lines, columns]) = (lengths, outputs);
        let inside = 2 * lines <= height && 2 * columns <= width;
        (windows == [Window::POINT, HALF, HALF] && inside).then_some(Windows2x2 { height, width, lines, columns })
    }

    /// The positions of the first maxima of a channel. NaN counts as the maximum.
    pub(crate) fn first_maxima<A: Element>(self, channel: &[A], places: &mut [u8]) {
        vectorized(
            #[inline(always)]
            || {
                for (places, (above, below)) in places.chunks_exact_mut(self.columns).zip(self.pairs(channel)) {
                    let squares = above.chunks_exact(2).zip(below.chunks_exact(2));
                    for (place, (above, below)) in places.iter_mut().zip(squares) {
                        let ((above, max), (below, other)) = (first_maximum(above), first_maximum(below));
                        *place = if (other > max) | other.is_nan() { 2 + below } else { above };
                    }
                }
            },
        );
    }

    /// The elements of a channel at these positions.
    pub(crate) fn gather<A: Element>(self, channel: &[A], places: &[u8], to: &mut [A]) {
        vectorized(
            #[inline(always)]
            || {
                let lines = to.chunks_exact_mut(self.columns).zip(places.chunks_exact(self.columns));
                for ((to, places), (above, below)) in lines.zip(self.pairs(channel)) {
                    let squares = above.chunks_exact(2).zip(below.chunks_exact(2));
                    for ((to, &place), (above, below)) in to.iter_mut().zip(places).zip(squares) {
                        let left = if place < 2 { above[0] } else { below[0] };
                        let right = if place < 2 { above[1] } else { below[1] };
                        *to = if place & 1 == 0 { left } else { right };
                    }
                }
            },
        );
    }

    /// Writes these elements at these positions of a channel, and zeros elsewhere.
    pub(crate) fn scatter<A: Element>(self, elements: &[A], places: &[u8], channel: &mut [A]) {
        vectorized(
            #[inline(always)]
            || {
                let lines = elements.chunks_exact(self.columns).zip(places.chunks_exact(self.columns));
                let mut lines = lines.into_iter();
                for plane in channel.chunks_exact_mut(self.height * self.width) {
                    let (squares, rest) = plane.split_at_mut(2 * self.lines * self.width);
                    rest.fill(A::zero());
                    for (pair, (elements, places)) in squares.chunks_exact_mut(2 * self.width).zip(&mut lines) {
                        let (above, below) = pair.split_at_mut(self.width);
                        for (line, first) in [(above, 0), (below, 2)] {
                            let (line, rest) = line.split_at_mut(2 * self.columns);
                            rest.fill(A::zero());
                            for (pair, (&element, &place)) in line.chunks_exact_mut(2).zip(elements.iter().zip(places))
                            {
                                // the same bits as an addition to zero
                                let element = A::zero() + element;
                                pair[0] = if place == first { element } else { A::zero() };
                                pair[1] = if place == first + 1 { element } else { A::zero() };
                            }
                        }
                    }
                }
            },
        );
    }

    /// The two lines of each row of windows.
    #[inline(always)]
    fn pairs<A>(self, channel: &[A]) -> impl Iterator<Item = (&[A], &[A])> {
        let planes = channel.chunks_exact(self.height * self.width);
        planes.flat_map(move |plane| plane.chunks_exact(2 * self.width).take(self.lines)).map(move |pair| {
            let (above, below) = pair.split_at(self.width);
            (&above[..2 * self.columns], &below[..2 * self.columns])
        })
    }
}

/// The position of the first maximum of two elements, and its value.
#[inline(always)]
fn first_maximum<A: Element>(elements: &[A]) -> (u8, A) {
    let second = (elements[1] > elements[0]) | elements[1].is_nan();
    (u8::from(second), if second { elements[1] } else { elements[0] })
}
