//! Normalisation: elements less their mean, divided by their standard deviation.
//!
//! All of it is made of means and pointwise operations, and so differentiable to any order.

use crate::ops::axes::AxisList;
use crate::ops::expand_as::{missing_channels, per_channel, reshape_like};
use crate::ops::invalid::{check_fraction, check_non_negative, invalid};
use crate::ops::reduce::{ReduceForm, ReduceOp, reduce};
use crate::ops::reshape::{ReshapeTarget, reshape};
use crate::ops::train_eval::train_or_eval;
use crate::tensor::{Element, Nd, Rank};
use dl_core::{Along, At, Binary, Buffer, Differentiable, Error, Layer, Pointwise, Primitive, Result};
use ndarray::{Dim, Ix1, Ix3};
use std::marker::PhantomData;

/// Normalisations. None of them scales or shifts what it ends with; that is written behind it.
///
/// | written | weight and bias | shape of these |
/// |---|---|---|
/// | `x.layer_norm(1, 1e-5) * &gamma + &beta` | for each element of the axes that are normalised | those axes |
/// | `x.rms_norm(1, 1e-6) * &gamma` | the same | those axes |
/// | `x.batch_norm(1e-5).affine(&gamma, &beta)` | for each channel | `[channels]` |
/// | `x.group_norm(2, 1e-5).affine(&gamma, &beta)` | for each channel | `[channels]` |
///
/// `eps` is added to a variance before its root is taken: PyTorch's default is 1e-5. One that is
/// negative or not finite is an error.
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
    /// Each channel (axis 1) normalised over the batch and all other axes:
    /// `(x − mean) / √(var + eps)`, where `var` is the variance with a correction of 0 (Ioffe and
    /// Szegedy, 2015). Shape: `[batch, channels]` or `[batch, channels, …]`.
    ///
    /// Training and evaluation are the same here; for running statistics see
    /// [`batch_norm_with`](NormOps::batch_norm_with).
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

    /// [`batch_norm`](NormOps::batch_norm) that keeps statistics: a pass that trains normalises
    /// with the statistics of the batch, and its step moves the running ones towards these; a pass
    /// that evaluates normalises with the running ones.
    ///
    /// ```
    /// # use dl_core::{Differentiable, Sgd, Weight}; use dl_nd::{Nd, NormOps, ReduceOps, RunningStats};
    /// let (w, stats) = (Weight::new(Nd::from([[1.0], [3.0]])), RunningStats::new(1).momentum(0.5));
    /// let y = w.batch_norm_with(&stats, 0.0);
    /// assert_eq!(y.predict().wait()?, Nd::from([[1.0], [3.0]])); // the running mean is 0, the variance 1
    /// y.sum().train(&Sgd::new(0.1)).wait()?;
    /// assert_eq!((stats.mean.value(), stats.variance.value()), (Nd::from([1.0]), Nd::from([1.5])));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there are not as many channels as the statistics have; in training, when a channel has
    /// less than two elements, or when a step goes through the same statistics twice.
    #[track_caller]
    fn batch_norm_with(&self, stats: &RunningStats<A>, eps: f64) -> Layer<Nd<A, D>> {
        const NAME: &str = "batch_norm_with";
        if let Err(error) = check_non_negative("eps", eps).and_then(|()| check_fraction("the momentum", stats.momentum))
        {
            return invalid(NAME, error);
        }
        let x = self.layer();
        let batch = Moments::of(NAME, &x, AxisList::all_but(1));
        let mean = per_channel(NAME, &stats.mean.layer(), &x);
        let variance = per_channel(NAME, &stats.variance.layer(), &x);
        let train = batch
            .normalized(eps)
            .updating(&stats.mean, stats.updated(&mean, &batch.mean))
            .updating(&stats.variance, stats.updated(&variance, &batch.variance(1)));
        let evaluate = scaled(&Nd::binary(Binary::Sub, &x, &mean), &variance, eps);
        train_or_eval(train, evaluate)
    }

    /// Normalised over the last `axes` axes together: `(x − mean) / √(var + eps)`, where `var` is
    /// the variance with a correction of 0 (Ba, Kiros and Hinton, 2016).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NormOps};
    /// let x = Nd::from([[1.0, 3.0], [10.0, 30.0]]);
    /// assert_eq!(x.layer_norm(1, 0.0).predict().wait()?, Nd::from([[-1.0, 1.0], [-1.0, 1.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `axes` is 0 or there are not so many, or they have no elements.
    #[track_caller]
    fn layer_norm(&self, axes: usize, eps: f64) -> Layer<Nd<A, D>> {
        normalized("layer_norm", &self.layer(), AxisList::last(axes), eps)
    }

    /// Each group of neighbouring channels (axis 1) normalised on its own, for each example:
    /// `(x − mean) / √(var + eps)`, where `var` is the variance with a correction of 0 (Wu and He,
    /// 2018). One group for each channel is instance normalisation. Shape: `[batch, channels, …]`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NormOps};
    /// let x = Nd::from([[1.0, 3.0, 10.0, 30.0]]);
    /// assert_eq!(x.group_norm(2, 0.0).predict().wait()?, Nd::from([[-1.0, 1.0, -1.0, 1.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no axis 1, the groups do not divide the channels, or they have no elements.
    #[track_caller]
    fn group_norm(&self, groups: usize, eps: f64) -> Layer<Nd<A, D>> {
        const NAME: &str = "group_norm";
        let x = self.layer();
        let grouped: Layer<Nd<A, Ix3>> = Layer::apply(Grouped { groups, types: PhantomData }, (x.clone(),));
        reshape_like(NAME, &normalized(NAME, &grouped, AxisList::last(1), eps), &x)
    }

    /// Divided by the root of the mean square over the last `axes` axes: `x / √(mean(x²) + eps)`
    /// (Zhang and Sennrich, 2019).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, NormOps};
    /// assert_eq!(Nd::from([[-2.0, 2.0]]).rms_norm(1, 0.0).predict().wait()?, Nd::from([[-1.0, 1.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `axes` is 0 or there are not so many, or they have no elements.
    #[track_caller]
    fn rms_norm(&self, axes: usize, eps: f64) -> Layer<Nd<A, D>> {
        const NAME: &str = "rms_norm";
        let x = self.layer();
        match check_non_negative("eps", eps) {
            Ok(()) => scaled(&x, &mean(NAME, &x.square(), AxisList::last(axes), 0), eps),
            Err(error) => invalid(NAME, error),
        }
    }

    /// `x · weight + bias`, with a number of each for each channel (axis 1).
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
    /// A shape error when there are not as many channels.
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

