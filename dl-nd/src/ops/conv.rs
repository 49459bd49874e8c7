//! Convolution and transposed convolution over one, two or three spatial axes.
//!
//! A convolution is linear in both of its operands. With a delta `y` of its output, the convolution
//! and its two gradients are the derivatives of one trilinear form `Σ y·w·x` in output, weight and
//! input. One operation, [`Convolution`], therefore computes any of the three tensors from the
//! other two, and its pullback rule is the same operation with another target.

use crate::device::{self, ConvForm, Region, View, Work, common_place};
use crate::fusion::view_on;
use crate::gemm;
use crate::kernels::{ConvGeometry, SPATIAL, Window, pad_spatial, windows};
use crate::ops::add_n::sum_present;
use crate::ops::window::{PerAxis, check_batch, check_padding, size};
use crate::tensor::{Element, HasRank, Nd, Rank, tensor_of_shape, zeros};
use dl_core::{Along, At, BuiltIn, Differentiable, Error, Layer, Primitive, Result};
use std::marker::PhantomData;

/// Settings of a convolution, named as in PyTorch. The defaults are stride 1, padding 0, dilation 1
/// and one group.
///
/// A number applies to all spatial axes; an array has one number for each axis.
///
/// ```
/// use dl_nd::{Conv, ConvOps, Nd};
/// use ndarray::Ix4;
/// # use dl_core::Differentiable;
/// let (x, w): (Nd<f32, Ix4>, Nd<f32, Ix4>) = (Nd::full([1, 4, 9, 9], 1.0), Nd::full([8, 2, 3, 3], 1.0));
/// let y = x.conv2d(&w, Conv::new().stride(2).padding([1, 0]).groups(2));
/// assert_eq!(y.predict().wait()?.shape(), [1, 8, 5, 4]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv<const N: usize> {
    stride: [usize; N],
    /// `None` keeps the lengths.
    padding: Option<[usize; N]>,
    dilation: [usize; N],
    groups: usize,
}

impl<const N: usize> Default for Conv<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Conv<N> {
    /// Stride 1, padding 0, dilation 1, one group.
    ///
    /// ```
    /// assert_eq!(dl_nd::Conv::<2>::new(), dl_nd::Conv::new().stride(1).padding(0).dilation(1).groups(1));
    /// ```
    pub fn new() -> Self {
        Conv { stride: [1; N], padding: Some([0; N]), dilation: [1; N], groups: 1 }
    }

    /// The step of the window, in elements.
    ///
    /// ```
    /// let down = dl_nd::Conv::<2>::new().stride([2, 1]);
    /// ```
    pub fn stride(mut self, stride: impl Into<PerAxis<N>>) -> Self {
        self.stride = stride.into().0;
        self
    }

    /// Number of zeros added at both ends of each spatial axis.
    ///
    /// ```
    /// let same = dl_nd::Conv::<2>::new().padding(1); // keeps height and width, with a kernel of 3
    /// ```
    pub fn padding(mut self, padding: impl Into<PerAxis<N>>) -> Self {
        self.padding = Some(padding.into().0);
        self
    }

