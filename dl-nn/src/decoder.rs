//! The parts of a decoder in the form of Llama.

use crate::activation::Activation;
use crate::block::Block;
use crate::cache::LayerPast;
use crate::check::check_positive;
use crate::heads::{join_heads, split_heads};
use crate::linear::Linear;
use crate::lora::{Adapters, LowRank, corrected, merged};
use crate::mixture::{Mixture, MixtureOfExperts};
use crate::norm::RmsNorm;
use crate::rotary::Rotary;
use dl_core::{Binary, Error, Module as _, Pointwise, Result, Term};
use dl_macros::Module;
use dl_nd::ndarray::{Ix2, Ix3};
use dl_nd::{Attention, Element, MatMul, Nd, NdExpression, NdLayer, ops::*};
use rand::Rng;

/// Self-attention with rotary positions, in which groups of query heads share the keys and values
/// of one head (Ainslie et al., *GQA*, 2023): `[batch, length, width]`. The names are those of
/// Llama's `self_attn`.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, init};
/// let attention = dl_nn::GroupedQueryAttention::<f32>::new(16, 4, 2, &mut init::rng(1))?;
/// assert_eq!(attention.of(Nd::full([3, 5, 16], 0.5)).predict().wait()?.shape(), [3, 5, 16]);
/// assert_eq!(dl_core::Module::parameters(&attention), 16 * (16 + 8 + 8 + 16));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct GroupedQueryAttention<A: Element = f32> {
    /// The projection to the queries of all heads, ordered by group.
    pub q_proj: Linear<A>,
    /// The projection to the keys, one head for each group.
    pub k_proj: Linear<A>,
    /// The projection to the values, one head for each group.
    pub v_proj: Linear<A>,
    /// The projection of the joined heads.
    pub o_proj: Linear<A>,
    /// The number of query heads.
    pub heads: usize,
    /// The number of key and value heads. It must divide the number of heads; 1 is multi-query
    /// attention (Shazeer, 2019).
    pub groups: usize,
    /// The positions of queries and keys.
    pub rotary: Rotary,
    /// Learned corrections of the queries, the keys, the values and the output; none by default. See
    /// [`adapted`](GroupedQueryAttention::adapted).
    pub adapters: Adapters<A>,
}

impl<A: Element> GroupedQueryAttention<A> {
    /// A layer without biases, initialised like [`Linear`].
    ///
    /// # Errors
    /// If a size is 0, if `heads` does not divide `width`, if `groups` does not divide `heads`, if
    /// the width of a head is odd, or if a weight is too large to allocate.
    #[track_caller]
    pub fn new(width: usize, heads: usize, groups: usize, rng: &mut impl Rng) -> Result<Self> {
        const NAME: &str = "GroupedQueryAttention";
        check_positive(NAME, &[("elements of a vector", width), ("heads", heads), ("groups", groups)])?;
        let refuse = |message: String| Err(Error::invalid(format!("{NAME}: {message}")));
        if !width.is_multiple_of(heads) {
            return refuse(format!("{heads} heads do not divide a width of {width}"));
        }
        if !heads.is_multiple_of(groups) {
            return refuse(format!("{groups} groups do not divide {heads} heads"));
        }
        let depth = width / heads;
        if !depth.is_multiple_of(2) {
            return refuse(format!("the width of a head is {depth}; it must be even"));
        }
        let mut linear = |outputs| Linear::without_bias(width, outputs, rng);
        Ok(GroupedQueryAttention {
            q_proj: linear(width)?,
            k_proj: linear(groups * depth)?,
            v_proj: linear(groups * depth)?,
            o_proj: linear(width)?,
            heads,
            groups,
            rotary: Rotary::default(),
            adapters: Adapters::default(),
        })
    }

    /// The same layer, frozen, with learned corrections of the queries and the values. See
    /// [`MultiHeadAttention::adapted`](crate::MultiHeadAttention::adapted).
    ///
    /// ```
    /// use dl_nd::init;
    /// let rng = &mut init::rng(1);
    /// let block = dl_nn::DecoderBlock::<f32>::new(16, 4, 2, 40, rng)?;
    /// let block = dl_nn::DecoderBlock { self_attn: block.self_attn.adapted(2, 4.0, rng)?, ..block };
    /// assert!(block.self_attn.q_proj.weight.is_frozen());
    /// assert_eq!(dl_core::Module::parameters(&block.self_attn.adapters), 2 * (16 + 16) + 2 * (16 + 8));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If `rank` is 0, if a weight is too large to allocate, or if the layer has adapters already.
    #[track_caller]
    pub fn adapted(mut self, rank: usize, alpha: f64, rng: &mut impl Rng) -> Result<Self> {
        self.adapters.check_empty()?;
        let mut correction = |projection| LowRank::beside(projection, rank, alpha, rng);
        let (q, v) = (correction(&self.q_proj)?, correction(&self.v_proj)?);
        self.freeze();
        self.adapters = Adapters { q: Some(q), v: Some(v), ..Adapters::default() };
        Ok(self)
    }

