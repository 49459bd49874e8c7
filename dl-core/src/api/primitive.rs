//! Operations with their own kernel and derivative rule.
//!
//! ```
//! use dl_core::{At, Differentiable, Layer, Primitive, Result, Weight};
//!
//! /// x³, written by hand.
//! struct Cube;
//!
//! impl Primitive for Cube {
//!     type Operands = (Layer<f64>,);
//!     type Output = f64;
//!     fn name(&self) -> &'static str {
//!         "cube"
//!     }
//!     fn value(&self, (x,): (&f64,)) -> Result<f64> {
//!         Ok(x * x * x)
//!     }
//!     fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
//!         let (x,) = at.operands;
//!         (Some(at.delta * 3.0 * x * x),)
//!     }
//! }
//!
//! let w = Weight::new(2.0);
//! let cube = Layer::apply(Cube, (w.layer(),));
//! assert_eq!(cube.train(&dl_optim::Sgd::new(1.0)).wait()?, 8.0);
//! assert_eq!(w.value(), 2.0 - 12.0);
//! # Result::Ok(())
//! ```

use crate::autodiff::forward;
use crate::error::Result;
use crate::graph::data::Data;
use crate::graph::layer::Layer;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyAlong, OperandVec};
use crate::graph::value::Value;
use smallvec::smallvec;

/// An operation with a kernel and a rule: how to compute its value, and how to pull back a delta.
///
/// ```
/// use dl_core::{At, Deltas, Differentiable, Layer, Primitive, Result, Weight};
///
/// /// The sum of many numbers, as one operation.
/// struct Total;
///
/// impl Primitive for Total {
///     type Operands = Vec<Layer<f64>>;
///     type Output = f64;
///     fn name(&self) -> &'static str {
///         "total"
///     }
///     fn value(&self, numbers: Vec<&f64>) -> Result<f64> {
///         Ok(numbers.into_iter().sum())
///     }
///     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
///         at.operands.iter().map(|_| Some(at.delta.clone())).collect()
///     }
///     fn cost(&self, numbers: Vec<&f64>) -> f64 {
///         numbers.len() as f64 // nanoseconds
///     }
/// }
///
/// let weights = [1.0, 2.0, 3.0].map(Weight::new);
/// let total = Layer::apply(Total, weights.iter().map(|w| w.layer()).collect());
/// assert_eq!(total.predict().wait()?, 6.0);
/// assert_eq!(total.gradient(&weights[1]).predict().wait()?, 1.0);
/// # Result::Ok(())
/// ```
pub trait Primitive: Send + Sync + Sized + 'static {
    /// The operand layers: a tuple of one to three, or a `Vec` of layers of the same type.
    type Operands: Operands;
    /// The type of its value.
    type Output: Data;

    /// The name, for error messages.
    fn name(&self) -> &'static str;

    /// Computes the value.
    ///
    /// # Errors
    /// For operands that do not fit. The executor adds the name and the source location of the
    /// operation.
    fn value(&self, operands: <Self::Operands as sealed::Operands>::Values<'_>) -> Result<Self::Output>;

    /// The deltas of the operands, as lazy layers; `None` where no gradient flows.
    ///
    /// Deltas that no weight needs are never computed. A pullback builds layers and computes
    /// nothing: it runs under the state lock of the pass, so it must not call `backward` on a tape
    /// of that pass.
    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self>;

    /// The Jacobian-vector product: the tangent of the value for these tangents of the operands, as
    /// a lazy layer; `None` if it is zero.
    ///
    /// The default is correct for every operation: a pullback is linear in the delta, and its
    /// transpose is the pushforward. It evaluates the pullback, too, so implement this method where
    /// the pushforward is simple:
    /// - For a linear operation, apply the operation itself to the tangent.
    /// - For an operation that is linear in each operand, sum over the operands, each replaced by
    ///   its tangent.
    /// - For a symmetric Jacobian (as of a pointwise operation), use the [pullback with the tangent
    ///   as its delta](Along::at).
    ///
    /// ```
    /// use dl_core::{Along, At, Deltas, Layer, Primitive, Result, Weight, Differentiable};
    /// struct Triple;
    /// impl Primitive for Triple {
    ///     type Operands = (Layer<f64>,);
    ///     type Output = f64;
    ///     fn name(&self) -> &'static str {
    ///         "triple"
    ///     }
    ///     fn value(&self, (x,): (&f64,)) -> Result<f64> {
    ///         Ok(3.0 * x)
    ///     }
    ///     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
    ///         (Some(at.delta * 3.0),)
    ///     }
    ///     fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<f64>> {
    ///         Some(Layer::apply(Triple, (along.tangents.0.clone()?,)))
    ///     }
    /// }
    /// let w = Weight::new(5.0);
    /// let tangent = Layer::apply(Triple, (w.layer(),)).jvp(&w, &Layer::constant(7.0));
    /// assert_eq!(tangent.predict().wait()?, 21.0);
    /// # Result::Ok(())
    /// ```
    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<<Self::Output as Data>::Delta>> {
        along.transposed(self)
    }

    /// The estimated time of [`value`](Primitive::value) in nanoseconds. Sufficiently expensive
    /// work is offered to other threads.
    fn cost(&self, operands: <Self::Operands as sealed::Operands>::Values<'_>) -> f64 {
        let _ = operands;
        1_000.0
    }
}