    /// The padding that keeps the lengths, for a stride of 1: PyTorch's `padding="same"`. If it is
    /// odd, it is longer at the end. For other elements than zeros, call
    /// [`pad_with`](crate::SliceOps::pad_with) before a convolution without padding.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Conv, ConvOps, Nd};
    /// let y = Nd::from([[[1.0, 2.0, 4.0]]]).conv1d(Nd::from([[[1.0, 10.0]]]), Conv::new().same_padding());
    /// assert_eq!(y.predict().wait()?, Nd::from([[[21.0, 42.0, 4.0]]]));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn same_padding(mut self) -> Self {
        self.padding = None;
        self
    }

    /// Distance between the elements under the window.
    ///
    /// ```
    /// let wide = dl_nd::Conv::<1>::new().dilation(4);
    /// ```
    pub fn dilation(mut self, dilation: impl Into<PerAxis<N>>) -> Self {
        self.dilation = dilation.into().0;
        self
    }

    /// Number of groups of channels: each group of output channels depends only on the
    /// corresponding group of input channels.
    ///
    /// ```
    /// let depthwise = dl_nd::Conv::<2>::new().groups(32); // for 32 channels
    /// ```
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    /// The shape of the weight: `[out, in / groups, kernel…]`.
    ///
    /// ```
    /// let depthwise = dl_nd::Conv::<2>::new().groups(32);
    /// assert_eq!(depthwise.weight_shape(32, 64, 3)?, [64, 1, 3, 3]);
    /// assert!(depthwise.weight_shape(33, 64, 3).is_err());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `groups` is 0 or does not divide both numbers of channels.
    pub fn weight_shape(&self, inputs: usize, outputs: usize, kernel: impl Into<PerAxis<N>>) -> Result<Vec<usize>> {
        let groups = self.groups;
        if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
            return Err(Error::invalid(format!(
                "{groups} groups do not divide {inputs} input and {outputs} output channels"
            )));
        }
        Ok([&[outputs, inputs / groups], &kernel.into().0[..]].concat())
    }

    /// For transposed convolutions: the number of elements added to the result at the end of each
    /// spatial axis. This method comes last in a chain of settings.
    ///
    /// ```
    /// let up = dl_nd::Conv::<2>::new().stride(2).padding(1).output_padding(1);
    /// ```
    pub fn output_padding(self, output_padding: impl Into<PerAxis<N>>) -> ConvTranspose<N> {
        ConvTranspose { conv: self, output_padding: output_padding.into().0 }
    }
}

/// Settings of a transposed convolution: a [`Conv`], optionally with
/// [`output_padding`](Conv::output_padding).
///
/// ```
/// use dl_nd::{Conv, ConvTranspose};
/// assert_eq!(ConvTranspose::<2>::from(Conv::new()), Conv::new().output_padding(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvTranspose<const N: usize> {
    conv: Conv<N>,
    output_padding: [usize; N],
}

impl<const N: usize> ConvTranspose<N> {
    /// The shape of the weight: `[in, out / groups, kernel…]`.
    ///
    /// ```
    /// let up = dl_nd::Conv::<2>::new().stride(2).output_padding(1);
    /// assert_eq!(up.weight_shape(32, 64, 3)?, [32, 64, 3, 3]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the number of groups is 0 or does not divide both numbers of channels.
    pub fn weight_shape(&self, inputs: usize, outputs: usize, kernel: impl Into<PerAxis<N>>) -> Result<Vec<usize>> {
        let mut shape = self.conv.weight_shape(inputs, outputs, kernel)?;
        (shape[0], shape[1]) = (inputs, outputs / self.conv.groups);
        Ok(shape)
    }
}

impl<const N: usize> From<Conv<N>> for ConvTranspose<N> {
    fn from(conv: Conv<N>) -> Self {
        conv.output_padding(0)
    }
}