    /// The same layer without corrections: its projections contain them. They have new weights, which
    /// are not frozen.
    ///
    /// ```
    /// # use dl_nd::init;
    /// # let rng = &mut init::rng(1);
    /// let attention = dl_nn::GroupedQueryAttention::<f32>::new(16, 4, 2, rng)?.adapted(2, 4.0, rng)?;
    /// assert!(attention.merged()?.adapters.is_empty());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error if the shapes of the weights do not match.
    #[track_caller]
    pub fn merged(&self) -> Result<Self> {
        let Adapters { q, k, v, output } = &self.adapters;
        Ok(GroupedQueryAttention {
            q_proj: merged(&self.q_proj, q.as_ref())?,
            k_proj: merged(&self.k_proj, k.as_ref())?,
            v_proj: merged(&self.v_proj, v.as_ref())?,
            o_proj: merged(&self.o_proj, output.as_ref())?,
            adapters: Adapters::default(),
            ..self.clone()
        })
    }

    /// Causal self-attention, `[batch, length, width] → [batch, length, width]`: each vector attends
    /// to itself and to those before it.
    ///
    /// # Errors
    /// A shape error if the last axis of `x` is not `width`.
    #[track_caller]
    pub fn of(&self, x: impl NdExpression<Ix3, A>) -> NdLayer<Ix3, A> {
        self.attend(&x.into_layer(), None)
    }

    /// The same for tokens that continue the sequences of a [`Cache`](crate::Cache): they attend to
    /// the tokens before them, whose keys and values the cache has. No gradient flows to those.
    ///
    /// ```
    /// use dl_nd::{Nd, init};
    /// use dl_nn::{Cache, GroupedQueryAttention, Past};
    /// let attention = GroupedQueryAttention::<f32>::new(8, 4, 2, &mut init::rng(1))?;
    /// let cache = Cache::new(4);
    /// let next = |past: &Past| attention.of_cached(Nd::full([1, 1, 8], 0.5), past.layer(0));
    /// for length in [1, 2] {
    ///     cache.predict(&[vec![0]], next).wait()?;
    ///     assert_eq!(cache.lengths(), [length]);
    /// }
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`of`](GroupedQueryAttention::of), and a shape error if `x` has other numbers of
    /// sequences or tokens than the prediction.
    #[track_caller]
    pub fn of_cached(&self, x: impl NdExpression<Ix3, A>, past: LayerPast<A>) -> NdLayer<Ix3, A> {
        self.attend(&x.into_layer(), Some(&past))
    }

    #[track_caller]
    fn attend(&self, x: &NdLayer<Ix3, A>, past: Option<&LayerPast<A>>) -> NdLayer<Ix3, A> {
        let projected = |projection: &Linear<A>, adapter: &Option<LowRank<A>>, heads| {
            split_heads(corrected(projection.of(x), adapter.as_ref(), x), heads)
        };
        let groups = self.groups;
        // Heads that the groups do not divide are each a group; the attention refuses such shapes.
        let shared =
            if self.heads.is_multiple_of(groups) { [groups, self.heads / groups.max(1)] } else { [self.heads, 1] };
        let Adapters { q, k, v, .. } = &self.adapters;
        let (q, k, v) = (
            projected(&self.q_proj, q, shared),
            projected(&self.k_proj, k, [groups, 1]),
            projected(&self.v_proj, v, [groups, 1]),
        );
        let heads = match past {
            None => {
                let (q, k) = (self.rotary.of(q), self.rotary.of(k));
                scaled_dot_product_attention_with(q, k, v, &Attention::new().causal())
            }
            Some(past) => {
                let turned = |x| self.rotary.from(x, past.starts());
                let (k, v) = past.extend(turned(k), v);
                scaled_dot_product_attention_with(turned(q), k, v, past.settings())
            }
        };
        let joined = join_heads(heads);
        corrected(self.o_proj.of(&joined), self.adapters.output.as_ref(), &joined)
    }
}

