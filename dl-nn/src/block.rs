//! The trait of modules that map a tensor to a tensor of the same rank, and [`Sequential`].

use crate::{
    Activation, BatchNorm, Conv1d, Conv2d, Dropout, GatedFeedForward, GroupNorm, LayerNorm, Linear, LoRA,
    MultiHeadAttention, RmsNorm, TransformerBlock,
};
use dl_core::{Module, Visitor};
use dl_nd::ndarray::{Ix2, Ix3};
use dl_nd::{Element, HasRank, MatMul, NdExpression, NdLayer, Rank};
use std::fmt;
use std::sync::Arc;

/// A module that maps a tensor to a tensor of the same rank. [`Sequential`] chains blocks, and the
/// experts of a [`MixtureOfExperts`](crate::MixtureOfExperts) are blocks.
///
/// ```
/// use dl_core::Module;
/// use dl_macros::Module;
/// use dl_nd::{NdLayer, ops::*};
/// use dl_nn::{Block, Linear};
///
/// #[derive(Clone, Module)]
/// # #[module(crate = dl_core)]
/// struct Expert {
///     hidden: Linear,
///     output: Linear,
/// }
///
/// impl Block for Expert {
///     fn of(&self, x: &NdLayer) -> NdLayer {
///         self.output.of(self.hidden.of(x).relu())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a block for tensors of rank `{D}` with elements of type `{A}`",
    note = "a block is a struct that maps a tensor to a tensor of the same rank: implement `Block<{D}, {A}>` for it",
    note = "a closure is no block: write `Activation::Relu` for `|x| x.relu()`, or a struct"
)]
pub trait Block<D: Rank = Ix2, A: Element = f32>: Module + Send + Sync {
    /// The output for `x`. As with every layer, nothing is evaluated yet.
    #[track_caller]
    fn of(&self, x: &NdLayer<D, A>) -> NdLayer<D, A>;
}

macro_rules! blocks {
    ($($(#[$doc:meta])* [$($generics:tt)*] [$D:ty] $T:ty;)*) => {$(
        impl<$($generics)* A: Element> Block<$D, A> for $T {
            #[track_caller]
            fn of(&self, x: &NdLayer<$D, A>) -> NdLayer<$D, A> {
                self.of(x)
            }
        }
    )*};
}

blocks! {
    [D: MatMul<Ix2, Product = D>,] [D] Linear<A>;
    [D: MatMul<Ix2, Product = D>,] [D] LoRA<A>;
    [D: MatMul<Ix2, Product = D>,] [D] GatedFeedForward<A>;
    [D: HasRank<3>,] [D] Conv1d<A>;
    [D: HasRank<4>,] [D] Conv2d<A>;
    [D: Rank,] [D] BatchNorm<A>;
    [D: Rank,] [D] LayerNorm<A>;
    [D: Rank,] [D] RmsNorm<A>;
    [D: Rank,] [D] GroupNorm<A>;
    [D: Rank,] [D] Dropout;
    [D: Rank,] [D] Activation;
    [] [Ix3] MultiHeadAttention<A>;
    [L: Block<Ix3, A>,] [Ix3] TransformerBlock<A, L>;
    [D: Rank,] [D] Sequential<D, A>;
}

macro_rules! pointer_blocks {
    ($($Pointer:ty),*) => {$(
        impl<D: Rank, A: Element, B: Block<D, A> + ?Sized> Block<D, A> for $Pointer {
            #[track_caller]
            fn of(&self, x: &NdLayer<D, A>) -> NdLayer<D, A> {
                (**self).of(x)
            }
        }
    )*};
}

pointer_blocks!(Arc<B>, Box<B>);

/// A chain of blocks: each block receives the output of the one before. Module paths begin with the
/// index of the block, for example `0.weight`.
///
/// All tensors between the blocks have the same rank. With the dynamic rank `IxDyn` the number of
/// axes may change from block to block:
///
/// ```
/// use dl_core::{Differentiable, Module};
/// use dl_nd::{Conv, Nd, init, ndarray::IxDyn, ops::*};
/// use dl_nn::{Activation, Conv2d, Linear, Sequential};
/// let mut rng = init::rng(1);
/// let net = Sequential::<IxDyn, f32>::new()
///     .then(Conv2d::new(1, 4, 3, Conv::new().padding(1), &mut rng)?)
///     .then(Activation::Relu)
///     .then_apply(|x| x.flatten_rows().to_dyn())
///     .then(Linear::new(4 * 8 * 8, 10, &mut rng)?);
/// let images: Nd<f32, _> = Nd::full([2, 1, 8, 8], 0.5);
/// assert_eq!(net.of(images.to_dyn()).predict().wait()?.shape(), [2, 10]);
/// assert_eq!(net.names(), ["0.weight", "0.bias", "3.weight", "3.bias"]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Sequential<D: Rank = Ix2, A: Element = f32> {
    /// The blocks in order of application.
    pub blocks: Vec<Arc<dyn Block<D, A>>>,
}

impl<D: Rank, A: Element> Sequential<D, A> {
    /// An empty chain, which returns its input.
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// let x = dl_nd::Nd::from([[1.0_f32]]);
    /// assert_eq!(dl_nn::Sequential::new().of(&x).predict().wait()?, x);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new() -> Self {
        Sequential { blocks: Vec::new() }
    }

    /// Appends a block.
    #[must_use]
    pub fn then(mut self, block: impl Block<D, A> + 'static) -> Self {
        self.blocks.push(Arc::new(block));
        self
    }

    /// Appends a function. It counts as a block without weights.
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// use dl_nd::{Nd, ops::*};
    /// let net = dl_nn::Sequential::new().then_apply(|x| x.square());
    /// assert_eq!(net.of(Nd::from([[3.0_f32]])).predict().wait()?, Nd::from([[9.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[must_use]
    pub fn then_apply(self, function: impl Fn(&NdLayer<D, A>) -> NdLayer<D, A> + Send + Sync + 'static) -> Self {
        self.then(FunctionBlock(function))
    }

    /// The output of the last block.
    ///
    /// # Errors
    /// Those of the blocks.
    #[track_caller]
    pub fn of(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        let mut x = x.into_layer();
        for block in &self.blocks {
            x = block.of(&x);
        }
        x
    }
}

impl<D: Rank, A: Element> Default for Sequential<D, A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: Rank, A: Element> Module for Sequential<D, A> {
    fn visit(&self, visitor: &mut Visitor) {
        self.blocks.visit(visitor);
    }

    fn compiled_arguments(&self, arguments: &mut dl_core::bang::Arguments) {
        self.blocks.compiled_arguments(arguments);
    }
}

/// Prints the entries of the blocks.
impl<D: Rank, A: Element> fmt::Debug for Sequential<D, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequential").field("blocks", &self.blocks.len()).field("entries", &self.entries()).finish()
    }
}

struct FunctionBlock<F>(F);

impl<F> Module for FunctionBlock<F> {
    fn visit(&self, _: &mut Visitor) {}
}

impl<F, D: Rank, A: Element> Block<D, A> for FunctionBlock<F>
where
    F: Fn(&NdLayer<D, A>) -> NdLayer<D, A> + Send + Sync,
{
    #[track_caller]
    fn of(&self, x: &NdLayer<D, A>) -> NdLayer<D, A> {
        (self.0)(x)
    }
}
