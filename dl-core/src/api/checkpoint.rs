//! Gradient checkpointing: a training pass discards the values between two checkpoints, and
//! recomputes (rematerializes) them when the backward pass needs them.
//!
//! ```
//! use dl_core::{Differentiable, Layer, Weight};
//! use dl_optim::Sgd;
//! let weights: Vec<Weight<f64>> = (0..100).map(|_| Weight::new(1.0)).collect();
//! let mut h = Layer::constant(1.0);
//! for (number, w) in weights.iter().enumerate() {
//!     h = (w * h).tanh();
//!     if number % 10 == 9 {
//!         h = h.checkpoint();
//!     }
//! }
//! h.train(&Sgd::new(0.1)).wait()?;
//! # dl_core::Result::Ok(())
//! ```
//!
//! The *segment* of a checkpoint consists of the nodes between the checkpointed layer and the
//! checkpoints, weights, constants and other leaves below it. In the forward pass the executor
//! closes a segment when the checkpointed layer is completed. The backward pass collects nodes
//! without values into groups (`autodiff/remat_group.rs`) and recomputes a group when a delta
//! arrives at it. Until then it is unknown which deltas the group passes on
//! (`autodiff/optional_cotangent.rs`).

use crate::graph::data::Data;
use crate::graph::identity::{Effect, with_effect};
use crate::graph::layer::Layer;

impl<T: Data> Layer<T> {
    /// This layer as a checkpoint. A training pass retains its value and discards the values that
    /// it was computed from: those of all layers between this one and the checkpoints, weights and
    /// constants below it. They are recomputed when the backward pass reaches this layer.
    ///
    /// A chain of n operations with a checkpoint every √n retains about √n values instead of n. A
    /// training step takes 1.2 to 1.4 times as long. Gradients are bit-identical. In `predict` a
    /// checkpoint has no effect, unless a derivative is taken there.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// use dl_optim::Sgd;
    /// fn block(x: Layer<f64>, w: &Weight<f64>) -> Layer<f64> {
    ///     (x * w).tanh() + 1.0
    /// }
    /// let (u, v) = (Weight::new(0.5), Weight::new(2.0));
    /// let net = |x: f64| block(block(Layer::constant(x), &u).checkpoint(), &v).checkpoint();
    /// net(0.3).train(&Sgd::new(0.1)).wait()?;
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// In a step each operation between two checkpoints runs twice. The checkpointed operation, and
    /// those above the last checkpoint, run once. Random layers, weights and buffers keep the
    /// values that they had in the forward pass. A dynamic layer keeps the layer that it resolved
    /// to: its body does not run again.
    ///
    /// A value is retained as if its layer were a checkpoint in two cases: it is used on both sides
    /// of a checkpoint or in two segments, or its layer has a handle other than those of the layers
    /// that use it. Such a handle is a variable that is still alive, the body of a dynamic layer
    /// (`dropout` is one), or an extraction by `!`. Values that no trained weight depends on are
    /// not recomputed. A gradient that is a layer is exact, to any order, but retains the
    /// recomputed values. If a weight has several uses, the delta of each use is retained until all
    /// are summed.
    #[track_caller]
    pub fn checkpoint(&self) -> Layer<T> {
        with_effect(Effect::Checkpoint, [self.any().clone()])
    }
}
