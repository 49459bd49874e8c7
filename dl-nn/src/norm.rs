//! Normalisation layers with a learned scale and shift.

use crate::check::check_positive;
use crate::linear::add_bias;
use dl_core::{Differentiable, Error, Result, Term, Weight};
use dl_macros::Module;
use dl_nd::ndarray::Ix1;
use dl_nd::{Element, NdExpression, NdLayer, NdWeight, Rank, RunningStats, along_last, init, ops::*};

/// PyTorch's default for the term added to a variance.
const EPS: f64 = 1e-5;

fn constant_weight<A: Element>(layer: &str, what: &str, size: usize, number: f64) -> Result<NdWeight<Ix1, A>> {
    check_positive(layer, &[(what, size)])?;
    crate::check::check_allocation::<A>(layer, &[size])?;
    Ok(Weight::new(init::constant([size], number)))
}

/// Multiplies `x` by a vector along its last axis.
#[track_caller]
fn scale<A: Element, D: Rank>(name: &'static str, x: NdLayer<D, A>, weight: &NdWeight<Ix1, A>) -> NdLayer<D, A> {
    let weight = along_last(name, &weight.layer(), &x);
    (Term(x) * Term(weight)).0
}

/// Batch normalisation of each channel (axis 1), with running statistics: `[batch, channels, …]`
/// (Ioffe and Szegedy, 2015). See [`batch_norm_with`](NormOps::batch_norm_with).
///
/// ```
/// use dl_core::{Differentiable, Module};
/// use dl_optim::Sgd;
/// use dl_nd::{Nd, ops::*};
/// let norm = dl_nn::BatchNorm::<f64>::new(1)?;
/// let loss = norm.of(Nd::from([[1.0], [3.0]])).square().mean();
/// loss.train(&Sgd::new(0.1)).wait()?; // normalised with the statistics of the batch
/// assert_eq!(norm.stats.mean.value(), Nd::from([0.2])); // a tenth of the way
/// assert_eq!(norm.names(), ["weight", "bias", "stats.mean", "stats.variance"]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct BatchNorm<A: Element = f32> {
    /// The scale of each channel, `[channels]`.
    pub weight: NdWeight<Ix1, A>,
    /// The shift of each channel, `[channels]`.
    pub bias: NdWeight<Ix1, A>,
    /// The running mean and variance, updated by training steps.
    #[module(torch = "")]
    pub stats: RunningStats<A>,
    /// The term added to the variance before its root is taken.
    pub eps: f64,
}

impl<A: Element> BatchNorm<A> {
    /// A layer with scale 1, shift 0, initial statistics (mean 0, variance 1), a momentum of 0.1
    /// and an `eps` of 1e-5.
    ///
    /// # Errors
    /// If `channels` is 0 or a weight is too large to allocate.
    #[track_caller]
    pub fn new(channels: usize) -> Result<Self> {
        let filled = |number| constant_weight("BatchNorm", "channels", channels, number);
        Ok(BatchNorm { weight: filled(1.0)?, bias: filled(0.0)?, stats: RunningStats::new(channels), eps: EPS })
    }

    /// Normalises with the statistics of the batch in training, and with the running statistics in
    /// evaluation. The shape stays the same.
    ///
    /// # Errors
    /// Those of [`batch_norm_with`](NormOps::batch_norm_with).
    #[track_caller]
    pub fn of<D: Rank>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        x.batch_norm_with(&self.stats, self.eps).affine(&self.weight, &self.bias)
    }
}

/// Layer normalisation along the last axis: `[…, width]` (Ba, Kiros and Hinton, 2016). See
/// [`layer_norm`](NormOps::layer_norm).
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::Nd;
/// let norm = dl_nn::LayerNorm { eps: 0.0, ..dl_nn::LayerNorm::<f64>::new(2)? };
/// assert_eq!(norm.of(Nd::from([[1.0, 3.0]])).predict().wait()?, Nd::from([[-1.0, 1.0]]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct LayerNorm<A: Element = f32> {
    /// The scale, `[width]`.
    pub weight: NdWeight<Ix1, A>,
    /// The shift, `[width]`; `None` without a shift.
    pub bias: Option<NdWeight<Ix1, A>>,
    /// The term added to the variance before its root is taken.
    pub eps: f64,
}

impl<A: Element> LayerNorm<A> {
    /// A layer with scale 1, shift 0 and an `eps` of 1e-5.
    ///
    /// # Errors
    /// If `width` is 0 or a weight is too large to allocate.
    #[track_caller]
    pub fn new(width: usize) -> Result<Self> {
        let filled = |number| constant_weight("LayerNorm", "elements along the last axis", width, number);
        Ok(LayerNorm { weight: filled(1.0)?, bias: Some(filled(0.0)?), eps: EPS })
    }

    /// Normalises along the last axis, `[…, width] → […, width]`.
    ///
    /// # Errors
    /// Those of [`layer_norm`](NormOps::layer_norm), and a shape error if the last axis is not
    /// `width`.
    #[track_caller]
    pub fn of<D: Rank>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        let normalized = scale("layer_norm", x.layer_norm(1, self.eps), &self.weight);
        add_bias("layer_norm", normalized, self.bias.as_ref())
    }
}

/// Root-mean-square normalisation along the last axis: `[…, width]` (Zhang and Sennrich, 2019). See
/// [`rms_norm`](NormOps::rms_norm).
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::Nd;
/// let norm = dl_nn::RmsNorm { eps: 0.0, ..dl_nn::RmsNorm::<f64>::new(2)? };
/// assert_eq!(norm.of(Nd::from([[-2.0, 2.0]])).predict().wait()?, Nd::from([[-1.0, 1.0]]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct RmsNorm<A: Element = f32> {
    /// The scale, `[width]`.
    pub weight: NdWeight<Ix1, A>,
    /// The term added to the mean square before its root is taken.
    pub eps: f64,
}

