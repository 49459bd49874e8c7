//! Normalisations, with the weights behind them.

use crate::check::positive;
use crate::linear::plus;
use dl_core::{Differentiable, Error, Result, Term, Weight};
use dl_macros::Module;
use dl_nd::ndarray::Ix1;
use dl_nd::{Element, NdExpression, NdLayer, NdWeight, Rank, RunningStats, along_last, init, ops::*};

/// What PyTorch adds to a variance.
const EPS: f64 = 1e-5;

fn filled<A: Element>(layer: &str, what: &str, size: usize, number: f64) -> Result<NdWeight<Ix1, A>> {
    positive(layer, &[(what, size)])?;
    crate::check::room::<A>(layer, &[size])?;
    Ok(Weight::new(init::constant([size], number)))
}

/// `x`, multiplied by a vector that runs along its last axis.
#[track_caller]
fn scaled<A: Element, D: Rank>(name: &'static str, x: NdLayer<D, A>, weight: &NdWeight<Ix1, A>) -> NdLayer<D, A> {
    let weight = along_last(name, &weight.layer(), &x);
    (Term(x) * Term(weight)).0
}

/// Batch normalisation of each channel (axis 1), with running statistics: `[batch, channels, …]`.
/// See [`batch_norm_with`](NormOps::batch_norm_with).
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
    /// What each channel is multiplied by: `[channels]`.
    pub weight: NdWeight<Ix1, A>,
    /// What is added to each channel: `[channels]`.
    pub bias: NdWeight<Ix1, A>,
    /// The running mean and variance, written by the steps that train.
    pub stats: RunningStats<A>,
    /// What is added to a variance.
    pub eps: f64,
}

impl<A: Element> BatchNorm<A> {
    /// Weights of 1, biases of 0, fresh statistics with a momentum of 0.1, an `eps` of 1e-5.
    ///
    /// # Errors
    /// When there are no channels.
    #[track_caller]
    pub fn new(channels: usize) -> Result<Self> {
        let filled = |number| filled("BatchNorm", "channels", channels, number);
        Ok(BatchNorm { weight: filled(1.0)?, bias: filled(0.0)?, stats: RunningStats::new(channels), eps: EPS })
    }

    /// Normalised with the statistics of the batch in training, with the running ones in
    /// evaluation.
    ///
    /// # Errors
    /// Those of [`batch_norm_with`](NormOps::batch_norm_with).
    #[track_caller]
    pub fn of<D: Rank>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        x.batch_norm_with(&self.stats, self.eps).affine(&self.weight, &self.bias)
    }
}

/// Layer normalisation along the last axis: `[…, width]`. See [`layer_norm`](NormOps::layer_norm).
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
    /// `[width]`
    pub weight: NdWeight<Ix1, A>,
    /// `[width]`, if there is one.
    pub bias: Option<NdWeight<Ix1, A>>,
    /// What is added to the variance.
    pub eps: f64,
}

impl<A: Element> LayerNorm<A> {
    /// Weights of 1, biases of 0, an `eps` of 1e-5.
    ///
    /// # Errors
    /// When the width is 0.
    #[track_caller]
    pub fn new(width: usize) -> Result<Self> {
        let filled = |number| filled("LayerNorm", "elements along the last axis", width, number);
        Ok(LayerNorm { weight: filled(1.0)?, bias: Some(filled(0.0)?), eps: EPS })
    }

    /// `[…, width]`, normalised along the last axis.
    ///
    /// # Errors
    /// Those of [`layer_norm`](NormOps::layer_norm), and a shape error when the last axis is
    /// another.
    #[track_caller]
    pub fn of<D: Rank>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        let normalized = scaled("layer_norm", x.layer_norm(1, self.eps), &self.weight);
        plus("layer_norm", normalized, self.bias.as_ref())
    }
}

/// Root-mean-square normalisation along the last axis: `[…, width]`. See
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
    /// `[width]`
    pub weight: NdWeight<Ix1, A>,
    /// What is added to the mean square.
    pub eps: f64,
}

impl<A: Element> RmsNorm<A> {
    /// Weights of 1, an `eps` of 1e-6. (PyTorch's is the distance from 1 to the next number of the
    /// type.)
    ///
    /// # Errors
    /// When the width is 0.
    #[track_caller]
    pub fn new(width: usize) -> Result<Self> {
        Ok(RmsNorm { weight: filled("RmsNorm", "elements along the last axis", width, 1.0)?, eps: 1e-6 })
    }

    /// `[…, width]`, normalised along the last axis.
    ///
    /// # Errors
    /// Those of [`rms_norm`](NormOps::rms_norm), and a shape error when the last axis is another.
    #[track_caller]
    pub fn of<D: Rank>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        scaled("rms_norm", x.rms_norm(1, self.eps), &self.weight)
    }
}

/// Normalisation of groups of channels (axis 1), for each example: `[batch, channels, …]`. See
/// [`group_norm`](NormOps::group_norm).
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
    /// What each channel is multiplied by: `[channels]`.
    pub weight: NdWeight<Ix1, A>,
    /// What is added to each channel: `[channels]`.
    pub bias: NdWeight<Ix1, A>,
    /// In how many groups the channels fall.
    pub groups: usize,
    /// What is added to a variance.
    pub eps: f64,
}

impl<A: Element> GroupNorm<A> {
    /// Weights of 1, biases of 0, an `eps` of 1e-5.
    ///
    /// # Errors
    /// When a number is 0, or the groups do not divide the channels.
    #[track_caller]
    pub fn new(groups: usize, channels: usize) -> Result<Self> {
        positive("GroupNorm", &[("groups", groups)])?;
        if !channels.is_multiple_of(groups) {
            return Err(Error::invalid(format!("GroupNorm: {groups} groups do not divide {channels} channels")));
        }
        let filled = |number| filled("GroupNorm", "channels", channels, number);
        Ok(GroupNorm { weight: filled(1.0)?, bias: filled(0.0)?, groups, eps: EPS })
    }

    /// Each group of each example normalised.
    ///
    /// # Errors
    /// Those of [`group_norm`](NormOps::group_norm).
    #[track_caller]
    pub fn of<D: Rank>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        x.group_norm(self.groups, self.eps).affine(&self.weight, &self.bias)
    }
}