/// The result type of the pullback of `P`: a tuple with an optional layer for each operand, for
/// instance `(Option<Layer<f64>>, Option<Layer<f64>>)`, or a `Vec` of optional layers.
///
/// ```
/// use dl_core::{At, Deltas, Layer, Primitive, Result};
/// struct Difference;
/// impl Primitive for Difference {
///     type Operands = (Layer<f64>, Layer<f64>);
///     type Output = f64;
///     fn name(&self) -> &'static str {
///         "difference"
///     }
///     fn value(&self, (a, b): (&f64, &f64)) -> Result<f64> {
///         Ok(a - b)
///     }
///     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
///         (Some(at.delta.clone()), Some(-at.delta))
///     }
/// }
/// ```
pub type Deltas<P> = <<P as Primitive>::Operands as sealed::Operands>::Deltas;

/// The context of a pullback: the operation's operands, its value, and the delta of its value.
///
/// ```
/// use dl_core::{At, Deltas, Layer, Primitive, Result};
/// struct Square;
/// impl Primitive for Square {
///     type Operands = (Layer<f64>,);
///     type Output = f64;
///     fn name(&self) -> &'static str {
///         "square"
///     }
///     fn value(&self, (x,): (&f64,)) -> Result<f64> {
///         Ok(x * x)
///     }
///     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
///         (Some(at.delta * 2.0 * &at.operands.0),) // the layer, not its value
///     }
/// }
/// # use dl_core::{Differentiable, Weight};
/// # let w = Weight::new(3.0);
/// # let y = Layer::apply(Square, (w.layer(),));
/// # assert_eq!(y.gradient(&w).gradient(&w).predict().wait()?, 2.0);
/// # Result::Ok(())
/// ```
pub struct At<'a, P: Primitive> {
    /// The operands.
    pub operands: &'a P::Operands,
    /// The values of the operands, for their shapes. A delta that *depends* on a value should use
    /// the layer, so that it can be differentiated again.
    pub values: <P::Operands as sealed::Operands>::Values<'a>,
    /// The operation itself as a layer.
    pub output: &'a Layer<P::Output>,
    /// The value of the operation.
    pub value: &'a P::Output,
    /// The delta of its value.
    pub delta: &'a Layer<<P::Output as Data>::Delta>,
}

