//! Padding with elements of the tensor itself.

use crate::fusion::moved;
use crate::ops::index::take;
use crate::tensor::{Element, Nd, Rank, check_size};
use dl_core::{At, BuiltIn, Error, Layer, Primitive, Result};
use ndarray::Ix1;
use std::marker::PhantomData;

/// The elements that [`pad_with`](crate::SliceOps::pad_with) adds, as in NumPy's `pad`.
///
/// | mode | `[1, 2, 3]`, two before and two after | PyTorch | NumPy |
/// |---|---|---|---|
/// | `Reflect` | `[3, 2, 1, 2, 3, 2, 1]` | `reflect` | `reflect` |
/// | `Replicate` | `[1, 1, 1, 2, 3, 3, 3]` | `replicate` | `edge` |
/// | `Circular` | `[2, 3, 1, 2, 3, 1, 2]` | `circular` | `wrap` |
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, PadMode, SliceOps};
/// let y = Nd::from([1.0, 2.0, 3.0]).pad_with(&[(2, 1)], PadMode::Reflect);
/// assert_eq!(y.predict().wait()?, Nd::from([3.0, 2.0, 1.0, 2.0, 3.0, 2.0]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PadMode {
    /// The elements next to the edge, mirrored at the edge element. There must be fewer than the
    /// axis has.
    Reflect,
    /// The edge element.
    Replicate,
    /// The elements at the other end of the axis. There must be no more than the axis has.
    Circular,
}

impl PadMode {
    /// The index of the element at position `at` of the padded axis, `length` elements of which
    /// begin at `before`.
    fn index(self, at: usize, before: usize, length: usize) -> usize {
        match self {
            PadMode::Replicate => at.saturating_sub(before).min(length - 1),
            PadMode::Circular => (at + length - before) % length,
            PadMode::Reflect if at < before => before - at,
            PadMode::Reflect if at - before < length => at - before,
            PadMode::Reflect => 2 * (length - 1) - (at - before),
        }
    }
}

/// Pads one axis after the other.
#[track_caller]
pub(crate) fn pad_with<A: Element, D: Rank>(
    x: Layer<Nd<A, D>>,
    widths: &[(usize, usize)],
    mode: PadMode,
) -> Layer<Nd<A, D>> {
    let mut padded = x;
    for (axis, &width) in widths.iter().enumerate().filter(|&(axis, &width)| width != (0, 0) || axis == 0) {
        let op = PadIndices { axis, axes: widths.len(), width, mode, types: PhantomData };
        let indices = Layer::apply_built_in(op, (padded.clone(),));
        padded = take("pad_with", axis as isize, padded, indices);
    }
    padded
}

/// x ↦ the indices of the elements of the padded axis.
#[derive(Clone)]
struct PadIndices<A, D> {
    axis: usize,
    /// The number of axes that `x` must have.
    axes: usize,
    width: (usize, usize),
    mode: PadMode,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for PadIndices<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<usize, Ix1>;

    fn name(&self) -> &'static str {
        "pad_with"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<usize, Ix1>> {
        let (shape, (before, after), axis) = (x.shape(), self.width, self.axis);
        if shape.len() != self.axes {
            let (pairs, axes) = (self.axes, shape.len());
            let what = format!("{pairs} pairs of widths for a tensor of shape {shape:?}, which has {axes} axes");
            return Err(Error::invalid(what));
        }
        let length = shape[axis];
        let most = match self.mode {
            PadMode::Reflect => length.saturating_sub(1),
            PadMode::Circular => length,
            PadMode::Replicate if length == 0 => 0,
            PadMode::Replicate => usize::MAX,
        };
        if before.max(after) > most {
            let what = format!("{:?} padding of {before} and {after} elements for axis {axis} of {shape:?}", self.mode);
            return Err(Error::invalid(format!("{what}: it takes at most {most}")));
        }
        let padded = before.saturating_add(length).saturating_add(after);
        check_size::<usize>(&[padded])?;
        let indices: Nd<usize, Ix1> = (0..padded).map(|at| self.mode.index(at, before, length)).collect();
        moved(&indices, &x.0.device().cloned())
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (None,)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.shape().get(self.axis).map_or(0.0, |&length| length as f64)
    }
}

impl<A: Element, D: Rank> BuiltIn for PadIndices<A, D> {
    const IS_PURE: bool = true;
}
