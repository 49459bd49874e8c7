//! Operations with a kernel and a derivative rule of their own.
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
//! assert_eq!(cube.train(&dl_core::Sgd::new(1.0)).wait()?, 8.0);
//! assert_eq!(w.value(), 2.0 - 12.0);
//! # Result::Ok(())
//! ```

mod applied;

pub(crate) use applied::{AnyAlong, AnyAt, AnyNow, AnyPrimitive, Applied, Few, UpdateOf};

use crate::data::Data;
use crate::error::Result;
use crate::forward;
use crate::layer::Layer;
use crate::node::AnyLayer;
use crate::reverse::{AnyDelta, Sums};
use crate::value::Value;
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
    /// The layers that it works on: a tuple of one, two or three, or a `Vec` of layers of the same
    /// type.
    type Operands: Operands;
    /// The type of its value.
    type Output: Data;

    /// Its name, for error messages.
    fn name(&self) -> &'static str;

    /// Computes the value.
    ///
    /// # Errors
    /// For operands that do not fit. The runtime adds the name and the place where the user wrote
    /// the operation.
    fn value(&self, operands: <Self::Operands as sealed::Operands>::Values<'_>) -> Result<Self::Output>;

    /// The deltas of the operands, as lazy layers; `None` where no gradient flows.
    ///
    /// A delta that nobody trains on is never computed. A rule writes layers and computes nothing:
    /// it runs while the books of the pass are locked, so it must not call `backward` on a tape of
    /// that pass.
    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self>;

    /// Computes at once what [`pullback`](Primitive::pullback) would write down for a small delta
    /// that is there, and adds it to what has arrived at the operands, from the first to the last:
    /// to the bit what the layers come to. Says whether it has; where there is no such short way,
    /// nothing is added. It is for operations that are [plain](Primitive::IS_PLAIN).
    #[doc(hidden)]
    fn pull_back_now(&self, at: &Now<'_, Self>, sums: &mut Sums<'_>) -> bool {
        let _ = (at, sums);
        false
    }

    /// How the value moves as the operands move along their tangents: the Jacobian times these, as
    /// a lazy layer; `None` if it does not move.
    ///
    /// The default is right for every operation: a pullback is linear in the delta, and its
    /// transpose is the pushforward. It evaluates the pullback on the way. So where the pushforward
    /// is a line, that line is better: the operation itself, applied to the tangent, if it is
    /// linear; the sum of it with one operand after the other replaced by its tangent, if it is so
    /// in each; the pullback [read at the tangent](Along::at), if the Jacobian is symmetric, as
    /// that of a pointwise operation is.
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

    /// Whether [`accumulate`](Primitive::accumulate) is there.
    ///
    /// ```
    /// use dl_core::{At, Deltas, Differentiable, Layer, Primitive, Result, Sgd, Weight};
    ///
    /// /// The product, which can be added to a number without being made.
    /// struct Product;
    ///
    /// impl Primitive for Product {
    ///     type Operands = (Layer<f64>, Layer<f64>);
    ///     type Output = f64;
    ///     const ACCUMULATES: bool = true;
    ///     fn name(&self) -> &'static str {
    ///         "product"
    ///     }
    ///     fn value(&self, (a, b): (&f64, &f64)) -> Result<f64> {
    ///         Ok(a * b)
    ///     }
    ///     fn can_accumulate(&self, _: (&f64, &f64), _: &f64) -> bool {
    ///         true
    ///     }
    ///     fn accumulate(&self, (a, b): (&f64, &f64), factor: f64, to: &mut f64) {
    ///         *to += factor * a * b;
    ///     }
    ///     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
    ///         let times = |x: &Layer<f64>| Some(Layer::apply(Product, (at.delta.clone(), x.clone())));
    ///         (times(&at.operands.1), times(&at.operands.0))
    ///     }
    /// }
    ///
    /// let w = Weight::new(2.0);
    /// Layer::apply(Product, (w.layer(), Layer::constant(3.0))).train(&Sgd::new(0.5)).wait()?;
    /// assert_eq!(w.value(), 0.5);
    /// # Result::Ok(())
    /// ```
    const ACCUMULATES: bool = false;

    /// Whether the value is the sum of the operands, from the first to the last. A term whose
    /// operation [accumulates](Primitive::ACCUMULATES), and which nobody else wants, need not be
    /// made for it: in a step, the delta of a weight that is used many times is added up in one
    /// place.
    ///
    /// ```
    /// use dl_core::{At, Layer, Primitive, Result};
    ///
    /// struct Sum;
    ///
    /// impl Primitive for Sum {
    ///     type Operands = Vec<Layer<f64>>;
    ///     type Output = f64;
    ///     const IS_SUM: bool = true;
    ///     fn name(&self) -> &'static str {
    ///         "sum"
    ///     }
    ///     fn value(&self, terms: Vec<&f64>) -> Result<f64> {
    ///         Ok(terms.into_iter().sum())
    ///     }
    ///     fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<f64>>> {
    ///         vec![Some(at.delta.clone()); at.operands.len()]
    ///     }
    /// }
    /// ```
    const IS_SUM: bool = false;

    /// Whether the kernel is nothing but a computation on its operands: it runs no code of others,
    /// starts no pass, and waits for nobody; it returns errors, and does not panic; its operands
    /// and its result are plain data, whose destructors do nothing; and its cost says when it is
    /// not small. A pass may then run it while its books are locked, on the way forward and on the
    /// way back.
    #[doc(hidden)]
    const IS_PLAIN: bool = false;

    /// Whether the operation is one of the library's. Then a layer that its rule builds is placed
    /// where the operation was applied.
    #[doc(hidden)]
    const IS_BUILT_IN: bool = Self::IS_PLAIN;

    /// Whether the value can wait until the deltas below it are known, and be computed beside them,
    /// where what both read is read once. There are [`slopes`](Primitive::slopes) then.
    #[doc(hidden)]
    const CAN_WAIT: bool = false;

    /// The deltas of the operands where that of the value is 1, without the value; `None` if it is
    /// not worth while to wait for these operands. As a [`pullback`](Primitive::pullback), it
    /// computes nothing.
    #[doc(hidden)]
    fn slopes(&self, operands: <Self::Operands as sealed::Operands>::Values<'_>) -> Option<Deltas<Self>> {
        let _ = operands;
        None
    }

    /// The [`value`](Primitive::value), to the bit, computed beside others that are wanted, too.
    #[doc(hidden)]
    fn value_beside(
        &self,
        operands: <Self::Operands as sealed::Operands>::Values<'_>,
        others: Others<'_>,
    ) -> Result<Self::Output> {
        let _ = others;
        self.value(operands)
    }

    /// Whether the value fits `to`, so that [`accumulate`](Primitive::accumulate) cannot fail; and
    /// whether, with a factor of 1, it gives the bits of the sum of both. Where it does not,
    /// results would depend on who else wants the value.
    fn can_accumulate(&self, operands: <Self::Operands as sealed::Operands>::Values<'_>, to: &Self::Output) -> bool {
        let _ = (operands, to);
        false
    }

    /// Adds `factor` times the value to `to`, without making the value. A step of plain gradient
    /// descent ends so, if this is the delta of a weight.
    fn accumulate(
        &self,
        operands: <Self::Operands as sealed::Operands>::Values<'_>,
        factor: f64,
        to: &mut Self::Output,
    ) {
        let _ = (operands, factor, to);
    }

    /// The sum of the values of some operations on these operands, from the first to the last, to
    /// the bit, computed in one go; `None` where it has no way of its own to do that.
    #[doc(hidden)]
    fn sum_of_values(terms: &[(&Self, <Self::Operands as sealed::Operands>::Values<'_>)]) -> Option<Self::Output> {
        let _ = terms;
        None
    }

    /// About how long [`sum_of_values`](Primitive::sum_of_values) takes, in nanoseconds; `None`
    /// where that is. It computes nothing.
    #[doc(hidden)]
    fn cost_of_sum(terms: &[(&Self, <Self::Operands as sealed::Operands>::Values<'_>)]) -> Option<f64> {
        let _ = terms;
        None
    }

    /// A rough estimate of the time that [`value`](Primitive::value) takes, in nanoseconds. Work
    /// that is dear enough is offered to other threads.
    fn cost(&self, operands: <Self::Operands as sealed::Operands>::Values<'_>) -> f64 {
        let _ = operands;
        1_000.0
    }
}

/// What the pullback of `P` returns: a tuple with an `Option` of a layer for each operand, or a
/// `Vec` of such. Written out, it is for instance `(Option<Layer<f64>>, Option<Layer<f64>>)`; here
/// is the short form.
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

/// Values of some types, which may be recipes that nobody has followed yet: see [`Data::settle`].
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Others<'a>(pub(crate) &'a [Value]);

impl<'a> Others<'a> {
    /// Those of this type, if it is no number.
    pub fn of<T: Data>(self) -> impl Iterator<Item = &'a T> {
        self.0.iter().filter_map(Value::try_get)
    }
}

/// Where a pullback takes place: the operation's operands, its value, and the delta that arrives.
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
    /// Their values, for shapes. A delta that *depends* on a value should use the layer: it can
    /// then be differentiated again.
    pub values: <P::Operands as sealed::Operands>::Values<'a>,
    /// The operation itself, as a layer.
    pub output: &'a Layer<P::Output>,
    /// Its value.
    pub value: &'a P::Output,
    /// The delta of its value.
    pub delta: &'a Layer<<P::Output as Data>::Delta>,
}

/// Where a pullback takes place that is computed at once: see [`Primitive::pull_back_now`].
#[doc(hidden)]
pub struct Now<'a, P: Primitive> {
    /// The values of the operands.
    pub values: <P::Operands as sealed::Operands>::Values<'a>,
    /// The value of the operation.
    pub value: &'a P::Output,
    /// The delta of its value.
    pub delta: &'a <P::Output as Data>::Delta,
    any: &'a AnyNow<'a>,
}