/// Convolutions of layers, weights and plain tensors.
///
/// As in PyTorch, convolution means cross-correlation: the weight is not mirrored. A bias is added
/// by broadcasting, for `conv2d` in the shape `[1, channels, 1, 1]`.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_nd::{Conv, ConvOps, Nd, ops::*};
/// use ndarray::Ix4;
/// let image: Nd<f32, Ix4> = Nd::full([1, 3, 8, 8], 0.5);
/// let (kernel, bias) = (Weight::new(Nd::full([6, 3, 3, 3], 0.1)), Weight::new(Nd::full([1, 6, 1, 1], 0.1)));
/// let hidden = (image.conv2d(&kernel, Conv::new().padding(1)) + &bias).relu();
/// assert_eq!(hidden.predict().wait()?.shape(), [1, 6, 8, 8]);
/// # dl_core::Result::Ok(())
/// ```
///
/// The compiler checks the rank, unless it is `IxDyn`:
///
/// ```compile_fail,E0277
/// use dl_nd::{Conv, ConvOps, Nd};
/// let matrix = Nd::from([[1.0_f32]]);
/// let y = matrix.conv2d(&matrix, Conv::new());
/// ```
pub trait ConvOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// Convolution over one axis: `[batch, channels, length]` with a weight
    /// `[out, channels / groups, kernel]` gives `[batch, out, length′]`. See
    /// [`conv2d`](ConvOps::conv2d).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Conv, ConvOps, Nd};
    /// let x = Nd::from([[[1.0, 2.0, 4.0]]]);
    /// let y = x.conv1d(Nd::from([[[1.0, 10.0]]]), Conv::new().padding(1));
    /// assert_eq!(y.predict().wait()?, Nd::from([[[10.0, 21.0, 42.0, 4.0]]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`conv2d`](ConvOps::conv2d).
    #[track_caller]
    fn conv1d<W: Differentiable<Data = Nd<A, E>>, E: HasRank<3>>(&self, weight: W, conv: Conv<1>) -> Layer<Nd<A, D>>
    where
        D: HasRank<3>,
    {
        convolve(self.layer(), weight.into_layer(), conv)
    }

    /// Convolution over two axes: `[batch, channels, height, width]` with a weight
    /// `[out, channels / groups, kernel height, kernel width]` gives
    /// `[batch, out, height′, width′]`, where along each axis (formula of PyTorch's `Conv2d`)
    ///
    /// `length′ = ⌊(length + 2·padding − dilation·(kernel − 1) − 1) / stride⌋ + 1`
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Conv, ConvOps, Nd};
    /// let x = Nd::from_vec([1, 1, 2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let w = Nd::from_vec([1, 1, 2, 2], vec![1.0, 0.0, 0.0, 10.0])?;
    /// let y = x.conv2d(&w, Conv::new());
    /// assert_eq!(y.predict().wait()?, Nd::from_vec([1, 1, 1, 2], vec![51.0, 62.0])?);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the numbers of channels of input and weight differ, the groups do not divide them, the
    /// kernel is longer than the padded input, a spatial axis has length 0, a stride, a dilation or
    /// the number of groups is 0, or a stride is not 1 with [`same_padding`](Conv::same_padding).
    #[track_caller]
    fn conv2d<W: Differentiable<Data = Nd<A, E>>, E: HasRank<4>>(&self, weight: W, conv: Conv<2>) -> Layer<Nd<A, D>>
    where
        D: HasRank<4>,
    {
        convolve(self.layer(), weight.into_layer(), conv)
    }

    /// Convolution over three axes: `[batch, channels, depth, height, width]` with a weight
    /// `[out, channels / groups, kernel depth, kernel height, kernel width]` gives
    /// `[batch, out, depth′, height′, width′]`. See [`conv2d`](ConvOps::conv2d).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Conv, ConvOps, Nd};
    /// let (x, w) = (Nd::full([1, 2, 3, 3, 3], 1.0), Nd::full([1, 2, 2, 2, 2], 1.0));
    /// let y = x.conv3d(w, Conv::new().stride([1, 1, 2]));
    /// assert_eq!(y.predict().wait()?, Nd::full([1, 1, 2, 2, 1], 16.0));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`conv2d`](ConvOps::conv2d).
    #[track_caller]
    fn conv3d<W: Differentiable<Data = Nd<A, E>>, E: HasRank<5>>(&self, weight: W, conv: Conv<3>) -> Layer<Nd<A, D>>
    where
        D: HasRank<5>,
    {
        convolve(self.layer(), weight.into_layer(), conv)
    }

    /// Transposed convolution over one axis: `[batch, channels, length]` with a weight
    /// `[channels, out / groups, kernel]` gives `[batch, out, length′]`. See
    /// [`conv_transpose2d`](ConvOps::conv_transpose2d).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Conv, ConvOps, Nd};
    /// let x = Nd::from([[[1.0, 2.0]]]);
    /// let y = x.conv_transpose1d(Nd::from([[[1.0, 10.0, 100.0]]]), Conv::new().stride(2));
    /// assert_eq!(y.predict().wait()?, Nd::from([[[1.0, 10.0, 102.0, 20.0, 200.0]]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`conv_transpose2d`](ConvOps::conv_transpose2d).
    #[track_caller]
    fn conv_transpose1d<W, E>(&self, weight: W, conv: impl Into<ConvTranspose<1>>) -> Layer<Nd<A, D>>
    where
        D: HasRank<3>,
        W: Differentiable<Data = Nd<A, E>>,
        E: HasRank<3>,
    {
        convolve_transposed(self.layer(), weight.into_layer(), conv.into())
    }

    /// Transposed convolution over two axes, the gradient of [`conv2d`](ConvOps::conv2d) with
    /// respect to its input: `[batch, channels, height, width]` with a weight
    /// `[channels, out / groups, kernel height, kernel width]` gives
    /// `[batch, out, height′, width′]`, where along each axis (formula of PyTorch's
    /// `ConvTranspose2d`)
    ///
    /// `length′ = (length − 1)·stride − 2·padding + dilation·(kernel − 1) + output_padding + 1`
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Conv, ConvOps, Nd};
    /// let (x, w) = (Nd::full([1, 8, 4, 4], 1.0_f32), Nd::full([8, 3, 3, 3], 1.0));
    /// let y = x.conv_transpose2d(&w, Conv::new().stride(2).padding(1).output_padding(1));
    /// assert_eq!(y.predict().wait()?.shape(), [1, 3, 8, 8]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the numbers of channels of input and weight differ, the groups do not divide them, the
    /// result would be empty along an axis, a spatial axis has length 0, the output padding is not
    /// less than the stride or the dilation, or a stride, a dilation or the number of groups is 0.
    #[track_caller]
    fn conv_transpose2d<W, E>(&self, weight: W, conv: impl Into<ConvTranspose<2>>) -> Layer<Nd<A, D>>
    where
        D: HasRank<4>,
        W: Differentiable<Data = Nd<A, E>>,
        E: HasRank<4>,
    {
        convolve_transposed(self.layer(), weight.into_layer(), conv.into())
    }

    /// Transposed convolution over three axes: `[batch, channels, depth, height, width]` with a
    /// weight `[channels, out / groups, kernel depth, kernel height, kernel width]` gives
    /// `[batch, out, depth′, height′, width′]`. See
    /// [`conv_transpose2d`](ConvOps::conv_transpose2d).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Conv, ConvOps, Nd};
    /// let (x, w) = (Nd::full([1, 2, 1, 2, 2], 1.0), Nd::full([2, 1, 2, 2, 2], 1.0));
    /// let y = x.conv_transpose3d(w, Conv::new().stride(2));
    /// assert_eq!(y.predict().wait()?, Nd::full([1, 1, 2, 4, 4], 2.0));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`conv_transpose2d`](ConvOps::conv_transpose2d).
    #[track_caller]
    fn conv_transpose3d<W, E>(&self, weight: W, conv: impl Into<ConvTranspose<3>>) -> Layer<Nd<A, D>>
    where
        D: HasRank<5>,
        W: Differentiable<Data = Nd<A, E>>,
        E: HasRank<5>,
    {
        convolve_transposed(self.layer(), weight.into_layer(), conv.into())
    }
}