/// The statistics that [`batch_norm_with`](NormOps::batch_norm_with) keeps: for each channel a mean
/// and a variance.
///
/// It is a handle: clones share the buffers. A step writes `(1 − momentum) · old + momentum · new`,
/// where the new variance has a correction of 1, as PyTorch's.
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
    /// Means of 0 and variances of 1 for so many channels, with a momentum of 0.1.
    ///
    /// ```
    /// let stats = dl_nd::RunningStats::<f32>::new(16);
    /// ```
    #[track_caller]
    pub fn new(channels: usize) -> Self {
        let buffer = |number| Buffer::new(Nd::full(channels, A::of(number)));
        RunningStats { mean: buffer(0.0), variance: buffer(1.0), momentum: 0.1 }
    }

    /// The running statistics moved towards those of a batch.
    #[track_caller]
    fn updated<D: Rank>(&self, running: &Layer<Nd<A, D>>, batch: &Layer<Nd<A, D>>) -> Layer<Nd<A, Ix1>> {
        let running = Nd::with_number(Binary::Mul, running, 1.0 - self.momentum, false);
        let batch = Nd::with_number(Binary::Mul, batch, self.momentum, false);
        reshape(&Nd::binary(Binary::Add, &running, &batch), ReshapeTarget::Flat)
    }

    /// The share of the new statistics in the running ones, between 0 and 1.
    ///
    /// ```
    /// let stats = dl_nd::RunningStats::<f32>::new(16).momentum(0.01);
    /// ```
    #[must_use]
    pub fn momentum(self, momentum: f64) -> Self {
        RunningStats { momentum, ..self }
    }
}

/// The elements less their mean along these axes, divided by their standard deviation.
#[track_caller]
fn normalized<A: Element, D: Rank>(
    name: &'static str,
    x: &Layer<Nd<A, D>>,
    axes: AxisList,
    eps: f64,
) -> Layer<Nd<A, D>> {
    match check_non_negative("eps", eps) {
        Ok(()) => Moments::of(name, x, axes).normalized(eps),
        Err(error) => invalid(name, error),
    }
}

/// The mean along some axes, which stay.
#[track_caller]
fn mean<A: Element, D: Rank>(
    name: &'static str,
    x: &Layer<Nd<A, D>>,
    axes: AxisList,
    correction: usize,
) -> Layer<Nd<A, D>> {
    reduce(x.clone(), ReduceOp::Mean, axes, ReduceForm { name, keep_dims: true, correction })
}

/// `x / √(variance + eps)`.
#[track_caller]
fn scaled<A: Element, D: Rank>(x: &Layer<Nd<A, D>>, variance: &Layer<Nd<A, D>>, eps: f64) -> Layer<Nd<A, D>> {
    Nd::binary(Binary::Mul, x, &Nd::with_number(Binary::Add, variance, eps, false).rsqrt())
}

/// A tensor and its mean along some axes.
struct Moments<A: Element, D: Rank> {
    name: &'static str,
    axes: AxisList,
    mean: Layer<Nd<A, D>>,
    /// The tensor less its mean.
    centered: Layer<Nd<A, D>>,
    squares: Layer<Nd<A, D>>,
}

impl<A: Element, D: Rank> Moments<A, D> {
    #[track_caller]
    fn of(name: &'static str, x: &Layer<Nd<A, D>>, axes: AxisList) -> Self {
        let mean = mean(name, x, axes.clone(), 0);
        let centered = Nd::binary(Binary::Sub, x, &mean);
        let squares = centered.square();
        Moments { name, axes, mean, centered, squares }
    }

    #[track_caller]
    fn variance(&self, correction: usize) -> Layer<Nd<A, D>> {
        mean(self.name, &self.squares, self.axes.clone(), correction)
    }

    #[track_caller]
    fn normalized(&self, eps: f64) -> Layer<Nd<A, D>> {
        scaled(&self.centered, &self.variance(0), eps)
    }
}

/// `[batch, channels, …]` as `[batch, groups, elements of a group]`.
struct Grouped<A, D> {
    groups: usize,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Grouped<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, Ix3>;
    const IS_PLAIN: bool = true;

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
        let grouped = x.array().into_shape_clone(Dim([*batch, groups, group])).expect("as many elements");
        Ok(Nd::from(grouped.into_shared()))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(reshape(at.delta, ReshapeTarget::Shape(at.values.0.dim()))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, Ix3>>> {
        Some(Layer::apply(Grouped { groups: self.groups, types: PhantomData }, (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + x.nanoseconds_to_arrange()
    }
}
