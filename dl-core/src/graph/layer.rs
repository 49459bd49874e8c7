//! The typed handle to a node. The methods that users call are in `api/layer.rs`.

use crate::graph::data::Data;
use crate::graph::node::Expression;
use crate::graph::node_ref::AnyLayer;
use std::fmt;
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
    any: AnyLayer,
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
    pub(crate) fn from_any(any: AnyLayer) -> Self {
        Layer { any, data: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn into_any(self) -> AnyLayer {
        self.any
    }

    pub(crate) fn any(&self) -> &AnyLayer {
        &self.any
    }
}

impl<T: Data> Layer<T> {
    #[inline(always)]
    #[track_caller]
    pub(crate) fn from_expression(expression: Expression) -> Self {
        Self::from_any(AnyLayer::new::<T>(expression, Location::caller()))
    }

    /// Constructs the expression in place: moving it would be a large part of the cost of a scalar
    /// operation.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn from_expression_with(make: impl FnOnce() -> Expression) -> Self {
        Self::from_any(AnyLayer::making::<T>(make, Location::caller()))
    }
}