/// The context of a pushforward: the operation's operands, its value, and the tangents of the
/// operands. See [`Primitive::pushforward`].
///
/// ```
/// use dl_core::{Along, At, Deltas, Differentiable, Layer, Primitive, Result, Weight};
/// struct Half;
/// impl Primitive for Half {
///     type Operands = (Layer<f64>,);
///     type Output = f64;
///     fn name(&self) -> &'static str {
///         "half"
///     }
///     fn value(&self, (x,): (&f64,)) -> Result<f64> {
///         Ok(0.5 * x)
///     }
///     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
///         (Some(at.delta * 0.5),)
///     }
///     fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<f64>> {
///         Some(along.tangents.0.as_ref()? * 0.5)
///     }
/// }
/// let w = Weight::new(5.0);
/// assert_eq!(Layer::apply(Half, (w.layer(),)).jvp(&w, &Layer::constant(4.0)).predict().wait()?, 2.0);
/// # Result::Ok(())
/// ```
pub struct Along<'a, P: Primitive> {
    /// The operands.
    pub operands: &'a P::Operands,
    /// The values of the operands, for their shapes. A tangent that *depends* on a value should use
    /// the layer, so that it can be differentiated again.
    pub values: <P::Operands as sealed::Operands>::Values<'a>,
    /// The operation itself as a layer.
    pub output: &'a Layer<P::Output>,
    /// The value of the operation.
    pub value: &'a P::Output,
    /// The tangents of the operands; `None` means zero. At least one is present.
    pub tangents: &'a Deltas<P>,
    pub(crate) any: &'a AnyAlong<'a>,
}

impl<P: Primitive> Along<'_, P> {
    /// The context of a pullback of the same operation with this delta. A pullback with a symmetric
    /// Jacobian is its own pushforward, with the tangent as its delta.
    ///
    /// ```
    /// use dl_core::{Along, At, Deltas, Differentiable, Layer, Primitive, Result, Weight};
    /// struct Cube;
    /// impl Primitive for Cube {
    ///     type Operands = (Layer<f64>,);
    ///     type Output = f64;
    ///     fn name(&self) -> &'static str {
    ///         "cube"
    ///     }
    ///     fn value(&self, (x,): (&f64,)) -> Result<f64> {
    ///         Ok(x * x * x)
    ///     }
    ///     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
    ///         (Some(at.delta * 3.0 * at.operands.0.square()),)
    ///     }
    ///     fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<f64>> {
    ///         self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    ///     }
    /// }
    /// let w = Weight::new(2.0);
    /// let tangent = Layer::apply(Cube, (w.layer(),)).jvp(&w, &Layer::constant(10.0));
    /// assert_eq!(tangent.predict().wait()?, 120.0);
    /// # Result::Ok(())
    /// ```
    pub fn at<'b>(&'b self, delta: &'b Layer<<P::Output as Data>::Delta>) -> At<'b, P> {
        let values = <P::Operands as sealed::Operands>::values(self.any.values);
        At { operands: self.operands, values, output: self.output, value: self.value, delta }
    }

    /// The pushforward as the transpose of the pullback of `op`: the default of
    /// [`Primitive::pushforward`].
    ///
    /// ```
    /// use dl_core::{Along, At, Deltas, Differentiable, Layer, Primitive, Result, Weight};
    /// struct Power(i32);
    /// impl Primitive for Power {
    ///     type Operands = (Layer<f64>,);
    ///     type Output = f64;
    ///     fn name(&self) -> &'static str {
    ///         "power"
    ///     }
    ///     fn value(&self, (x,): (&f64,)) -> Result<f64> {
    ///         Ok(x.powi(self.0))
    ///     }
    ///     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
    ///         let slope = Layer::apply(Power(self.0 - 1), at.operands.clone());
    ///         (Some(at.delta * slope * f64::from(self.0)),)
    ///     }
    ///     fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<f64>> {
    ///         match self.0 {
    ///             0 => None,
    ///             1 => along.tangents.0.clone(),
    ///             _ => along.transposed(self),
    ///         }
    ///     }
    /// }
    /// let w = Weight::new(2.0);
    /// let tangent = Layer::apply(Power(3), (w.layer(),)).jvp(&w, &Layer::constant(10.0));
    /// assert_eq!(tangent.predict().wait()?, 120.0);
    /// # Result::Ok(())
    /// ```
    pub fn transposed(&self, op: &P) -> Option<Layer<<P::Output as Data>::Delta>> {
        let pullback = |delta: &Layer<_>| op.pullback(&self.at(delta));
        forward::transposed::<P::Output>(self.any, |delta| <P::Operands as sealed::Operands>::deltas(pullback(delta)))
    }
}