impl<P: Primitive> Now<'_, P> {
    /// The operands, for what is written down after all.
    pub fn operands(&self) -> P::Operands {
        <P::Operands as sealed::Operands>::from_any(self.any.operands)
    }

    /// The delta of the value as a layer, for the same.
    pub fn delta_layer(&self) -> Layer<<P::Output as Data>::Delta> {
        Layer::from_any(AnyDelta::Ready(self.any.delta.clone()).into_layer(self.any.node))
    }
}

/// Where a pushforward takes place: the operation's operands, its value, and the tangents of the
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
    /// Their values, for shapes. A tangent that *depends* on a value should use the layer: it can
    /// then be differentiated again.
    pub values: <P::Operands as sealed::Operands>::Values<'a>,
    /// The operation itself, as a layer.
    pub output: &'a Layer<P::Output>,
    /// Its value.
    pub value: &'a P::Output,
    /// The tangents of the operands: `None` for those that do not move. At least one does.
    pub tangents: &'a Deltas<P>,
    any: &'a AnyAlong<'a>,
}

impl<P: Primitive> Along<'_, P> {
    /// The same place, as a pullback meets it with this delta. A pullback with a symmetric Jacobian
    /// is its own pushforward, and takes the tangent in the place of the delta.
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

    /// The pushforward by transposing the pullback of `op`: what [`Primitive::pushforward`] is
    /// where it is not written by hand.
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