/// A gated feed-forward network, `down(activation(gate(x)) · up(x))` along the last axis. With
/// [`Activation::Silu`] it is SwiGLU (Shazeer, *GLU variants improve transformer*, 2020). The names
/// are those of Llama's `mlp`.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, init};
/// let net = dl_nn::GatedFeedForward::<f32>::new(8, 20, &mut init::rng(1))?;
/// assert_eq!(net.of(Nd::full([3, 8], 0.5)).predict().wait()?.shape(), [3, 8]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct GatedFeedForward<A: Element = f32> {
    /// The gate, `[…, width] → […, hidden]`.
    pub gate_proj: Linear<A>,
    /// The values that the gate multiplies, `[…, width] → […, hidden]`.
    pub up_proj: Linear<A>,
    /// `[…, hidden] → […, width]`.
    pub down_proj: Linear<A>,
    /// The activation function of the gate.
    pub activation: Activation,
}

impl<A: Element> GatedFeedForward<A> {
    /// A SwiGLU network without biases, initialised like [`Linear`].
    ///
    /// # Errors
    /// If a size is 0 or a weight is too large to allocate.
    #[track_caller]
    pub fn new(width: usize, hidden: usize, rng: &mut impl Rng) -> Result<Self> {
        Ok(GatedFeedForward {
            gate_proj: Linear::without_bias(width, hidden, rng)?,
            up_proj: Linear::without_bias(width, hidden, rng)?,
            down_proj: Linear::without_bias(hidden, width, rng)?,
            activation: Activation::Silu,
        })
    }

    /// Applies the network, `[…, width] → […, width]`.
    ///
    /// # Errors
    /// A shape error if the last axis of `x` is not `width`.
    #[track_caller]
    pub fn of<D: MatMul<Ix2, Product = D>>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        let x = x.into_layer();
        let gate = self.activation.of(self.gate_proj.of(&x));
        self.down_proj.of(Nd::binary(Binary::Mul, &gate, &self.up_proj.of(x)))
    }
}

/// A decoder layer in the form of Llama: causal [`GroupedQueryAttention`], then a
/// [`GatedFeedForward`] network, each after an [`RmsNorm`] and with a residual connection:
/// `[batch, length, width]`. The names are those of Llama's layers.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, init};
/// let block = dl_nn::DecoderBlock::<f32>::new(16, 4, 2, 40, &mut init::rng(1))?;
/// assert_eq!(block.of(Nd::full([3, 5, 16], 0.5)).predict().wait()?.shape(), [3, 5, 16]);
/// # dl_core::Result::Ok(())
/// ```
///
/// [`with_mlp`](DecoderBlock::with_mlp) puts another block in the place of the feed-forward
/// network, such as a [`MixtureOfExperts`].
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct DecoderBlock<A: Element = f32, F = GatedFeedForward<A>> {
    /// The normalisation before the attention.
    pub input_layernorm: RmsNorm<A>,
    /// Causal self-attention.
    pub self_attn: GroupedQueryAttention<A>,
    /// The normalisation before the feed-forward network.
    pub post_attention_layernorm: RmsNorm<A>,
    /// The feed-forward network.
    pub mlp: F,
}

impl<A: Element> DecoderBlock<A> {
    /// A layer with `heads` query heads, `groups` key and value heads, and a feed-forward network
    /// of width `hidden`.
    ///
    /// # Errors
    /// Those of [`GroupedQueryAttention::new`] and [`GatedFeedForward::new`].
    #[track_caller]
    pub fn new(width: usize, heads: usize, groups: usize, hidden: usize, rng: &mut impl Rng) -> Result<Self> {
        let self_attn = GroupedQueryAttention::new(width, heads, groups, rng)?;
        Self::from_parts(width, self_attn, GatedFeedForward::new(width, hidden, rng)?)
    }
}

impl<A: Element, F> DecoderBlock<A, F> {
    /// A layer with another feed-forward network, `[batch, length, width] → [batch, length, width]`.
    ///
    /// With a mixture of experts, each token selects `k` of them:
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// use dl_nd::{Nd, init};
    /// use dl_nn::{DecoderBlock, GatedFeedForward, MixtureOfExperts};
    /// let rng = &mut init::rng(1);
    /// let experts = (0..8).map(|_| GatedFeedForward::<f32>::new(16, 24, rng)).collect::<dl_core::Result<_>>()?;
    /// let block = DecoderBlock::with_mlp(16, 4, 2, MixtureOfExperts::new(experts, 16, 2, rng)?, rng)?;
    /// assert_eq!(block.of(Nd::full([3, 5, 16], 0.5)).predict().wait()?.shape(), [3, 5, 16]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`GroupedQueryAttention::new`].
    #[track_caller]
    pub fn with_mlp(width: usize, heads: usize, groups: usize, mlp: F, rng: &mut impl Rng) -> Result<Self> {
        Self::from_parts(width, GroupedQueryAttention::new(width, heads, groups, rng)?, mlp)
    }