impl<X, A: Element, D: Rank> ConvOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[track_caller]
fn convolve<A: Element, D: Rank, E: Rank, const N: usize>(
    x: Layer<Nd<A, D>>,
    w: Layer<Nd<A, E>>,
    conv: Conv<N>,
) -> Layer<Nd<A, D>> {
    let target = ConvTarget::Output { lengths: None };
    Layer::apply_built_in(Convolution { target, conv: conv.spatial(), spatial: N, types: PhantomData }, (x, w))
}

#[track_caller]
fn convolve_transposed<A: Element, D: Rank, E: Rank, const N: usize>(
    y: Layer<Nd<A, D>>,
    w: Layer<Nd<A, E>>,
    ConvTranspose { conv, output_padding }: ConvTranspose<N>,
) -> Layer<Nd<A, D>> {
    let target = ConvTarget::Input { lengths: None, output_padding: pad_spatial(&output_padding, 0) };
    Layer::apply_built_in(Convolution { target, conv: conv.spatial(), spatial: N, types: PhantomData }, (y, w))
}

impl<const N: usize> Conv<N> {
    fn spatial(self) -> Conv<SPATIAL> {
        let Conv { stride, padding, dilation, groups } = self;
        Conv {
            stride: pad_spatial(&stride, 1),
            padding: padding.map(|padding| pad_spatial(&padding, 0)),
            dilation: pad_spatial(&dilation, 1),
            groups,
        }
    }

