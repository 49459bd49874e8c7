//! The typed handle to a node, and its constructors. Other methods that users call are in
//! `api/layer.rs`.

use crate::error::Result;
use crate::graph::data::Data;
use crate::graph::inline_box::{InlineBox, InlineFuture};
use crate::graph::node::{DynamicBody, NodeOp, Outcome};
use crate::graph::node_ref::NodeRef;
use crate::graph::seed::Position;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;

/// A differentiable expression with a forward value of type `T`.
///
/// A layer is built by operators and functions from other layers, [weights](crate::Weight) and
/// plain values. Building computes nothing; each [`predict`](crate::Differentiable::predict) or
/// [`train`](crate::Differentiable::train) evaluates the layer anew. A layer is cheap to clone, and
/// all clones are the same expression: one pass evaluates it at most once.
#[must_use = "a layer is lazy: nothing is computed until it is predicted or trained"]
pub struct Layer<T> {
    any: NodeRef,
    data: PhantomData<fn() -> T>,
}

impl<T> Clone for Layer<T> {
    fn clone(&self) -> Self {
        Layer { any: self.any.clone(), data: PhantomData }
    }
}

impl<T> fmt::Debug for Layer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layer({} at {})", self.any.name(), self.any.place)
    }
}

impl<T> Layer<T> {
    #[inline(always)]
    pub(crate) fn from_any(any: NodeRef) -> Self {
        Layer { any, data: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn into_any(self) -> NodeRef {
        self.any
    }

    pub(crate) fn any(&self) -> &NodeRef {
        &self.any
    }
}

impl<T: Data> Layer<T> {
    #[inline(always)]
    #[track_caller]
    pub(crate) fn from_op(op: NodeOp) -> Self {
        Self::from_any(NodeRef::new::<T>(op, Location::caller()))
    }

    /// Constructs the expression in place: moving it would be a large part of the cost of a scalar
    /// operation.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn from_op_with(make: impl FnOnce() -> NodeOp) -> Self {
        Self::from_any(NodeRef::making::<T>(make, Location::caller()))
    }

    /// A plain value as a layer. No gradient flows to it.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer};
    /// assert_eq!(Layer::constant(2.0_f32).predict().wait()?, 2.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn constant(value: T) -> Self {
        Self::from_op(NodeOp::constant(value.into_value()))
    }

    /// A plain value as a layer with this source location.
    pub(crate) fn constant_at(value: T, place: &'static Location<'static>) -> Self {
        Self::from_any(NodeRef::new::<T>(NodeOp::constant(value.into_value()), place))
    }

    /// A dynamic layer of this kind, with this source location.
    pub(crate) fn dynamic_of_kind<F, Fut>(kind: BodyKind, place: &'static Location<'static>, body: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Layer<T>>> + Send + 'static,
    {
        struct TypedBody<F>(F, Position, BodyKind);

        impl<F, Fut, T> DynamicBody for TypedBody<F>
        where
            F: Fn() -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<Layer<T>>> + Send + 'static,
        {
            fn run(&self) -> InlineFuture<Result<Outcome>> {
                let run = (self.0)();
                InlineBox::future(async move { run.await.map(|layer| Outcome::Layer(layer.into_any())) })
            }

            fn name(&self) -> &'static str {
                match self.2 {
                    BodyKind::Function | BodyKind::Closure => "differentiable function",
                    BodyKind::Derivatives => "derivatives",
                    BodyKind::Derivative => "derivative",
                }
            }

            fn is_function(&self) -> bool {
                matches!(self.2, BodyKind::Function)
            }

            fn is_internal(&self) -> bool {
                matches!(self.2, BodyKind::Derivatives | BodyKind::Derivative)
            }

            fn position(&self) -> Position {
                self.1
            }
        }

        let typed_body = TypedBody(body, Position::next(), kind);
        Self::from_any(NodeRef::new::<T>(NodeOp::Dynamic(InlineBox::body(typed_body)), place))
    }
}

/// The kind of body that a dynamic layer runs.
#[derive(Clone, Copy)]
pub(crate) enum BodyKind {
    /// The body of an annotated function.
    Function,
    /// A user closure without a name.
    Closure,
    /// All derivatives of one call.
    Derivatives,
    /// One of these derivatives.
    Derivative,
}
