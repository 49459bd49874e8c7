//! The usual layers of networks: plain structs of weights, on the operations of [`dl_nd`].
//!
//! Users add the `monadic-dl` package, which has this crate as `dl::nn`.
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
//! # What all of them have in common
//!
//! - A layer is a struct with public fields. `new` takes sizes, and a generator of random numbers
//!   where weights are drawn, as PyTorch does by default; any other weight can be put into its
//!   field, or [set](dl_core::Weight::set). Sizes that make no sense are errors of `new`.
//!   [`Activation`] and [`Dropout`] are written as they are, and [`Sequential::new`] is empty.
//! - `of` is what the layer does. It is lazy: shapes are looked at when it runs.
//! - Weights are handles: a clone of a layer has the same weights.
//! - `f32` and `f64`: `Linear<f64>`. Which one follows from the field or the operand.
//! - What behaves differently in training asks for the [`Mode`](dl_core::Mode) of the pass: `train`
//!   trains, `predict` evaluates.
//! - [`Module`](dl_core::Module) names the weights. The names are PyTorch's where the weights are.
//!
//! # Layouts
//!
//! As in PyTorch, with one exception: the weight of a [`Linear`] is `[in, out]`, so that it
//! multiplies from the right as it is. Reading or writing a checkpoint of PyTorch, transpose it, as
//! well as `out_proj.weight` of an attention, which is a `Linear`, too; nothing else.
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
//! | `RnnCell`, `GruCell`, `LstmCell` | the same |

#![forbid(unsafe_code)]

mod activation;
mod attention;
mod block;
mod check;
mod conv;
mod dropout;
mod embedding;
mod linear;
mod mixture;
mod norm;
mod recurrent;
mod transformer;

pub use activation::Activation;
pub use attention::MultiHeadAttention;
pub use block::{Block, Sequential};
pub use conv::{Conv1d, Conv2d};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use linear::Linear;
pub use mixture::{Mixture, MixtureOfExperts};
pub use norm::{BatchNorm, GroupNorm, LayerNorm, RmsNorm};
pub use recurrent::{GruCell, LstmCell, RnnCell};
pub use transformer::TransformerBlock;
