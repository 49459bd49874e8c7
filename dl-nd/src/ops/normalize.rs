//! Normalisation: batch, layer, group and RMS norm.
//!
//! All are composed of means and pointwise operations, and therefore differentiable to any order.

use crate::ops::axes::AxisList;
use crate::ops::expand_as::{missing_channels, per_channel, reshape_like};
use crate::ops::invalid::{check_fraction, check_non_negative, invalid};
use crate::ops::reduce::{ReduceForm, ReduceOp, reduce};
use crate::ops::reshape::{ReshapeTarget, reshape};
use crate::ops::variance::{centered, spread_of};
use crate::tensor::{Element, Nd, Rank};
use dl_core::{Along, At, Binary, Buffer, BuiltIn, Differentiable, Error, Layer, Pointwise, Primitive, Result};
use ndarray::{Dim, Ix1, Ix3};
use std::marker::PhantomData;

/// Normalisations. None of them has a weight (scale) or a bias (shift); apply these to the result:
///
/// | with weight and bias | one number for each | shape of weight and bias |
/// |---|---|---|
/// | `x.layer_norm(1, 1e-5) * &gamma + &beta` | element of the normalised axes | the normalised axes |
/// | `x.rms_norm(1, 1e-6) * &gamma` | element of the normalised axes | the normalised axes |
/// | `x.batch_norm(1e-5).affine(&gamma, &beta)` | channel | `[channels]` |
/// | `x.group_norm(2, 1e-5).affine(&gamma, &beta)` | channel | `[channels]` |
///
/// `eps` is added to the variance before the square root is taken; PyTorch's default is 1e-5. It
/// must be finite and not negative.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_nd::{Nd, NormOps};
/// let (gamma, beta) = (Weight::new(Nd::from([2.0_f64, 4.0])), Weight::new(Nd::from([0.0, 1.0])));
/// let y = Nd::from([[3.0, 5.0]]).layer_norm(1, 0.0) * &gamma + &beta;
/// assert_eq!(y.predict().wait()?, Nd::from([[-2.0, 5.0]]));
/// # dl_core::Result::Ok(())
/// ```
pub trait NormOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// Normalises each channel (axis 1) over the batch and all other axes:
    /// `(x − mean) / √(var + eps)`, where `var` is the variance with a correction of 0 (Ioffe and
    /// Szegedy, 2015). Shape: `[batch, channels]` or `[batch, channels, …]`, unchanged.
    ///
    /// The statistics of the batch are used in training and in evaluation; for running statistics
    /// see [`batch_norm_with`](NormOps::batch_norm_with).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NormOps};
    /// let x = Nd::from([[1.0, 10.0], [3.0, 30.0]]);
    /// assert_eq!(x.batch_norm(0.0).predict().wait()?, Nd::from([[-1.0, -1.0], [1.0, 1.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no axis 1, or a channel has no elements.
    #[track_caller]
    fn batch_norm(&self, eps: f64) -> Layer<Nd<A, D>> {
        normalized("batch_norm", &self.layer(), AxisList::all_but(1), eps)
    }

    /// [`batch_norm`](NormOps::batch_norm) with running statistics. A training pass normalises with
    /// the statistics of the batch, and its step moves the running statistics towards them. A pass
    /// in evaluation mode normalises with the running statistics.
    ///
    /// ```
    /// # use dl_core::{Differentiable, Weight}; use dl_optim::Sgd; use dl_nd::{Nd, NormOps, ReduceOps, RunningStats};
    /// let (w, stats) = (Weight::new(Nd::from([[1.0], [3.0]])), RunningStats::new(1).momentum(0.5));
    /// let y = w.batch_norm_with(&stats, 0.0);
    /// assert_eq!(y.predict().wait()?, Nd::from([[1.0], [3.0]])); // the running mean is 0, the variance 1
    /// y.sum().train(&Sgd::new(0.1)).wait()?;
    /// assert_eq!((stats.mean.value(), stats.variance.value()), (Nd::from([1.0]), Nd::from([1.5])));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the number of channels differs from that of `stats`; in training, when a channel has
    /// fewer than two elements, or when one step updates the same statistics twice.
    #[track_caller]
    fn batch_norm_with(&self, stats: &RunningStats<A>, eps: f64) -> Layer<Nd<A, D>> {
        const NAME: &str = "batch_norm_with";
        if let Err(error) = check_non_negative("eps", eps).and_then(|()| check_fraction("the momentum", stats.momentum))
        {
            return invalid(NAME, error);
        }
        let x = self.layer();
        let mean = per_channel(NAME, &stats.mean.layer(), &x);
        let variance = per_channel(NAME, &stats.variance.layer(), &x);
        let (axes, form) = (AxisList::all_but(1), ReduceForm::of(NAME, true));
        let deviations = centered(NAME, x.clone(), axes.clone());
        let of_batch =
            spread_of(&deviations, x.clone(), ReduceOp::MeanSquare, axes.clone(), ReduceForm { correction: 1, ..form });
        let train = scaled(NAME, &deviations, axes.clone(), eps)
            .updating(&stats.mean, stats.updated(&mean, &reduce(x.clone(), ReduceOp::Mean, axes, form)))
            .updating(&stats.variance, stats.updated(&variance, &of_batch));
        let deviation = Nd::with_number(Binary::Add, &variance, eps, false).rsqrt();
        let evaluate = Nd::binary(Binary::Mul, &Nd::binary(Binary::Sub, &x, &mean), &deviation);
        Layer::by_mode(train, evaluate)
    }

    /// Normalises over the last `axes` axes together: `(x − mean) / √(var + eps)`, where `var` is
    /// the variance with a correction of 0 (Ba, Kiros and Hinton, 2016). The shape is unchanged.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NormOps};
    /// let x = Nd::from([[1.0, 3.0], [10.0, 30.0]]);
    /// assert_eq!(x.layer_norm(1, 0.0).predict().wait()?, Nd::from([[-1.0, 1.0], [-1.0, 1.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `axes` is 0 or more than the number of axes, or these axes have no elements.
    #[track_caller]
    fn layer_norm(&self, axes: usize, eps: f64) -> Layer<Nd<A, D>> {
        normalized("layer_norm", &self.layer(), AxisList::last(axes), eps)
    }

    /// Divides the channels (axis 1) into `groups` groups of neighbours and normalises each group
    /// of each example: `(x − mean) / √(var + eps)`, where `var` is the variance with a correction
    /// of 0 (Wu and He, 2018). With one group for each channel this is instance normalisation.
    /// Shape: `[batch, channels, …]`, unchanged.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NormOps};
    /// let x = Nd::from([[1.0, 3.0, 10.0, 30.0]]);
    /// assert_eq!(x.group_norm(2, 0.0).predict().wait()?, Nd::from([[-1.0, 1.0, -1.0, 1.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no axis 1, the number of channels is not a multiple of `groups`, or the groups
    /// have no elements.
    #[track_caller]
    fn group_norm(&self, groups: usize, eps: f64) -> Layer<Nd<A, D>> {
        const NAME: &str = "group_norm";
        let x = self.layer();
        let grouped: Layer<Nd<A, Ix3>> = Layer::apply_built_in(Grouped { groups, types: PhantomData }, (x.clone(),));
        reshape_like(NAME, &normalized(NAME, &grouped, AxisList::last(1), eps), &x)
    }

    /// Divides by the root mean square over the last `axes` axes: `x / √(mean(x²) + eps)` (Zhang
    /// and Sennrich, 2019). The shape is unchanged.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NormOps};
    /// assert_eq!(Nd::from([[-2.0, 2.0]]).rms_norm(1, 0.0).predict().wait()?, Nd::from([[-1.0, 1.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `axes` is 0 or more than the number of axes, or these axes have no elements.
    #[track_caller]
    fn rms_norm(&self, axes: usize, eps: f64) -> Layer<Nd<A, D>> {
        const NAME: &str = "rms_norm";
        let x = self.layer();
        match check_non_negative("eps", eps) {
            Ok(()) => scaled(NAME, &x, AxisList::last(axes), eps),
            Err(error) => invalid(NAME, error),
        }
    }

    /// `x · weight + bias` for each channel (axis 1): `weight` and `bias` have shape `[channels]`,
    /// `x` has shape `[batch, channels, …]`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NormOps};
    /// let x = Nd::from([[[1.0, 2.0], [3.0, 4.0]]]); // two channels
    /// let y = x.affine(Nd::from([1.0, 10.0]), Nd::from([0.5, 0.0]));
    /// assert_eq!(y.predict().wait()?, Nd::from([[[1.5, 2.5], [30.0, 40.0]]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the number of channels differs from the length of `weight` or `bias`.
    #[track_caller]
    fn affine(
        &self,
        weight: impl Differentiable<Data = Nd<A, Ix1>>,
        bias: impl Differentiable<Data = Nd<A, Ix1>>,
    ) -> Layer<Nd<A, D>> {
        let x = self.layer();
        let weight = per_channel("affine", &weight.into_layer(), &x);
        let bias = per_channel("affine", &bias.into_layer(), &x);
        Nd::binary(Binary::Add, &Nd::binary(Binary::Mul, &x, &weight), &bias)
    }
}