    /// The windows of a kernel of these lengths.
    fn windows(&self, kernel: [usize; N]) -> [Window; N] {
        windows(kernel, self.stride, self.padding, self.dilation)
    }
}

/// The tensor that a [`Convolution`] computes, and its spatial lengths. `None` derives the lengths
/// from the operands. For a delta they are given, since they must equal those of its tensor.
#[derive(Clone, Copy)]
enum ConvTarget {
    /// `x` from `y` and `w`: the transposed convolution.
    Input { lengths: Option<[usize; SPATIAL]>, output_padding: [usize; SPATIAL] },
    /// `w` from `x` and `y`.
    Weight { lengths: [usize; SPATIAL] },
    /// `y` from `x` and `w`: the convolution.
    Output { lengths: Option<[usize; SPATIAL]> },
}

/// The spatial lengths of a tensor, from its shape `[batch, channels, …]`.
fn lengths(shape: &[usize]) -> [usize; SPATIAL] {
    pad_spatial(&shape[2..], 1)
}

/// One tensor of the trilinear form, computed from the other two.
/// A convolution of views on a device, whose result has this shape.
fn convolve_on_device(
    form: ConvForm,
    geometry: &ConvGeometry,
    [left, right]: [View; 2],
    shape: &[usize],
    accumulators: usize,
) -> Result<View> {
    let &ConvGeometry { batch, groups, inputs, outputs, windows, input, output } = geometry;
    let to = View::new(left.device(), left.dtype, shape)?;
    if left.is_empty() || right.is_empty() {
        to.fill(0.0)?;
    } else if !to.is_empty() {
        let axes = std::array::from_fn(|axis| {
            let Window { kernel, stride, padding, dilation, .. } = windows[axis];
            Region { kernel, stride, padding, dilation, length: input[axis], outputs: output[axis] }
        });
        let [by_samples, by_rows] = geometry.weight_parts();
        let is_pointwise = geometry.is_pointwise();
        let (left, right, to) = (&left.contiguous()?, &right.contiguous()?, &to);
        let conv = device::Convolve {
            form,
            left,
            right,
            to,
            batch,
            groups,
            inputs,
            outputs,
            axes,
            by_samples,
            by_rows,
            is_pointwise,
            accumulators,
        };
        to.device().launch(&Work::Convolve(conv))?;
    }
    Ok(to)
}

#[derive(Clone)]
struct Convolution<A, D, E, F> {
    target: ConvTarget,
    conv: Conv<SPATIAL>,
    /// Number of spatial axes.
    spatial: usize,
    types: PhantomData<(A, D, E, F)>,
}

