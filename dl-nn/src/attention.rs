//! Multi-head attention.

use crate::check::{check_allocation, check_positive, times};
use crate::heads::{join_heads, split_stacked};
use crate::linear::Linear;
use crate::lora::{Adapters, LowRank, corrected, merged};
use dl_core::{Differentiable, Error, Module as _, Result, Term, Weight};
use dl_macros::Module;
use dl_nd::ndarray::{Ix1, Ix2, Ix3, Ix4};
use dl_nd::{Attention, Element, NdExpression, NdLayer, NdWeight, concat, init, ops::*};
use rand::Rng;

/// Multi-head attention (Vaswani et al., *Attention is all you need*, 2017) on
/// `[batch, length, width]`. The equivalent of PyTorch's `MultiheadAttention` with `batch_first`.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Attention, Nd, init};
/// let attention = dl_nn::MultiHeadAttention::<f32>::new(8, 2, &mut init::rng(1))?;
/// let x = Nd::full([4, 5, 8], 0.5);
/// assert_eq!(attention.of(&x).predict().wait()?.shape(), [4, 5, 8]);
/// let past = attention.of_with(&x, &Attention::new().causal());
/// assert_eq!(past.predict().wait()?.shape(), [4, 5, 8]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct MultiHeadAttention<A: Element = f32> {
    /// The projections to queries, keys and values, stacked along axis 0: `[3 · width, width]`, the
    /// layout of PyTorch.
    pub in_proj_weight: NdWeight<Ix2, A>,
    /// The biases of these projections, `[3 · width]`; `None` without a bias.
    pub in_proj_bias: Option<NdWeight<Ix1, A>>,
    /// The projection of the concatenated heads: `[…, width] → […, width]`.
    pub out_proj: Linear<A>,
    /// The number of heads. It must divide the width.
    pub heads: usize,
    /// The probability with which an attention weight is dropped in training, `0 ≤ dropout < 1`.
    pub dropout: f64,
    /// Learned corrections of the queries, the keys, the values and the output; none by default. See
    /// [`adapted`](MultiHeadAttention::adapted).
    pub adapters: Adapters<A>,
}

impl<A: Element> MultiHeadAttention<A> {
    /// A layer with PyTorch's default initialisation: `in_proj_weight` is Xavier uniform,
    /// `out_proj.weight` is uniform on `±1 / √width`, and the biases are 0. The dropout probability
    /// is 0.
    ///
    /// # Errors
    /// If `width` or `heads` is 0, if `heads` does not divide `width`, or if a weight is too large
    /// to allocate.
    #[track_caller]
    pub fn new(width: usize, heads: usize, rng: &mut impl Rng) -> Result<Self> {
        const NAME: &str = "MultiHeadAttention";
        check_positive(NAME, &[("elements of a vector", width), ("heads", heads)])?;
        if !width.is_multiple_of(heads) {
            return Err(Error::invalid(format!("{NAME}: {heads} heads do not divide a width of {width}")));
        }
        let shape = [times(3, width), width];
        check_allocation::<A>(NAME, &shape)?;
        Ok(MultiHeadAttention {
            in_proj_weight: Weight::new(init::xavier_uniform(shape, rng)),
            in_proj_bias: Some(Weight::new(init::zeros([shape[0]]))),
            out_proj: Linear {
                bias: Some(Weight::new(init::zeros([width]))),
                ..Linear::without_bias(width, width, rng)?
            },
            heads,
            dropout: 0.0,
            adapters: Adapters::default(),
        })
    }

    /// The same layer, frozen, with learned corrections of the queries and the values, as for a
    /// [`LoRA`](crate::LoRA). They are 0 at first. Others may be put into
    /// [`adapters`](MultiHeadAttention::adapters).
    ///
    /// ```
    /// use dl_core::Module;
    /// use dl_nd::init;
    /// let rng = &mut init::rng(1);
    /// let attention = dl_nn::MultiHeadAttention::<f32>::new(8, 2, rng)?.adapted(2, 4.0, rng)?;
    /// let learned: Vec<_> = attention.weights().into_iter().filter(|weight| !weight.is_frozen()).collect();
    /// assert_eq!(learned.iter().map(|weight| weight.path()).collect::<Vec<_>>(), [
    ///     "adapters.q.a", "adapters.q.b", "adapters.v.a", "adapters.v.b",
    /// ]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If `rank` is 0, if a weight is too large to allocate, or if the layer has adapters already.
    #[track_caller]
    pub fn adapted(mut self, rank: usize, alpha: f64, rng: &mut impl Rng) -> Result<Self> {
        self.adapters.check_empty()?;
        let width = self.in_proj_weight.value().shape()[1];
        let mut correction = || LowRank::new([width; 2], rank, alpha, rng);
        let (q, v) = (correction()?, correction()?);
        self.freeze();
        self.adapters = Adapters { q: Some(q), v: Some(v), ..Adapters::default() };
        Ok(self)
    }

    /// The same layer without corrections: its projections contain them. They have new weights, which
    /// are not frozen.
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// use dl_nd::{Nd, init};
    /// let rng = &mut init::rng(1);
    /// let attention = dl_nn::MultiHeadAttention::<f32>::new(8, 2, rng)?.adapted(2, 4.0, rng)?;
    /// let merged = attention.merged()?;
    /// assert!(merged.adapters.is_empty());
    /// let [x, y] = [&attention, &merged].map(|net| net.of(Nd::full([4, 5, 8], 0.5)).predict().wait());
    /// assert_eq!(x?, y?); // the corrections are still 0
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error if the shapes of the weights do not match.
    #[track_caller]
    pub fn merged(&self) -> Result<Self> {
        let Adapters { q, k, v, output } = &self.adapters;
        let parts = self.in_proj_weight.chunk(0, 3).into_iter().zip([q, k, v]);
        let parts: Vec<_> = parts
            .map(|(part, adapter)| match adapter {
                Some(adapter) => (Term(part) + Term(adapter.product().transpose(0, 1))).0,
                None => part,
            })
            .collect();
        Ok(MultiHeadAttention {
            in_proj_weight: Weight::new(concat(0, parts).predict().wait()?),
            in_proj_bias: self.in_proj_bias.as_ref().map(|bias| Weight::new(bias.value())),
            out_proj: merged(&self.out_proj, output.as_ref())?,
            adapters: Adapters::default(),
            ..self.clone()
        })
    }