impl<X, A: Element, D: Rank> NormOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

/// Running statistics of [`batch_norm_with`](NormOps::batch_norm_with): a mean and a variance for
/// each channel.
///
/// This is a handle: clones share the buffers. A training step stores
/// `(1 − momentum) · old + momentum · new`. The new variance has a correction of 1, as PyTorch's.
///
/// ```
/// use dl_nd::{Nd, RunningStats};
/// let stats = RunningStats::<f32>::new(2);
/// assert_eq!((stats.mean.value(), stats.variance.value()), (Nd::from([0.0, 0.0]), Nd::from([1.0, 1.0])));
/// ```
#[derive(Clone, Debug)]
pub struct RunningStats<A: Element = f32> {
    /// The running mean of each channel.
    pub mean: Buffer<Nd<A, Ix1>>,
    /// The running variance of each channel.
    pub variance: Buffer<Nd<A, Ix1>>,
    momentum: f64,
}

impl<A: Element> RunningStats<A> {
    /// Means of 0 and variances of 1 for `channels` channels, with a momentum of 0.1.
    ///
    /// ```
    /// let stats = dl_nd::RunningStats::<f32>::new(16);
    /// ```
    #[track_caller]
    pub fn new(channels: usize) -> Self {
        let buffer = |number| Buffer::new(Nd::full(channels, A::of(number)));
        RunningStats { mean: buffer(0.0), variance: buffer(1.0), momentum: 0.1 }
    }

