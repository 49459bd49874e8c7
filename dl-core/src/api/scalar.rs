//! `f32` and `f64` as data: values, weights and layers of plain numbers.

use crate::api::deferred::Do;
use crate::api::differentiable::Differentiable;
use crate::api::tape::Tape;
use crate::autodiff::gradients::SideEffects;
use crate::error::Result;
use crate::graph::chunk::Chunk;
use crate::graph::data::{Data, Trainable};
use crate::graph::delta::Delta;
use crate::graph::layer::Layer;
use crate::graph::node::NodeOp;
use crate::graph::pointwise::Pointwise;
use crate::graph::value::{Repr, Value};
use dl_math::{Binary, Side, Unary};

macro_rules! scalar {
    ($T:ident, $Repr:ident) => {
        impl Data for $T {
            type Delta = $T;

            fn one(&self) -> $T {
                1.0
            }

            fn push_shape(&self, _: &mut crate::graph::data::ShapeList) -> bool {
                true
            }

            #[allow(clippy::useless_conversion, reason = "only one of the two types is converted")]
            fn non_finite(&self) -> Option<f64> {
                (!self.is_finite()).then_some(f64::from(*self))
            }

            #[inline]
            fn into_value(self) -> Value {
                Value(Repr::$Repr(self))
            }

            #[inline]
            fn from_value(value: &Value) -> &$T {
                match &value.0 {
                    Repr::$Repr(number) => number,
                    _ => unreachable!("a layer holds the type that it was built with"),
                }
            }
        }

        impl Delta for $T {
            /// Adds from left to right.
            ///
            /// # Panics
            /// If there are no terms.
            #[track_caller]
            fn sum(terms: Vec<Layer<$T>>) -> Layer<$T> {
                assert!(!terms.is_empty(), "a sum of at least one layer");
                Self::sum_of(terms.into_iter())
            }

            #[track_caller]
            fn sum_of(mut terms: impl Iterator<Item = Layer<$T>>) -> Layer<$T> {
                let Some(mut sum) = terms.next() else { return Self::none() };
                for term in terms {
                    sum = sum + term;
                }
                sum
            }

            #[track_caller]
            fn none() -> Layer<$T> {
                Layer::constant(0.0)
            }

            #[track_caller]
            fn scale(layer: &Layer<$T>, factor: f64) -> Layer<$T> {
                Self::with_number(Binary::Mul, layer, factor, false)
            }

            fn squared_norm(&self) -> f64 {
                f64::from(*self) * f64::from(*self)
            }
        }

        impl Trainable for $T {
            const DESCENDS: bool = true;
            const IN_PLACE: bool = true;

            fn zeros_like(&self) -> $T {
                0.0
            }

            #[inline]
            fn descend(&mut self, rate: f64, delta: &$T) {
                *self -= rate as $T * delta;
            }

            fn update(
                &mut self,
                delta: &$T,
                slots: &mut [$T],
                rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
            ) -> Result<()> {
                let (values, deltas) = (std::slice::from_mut(self), std::slice::from_ref(delta));
                match slots {
                    [] => rule(Chunk::$Repr { values, deltas, slots: &mut [] }),
                    slots => {
                        let mut slots: Vec<&mut [$T]> = slots.iter_mut().map(std::slice::from_mut).collect();
                        rule(Chunk::$Repr { values, deltas, slots: &mut slots })
                    }
                }
            }
        }

        impl Pointwise for $T {
            #[track_caller]
            fn unary(op: Unary, x: &Layer<$T>) -> Layer<$T> {
                Layer::from_op_with(|| NodeOp::Unary(op, [x.any().clone()]))
            }

            #[track_caller]
            fn binary(op: Binary, a: &Layer<$T>, b: &Layer<$T>) -> Layer<$T> {
                let (a, b) = a.any().clone_both(b.any());
                Layer::from_op_with(|| NodeOp::Binary(op, [a, b]))
            }

            #[track_caller]
            fn with_number(op: Binary, x: &Layer<$T>, number: f64, left: bool) -> Layer<$T> {
                let side = if left { Side::Left } else { Side::Right };
                Layer::from_op_with(|| NodeOp::WithNumber(op, side, number, [x.any().clone()]))
            }
        }

        impl Differentiable for $T {
            type Data = $T;
            type Delta = $T;

            fn forward(&self) -> Do<Tape<$T, $T>> {
                let value = *self;
                Do::from_fn(move || async move { Ok(Tape::new(value, |_| SideEffects::none())) })
            }

            #[track_caller]
            fn layer(&self) -> Layer<$T> {
                Layer::constant(*self)
            }
        }
    };
}

scalar!(f32, F32);
scalar!(f64, F64);
