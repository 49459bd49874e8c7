//! Neural-network layers as plain structs of weights, built on the operations of [`dl_nd`].
//!
//! Users depend on the `monadic-dl` package, which re-exports this crate as `dl::nn`.
//!
//! ```
//! use dl_core::{Differentiable, Module};
//! use dl_optim::Sgd;
//! use dl_macros::Module;
//! use dl_nd::{Nd, NdExpression, NdLayer, init, ops::*};
//! use dl_nn::Linear;
//!
//! #[derive(Clone, Module)]
//! # #[module(crate = dl_core)]
//! struct Net {
//!     hidden: Linear,
//!     output: Linear,
//! }
//!
//! impl Net {
//!     fn of(&self, x: impl NdExpression) -> NdLayer {
//!         self.output.of(self.hidden.of(x).relu())
//!     }
//! }
//!
//! let mut rng = init::rng(1);
//! let net = Net { hidden: Linear::new(4, 8, &mut rng)?, output: Linear::new(8, 2, &mut rng)? };
//! assert_eq!(net.names(), ["hidden.weight", "hidden.bias", "output.weight", "output.bias"]);
//! assert_eq!(net.parameters(), 4 * 8 + 8 + 8 * 2 + 2);
//!
//! let images = Nd::from([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]]);
//! net.of(&images).cross_entropy([0, 1]).train(&Sgd::new(0.1)).wait()?;
//! # dl_core::Result::Ok(())
//! ```
//!
//! # Conventions
//!
//! - A layer is a struct with public fields. `new` takes the sizes and, where weights are random, a
//!   random number generator. Initial distributions are PyTorch's defaults; to use others, assign
//!   the field or [set](dl_core::Weight::set) the weight. `new` returns an error for invalid sizes.
//!   [`Activation`] and [`Dropout`] have no `new`; [`Sequential::new`] is an empty chain.
//! - `of` applies the layer. It is lazy: shapes are checked when a pass evaluates the result.
//! - Weights are handles: a clone of a layer shares the weights of the original.
//! - A layer has elements of type `f32` or `f64` (`Linear<f64>`), inferred from its field or
//!   operand.
//! - A layer that behaves differently in training follows the [`Mode`](dl_core::Mode) of the pass:
//!   `train` runs in training mode, `predict` in evaluation mode.
//! - [`Module`](dl_core::Module) names the weights. The names match PyTorch's where the weights do.
//!
//! # Layouts
//!
//! Layouts match PyTorch's, except that the weight of a [`Linear`] is `[in, out]`, because a
//! product multiplies by it from the right. The modules declare this and PyTorch's names
//! ([`Torch`](dl_core::Torch)); `Load::torch` and `save_torch` of `dl_train` read and write a
//! `state_dict` accordingly.
//!
//! | here | PyTorch |
//! |---|---|
//! | `Linear.weight` `[in, out]` | `weight` `[out, in]` |
//! | `Conv2d.weight` `[out, in / groups, h, w]` | the same |
//! | `Embedding.weight` `[number, width]` | the same |
//! | `BatchNorm.stats.mean`, `.variance` | `running_mean`, `running_var` |
//! | `MultiHeadAttention.in_proj_weight` `[3 · width, width]`, `.in_proj_bias` | the same |
//! | `MultiHeadAttention.out_proj.weight` `[width, width]`, as in `Linear` | `out_proj.weight`, transposed |
//! | `TransformerBlock.attention`, the other fields | `self_attn`, the same names |
//! | `DecoderBlock`: the fields of Llama's layers, `self_attn.q_proj.weight` as in `Linear` | the same names, transposed |
//! | `ConvTranspose2d.weight` `[in, out / groups, h, w]` | the same |
//! | `RnnCell`, `GruCell`, `LstmCell` | the same |
//! | `Lstm.forward.0.weight_ih`, `Lstm.reverse.0.weight_ih` | `weight_ih_l0`, `weight_ih_l0_reverse` |

#![forbid(unsafe_code)]

mod activation;
mod attention;
mod block;
mod cache;
mod check;
mod conv;
mod decoder;
mod dropout;
mod embedding;
mod generate;
mod heads;
mod linear;
mod lora;
mod mixture;
mod norm;
mod recurrent;
mod recurrent_network;
mod rotary;
mod sampling;
mod transformer;

pub use activation::Activation;
pub use attention::MultiHeadAttention;
pub use block::{Block, Sequential};
pub use cache::{Cache, LayerPast, Past};
pub use conv::{Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d};
pub use decoder::{DecoderBlock, GatedFeedForward, GroupedQueryAttention};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use generate::Generation;
pub use linear::Linear;
pub use lora::{Adapters, LoRA, LowRank};
pub use mixture::{Mixture, MixtureOfExperts};
pub use norm::{BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RmsNorm};
pub use recurrent::{GruCell, LstmCell, RnnCell, gru_cell, lstm_cell, rnn_cell};
pub use recurrent_network::{Gru, Lstm, Recurrent, RecurrentCell, Rnn};
pub use rotary::Rotary;
pub use sampling::Sampling;
pub use transformer::TransformerBlock;
