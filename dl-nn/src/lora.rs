//! Low-rank adaptation of pretrained layers.

use crate::check::{check_allocation, check_positive};
use crate::linear::Linear;
use dl_core::{Differentiable, Error, Module as _, Result, Term, Weight};
use dl_macros::Module;
use dl_nd::ndarray::Ix2;
use dl_nd::{Element, MatMul, NdExpression, NdLayer, NdWeight, init, ops::*};
use rand::Rng;

/// A frozen [`Linear`] with a learned correction of low rank, `base(x) + scale · x · a · b`:
/// `[…, in] → […, out]` (Hu et al., *LoRA: low-rank adaptation of large language models*, 2021).
///
/// The names in PyTorch are those of a model of the library `peft`. Its files of adapters have names
/// without `.default`, which [`Load`](https://docs.rs/monadic-dl-train) can rename.
///
/// ```
/// use dl_core::{Differentiable, Module};
/// use dl_nd::{Nd, init, ops::*};
/// use dl_nn::{Linear, LoRA};
/// use dl_optim::Sgd;
/// let mut rng = init::rng(1);
/// let pretrained = Linear::<f32>::new(64, 10, &mut rng)?;
/// let net = LoRA::new(pretrained, 4, 8.0, &mut rng)?;
/// let before = net.base.weight.value();
/// net.of(Nd::full([1, 64], 0.5)).cross_entropy([3]).train(&Sgd::new(0.1)).wait()?;
/// assert_eq!(net.base.weight.value(), before); // frozen
/// assert_eq!(net.weights().iter().filter(|weight| !weight.is_frozen()).map(|weight| weight.len()).sum::<usize>(), 4 * (64 + 10));
/// let linear = net.merged()?; // for inference
/// assert_eq!(linear.parameters(), 650);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct LoRA<A: Element = f32> {
    /// The layer that is adapted.
    #[module(torch = "base_layer")]
    pub base: Linear<A>,
    /// `[in, rank]`.
    #[module(torch = "lora_A.default.weight", transposed)]
    pub a: NdWeight<Ix2, A>,
    /// `[rank, out]`.
    #[module(torch = "lora_B.default.weight", transposed)]
    pub b: NdWeight<Ix2, A>,
    /// The factor of the correction. It is a setting, not a weight: files do not have it.
    pub scale: f64,
}

impl<A: Element> LoRA<A> {
    /// Freezes `base`, and adds a correction that is 0 at first: `a` is uniform on `±1 / √in`, `b` is
    /// 0, and the scale is `alpha / rank`.
    ///
    /// # Errors
    /// If `rank` is 0, or if a weight is too large to allocate.
    #[track_caller]
    pub fn new(base: Linear<A>, rank: usize, alpha: f64, rng: &mut impl Rng) -> Result<Self> {
        let LowRank { a, b, scale } = LowRank::beside(&base, rank, alpha, rng)?;
        base.freeze();
        Ok(LoRA { base, a, b, scale })
    }

    /// `base(x) + scale · x · a · b`, `[…, in] → […, out]`.
    ///
    /// # Errors
    /// A shape error if the last axis of `x` is not `in`.
    #[track_caller]
    pub fn of<D: MatMul<Ix2, Product = D>>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        let x = x.into_layer();
        let correction = self.correction().of(&x);
        (Term(self.base.of(x)) + Term(correction)).0
    }

    /// A [`Linear`] with the weight `base + scale · a · b`, in new weights that are not frozen.
    ///
    /// # Errors
    /// A shape error if the shapes of the weights do not match.
    #[track_caller]
    pub fn merged(&self) -> Result<Linear<A>> {
        merged(&self.base, Some(&self.correction()))
    }

    fn correction(&self) -> LowRank<A> {
        LowRank { a: self.a.clone(), b: self.b.clone(), scale: self.scale }
    }
}

/// A learned correction of low rank, `scale · x · a · b`: `[…, in] → […, out]`. It is what a [`LoRA`]
/// adds to its layer, and what an attention adds to a projection
/// ([`adapters`](crate::MultiHeadAttention::adapters)).
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, init};
/// let correction = dl_nn::LowRank::<f32>::new([6, 4], 2, 4.0, &mut init::rng(1))?;
/// assert_eq!(correction.of(Nd::full([3, 6], 0.5)).predict().wait()?, Nd::full([3, 4], 0.0)); // at first
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct LowRank<A: Element = f32> {
    /// `[in, rank]`.
    #[module(torch = "lora_A.default.weight", transposed)]
    pub a: NdWeight<Ix2, A>,
    /// `[rank, out]`.
    #[module(torch = "lora_B.default.weight", transposed)]
    pub b: NdWeight<Ix2, A>,
    /// The factor. It is a setting, not a weight: files do not have it.
    pub scale: f64,
}