/// The operands of a [`Primitive`]: layers, one to three in a tuple or many in a `Vec`.
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
        /// The operands with their types forgotten: an array, or a `Vec`.
        type Erased: AsRef<[AnyLayer]> + Send + Sync;
        fn into_any(self) -> Self::Erased;
        fn from_any(operands: &[AnyLayer]) -> Self;
        fn values<'a>(values: &[&'a Value]) -> Self::Values<'a>;
        fn deltas(deltas: Self::Deltas) -> Few<Option<AnyLayer>>;
        /// The inverse of `deltas`.
        fn from_deltas(deltas: &[Option<AnyLayer>]) -> Self::Deltas;
    }
}

macro_rules! tuples {
    ($(($($T:ident $i:tt),+))*) => {$(
        impl<$($T: Data),+> sealed::Operands for ($(Layer<$T>,)+) {
            type Values<'a> = ($(&'a $T,)+);
            type Deltas = ($(Option<Layer<$T::Delta>>,)+);
            type Erased = [AnyLayer; [$($i),+].len()];
            fn into_any(self) -> Self::Erased {
                [$(self.$i.into_any()),+]
            }
            fn from_any(operands: &[AnyLayer]) -> Self {
                ($(Layer::from_any(operands[$i].clone()),)+)
            }
            fn values<'a>(values: &[&'a Value]) -> Self::Values<'a> {
                ($(values[$i].get::<$T>(),)+)
            }
            fn deltas(deltas: Self::Deltas) -> Few<Option<AnyLayer>> {
                smallvec![$(deltas.$i.map(Layer::into_any)),+]
            }
            fn from_deltas(deltas: &[Option<AnyLayer>]) -> Self::Deltas {
                ($(deltas[$i].clone().map(Layer::<$T::Delta>::from_any),)+)
            }
        }
    )*};
}

tuples! { (A 0) (A 0, B 1) (A 0, B 1, C 2) }

impl<T: Data> sealed::Operands for Vec<Layer<T>> {
    type Values<'a> = Vec<&'a T>;
    type Deltas = Vec<Option<Layer<T::Delta>>>;

    type Erased = Vec<AnyLayer>;

    fn into_any(self) -> Vec<AnyLayer> {
        self.into_iter().map(Layer::into_any).collect()
    }

    fn from_any(operands: &[AnyLayer]) -> Self {
        operands.iter().cloned().map(Layer::from_any).collect()
    }

    fn values<'a>(values: &[&'a Value]) -> Vec<&'a T> {
        values.iter().map(|value| value.get()).collect()
    }

    fn deltas(deltas: Self::Deltas) -> Few<Option<AnyLayer>> {
        deltas.into_iter().map(|delta| delta.map(Layer::into_any)).collect()
    }

    fn from_deltas(deltas: &[Option<AnyLayer>]) -> Self::Deltas {
        deltas.iter().map(|delta| delta.clone().map(Layer::from_any)).collect()
    }
}