impl<A: Element> RmsNorm<A> {
    /// A layer with scale 1 and an `eps` of 1e-6. (PyTorch's default is the machine epsilon of the
    /// element type.)
    ///
    /// # Errors
    /// If `width` is 0 or the weight is too large to allocate.
    #[track_caller]
    pub fn new(width: usize) -> Result<Self> {
        Ok(RmsNorm { weight: constant_weight("RmsNorm", "elements along the last axis", width, 1.0)?, eps: 1e-6 })
    }

    /// Normalises along the last axis, `[…, width] → […, width]`.
    ///
    /// # Errors
    /// Those of [`rms_norm`](NormOps::rms_norm), and a shape error if the last axis is not `width`.
    #[track_caller]
    pub fn of<D: Rank>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        scale("rms_norm", x.rms_norm(1, self.eps), &self.weight)
    }
}

/// Normalisation of each channel (axis 1) of each sample: `[batch, channels, …]` (Ulyanov et al.,
/// 2016). It is a [`GroupNorm`] with one channel in a group. As in PyTorch, it has no scale and no
/// shift by default.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::Nd;
/// let norm = dl_nn::InstanceNorm { eps: 0.0, ..dl_nn::InstanceNorm::<f64>::new(2)? };
/// let y = norm.of(Nd::from([[[1.0, 3.0], [10.0, 30.0]]]));
/// assert_eq!(y.predict().wait()?, Nd::from([[[-1.0, 1.0], [-1.0, 1.0]]]));
/// assert_eq!(dl_core::Module::parameters(&dl_nn::InstanceNorm::<f64>::affine(2)?), 4);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct InstanceNorm<A: Element = f32> {
    /// The scale of each channel, `[channels]`, if there is one.
    pub weight: Option<NdWeight<Ix1, A>>,
    /// The shift of each channel, `[channels]`, if there is one.
    pub bias: Option<NdWeight<Ix1, A>>,
    /// The number of channels.
    pub channels: usize,
    /// The term added to the variance before its root is taken.
    pub eps: f64,
}

impl<A: Element> InstanceNorm<A> {
    /// A layer without scale and shift, with an `eps` of 1e-5.
    ///
    /// # Errors
    /// If `channels` is 0.
    #[track_caller]
    pub fn new(channels: usize) -> Result<Self> {
        check_positive("InstanceNorm", &[("channels", channels)])?;
        Ok(InstanceNorm { weight: None, bias: None, channels, eps: EPS })
    }

    /// A layer with scale 1, shift 0 and an `eps` of 1e-5.
    ///
    /// # Errors
    /// If `channels` is 0 or a weight is too large to allocate.
    #[track_caller]
    pub fn affine(channels: usize) -> Result<Self> {
        let filled = |number| constant_weight("InstanceNorm", "channels", channels, number).map(Some);
        Ok(InstanceNorm { weight: filled(1.0)?, bias: filled(0.0)?, channels, eps: EPS })
    }

    /// Normalises each channel of each sample. The shape stays the same.
    ///
    /// # Errors
    /// Those of [`group_norm`](NormOps::group_norm).
    #[track_caller]
    pub fn of<D: Rank>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        let normalized = x.group_norm(self.channels, self.eps);
        match (&self.weight, &self.bias) {
            (None, None) => normalized,
            (weight, bias) => {
                let or = |vector: &Option<NdWeight<Ix1, A>>, number| match vector {
                    Some(vector) => vector.layer(),
                    None => init::constant([self.channels], number).into_layer(),
                };
                normalized.affine(or(weight, 1.0), or(bias, 0.0))
            }
        }
    }
}

/// Normalisation of groups of channels (axis 1) within each sample: `[batch, channels, …]` (Wu and
/// He, 2018). See [`group_norm`](NormOps::group_norm).
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::Nd;
/// let norm = dl_nn::GroupNorm { eps: 0.0, ..dl_nn::GroupNorm::<f64>::new(2, 4)? };
/// let y = norm.of(Nd::from([[1.0, 3.0, 10.0, 30.0]]));
/// assert_eq!(y.predict().wait()?, Nd::from([[-1.0, 1.0, -1.0, 1.0]]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct GroupNorm<A: Element = f32> {
    /// The scale of each channel, `[channels]`.
    pub weight: NdWeight<Ix1, A>,
    /// The shift of each channel, `[channels]`.
    pub bias: NdWeight<Ix1, A>,
    /// The number of groups. It must divide the number of channels.
    pub groups: usize,
    /// The term added to the variance before its root is taken.
    pub eps: f64,
}

impl<A: Element> GroupNorm<A> {
    /// A layer with scale 1, shift 0 and an `eps` of 1e-5.
    ///
    /// # Errors
    /// If `groups` or `channels` is 0, if `groups` does not divide `channels`, or if a weight is
    /// too large to allocate.
    #[track_caller]
    pub fn new(groups: usize, channels: usize) -> Result<Self> {
        check_positive("GroupNorm", &[("groups", groups)])?;
        if !channels.is_multiple_of(groups) {
            return Err(Error::invalid(format!("GroupNorm: {groups} groups do not divide {channels} channels")));
        }
        let filled = |number| constant_weight("GroupNorm", "channels", channels, number);
        Ok(GroupNorm { weight: filled(1.0)?, bias: filled(0.0)?, groups, eps: EPS })
    }

    /// Normalises each group of channels of each sample. The shape stays the same.
    ///
    /// # Errors
    /// Those of [`group_norm`](NormOps::group_norm).
    #[track_caller]
    pub fn of<D: Rank>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        x.group_norm(self.groups, self.eps).affine(&self.weight, &self.bias)
    }
}