/// The learned corrections of the projections of an attention: of queries, keys, values and output. By
/// default there are none.
///
/// ```
/// use dl_nd::init;
/// let rng = &mut init::rng(1);
/// let mut attention = dl_nn::MultiHeadAttention::<f32>::new(8, 2, rng)?;
/// assert!(attention.adapters.is_empty());
/// attention.adapters.output = Some(dl_nn::LowRank::new([8, 8], 2, 4.0, rng)?);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct Adapters<A: Element = f32> {
    /// Of the projection to queries.
    pub q: Option<LowRank<A>>,
    /// Of the projection to keys.
    pub k: Option<LowRank<A>>,
    /// Of the projection to values.
    pub v: Option<LowRank<A>>,
    /// Of the projection of the joined heads.
    pub output: Option<LowRank<A>>,
}

impl<A: Element> Adapters<A> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        [&self.q, &self.k, &self.v, &self.output].into_iter().all(Option::is_none)
    }

    /// An error if there are some: new ones would replace the learned ones.
    pub(crate) fn check_empty(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        Err(Error::invalid("this attention has adapters; call `merged` first, or set the field `adapters`"))
    }
}

impl<A: Element> Default for Adapters<A> {
    fn default() -> Self {
        Adapters { q: None, k: None, v: None, output: None }
    }
}

impl<A: Element> LowRank<A> {
    /// A correction `[…, in] → […, out]` that is 0 at first: `a` is uniform on `±1 / √in`, `b` is 0, and
    /// the scale is `alpha / rank`.
    ///
    /// # Errors
    /// If a size is 0, or if a weight is too large to allocate.
    #[track_caller]
    pub fn new([inputs, outputs]: [usize; 2], rank: usize, alpha: f64, rng: &mut impl Rng) -> Result<Self> {
        const NAME: &str = "LoRA";
        check_positive(NAME, &[("ranks", rank), ("inputs", inputs), ("outputs", outputs)])?;
        check_allocation::<A>(NAME, &[inputs, rank])?;
        check_allocation::<A>(NAME, &[rank, outputs])?;
        let bound = (inputs as f64).sqrt().recip();
        let a = Weight::new(init::uniform([inputs, rank], -bound, bound, rng));
        Ok(LowRank { a, b: Weight::new(init::zeros([rank, outputs])), scale: alpha / rank as f64 })
    }

    /// A correction of the outputs of `linear`.
    #[track_caller]
    pub(crate) fn beside(linear: &Linear<A>, rank: usize, alpha: f64, rng: &mut impl Rng) -> Result<Self> {
        let weight = linear.weight.value();
        Self::new([weight.shape()[0], weight.shape()[1]], rank, alpha, rng)
    }

    /// `scale · x · a · b`, `[…, in] → […, out]`.
    ///
    /// # Errors
    /// A shape error if the last axis of `x` is not `in`.
    #[track_caller]
    pub fn of<D: MatMul<Ix2, Product = D>>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        (self.scale * Term(x.matmul(&self.a).matmul(&self.b))).0
    }

    /// `scale · a · b`, `[in, out]`.
    #[track_caller]
    pub(crate) fn product(&self) -> NdLayer<Ix2, A> {
        (self.scale * Term(self.a.matmul(&self.b))).0
    }
}

/// `y`, with the correction for `x`, if any.
#[track_caller]
pub(crate) fn corrected<A: Element, D: MatMul<Ix2, Product = D>>(
    y: NdLayer<D, A>,
    adapter: Option<&LowRank<A>>,
    x: &NdLayer<D, A>,
) -> NdLayer<D, A> {
    match adapter {
        Some(adapter) => (Term(y) + Term(adapter.of(x))).0,
        None => y,
    }
}

/// The same layer with the correction, if any, in new weights that are not frozen.
#[track_caller]
pub(crate) fn merged<A: Element>(linear: &Linear<A>, adapter: Option<&LowRank<A>>) -> Result<Linear<A>> {
    let weight = match adapter {
        Some(adapter) => (Term(linear.weight.layer()) + Term(adapter.product())).0.predict().wait()?,
        None => linear.weight.value(),
    };
    let bias = linear.bias.as_ref().map(|bias| Weight::new(bias.value()));
    Ok(Linear { weight: Weight::new(weight), bias })
}
