//! `dl`: monadic deep learning, dynamic neural networks in ordinary Rust.
//!
//! A program composes functions over *layers*: immutable, lazy, typed differentiable expressions.
//! In a function marked [`#[differentiable]`](differentiable), `!layer` extracts the forward value
//! for use in a plain `if`, `match` or `while`.
//!
//! - Independent parts run in parallel, forward and backward. Results are bit-identical for any
//!   number of threads.
//! - A branch that is not taken is never built.
//! - A training step is atomic: it changes all weights or none.
//!
//! ```
//! use dl::prelude::*;
//!
//! /// |w|, by a decision on the value of w.
//! #[differentiable]
//! fn magnitude(w: &Weight<f64>) -> Layer<f64> {
//!     if !w > 0.0 { w.layer() } else { -w }
//! }
//!
//! let w = Weight::new(-2.0);
//! assert_eq!(magnitude(&w).predict().wait()?, 2.0);
//! magnitude(&w).train(&Sgd::new(0.5)).wait()?;
//! assert_eq!(w.value(), -1.5);
//! # dl::Result::Ok(())
//! ```
//!
//! # Overview
//!
//! Start with the [`guide`]: [a first weight](guide::first_weight) takes ten minutes. Its chapter
//! [coming from elsewhere](guide::coming_from) compares `dl` with other libraries.
//!
//! - Compute and differentiate ([layers](guide::layers)): [`Layer`], [`Weight`], [`Differentiable`]
//!   with [`predict`](Differentiable::predict) and [`train`](Differentiable::train).
//! - Decide by values ([bangs](guide::bangs), [dynamic networks](guide::dynamic)): `!x` in
//!   [`#[differentiable]`](differentiable) functions and [`direct!`] blocks.
//! - Work with tensors ([tensors](guide::tensors)): [`Nd`](nd::Nd), the table of
//!   [operations](nd::operations), [initial weights](nd::init).
//! - Build networks ([modules](guide::modules)): [`#[derive(Module)]`](macro@Module), the layers of
//!   [`nn`].
//! - Train ([training](guide::training)): [`Sgd`], [`Adam`], [`AdamW`] and
//!   [other optimizers](Optimizer), [gradient transformations](plugins), [`schedule`]s; data sets,
//!   loaders and readers in `data` (feature `data`); checkpoints, a trainer, metrics and curves in
//!   `train` (feature `train`).
//! - Load weights of PyTorch ([pretrained models](guide::pretrained)): `Load::torch` in `train`.
//! - Differentiate derivatives ([derivatives](guide::derivatives)): [`gradient`](Layer::gradient),
//!   [`hvp`](Layer::hvp), [`jvp`](Layer::jvp), [`hessian`](nd::DerivativeOps::hessian),
//!   [`derivative`], [`Dual`].
//! - Add an operation or a type ([your own](guide::your_own)): [`Primitive`], [`with_rule`],
//!   [`Data`], [`Trainable`].
//! - Set the state of a pass ([pass state](guide::pass_state)): [`seed`](Do::seed),
//!   [`mode`](Do::mode), [`on`](Do::on) a [`Snapshot`], [`Buffer`].
//! - Make small networks fast ([compiled functions](guide::compiled)):
//!   `#[differentiable(compiled)]`, [`compiled_functions`].
//! - Inspect a pass ([seeing](guide::seeing), [performance](guide::performance)):
//!   [`counted`](Do::counted), [`recorded`](Do::recorded), pictures and costs (feature `view`),
//!   [`first_non_finite`](Layer::first_non_finite), [`Error::place`], [`Error::calls`].
//! - Understand a message ([errors](guide::errors), [compile errors](guide::compile_errors)):
//!   [`Error`].
//!
//! # Glossary
//!
//! - [`Layer<T>`](Layer): a differentiable expression with a forward value of type `T`; immutable,
//!   lazy, cheap to clone.
//! - [`Weight<T>`](Weight): a trainable variable.
//! - [`Differentiable`]: the type class of everything with data, a delta and a forward pass.
//! - Delta: the type of derivatives with respect to a value, its cotangent.
//! - [`Do<T>`](Do): a deferred, asynchronous computation that can be run repeatedly.
//! - [`Tape`]: a forward value together with its backward pass.
//! - `!x`, the bang: evaluates `x` and extracts its data, detached from the graph.
//! - Pass: one `predict`, `train` or `forward` and everything it evaluates.
//! - [`Primitive`]: an operation with a kernel and a derivative rule.
//!
//! # Features
//!
//! All features are off by default.
//!
//! | feature | adds |
//! |---|---|
//! | `data` | data sets, loaders and readers, as `dl::data` |
//! | `images` | folders of PNG, JPEG, WebP, BMP and GIF files as data sets; implies `data` |
//! | `npy` | tensors as `.npy` files: `Nd::read_npy`, `write_npy` |
//! | `train` | checkpoints, the trainer, metrics and logs, as `dl::train` |
//! | `terminal` | a progress bar and Ctrl-C for the trainer; implies `train` |
//! | `plot` | curves of a run as SVG and PNG; implies `train` |
//! | `dist` | steps on several ranks, threads of one process, as `dl::dist` |
//! | `dist-mpi` | ranks as processes under `mpirun` and `srun`; implies `dist` |
//! | `gpu` | tensors on devices, by OpenCL, as `dl::gpu` |
//! | `tracing` | passes, kernels and steps as spans of the crate `tracing` |
//! | `view` | pictures of passes, costs by source line, traces of threads, as `dl::view` |
//!
//! The minimum supported Rust version is 1.95. Computation is on the CPU, in `f32` and `f64`,
//! and with `gpu` on devices.