    #[track_caller]
    fn from_parts(width: usize, self_attn: GroupedQueryAttention<A>, mlp: F) -> Result<Self> {
        let [input_layernorm, post_attention_layernorm] = [RmsNorm::new(width)?, RmsNorm::new(width)?];
        Ok(DecoderBlock { input_layernorm, self_attn, post_attention_layernorm, mlp })
    }
}

impl<A: Element, F: Block<Ix3, A>> DecoderBlock<A, F> {
    /// Applies the layer to whole sequences, `[batch, length, width] → [batch, length, width]`.
    ///
    /// # Errors
    /// A shape error if the last axis of `x` is not `width`.
    #[track_caller]
    pub fn of(&self, x: impl NdExpression<Ix3, A>) -> NdLayer<Ix3, A> {
        let x = x.into_layer();
        let attended = self.self_attn.of(self.input_layernorm.of(&x));
        self.feed_forward(x, attended)
    }

    /// Applies the layer to tokens that continue the sequences of a [`Cache`](crate::Cache). See
    /// [`GroupedQueryAttention::of_cached`].
    ///
    /// ```
    /// use dl_nd::{Nd, init};
    /// use dl_nn::{Cache, DecoderBlock, Past};
    /// let block = DecoderBlock::<f32>::new(8, 4, 2, 16, &mut init::rng(1))?;
    /// let cache = Cache::new(4);
    /// let next = |past: &Past| block.of_cached(Nd::full([1, 3, 8], 0.5), past.layer(0));
    /// assert_eq!(cache.predict(&[vec![0, 1, 2]], next).wait()?.shape(), [1, 3, 8]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`GroupedQueryAttention::of_cached`].
    #[track_caller]
    pub fn of_cached(&self, x: impl NdExpression<Ix3, A>, past: LayerPast<A>) -> NdLayer<Ix3, A> {
        let x = x.into_layer();
        let attended = self.self_attn.of_cached(self.input_layernorm.of(&x), past);
        self.feed_forward(x, attended)
    }

    #[track_caller]
    fn feed_forward(&self, x: NdLayer<Ix3, A>, attended: NdLayer<Ix3, A>) -> NdLayer<Ix3, A> {
        let x = (Term(x) + Term(attended)).0;
        let fed = self.mlp.of(&self.post_attention_layernorm.of(&x));
        (Term(x) + Term(fed)).0
    }
}

impl<A: Element, M: Block<Ix2, A> + Clone + 'static> DecoderBlock<A, MixtureOfExperts<M, A>> {
    /// [`of`](DecoderBlock::of), with the load-balancing loss of the experts and their shares of the
    /// tokens.
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// use dl_nd::{Nd, init, ops::*};
    /// use dl_nn::{DecoderBlock, Linear, MixtureOfExperts};
    /// use dl_optim::Sgd;
    /// let rng = &mut init::rng(1);
    /// let experts = (0..4).map(|_| Linear::<f32>::new(8, 8, rng)).collect::<dl_core::Result<_>>()?;
    /// let block = DecoderBlock::with_mlp(8, 2, 1, MixtureOfExperts::new(experts, 8, 2, rng)?, rng)?;
    /// let mixed = block.mix(Nd::full([3, 5, 8], 0.5));
    /// (mixed.output.square().mean() + 0.01 * mixed.balance).train(&Sgd::new(0.1)).wait()?;
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`of`](DecoderBlock::of) and of [`MixtureOfExperts::mix`].
    #[track_caller]
    pub fn mix(&self, x: impl NdExpression<Ix3, A>) -> Mixture<A, Ix3> {
        let x = x.into_layer();
        let x = (Term(x.clone()) + Term(self.self_attn.of(self.input_layernorm.of(&x)))).0;
        let mixed = self.mlp.mix(self.post_attention_layernorm.of(&x));
        Mixture { output: (Term(x) + Term(mixed.output)).0, ..mixed }
    }
}
