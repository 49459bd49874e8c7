//! `dl`: monadic deep learning. Networks whose shape depends on their own values, as ordinary Rust.
//!
//! You write functions over *layers*: immutable, lazy, typed differentiable expressions. In a function marked
//! [`#[differentiable]`](differentiable), `!layer` gets at the forward value, to be used in plain `if`, `match`, `while`. Independent
//! parts run in parallel, forward and backward; what is not taken costs nothing; results are bit-identical for any number of
//! threads; a training step happens whole or not at all.
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
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | [`Layer<T>`](Layer) | a differentiable expression whose forward value is a `T`: immutable, lazy, cheap to clone |
//! | [`Weight<T>`](Weight) | a trainable variable |
//! | [`Differentiable`] | the type class: anything with data, a delta and a forward |
//! | [`Do<T>`](Do) | a deferred, asynchronous computation: a recipe that can be run again and again |
//! | [`Tape`] | a forward value together with its backward |
//! | `!x` | the bang: run `x` forward and hand back its data, detached |
//! | pass | one `predict`, `train` or `forward` and everything it evaluates |
//! | [`Primitive`] | an operation with a kernel and a derivative rule of its own |
//!
//! # What a pass carries
//!
//! Settings of the pass that a computation starts are methods of [`Do`]: [`seed`](Do::seed) for random numbers ([`Seed`]), [`mode`](Do::mode) to train or to
//! evaluate ([`Mode`]), [`on`](Do::on) for the weights of another moment ([`Snapshot`]); [`counted`](Do::counted) tells what the pass did
//! ([`Counters`]), [`recorded`](Do::recorded) how it did it ([`record`]). [`Buffer`] is state that is not trained but written by the steps that train. All of it is in the example `pass_state`.

#![forbid(unsafe_code)]

pub use dl_core::*;
#[cfg(feature = "data")]
pub use dl_data as data;
pub use dl_macros::{Layers, Module, Variables, differentiable, direct};
pub use dl_nd as nd;
pub use dl_nn as nn;
#[cfg(feature = "train")]
pub use dl_train as train;
#[cfg(feature = "view")]
pub use dl_view as view;

/// What most programs need: `use dl::prelude::*`.
pub mod prelude {
    pub use crate::{Layers, Module, Variables, differentiable, direct};
    pub use dl_core::{Adadelta, Adagrad, Adam, AdamW, Groups, Lion, NAdam, Optimizer, RAdam, RmsProp, Sgd};
    pub use dl_core::{Buffer, Mode, Seed, Snapshot, derivative, max, min, pow, with_rule};
    pub use dl_core::{Differentiable, Do, Error, Layer, SideEffects, Tape, Weight};
    pub use dl_nd::ndarray::{Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, IxDyn};
    pub use dl_nd::{
        Attention, BatchMean, Bce, Conv, CrossEntropy, Each, Mean, Nd, NdExpression, NdLayer, NdWeight, Pool,
        RunningStats, Sum, Table, ops::*,
    };
    #[cfg(feature = "view")]
    pub use dl_view::Draw;
}
