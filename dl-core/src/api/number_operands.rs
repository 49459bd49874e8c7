//! Methods of layers and weights that take plain numbers.

use crate::api::differentiable::Differentiable;
use crate::api::weight::Weight;
use crate::graph::data::Trainable;
use crate::graph::layer::Layer;
use crate::graph::pointwise::Pointwise;
use dl_math::Binary;

macro_rules! with_numbers {
    ($($(#[doc = $doc:literal])+ $name:ident($($number:ident),+): |$x:ident| $layer:expr;)*) => {
        impl<T: Pointwise> Layer<T> {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self, $($number: f64),+) -> Layer<T> {
                let $x = self;
                $layer
            }
        )*}

        impl<T: Pointwise + Trainable> Weight<T> {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self, $($number: f64),+) -> Layer<T> {
                self.layer().$name($($number),+)
            }
        )*}
    };
}

with_numbers! {
    /// `x` where it is positive, and `slope · x` elsewhere. The derivative at 0 is `slope`.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// assert_eq!(Weight::new(-2.0_f64).leaky_relu(0.25).predict().wait()?, -0.5);
    /// # dl_core::Result::Ok(())
    /// ```
    leaky_relu(slope): |x| T::with_number(Binary::LeakyRelu, x, slope, false);
    /// `x` where it is positive, and `alpha · (eˣ − 1)` elsewhere. The derivative at 0 is `alpha`.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// assert_eq!(Weight::new(-1.0_f64).elu(2.0).predict().wait()?, 2.0 * (-1.0_f64).exp_m1());
    /// # dl_core::Result::Ok(())
    /// ```
    elu(alpha): |x| T::with_number(Binary::Elu, x, alpha, false);
    /// `min(max(x, low), high)`: `x` limited to the range from `low` to `high`. If `low > high`,
    /// the result is `high`.
    ///
    /// Only an `x` between the bounds has a gradient; the derivative at a bound is 0.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// assert_eq!(Weight::new(-1.0_f64).clamp(0.0, 6.0).predict().wait()?, 0.0);
    /// # dl_core::Result::Ok(())
    /// ```
    clamp(low, high): |x| {
        let above = T::with_number(Binary::AtLeast, x, low, false);
        T::with_number(Binary::AtMost, &above, high, false)
    };
}
