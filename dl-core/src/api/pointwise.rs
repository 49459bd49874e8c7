//! A method of layers and weights for each pointwise operation of one operand.

use crate::api::differentiable::Differentiable;
use crate::api::weight::Weight;
use crate::graph::data::Trainable;
use crate::graph::layer::Layer;
use crate::graph::pointwise::Pointwise;
use dl_math::Unary;

/// The example of a method of layers and weights.
macro_rules! example {
    ($Op:ident $name:ident $layer:literal) => {
        concat!(
            "\n```\nuse dl_core::{Differentiable, Unary, Weight};\nlet w = Weight::new(1.0_f64);\nassert_eq!(w",
            $layer,
            ".",
            stringify!($name),
            "().predict().wait()?, Unary::",
            stringify!($Op),
            ".value(1.0));\n# dl_core::Result::Ok(())\n```"
        )
    };
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $Op:ident $name:ident;)*) => {
        impl<T: Pointwise> Layer<T> {
            $($(#[doc = $doc])+ #[doc = example!($Op $name ".layer()")] #[track_caller] pub fn $name(&self) -> Layer<T> {
                T::unary(Unary::$Op, self)
            })*
        }

        impl<T: Pointwise + Trainable> Weight<T> {
            $($(#[doc = $doc])+ #[doc = example!($Op $name "")] #[track_caller] pub fn $name(&self) -> Layer<T> {
                T::unary(Unary::$Op, &self.layer())
            })*
        }
    };
}

dl_math::unary_operations!(methods);
