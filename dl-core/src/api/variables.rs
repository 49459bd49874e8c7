//! Variables that a derivative is taken with respect to.

use crate::api::buffer::Buffer;
use crate::api::differentiable::Differentiable;
use crate::api::weight::Weight;
use crate::autodiff::derivatives::{Derivatives, derivative_at};
use crate::graph::data::{Data, Trainable};
use crate::graph::layer::Layer;
use crate::graph::node_ref::NodeRef;
use std::panic::Location;

/// A value to differentiate with respect to: a weight, a layer or a buffer, or a tuple, an array, a
/// `Vec` or an `Option` of these. For structs use `#[derive(Variables)]`.
///
/// The derivatives have the same structure, with a layer in place of each weight or layer.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// let (a, b) = (Weight::new(2.0_f64), Weight::new(5.0_f64));
/// let (da, db) = (&a * &a * &b).gradients(&(&a, &b));
/// assert_eq!((da.predict().wait()?, db.predict().wait()?), (20.0, 4.0));
///
/// let weights = vec![a, b];
/// let product = &weights[0] * &weights[1];
/// assert_eq!(product.gradients(&weights).len(), 2);
/// # dl_core::Result::Ok(())
/// ```
///
/// For a user type, define how its parts are mapped:
///
/// ```
/// use dl_core::{Differentiable, EachVariable, Layer, Variables, Weight};
/// struct Line {
///     slope: Weight<f64>,
///     offset: Weight<f64>,
/// }
/// impl Variables for Line {
///     type Gradients = (Layer<f64>, Layer<f64>);
///     fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
///         (each.variable(&self.slope), each.variable(&self.offset))
///     }
/// }
/// let line = Line { slope: Weight::new(2.0), offset: Weight::new(1.0) };
/// let (slope, offset) = (3.0 * &line.slope + &line.offset).gradients(&line);
/// assert_eq!((slope.predict().wait()?, offset.predict().wait()?), (3.0, 1.0));
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "there is no derivative with respect to `{Self}`",
    note = "a derivative is taken with respect to a weight, a layer, or a tuple, array or `Vec` of these; for a struct of these, derive `Variables`; `#[variables(skip)]` leaves a field out",
    note = "for the weights of a module, name them, `&(&net.weight, &net.bias)`, or take the deltas of all: `loss.backward()`"
)]
pub trait Variables {
    /// The same structure with the layer of the derivative in place of each weight or layer.
    type Gradients: Variables<Gradients = Self::Gradients>;

    /// Calls [`each.variable`](EachVariable::variable) for each weight and layer, always in the
    /// same order.
    fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients;
}

/// The argument of [`Variables::map`]: puts a derivative in place of each weight and layer.
///
/// ```
/// use dl_core::{EachVariable, Layer, Variables, Weight};
/// struct Scaled(f64, Weight<f64>);
/// impl Variables for Scaled {
///     type Gradients = Layer<f64>;
///     fn map(&self, each: &mut EachVariable<'_>) -> Layer<f64> {
///         each.variable(&self.1) // the number is left out
///     }
/// }
/// # use dl_core::Differentiable;
/// let scaled = Scaled(3.0, Weight::new(2.0));
/// assert_eq!((scaled.0 * &scaled.1).gradients(&scaled).predict().wait()?, 3.0);
/// # dl_core::Result::Ok(())
/// ```
pub struct EachVariable<'a> {
    pub(crate) derivatives: &'a Layer<Derivatives>,
    pub(crate) variables: &'a mut Vec<NodeRef>,
    /// The source location of the call that requested the derivatives.
    pub(crate) place: &'static Location<'static>,
}

impl EachVariable<'_> {
    /// The layer of the derivative with respect to this weight or layer.
    pub fn variable<X: Differentiable + ?Sized>(&mut self, x: &X) -> Layer<X::Delta> {
        self.variables.push(x.layer().into_any());
        derivative_at(self.derivatives, self.variables.len(), self.place) // index 0 is the value
    }
}

impl<T: Data> Variables for Layer<T> {
    type Gradients = Layer<T::Delta>;

    fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
        each.variable(self)
    }
}

impl<T: Trainable> Variables for Weight<T> {
    type Gradients = Layer<T::Delta>;

    fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
        each.variable(self)
    }
}

impl<T: Data> Variables for Buffer<T> {
    type Gradients = Layer<T::Delta>;

    fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
        each.variable(self)
    }
}

impl<V: Variables + ?Sized> Variables for &V {
    type Gradients = V::Gradients;

    fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
        (**self).map(each)
    }
}

impl<V: Variables> Variables for [V] {
    type Gradients = Vec<V::Gradients>;

    fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
        self.iter().map(|variable| variable.map(each)).collect()
    }
}

impl<V: Variables> Variables for Vec<V> {
    type Gradients = Vec<V::Gradients>;

    fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
        self[..].map(each)
    }
}

impl<V: Variables, const N: usize> Variables for [V; N] {
    type Gradients = [V::Gradients; N];

    fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
        self.each_ref().map(|variable| variable.map(each))
    }
}

impl<V: Variables> Variables for Option<V> {
    type Gradients = Option<V::Gradients>;

    fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
        self.as_ref().map(|variable| variable.map(each))
    }
}

impl<V: Variables> Variables for Box<V> {
    /// Boxed, so that a struct may be recursive.
    type Gradients = Box<V::Gradients>;

    fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
        Box::new((**self).map(each))
    }
}

impl<V: Variables + ?Sized> Variables for std::sync::Arc<V> {
    type Gradients = V::Gradients;

    fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
        (**self).map(each)
    }
}

macro_rules! tuples {
    ($($($V:ident $i:tt),+;)*) => {$(
        impl<$($V: Variables),+> Variables for ($($V,)+) {
            type Gradients = ($($V::Gradients,)+);

            fn map(&self, each: &mut EachVariable<'_>) -> Self::Gradients {
                ($(self.$i.map(each),)+)
            }
        }
    )*};
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}