impl<A: Element, D: Rank, E: Rank, F: Rank> Convolution<A, D, E, F> {
    fn geometry(&self, left: &[usize], right: &[usize]) -> Result<ConvGeometry> {
        let groups = self.conv.groups;
        if let ConvTarget::Weight { lengths: kernel } = self.target {
            return Ok(ConvGeometry {
                batch: left[0],
                groups,
                inputs: left[1] / groups,
                outputs: right[1] / groups,
                windows: self.conv.windows(kernel),
                input: lengths(left),
                output: lengths(right),
            });
        }
        self.check(left, right)?;
        let windows = self.conv.windows(lengths(right));
        let along = |formula: &dyn Fn(usize, usize) -> Result<usize>| {
            let mut lengths = [1; SPATIAL];
            for axis in 2..left.len() {
                let index = SPATIAL + axis - left.len();
                lengths[index] = formula(index, axis)?;
            }
            Ok::<_, Error>(lengths)
        };
        let (input, output) = match self.target {
            ConvTarget::Input { lengths: Some(input), .. } => (input, lengths(left)),
            ConvTarget::Input { output_padding, .. } => {
                (along(&|index, axis| windows[index].inputs(left, axis, output_padding[index]))?, lengths(left))
            }
            ConvTarget::Output { lengths: Some(output) } => (lengths(left), output),
            _ => (lengths(left), along(&|index, axis| windows[index].outputs(left, axis, false))?),
        };
        Ok(ConvGeometry {
            batch: left[0],
            groups,
            inputs: right[1],
            outputs: right[0] / groups,
            windows,
            input,
            output,
        })
    }

    /// Checks that the input, the weight and the number of groups match. For a transposed
    /// convolution, `input` is the output of the underlying convolution.
    fn check(&self, input: &[usize], weight: &[usize]) -> Result<()> {
        check_batch("input", input, self.spatial)?;
        let groups = self.conv.groups;
        if weight.len() != input.len() {
            let (found, expected) = (weight.len(), input.len());
            return Err(Error::shape(format!("a weight of shape {weight:?} has {found} axes instead of {expected}")));
        }
        if groups == 0 {
            return Err(Error::invalid("the number of groups is 0; it must be at least 1"));
        }
        check_padding(self.conv.padding.as_ref().map(|padding| &padding[..]), &self.conv.stride)?;
        let takes = match self.target {
            ConvTarget::Input { .. } => weight[0],
            _ => weight[1].saturating_mul(groups),
        };
        let in_groups = if groups == 1 { "1 group".to_owned() } else { format!("{groups} groups") };
        if input[1] != takes {
            let channels = input[1];
            return Err(Error::shape(format!(
                "input of shape {input:?} has {channels} channels, but a weight of shape {weight:?} with {in_groups} takes {takes}"
            )));
        }
        if !weight[0].is_multiple_of(groups) {
            return Err(Error::shape(format!(
                "axis 0 of a weight of shape {weight:?}, of length {}, does not divide into {in_groups}",
                weight[0]
            )));
        }
        Ok(())
    }

    /// The same convolution with another target.
    fn other<L: Rank, R: Rank, W: Rank>(
        &self,
        target: ConvTarget,
        left: &Layer<Nd<A, L>>,
        right: &Layer<Nd<A, R>>,
    ) -> Layer<Nd<A, W>> {
        let (conv, spatial, types) = (self.conv, self.spatial, PhantomData);
        Layer::apply_built_in(Convolution { target, conv, spatial, types }, (left.clone(), right.clone()))
    }
}

