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

use crate::data::Data;
use crate::error::Result;
use crate::layer::Layer;
use crate::node::AnyLayer;
use crate::value::Value;

/// An operation with a kernel and a rule: how to compute its value, and how to pull back a delta.
pub trait Primitive: Send + Sync + Sized + 'static {
    /// The layers that it works on: a tuple of one, two or three, or a `Vec` of layers of the same type.
    type Operands: Operands;
    /// The type of its value.
    type Output: Data;

    /// Its name, for error messages.
    fn name(&self) -> &'static str;

    /// Computes the value.
    ///
    /// # Errors
    /// For operands that do not fit. The runtime adds the name and the place where the user wrote the operation.
    fn value(&self, operands: <Self::Operands as sealed::Operands>::Values<'_>) -> Result<Self::Output>;

    /// The deltas of the operands, as lazy layers; `None` where no gradient flows.
    ///
    /// A delta that nobody trains on is never computed. A rule writes layers and computes nothing: it runs while the books of the
    /// pass are locked, so it must not call `backward` on a tape of that pass.
    fn pullback(&self, at: &At<'_, Self>) -> <Self::Operands as sealed::Operands>::Deltas;

    /// A rough estimate of the time that [`value`](Primitive::value) takes, in nanoseconds. Work that is dear enough is
    /// offered to other threads.
    fn cost(&self, operands: <Self::Operands as sealed::Operands>::Values<'_>) -> f64 {
        let _ = operands;
        1_000.0
    }
}

/// Where a pullback takes place: the operation's operands, its value, and the delta that arrives.
pub struct At<'a, P: Primitive> {
    /// The operands.
    pub operands: &'a P::Operands,
    /// Their values, for shapes. A delta that *depends* on a value should use the layer: it can then be differentiated again.
    pub values: <P::Operands as sealed::Operands>::Values<'a>,
    /// The operation itself, as a layer.
    pub output: &'a Layer<P::Output>,
    /// Its value.
    pub value: &'a P::Output,
    /// The delta of its value.
    pub delta: &'a Layer<<P::Output as Data>::Delta>,
}

/// The operands of a [`Primitive`]: layers, one to three in a tuple or many in a `Vec`.
pub trait Operands: sealed::Operands {}

impl<O: sealed::Operands> Operands for O {}

pub(crate) mod sealed {
    use super::*;

    #[allow(unreachable_pub, reason = "named in the bounds of a public trait, but not to be implemented")]
    pub trait Operands: Send + Sync + 'static {
        type Values<'a>;
        type Deltas;
        fn into_any(self) -> Box<[AnyLayer]>;
        fn from_any(operands: &[AnyLayer]) -> Self;
        fn values(values: &[Value]) -> Self::Values<'_>;
        fn deltas(deltas: Self::Deltas) -> Vec<Option<AnyLayer>>;
    }
}

macro_rules! tuples {
    ($(($($T:ident $i:tt),+))*) => {$(
        impl<$($T: Data),+> sealed::Operands for ($(Layer<$T>,)+) {
            type Values<'a> = ($(&'a $T,)+);
            type Deltas = ($(Option<Layer<$T::Delta>>,)+);
            fn into_any(self) -> Box<[AnyLayer]> {
                Box::new([$(self.$i.into_any()),+])
            }
            fn from_any(operands: &[AnyLayer]) -> Self {
                ($(Layer::from_any(operands[$i].clone()),)+)
            }
            fn values(values: &[Value]) -> Self::Values<'_> {
                ($(values[$i].get::<$T>(),)+)
            }
            fn deltas(deltas: Self::Deltas) -> Vec<Option<AnyLayer>> {
                vec![$(deltas.$i.map(Layer::into_any)),+]
            }
        }
    )*};
}

tuples! { (A 0) (A 0, B 1) (A 0, B 1, C 2) }

impl<T: Data> sealed::Operands for Vec<Layer<T>> {
    type Values<'a> = Vec<&'a T>;
    type Deltas = Vec<Option<Layer<T::Delta>>>;

    fn into_any(self) -> Box<[AnyLayer]> {
        self.into_iter().map(Layer::into_any).collect()
    }

    fn from_any(operands: &[AnyLayer]) -> Self {
        operands.iter().cloned().map(Layer::from_any).collect()
    }

    fn values(values: &[Value]) -> Vec<&T> {
        values.iter().map(Value::get).collect()
    }

    fn deltas(deltas: Self::Deltas) -> Vec<Option<AnyLayer>> {
        deltas.into_iter().map(|delta| delta.map(Layer::into_any)).collect()
    }
}

/// A primitive with its types forgotten.
pub(crate) trait AnyPrimitive: Send + Sync {
    fn name(&self) -> &'static str;
    fn value(&self, operands: &[Value]) -> Result<Value>;
    fn cost(&self, operands: &[Value]) -> f64;
    fn pullback(&self, at: AnyAt<'_>) -> Vec<Option<AnyLayer>>;
}

pub(crate) struct AnyAt<'a> {
    pub(crate) operands: &'a [AnyLayer],
    pub(crate) values: &'a [Value],
    pub(crate) output: &'a AnyLayer,
    pub(crate) value: &'a Value,
    pub(crate) delta: AnyLayer,
}

pub(crate) struct Erased<P>(pub(crate) P);

impl<P: Primitive> AnyPrimitive for Erased<P> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn value(&self, operands: &[Value]) -> Result<Value> {
        self.0.value(<P::Operands as sealed::Operands>::values(operands)).map(Data::into_value)
    }

    fn cost(&self, operands: &[Value]) -> f64 {
        self.0.cost(<P::Operands as sealed::Operands>::values(operands))
    }

    fn pullback(&self, at: AnyAt<'_>) -> Vec<Option<AnyLayer>> {
        let deltas = self.0.pullback(&At {
            operands: &<P::Operands as sealed::Operands>::from_any(at.operands),
            values: <P::Operands as sealed::Operands>::values(at.values),
            output: &Layer::from_any(at.output.clone()),
            value: at.value.get(),
            delta: &Layer::from_any(at.delta),
        });
        <P::Operands as sealed::Operands>::deltas(deltas)
    }
}
