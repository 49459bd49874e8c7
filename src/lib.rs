//! `dl`: monadic deep learning. Networks whose shape depends on their own values, as ordinary Rust.
//!
//! You write functions over *layers*: immutable, lazy, typed differentiable expressions. In a
//! function marked [`#[differentiable]`](differentiable), `!layer` extracts the forward value, for
//! use in plain `if`, `match`, `while`. Independent parts run in parallel, forward and backward;
//! branches that are not taken cost nothing; results are bit-identical for any number of threads; a
//! training step is atomic.
//!
//! ```
//! use dl::prelude::*;
//!
//! /// |w|, decided by the value of w.
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
//! Start with the [`guide`]: [a first weight](guide::first_weight) takes ten minutes.
//!
//! | task | items | in the guide |
//! |---|---|---|
//! | compute and differentiate | [`Layer`], [`Weight`], [`Differentiable`]: [`predict`](Differentiable::predict), [`train`](Differentiable::train) | [layers](guide::layers) |
//! | decide by values | `!x` in [`#[differentiable]`](differentiable) functions and [`direct!`] blocks | [bangs](guide::bangs), [dynamic networks](guide::dynamic) |
//! | work with tensors | [`Nd`](nd::Nd), the table of [operations](nd::operations), [initial weights](nd::init) | [tensors](guide::tensors) |
//! | build networks | [`#[derive(Module)]`](macro@Module), the layers of [`nn`] | [modules](guide::modules) |
//! | train | [`Sgd`], [`Adam`], [`AdamW`] and [others](Optimizer), [gradient transformations](plugins), [`schedule`]s | [training](guide::training) |
//! | read data | `data`: sets, loaders, CSV, NumPy, images (feature `data`) | [training](guide::training) |
//! | save, log and draw | `train`: checkpoints, a trainer, metrics, curves (feature `train`) | [training](guide::training) |
//! | differentiate derivatives | [`gradient`](Layer::gradient), [`hvp`](Layer::hvp), [`jvp`](Layer::jvp), [`hessian`](nd::DerivativeOps::hessian), [`derivative`], [`Dual`] | [derivatives](guide::derivatives) |
//! | add an operation or a type | [`Primitive`], [`with_rule`], [`Data`], [`Trainable`] | [your own](guide::your_own) |
//! | set up a pass | [`seed`](Do::seed), [`mode`](Do::mode), [`on`](Do::on) a [`Snapshot`], [`Buffer`] | [settings and state](guide::pass_state) |
//! | inspect a pass | [`counted`](Do::counted), [`recorded`](Do::recorded), pictures and costs (feature `view`), [`first_non_finite`](Layer::first_non_finite), [`Error::place`], [`Error::calls`] | [inspecting](guide::seeing), [performance](guide::performance) |
//! | understand an error | [`Error`] | [errors](guide::errors), [compiler messages](guide::compile_errors) |
//! | compare with other libraries | | [coming from elsewhere](guide::coming_from) |
//!
//! # Terms
//!
//! | term | meaning |
//! |---|---|
//! | [`Layer<T>`](Layer) | a differentiable expression with a forward value of type `T`: immutable, lazy, cheap to clone |
//! | [`Weight<T>`](Weight) | a trainable variable |
//! | [`Differentiable`] | any type with data, a delta and a forward evaluation |
//! | [`Do<T>`](Do) | a deferred, asynchronous computation: a recipe that can be run again |
//! | [`Tape`] | a forward value together with its backward |
//! | `!x` | the bang: run `x` forward and return its data, detached |
//! | pass | one `predict`, `train` or `forward`, and everything it evaluates |
//! | [`Primitive`] | an operation with a kernel and a derivative rule of its own |
//!
//! # Features
//!
//! No feature is enabled by default.
//!
//! | feature | adds |
//! |---|---|
//! | `data` | data sets, loaders and readers, as `dl::data` |
//! | `images` | folders of PNG and JPEG files as data sets; implies `data` |
//! | `npy` | tensors as `.npy` files: `Nd::read_npy`, `write_npy` |
//! | `train` | checkpoints, the trainer, metrics and logs, as `dl::train` |
//! | `terminal` | a progress bar and Ctrl-C for the trainer; implies `train` |
//! | `plot` | curves of a run as SVG and PNG; implies `train` |
//! | `tracing` | passes, kernels and steps as spans of the crate `tracing` |
//! | `view` | pictures of passes, costs by line of source, traces of threads, as `dl::view` |
//!
//! The minimum supported Rust version is 1.95. Computation is on the CPU, in `f32` and `f64`.

#![forbid(unsafe_code)]

pub mod guide;
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use dl_core::*;
#[cfg(feature = "data")]
pub use dl_data as data;
/// A lazy function returns a struct of layers.
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
/// The weights and buffers of a struct, by the names of its fields.
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
/// A derivative with respect to all fields of a struct.
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
/// Functions that decide by forward values: bang notation.
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
/// Bang notation in a block, inside an ordinary function.
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

/// What most programs need: `use dl::prelude::*`.
pub mod prelude {
    pub use crate::{Layers, Module, Variables, differentiable, direct};
    pub use dl_core::Optimizer;
    pub use dl_core::{Buffer, Mode, Seed, Snapshot, derivative, max, min, pow, with_rule};
    pub use dl_core::{Differentiable, Do, Error, Layer, SideEffects, Tape, Weight};
    pub use dl_nd::ndarray::{Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, IxDyn};
    pub use dl_nd::{
        Attention, BatchMean, Bce, Conv, CrossEntropy, Each, Mean, Nd, NdExpression, NdLayer, NdWeight, Pool,
        RunningStats, Sum, Table, ops::*,
    };
    pub use dl_optim::{Adadelta, Adagrad, Adam, AdamW, Groups, Lion, NAdam, OptimizerExt, RAdam, RmsProp, Sgd};
    #[cfg(feature = "view")]
    pub use dl_view::Draw;
}
