//! Marks between which a training pass forgets its values, and evaluates them again when the
//! backward gets there.
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
//! The *segment* of a mark is what lies between the marked layer and the marks, weights, constants
//! and other leaves below it. Going forward, the pass closes a segment when the marked layer is
//! done (`pass/segment.rs`). Going back, the walk gathers what has no value into groups, each of
//! which is evaluated again when a delta arrives at it (`group.rs`); what a group hands on is not
//! known before that (`perhaps.rs`).

use crate::api::layer::Layer;
use crate::error::Result;
use crate::graph::data::Data;
use crate::graph::inline_box::Kept;
use crate::graph::node::Expression;
use crate::graph::node_ref::AnyLayer;
use crate::graph::op::{AnyAlong, AnyAt, AnyPrimitive, Few};
use crate::graph::value::Value;
use smallvec::smallvec;
use std::any::Any;

impl<T: Data> Layer<T> {
    /// This layer. A training pass keeps its value, and forgets what it was computed from: the
    /// values of all layers between this one and the marks, weights and constants below it. When
    /// the backward gets here, they are evaluated again.
    ///
    /// A chain of n operations with a mark every √n needs memory for some √n values instead of n,
    /// and takes a step in some 1.2 to 1.4 times the time. Gradients are the same to the last bit.
    /// In `predict` a mark does nothing, unless a derivative is taken there.
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
    /// Each operation between two marks runs twice in a step; the marked one, and what lies above
    /// the last mark, once. Random layers, weights and buffers have the values that they had
    /// before, and a dynamic layer stays what it has turned out to be: its body does not run again.
    ///
    /// What is used on both sides of a mark, or in two segments, is kept as if it were marked
    /// itself. So is what somebody has a handle to besides the layers that use it: a variable of
    /// yours that is still alive, the body of a dynamic layer (`dropout` is one), or a layer that
    /// was looked at by a bang. What no trained weight depends on is not evaluated again. A
    /// gradient that is a layer is right, to any order, but keeps the values that come back.
    /// Several uses of one weight each have a delta, and these are kept until all are summed.
    #[track_caller]
    pub fn checkpoint(&self) -> Layer<T> {
        Layer::from_expression(Expression::Primitive(Kept::operation(Mark([self.any().clone()]))))
    }
}

/// x ↦ x. What it does to the values below it, the pass does.
struct Mark([AnyLayer; 1]);

impl AnyPrimitive for Mark {
    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn operands(&self) -> &[AnyLayer] {
        &self.0
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        Ok(operands[0].clone())
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        20.0
    }

    fn pullback(&self, at: AnyAt<'_>) -> Few<Option<AnyLayer>> {
        smallvec![Some(at.delta)]
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<AnyLayer> {
        along.tangents[0].clone()
    }

    fn is_mark(&self) -> bool {
        true
    }
}