impl<A: Element, D: Rank, E: Rank, F: Rank> Primitive for Convolution<A, D, E, F> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<A, E>>);
    type Output = Nd<A, F>;

    fn name(&self) -> &'static str {
        let names = match self.target {
            ConvTarget::Input { .. } => ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"],
            ConvTarget::Weight { .. } => ["conv1d_weight", "conv2d_weight", "conv3d_weight"],
            ConvTarget::Output { .. } => ["conv1d", "conv2d", "conv3d"],
        };
        names[self.spatial - 1]
    }

    fn value(&self, (left, right): (&Nd<A, D>, &Nd<A, E>)) -> Result<Nd<A, F>> {
        let geometry = self.geometry(left.shape(), right.shape())?;
        let ConvGeometry { batch, groups, inputs, outputs, windows, input, output } = &geometry;
        let (first, second, lengths) = match self.target {
            // if `y` has no channels, any number of groups divides them
            ConvTarget::Input { .. } => (*batch, groups.saturating_mul(*inputs), *input),
            ConvTarget::Weight { .. } => (groups * outputs, *inputs, windows.map(|window| window.kernel)),
            ConvTarget::Output { .. } => (*batch, groups * outputs, *output),
        };
        let shape = [&[first, second], &lengths[SPATIAL - self.spatial..]].concat();
        let len = size::<A>(&shape)?;
        if let Some(device) = common_place([(left.0.device(), usize::MAX), (right.0.device(), usize::MAX)])? {
            let form = match self.target {
                ConvTarget::Input { .. } => ConvForm::Input,
                ConvTarget::Weight { .. } => ConvForm::Weight,
                ConvTarget::Output { .. } => ConvForm::Output,
            };
            let [left, right] = [view_on(device, left)?, view_on(device, right)?];
            let accumulators = gemm::accumulators::<A>();
            return convolve_on_device(form, &geometry, [left, right], &shape, accumulators).map(Nd::from_view);
        }
        if len == 0 || left.is_empty() || right.is_empty() {
            return Ok(tensor_of_shape(&shape, zeros(len)));
        }
        let (left, right) = (left.0.as_standard_layout(), right.0.as_standard_layout());
        let [left, right] = [left.as_slice(), right.as_slice()].map(|slice| slice.expect("in standard layout"));
        let elements = match self.target {
            ConvTarget::Input { .. } => geometry.input(left, right),
            ConvTarget::Weight { .. } => geometry.weight(left, right),
            ConvTarget::Output { .. } => geometry.output(left, right),
        };
        Ok(tensor_of_shape(&shape, elements))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<A, E>>>) {
        let (left, right, d) = (&at.operands.0, &at.operands.1, at.delta);
        let (first, second) = (lengths(at.values.0.shape()), lengths(at.values.1.shape()));
        let input = |lengths| ConvTarget::Input { lengths: Some(lengths), output_padding: [0; SPATIAL] };
        let weight = |lengths| ConvTarget::Weight { lengths };
        let output = |lengths| ConvTarget::Output { lengths: Some(lengths) };
        let (to_left, to_right) = match self.target {
            // x from (y, w): d takes the place of x
            ConvTarget::Input { .. } => (self.other(output(first), d, right), self.other(weight(second), d, left)),
            // w from (x, y): d takes the place of w
            ConvTarget::Weight { .. } => (self.other(input(first), right, d), self.other(output(second), left, d)),
            // y from (x, w): d takes the place of y
            ConvTarget::Output { .. } => (self.other(input(first), d, right), self.other(weight(second), left, d)),
        };
        (Some(to_left), Some(to_right))
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, F>>> {
        let ((left, right), (to_left, to_right)) = (along.operands, along.tangents);
        sum_present([
            to_left.as_ref().map(|d| self.other(self.target, d, right)),
            to_right.as_ref().map(|d| self.other(self.target, left, d)),
        ])
    }

    fn cost(&self, (left, right): (&Nd<A, D>, &Nd<A, E>)) -> f64 {
        let geometry = self.geometry(left.shape(), right.shape());
        200.0 + geometry.map_or(0.0, |geometry| geometry.nanoseconds())
    }
}

impl<A: Element, D: Rank, E: Rank, F: Rank> BuiltIn for Convolution<A, D, E, F> {
    const IS_PURE: bool = true;
}