    /// Self-attention, `[batch, length, width] → [batch, length, width]`: each vector attends to
    /// all vectors of its sequence.
    ///
    /// # Errors
    /// A shape error if the last axis of `x` is not `width`.
    #[track_caller]
    pub fn of(&self, x: impl NdExpression<Ix3, A>) -> NdLayer<Ix3, A> {
        self.of_with(x, &Attention::new())
    }

    /// [`of`](MultiHeadAttention::of) with a mask or other settings. The mask must broadcast to
    /// `[batch, heads, length, length]`.
    ///
    /// # Errors
    /// Those of [`of`](MultiHeadAttention::of), and a shape error if the mask does not broadcast.
    #[track_caller]
    pub fn of_with(&self, x: impl NdExpression<Ix3, A>, settings: &Attention<A>) -> NdLayer<Ix3, A> {
        // one product for queries, keys and values
        let (x, bias) = (x.into_layer(), self.in_proj_bias.as_ref().map(Weight::layer));
        let all = split_stacked(project(&x, &self.in_proj_weight.layer(), bias), 3, self.heads);
        let [q, k, v] = [0, 1, 2].map(|part| all.slice_axis(1, part..part + 1).squeeze(1));
        let [q, k, v] = [(0, q), (1, k), (2, v)].map(|(part, projected)| self.corrected(part, projected, &x));
        self.attend_heads(q, k, v, settings)
    }

    /// Cross-attention: queries `[batch, L, width]` attend to keys and values `[batch, S, width]`.
    /// The result is `[batch, L, width]`.
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// use dl_nd::{Attention, Nd, init};
    /// let attention = dl_nn::MultiHeadAttention::<f32>::new(8, 2, &mut init::rng(1))?;
    /// let (questions, memory) = (Nd::full([4, 3, 8], 0.5), Nd::full([4, 7, 8], 0.25));
    /// let answers = attention.attend(&questions, &memory, &memory, &Attention::new());
    /// assert_eq!(answers.predict().wait()?.shape(), [4, 3, 8]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`of_with`](MultiHeadAttention::of_with), and a shape error if the batches of `q`,
    /// `k` and `v`, or the lengths of `k` and `v`, differ.
    #[track_caller]
    pub fn attend(
        &self,
        q: impl NdExpression<Ix3, A>,
        k: impl NdExpression<Ix3, A>,
        v: impl NdExpression<Ix3, A>,
        settings: &Attention<A>,
    ) -> NdLayer<Ix3, A> {
        let (weights, biases) =
            (self.in_proj_weight.chunk(0, 3), self.in_proj_bias.as_ref().map(|bias| bias.chunk(0, 3)));
        let part = |index: usize, x: NdLayer<Ix3, A>| {
            let bias = biases.as_ref().map(|biases| biases[index].clone());
            let projected = split_stacked(project(&x, &weights[index], bias), 1, self.heads).squeeze(1);
            self.corrected(index, projected, &x)
        };
        let [q, k, v] =
            [(0, q.into_layer()), (1, k.into_layer()), (2, v.into_layer())].map(|(index, x)| part(index, x));
        self.attend_heads(q, k, v, settings)
    }

    /// The result of queries, keys and values `[batch, heads, length, width of a head]`.
    #[track_caller]
    fn attend_heads(
        &self,
        q: NdLayer<Ix4, A>,
        k: NdLayer<Ix4, A>,
        v: NdLayer<Ix4, A>,
        settings: &Attention<A>,
    ) -> NdLayer<Ix3, A> {
        let settings = settings.clone();
        let settings = if self.dropout == 0.0 { settings } else { settings.dropout(self.dropout) };
        let heads = scaled_dot_product_attention_with(q, k, v, &settings);
        let joined = join_heads(heads.unsqueeze(1));
        corrected(self.out_proj.of(&joined), self.adapters.output.as_ref(), &joined)
    }

    /// Queries, keys or values `[batch, heads, length, width of a head]`, with their correction for `x`,
    /// if any.
    #[track_caller]
    fn corrected(&self, part: usize, projected: NdLayer<Ix4, A>, x: &NdLayer<Ix3, A>) -> NdLayer<Ix4, A> {
        let Adapters { q, k, v, .. } = &self.adapters;
        match [q, k, v][part] {
            Some(adapter) => {
                let correction = split_stacked(adapter.of(x), 1, self.heads).squeeze(1);
                (Term(projected) + Term(correction)).0
            }
            None => projected,
        }
    }
}

/// `x · weightᵀ + bias`, `[batch, length, width] → [batch, length, rows of the weight]`.
#[track_caller]
fn project<A: Element>(
    x: impl NdExpression<Ix3, A>,
    weight: &NdLayer<Ix2, A>,
    bias: Option<NdLayer<Ix1, A>>,
) -> NdLayer<Ix3, A> {
    let weight = weight.transpose(0, 1);
    match bias {
        Some(bias) => x.linear(weight, bias),
        None => x.matmul(weight),
    }
}