#![forbid(unsafe_code)]

pub mod guide;
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use dl_core::*;
#[cfg(feature = "data")]
pub use dl_data as data;
#[cfg(feature = "dist")]
pub use dl_dist as dist;
#[cfg(feature = "gpu")]
pub use dl_gpu as gpu;
/// Lets a lazy function return a struct of layers.
///
/// ```
/// use dl::prelude::*;
///
/// #[derive(Clone, Layers)]
/// struct Both {
///     sum: Layer<f64>,
///     difference: Layer<f64>,
/// }
///
/// #[differentiable(lazy)]
/// fn ordered(a: &Layer<f64>, b: &Layer<f64>) -> Both {
///     let (x, y) = !(a, b);
///     Both { sum: a + b, difference: if x > y { a - b } else { b - a } }
/// }
///
/// let Both { sum, difference } = ordered(&Layer::constant(2.0), &Layer::constant(5.0));
/// assert_eq!(Do::predict((sum, difference)).wait()?, (7.0, 3.0));
/// # dl::Result::Ok(())
/// ```
pub use dl_macros::Layers;
/// Gives access to the weights and buffers of a struct by the names of its fields.
///
/// ```
/// use dl::prelude::*;
///
/// #[derive(Module)]
/// struct Line {
///     slope: Weight<f64>,
///     #[module(rename = "bias")]
///     offset: Weight<f64>,
///     name: String,
/// }
///
/// let line = Line { slope: Weight::new(1.0), offset: Weight::new(0.0), name: "a line".into() };
/// assert_eq!(line.names(), ["slope", "bias"]);
/// assert_eq!(line.parameters(), 2);
/// ```
pub use dl_macros::Module;
/// Derivatives with respect to all fields of a struct.
///
/// ```
/// use dl::prelude::*;
///
/// #[derive(Variables)]
/// struct Line {
///     slope: Weight<f64>,
///     offset: Weight<f64>,
/// }
///
/// let line = Line { slope: Weight::new(2.0), offset: Weight::new(1.0) };
/// let LineGradients { slope, offset } = (3.0 * &line.slope + &line.offset).gradients(&line);
/// assert_eq!(Do::predict((slope, offset)).wait()?, (3.0, 1.0));
/// # dl::Result::Ok(())
/// ```
pub use dl_macros::Variables;
/// Bang notation: functions that depend on forward values.
///
/// ```
/// use dl::prelude::*;
///
/// #[differentiable]
/// fn leaky(x: &Layer<f64>, slope: &Weight<f64>) -> Layer<f64> {
///     if !x > 0.0 { x.clone() } else { x * slope }
/// }
///
/// let slope = Weight::new(0.1);
/// let y = leaky(&Layer::constant(-2.0), &slope);
/// assert_eq!(y.predict().wait()?, -0.2);
/// assert_eq!(y.gradient(&slope).predict().wait()?, -2.0);
/// # dl::Result::Ok(())
/// ```
pub use dl_macros::differentiable;
/// Bang notation in a block of an ordinary function.
///
/// ```
/// use dl::prelude::*;
///
/// let (x, limit) = (Weight::new(3.0), 2.0);
/// let clipped: Layer<f64> = direct! { if !x > limit { Layer::constant(limit) } else { x.layer() } };
/// assert_eq!(clipped.predict().wait()?, 2.0);
/// # dl::Result::Ok(())
/// ```
pub use dl_macros::direct;
pub use dl_nd as nd;
pub use dl_nn as nn;
pub use dl_optim::*;
#[cfg(feature = "train")]
pub use dl_train as train;
#[cfg(feature = "view")]
pub use dl_view as view;

/// The names that most programs use: `use dl::prelude::*`.
pub mod prelude {
    pub use crate::{Layers, Module, Variables, differentiable, direct};
    pub use dl_core::Optimizer;
    pub use dl_core::{Buffer, Mode, Seed, Snapshot, derivative, max, min, pow, with_rule};
    pub use dl_core::{Differentiable, Do, Error, Layer, SideEffects, Tape, Weight};
    pub use dl_nd::ndarray::{Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, IxDyn};
    pub use dl_nd::{
        Attention, BatchMean, Bce, Conv, CrossEntropy, Ctc, Each, Mean, Nd, NdExpression, NdLayer, NdWeight, Pool,
        RunningStats, Sum, Table, ops::*,
    };
    pub use dl_optim::{Adadelta, Adagrad, Adam, AdamW, Groups, Lbfgs, Lion, NAdam, OptimizerExt, RAdam, RmsProp, Sgd};
    #[cfg(feature = "view")]
    pub use dl_view::Draw;
}
