//! Layers: immutable, lazy, typed differentiable expressions.
//!
//! ```
//! use dl_core::{Differentiable, Layer, Weight};
//! let w = Weight::new(3.0_f64);
//! let y: Layer<f64> = &w * &w + 1.0; // nothing is computed yet
//! assert_eq!(y.predict().wait()?, 10.0);
//! # dl_core::Result::Ok(())
//! ```

use crate::api::applied::Applied;
use crate::api::built_in::BuiltIn;
use crate::api::deferred::{Body, Do};
use crate::api::extract::Extract;
use crate::api::primitive::{Primitive, sealed};
use crate::api::tape::Tape;
use crate::error::Result;
use crate::exec::by_mode::by_mode;
use crate::graph::data::Data;
use crate::graph::inline_box::{InlineBox, InlineFuture};
use crate::graph::layer::{BodyKind, Layer};
use crate::graph::node::{DynamicBody, NodeOp, Outcome};
use crate::graph::seed::Position;
use std::future::Future;
use std::panic::Location;

impl<T: Data> Layer<T> {
    /// The layer of a user-defined operation. See [`Primitive`].
    ///
    /// Errors point to the line of this call. A function that wraps it should be `#[track_caller]`,
    /// so that errors point to the line of its caller.
    ///
    /// ```
    /// use dl_core::{At, Deltas, Differentiable, Layer, Primitive, Result};
    /// struct Twice;
    /// impl Primitive for Twice {
    ///     type Operands = (Layer<f64>,);
    ///     type Output = f64;
    ///     fn name(&self) -> &'static str {
    ///         "twice"
    ///     }
    ///     fn value(&self, (x,): (&f64,)) -> Result<f64> {
    ///         Ok(2.0 * x)
    ///     }
    ///     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
    ///         (Some(2.0 * at.delta),)
    ///     }
    /// }
    /// assert_eq!(Layer::apply(Twice, (Layer::constant(4.0),)).predict().wait()?, 8.0);
    /// # Result::Ok(())
    /// ```
    #[track_caller]
    pub fn apply<P: Primitive<Output = T>>(op: P, operands: P::Operands) -> Self {
        let applied = Applied::<_, false>::new(op, operands);
        Self::from_op(NodeOp::Primitive(InlineBox::operation(applied)))
    }

    /// Applies an operation of the library.
    #[doc(hidden)]
    #[track_caller]
    pub fn apply_built_in<P: BuiltIn<Output = T>>(op: P, operands: P::Operands) -> Self {
        let applied = Applied::<_, true>::new(op, operands);
        Self::from_op(NodeOp::Primitive(InlineBox::operation(applied)))
    }

    /// The operation and its operands, if this layer applies an operation of type `P`.
    /// [`Delta::sum`](crate::Delta::sum) can inspect its terms with it, for instance to merge many
    /// slices of one tensor.
    ///
    /// It is meant for rules that build layers. The pass that evaluates this layer treats an
    /// operand without another handle as part of the operation: extracting the value of such an
    /// operand evaluates it again, and `self.gradient` with respect to it is zero. Keep a handle to
    /// operands that you extract or differentiate.
    ///
    /// ```
    /// use dl_core::{At, Deltas, Layer, Primitive, Result};
    /// struct Shift(f64);
    /// impl Primitive for Shift {
    ///     type Operands = (Layer<f64>,);
    ///     type Output = f64;
    ///     fn name(&self) -> &'static str {
    ///         "shift"
    ///     }
    ///     fn value(&self, (x,): (&f64,)) -> Result<f64> {
    ///         Ok(x + self.0)
    ///     }
    ///     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
    ///         (Some(at.delta.clone()),)
    ///     }
    /// }
    /// let layer = Layer::apply(Shift(2.0), (Layer::constant(1.0),));
    /// assert_eq!(layer.applied::<Shift>().map(|(shift, _)| shift.0), Some(2.0));
    /// assert!(Layer::constant(1.0).applied::<Shift>().is_none());
    /// ```
    pub fn applied<P: Primitive<Output = T>>(&self) -> Option<(&P, P::Operands)> {
        let NodeOp::Primitive(applied) = &self.any().op else { return None };
        let op = applied.op().downcast_ref()?;
        Some((op, sealed::Operands::from_any(applied.operands())))
    }

    /// A dynamic layer, which resolves to another layer in each pass.
    ///
    /// `#[differentiable]` turns a function with bangs into a dynamic layer. `body` is called once
    /// in each pass that needs the value. The gradient flows into the layer that the future
    /// returns.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// let w = Weight::new(-3.0_f64);
    /// let w2 = w.clone();
    /// let magnitude = Layer::dynamic(move || {
    ///     let w = w2.clone();
    ///     async move { Ok(if w.layer().extract().await? > 0.0 { w.layer() } else { -&w }) }
    /// });
    /// assert_eq!(magnitude.predict().wait()?, 3.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn dynamic<F, Fut>(body: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Layer<T>>> + Send + 'static,
    {
        Self::dynamic_of_kind(BodyKind::Closure, Location::caller(), body)
    }

    /// The forward value as a future, detached: no gradient flows through it. The bang (`!`) of
    /// `#[differentiable]` expands to it.
    ///
    /// The future belongs to the pass in which it is first polled.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer};
    /// let x = Layer::constant(-3.0_f64);
    /// let magnitude = Layer::dynamic(move || {
    ///     let x = x.clone();
    ///     async move { Ok(if x.extract().await? < 0.0 { -&x } else { x }) }
    /// });
    /// assert_eq!(magnitude.predict().wait()?, 3.0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn extract(&self) -> Extract<T> {
        Extract::new(self.any().clone())
    }
}

impl<T: Data> Layer<T> {
    /// A layer that resolves to `train` in training mode and to `evaluate` otherwise. Both are built
    /// by the caller, so that their errors have its source location.
    #[doc(hidden)]
    #[track_caller]
    pub fn by_mode(train: Self, evaluate: Self) -> Self {
        let branches = [train.into_any(), evaluate.into_any()];
        Self::from_op(by_mode(branches, Position::next()))
    }
}

/// A layer with the value and the backward pass of the tape that the computation returns.
impl<T: Data> From<Do<Tape<T, T::Delta>>> for Layer<T> {
    #[track_caller]
    fn from(forward: Do<Tape<T, T::Delta>>) -> Self {
        struct TapeBody<T: Data>(Body<Tape<T, T::Delta>>, Position);

        impl<T: Data> DynamicBody for TapeBody<T> {
            fn run(&self) -> InlineFuture<Result<Outcome>> {
                self.0.start(Tape::into_outcome)
            }

            fn name(&self) -> &'static str {
                "layer from a computation"
            }

            fn position(&self) -> Position {
                self.1
            }
        }

        Self::from_op(NodeOp::Dynamic(InlineBox::body(TapeBody(forward.into_body(), Position::next()))))
    }
}

/// A layer with the result of a deferred computation as its value. No gradient flows into it.
impl<T: Data> From<Do<T>> for Layer<T> {
    #[track_caller]
    fn from(value: Do<T>) -> Self {
        struct ValueBody<T>(Body<T>, Position);

        impl<T: Data> DynamicBody for ValueBody<T> {
            fn run(&self) -> InlineFuture<Result<Outcome>> {
                self.0.start(|data| Outcome::Tape(data.into_value(), None))
            }

            fn name(&self) -> &'static str {
                "computation"
            }

            fn position(&self) -> Position {
                self.1
            }
        }

        Self::from_op(NodeOp::Dynamic(InlineBox::body(ValueBody(value.into_body(), Position::next()))))
    }
}