/// The operands of a [`Primitive`]: one to three layers in a tuple, or any number in a `Vec`.
///
/// ```
/// use dl_core::{Layer, Operands};
/// fn are_operands<O: Operands>(_: O) {}
/// are_operands((Layer::constant(1.0_f32), Layer::constant(2.0_f64)));
/// are_operands(vec![Layer::constant(1.0_f32); 5]);
/// ```
pub trait Operands: sealed::Operands {}

impl<O: sealed::Operands> Operands for O {}

pub(crate) mod sealed {
    use super::*;

    #[allow(unreachable_pub, reason = "named in the bounds of a public trait, but not to be implemented")]
    pub trait Operands: Send + Sync + 'static {
        type Values<'a>;
        type Deltas;
        /// The type-erased operands: an array or a `Vec`.
        type Erased: AsRef<[NodeRef]> + Send + Sync;
        fn into_any(self) -> Self::Erased;
        fn from_any(operands: &[NodeRef]) -> Self;
        fn values<'a>(values: &[&'a Value]) -> Self::Values<'a>;
        fn deltas(deltas: Self::Deltas) -> OperandVec<Option<NodeRef>>;
        /// The inverse of `deltas`.
        fn from_deltas(deltas: &[Option<NodeRef>]) -> Self::Deltas;
    }
}

macro_rules! tuples {
    ($(($($T:ident $i:tt),+))*) => {$(
        impl<$($T: Data),+> sealed::Operands for ($(Layer<$T>,)+) {
            type Values<'a> = ($(&'a $T,)+);
            type Deltas = ($(Option<Layer<$T::Delta>>,)+);
            type Erased = [NodeRef; [$($i),+].len()];
            fn into_any(self) -> Self::Erased {
                [$(self.$i.into_any()),+]
            }
            fn from_any(operands: &[NodeRef]) -> Self {
                ($(Layer::from_any(operands[$i].clone()),)+)
            }
            fn values<'a>(values: &[&'a Value]) -> Self::Values<'a> {
                ($(values[$i].get::<$T>(),)+)
            }
            fn deltas(deltas: Self::Deltas) -> OperandVec<Option<NodeRef>> {
                smallvec![$(deltas.$i.map(Layer::into_any)),+]
            }
            fn from_deltas(deltas: &[Option<NodeRef>]) -> Self::Deltas {
                ($(deltas[$i].clone().map(Layer::<$T::Delta>::from_any),)+)
            }
        }
    )*};
}

tuples! { (A 0) (A 0, B 1) (A 0, B 1, C 2) }

impl<T: Data> sealed::Operands for Vec<Layer<T>> {
    type Values<'a> = Vec<&'a T>;
    type Deltas = Vec<Option<Layer<T::Delta>>>;

    type Erased = Vec<NodeRef>;

    fn into_any(self) -> Vec<NodeRef> {
        self.into_iter().map(Layer::into_any).collect()
    }

    fn from_any(operands: &[NodeRef]) -> Self {
        operands.iter().cloned().map(Layer::from_any).collect()
    }

    fn values<'a>(values: &[&'a Value]) -> Vec<&'a T> {
        values.iter().map(|value| value.get()).collect()
    }

    fn deltas(deltas: Self::Deltas) -> OperandVec<Option<NodeRef>> {
        deltas.into_iter().map(|delta| delta.map(Layer::into_any)).collect()
    }

    fn from_deltas(deltas: &[Option<NodeRef>]) -> Self::Deltas {
        deltas.iter().map(|delta| delta.clone().map(Layer::from_any)).collect()
    }
}