    /// The momentum as a part of a key: compiled functions have a plan for each value.
    pub(crate) fn momentum_bits(&self) -> u64 {
        self.momentum.to_bits()
    }

    /// The running statistics after a step: `(1 − momentum) · running + momentum · batch`.
    #[track_caller]
    fn updated<D: Rank>(&self, running: &Layer<Nd<A, D>>, batch: &Layer<Nd<A, D>>) -> Layer<Nd<A, Ix1>> {
        let running = Nd::with_number(Binary::Mul, running, 1.0 - self.momentum, false);
        let batch = Nd::with_number(Binary::Mul, batch, self.momentum, false);
        reshape(&Nd::binary(Binary::Add, &running, &batch), ReshapeTarget::Flat)
    }

    /// Sets the momentum, the weight of the statistics of the new batch, from 0 to 1. Another value
    /// is an error of [`batch_norm_with`](NormOps::batch_norm_with).
    ///
    /// ```
    /// let stats = dl_nd::RunningStats::<f32>::new(16).momentum(0.01);
    /// ```
    #[must_use]
    pub fn momentum(self, momentum: f64) -> Self {
        RunningStats { momentum, ..self }
    }
}

/// `(x − mean) / √(var + eps)` along these axes.
#[track_caller]
fn normalized<A: Element, D: Rank>(
    name: &'static str,
    x: &Layer<Nd<A, D>>,
    axes: AxisList,
    eps: f64,
) -> Layer<Nd<A, D>> {
    match check_non_negative("eps", eps) {
        Ok(()) => scaled(name, &centered(name, x.clone(), axes.clone()), axes, eps),
        Err(error) => invalid(name, error),
    }
}

/// `x / √(mean(x²) + eps)` along these axes.
#[track_caller]
fn scaled<A: Element, D: Rank>(name: &'static str, x: &Layer<Nd<A, D>>, axes: AxisList, eps: f64) -> Layer<Nd<A, D>> {
    let form = ReduceForm { eps, ..ReduceForm::of(name, true) };
    Nd::binary(Binary::Div, x, &reduce(x.clone(), ReduceOp::RootMeanSquare, axes, form))
}

/// Reshapes `[batch, channels, …]` to `[batch, groups, elements of a group]`.
#[derive(Clone)]
struct Grouped<A, D> {
    groups: usize,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Grouped<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, Ix3>;

    fn name(&self) -> &'static str {
        "group_norm"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, Ix3>> {
        let (shape, groups) = (x.shape(), self.groups);
        let [batch, channels, rest @ ..] = shape else { return Err(missing_channels(shape)) };
        if groups == 0 || channels % groups != 0 {
            return Err(Error::invalid(format!(
                "{channels} channels (axis 1) of a tensor of shape {shape:?} cannot be divided into {groups} groups"
            )));
        }
        let group = channels / groups * rest.iter().product::<usize>();
        if let Some(view) = x.0.on_device()? {
            return view.reshaped(&[*batch, groups, group]).map(Nd::from_view);
        }
        let grouped = x.array().into_shape_clone(Dim([*batch, groups, group])).expect("as many elements");
        Ok(Nd::from(grouped.into_shared()))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(reshape(at.delta, ReshapeTarget::Shape(at.values.0.dim()))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, Ix3>>> {
        Some(Layer::apply_built_in(Grouped { groups: self.groups, types: PhantomData }, (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.nanoseconds_to_arrange()
    }
}

impl<A: Element, D: Rank> BuiltIn for Grouped<A, D> {
    const IS_PURE: bool = true;
}
