//! A transformer encoder layer.

use crate::activation::Activation;
use crate::attention::MultiHeadAttention;
use crate::block::Block;
use crate::dropout::Dropout;
use crate::linear::Linear;
use crate::norm::LayerNorm;
use dl_core::{Result, Term};
use dl_macros::Module;
use dl_nd::ndarray::Ix3;
use dl_nd::{Attention, Element, NdExpression, NdLayer};
use rand::Rng;

/// A transformer encoder layer on `[batch, length, width]`: self-attention, then two linear layers,
/// each with a residual connection and a layer normalisation. The equivalent of PyTorch's
/// `TransformerEncoderLayer` with `batch_first`.
///
/// With `norm_first` the input of each branch is normalised, `x + f(norm(x))`, which makes deep
/// networks easier to train (Xiong et al., 2020); otherwise the sum is normalised, `norm(x + f(x))`
/// (Vaswani et al., 2017).
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Attention, Nd, init};
/// use dl_nn::TransformerBlock;
/// let block = TransformerBlock { norm_first: true, ..TransformerBlock::<f32>::new(8, 2, 32, &mut init::rng(1))? };
/// let y = block.of_with(Nd::full([4, 5, 8], 0.5), &Attention::new().causal());
/// assert_eq!(y.predict().wait()?.shape(), [4, 5, 8]);
/// # dl_core::Result::Ok(())
/// ```
///
/// The linear layers may be other blocks, for instance [`LoRA`](crate::LoRA): see
/// [`with_linears`](TransformerBlock::with_linears).
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct TransformerBlock<A: Element = f32, L = Linear<A>> {
    /// Self-attention; PyTorch's `self_attn`.
    #[module(torch = "self_attn")]
    pub attention: MultiHeadAttention<A>,
    /// `[…, width] → […, hidden]`.
    pub linear1: L,
    /// `[…, hidden] → […, width]`.
    pub linear2: L,
    /// The normalisation of the attention branch.
    pub norm1: LayerNorm<A>,
    /// The normalisation of the feed-forward branch.
    pub norm2: LayerNorm<A>,
    /// Applied to the outputs of both branches and between the linear layers. The attention weights
    /// have a probability of their own, `attention.dropout`.
    pub dropout: Dropout,
    /// The activation function between the linear layers.
    pub activation: Activation,
    /// Whether the input of a branch is normalised instead of the sum.
    pub norm_first: bool,
}

impl<A: Element> TransformerBlock<A> {
    /// A layer with PyTorch's defaults except for dropout, which is off: `relu`,
    /// post-normalisation. `hidden` is the width between the linear layers.
    ///
    /// # Errors
    /// If a size is 0, if `heads` does not divide `width`, or if a weight is too large to allocate.
    #[track_caller]
    pub fn new(width: usize, heads: usize, hidden: usize, rng: &mut impl Rng) -> Result<Self> {
        Ok(TransformerBlock {
            attention: MultiHeadAttention::new(width, heads, rng)?,
            linear1: Linear::new(width, hidden, rng)?,
            linear2: Linear::new(hidden, width, rng)?,
            norm1: LayerNorm::new(width)?,
            norm2: LayerNorm::new(width)?,
            dropout: Dropout { p: 0.0 },
            activation: Activation::Relu,
            norm_first: false,
        })
    }
}

impl<A: Element, L> TransformerBlock<A, L> {
    /// The same layer with other blocks in place of the two linear layers.
    ///
    /// ```
    /// use dl_core::{Differentiable, Module};
    /// use dl_nd::{Nd, init};
    /// use dl_nn::{LoRA, TransformerBlock};
    /// let mut rng = init::rng(1);
    /// let pretrained = TransformerBlock::<f32>::new(8, 2, 32, &mut rng)?;
    /// pretrained.freeze();
    /// let adapted = pretrained.with_linears(|linear| LoRA::new(linear, 2, 4.0, &mut rng))?;
    /// let trained = adapted.weights().iter().filter(|weight| !weight.is_frozen()).map(|weight| weight.len()).sum::<usize>();
    /// assert_eq!(trained, 2 * (8 + 32) + 2 * (32 + 8));
    /// assert_eq!(adapted.of(Nd::full([4, 5, 8], 0.5)).predict().wait()?.shape(), [4, 5, 8]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of `replace`.
    pub fn with_linears<M>(self, mut replace: impl FnMut(L) -> Result<M>) -> Result<TransformerBlock<A, M>> {
        let TransformerBlock { attention, linear1, linear2, norm1, norm2, dropout, activation, norm_first } = self;
        let (linear1, linear2) = (replace(linear1)?, replace(linear2)?);
        Ok(TransformerBlock { attention, linear1, linear2, norm1, norm2, dropout, activation, norm_first })
    }
}

impl<A: Element, L: Block<Ix3, A>> TransformerBlock<A, L> {
    /// Applies the layer, `[batch, length, width] → [batch, length, width]`.
    ///
    /// # Errors
    /// A shape error if the last axis of `x` is not `width`.
    #[track_caller]
    pub fn of(&self, x: impl NdExpression<Ix3, A>) -> NdLayer<Ix3, A> {
        self.of_with(x, &Attention::new())
    }

    /// [`of`](TransformerBlock::of) with a mask or other settings of the attention.
    ///
    /// # Errors
    /// Those of [`of`](TransformerBlock::of), and a shape error if the mask does not broadcast.
    #[track_caller]
    pub fn of_with(&self, x: impl NdExpression<Ix3, A>, settings: &Attention<A>) -> NdLayer<Ix3, A> {
        let x = x.into_layer();
        if self.norm_first {
            let x = sum(&x, self.attention_branch(&self.norm1.of(&x), settings));
            sum(&x, self.feed_forward_branch(&self.norm2.of(&x)))
        } else {
            let x = self.norm1.of(sum(&x, self.attention_branch(&x, settings)));
            self.norm2.of(sum(&x, self.feed_forward_branch(&x)))
        }
    }

    #[track_caller]
    fn attention_branch(&self, x: &NdLayer<Ix3, A>, settings: &Attention<A>) -> NdLayer<Ix3, A> {
        self.dropout.of(self.attention.of_with(x, settings))
    }

    #[track_caller]
    fn feed_forward_branch(&self, x: &NdLayer<Ix3, A>) -> NdLayer<Ix3, A> {
        let hidden = self.activation.of(self.linear1.of(x));
        self.dropout.of(self.linear2.of(&self.dropout.of(hidden)))
    }
}

#[track_caller]
fn sum<A: Element>(x: &NdLayer<Ix3, A>, y: NdLayer<Ix3, A>) -> NdLayer<Ix3, A> {
    (Term(x.clone()) + Term(y)).0
}
