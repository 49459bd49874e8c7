//! Derivatives along a direction (Jacobian-vector products).
//!
//! ```
//! use dl_core::{Differentiable, Layer, Weight};
//! let (x, y) = (Weight::new(2.0_f64), Weight::new(3.0));
//! let f = &x * &x * &y;
//! // the rate of change of f as x moves by 1 and y by 10
//! let slope = f.jvp(&(&x, &y), &(Layer::constant(1.0), Layer::constant(10.0)));
//! assert_eq!(slope.predict().wait()?, 52.0);
//! # dl_core::Result::Ok(())
//! ```

use crate::api::gradient::layers_of;
use crate::api::variables::Variables;
use crate::autodiff::derivatives::derivative_at;
use crate::autodiff::forward::tangents;
use crate::graph::data::Data;
use crate::graph::layer::Layer;
use std::panic::Location;

/// One derivative along a direction costs about as much as the value, for any number of elements of
/// the value; one gradient costs a few times as much as the value, for any number of variables.
///
/// Like gradients, these derivatives can be predicted, trained on and differentiated again, and
/// they follow the path that was taken through dynamic nodes. They are built from the evaluated
/// graph, so they need a pass that keeps its values, as gradients do.
///
/// A hand-written backward (see [`Tape::new`](crate::Tape::new)) has no forward mode: on a path
/// from a weight, it is an error.
impl<T: Data> Layer<T> {
    /// The Jacobian-vector product `∂self/∂variables · direction`: the derivative of this layer as
    /// the variables move along a direction. The direction has the shape of the gradients.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// let w = Weight::new(2.0_f64);
    /// let y = &w * &w * &w;
    /// let slope = y.jvp(&w, &Layer::constant(1.0)); // 3w²
    /// assert_eq!(slope.predict().wait()?, 12.0);
    /// assert_eq!(slope.jvp(&w, &Layer::constant(1.0)).predict().wait()?, 12.0); // 6w
    /// assert_eq!(slope.gradient(&w).predict().wait()?, 12.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn jvp<V: Variables + ?Sized>(&self, variables: &V, direction: &V::Gradients) -> Layer<T::Delta> {
        self.value_and_jvp(variables, direction).1
    }

    /// The value and its derivative along a direction, both from one evaluation, also in a
    /// `predict`.
    ///
    /// ```
    /// use dl_core::{Differentiable, Do, Layer, Weight};
    /// let w = Weight::new(3.0_f64);
    /// let (value, slope) = (&w * &w).value_and_jvp(&w, &Layer::constant(1.0));
    /// assert_eq!((value + 10.0 * slope).predict().wait()?, 69.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn value_and_jvp<V: Variables + ?Sized>(
        &self,
        variables: &V,
        direction: &V::Gradients,
    ) -> (Layer<T>, Layer<T::Delta>) {
        let place = Location::caller();
        let derivatives = tangents(place, vec![self.any().clone()], layers_of(variables), layers_of(direction));
        (derivative_at(&derivatives, 0, place), derivative_at(&derivatives, 1, place))
    }

    /// The derivative of this layer as a linear function, from directions of the variables to
    /// derivatives along them.
    ///
    /// Derivatives that are evaluated in one pass that keeps its values share these: see
    /// [`keeping_values`](Layer::keeping_values).
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// let (x, y) = (Weight::new(2.0_f64), Weight::new(3.0));
    /// let along = (&x * &x * &y).linearize(&(&x, &y));
    /// let [by_x, by_y] = [(1.0, 0.0), (0.0, 1.0)].map(|(dx, dy)| along(&(Layer::constant(dx), Layer::constant(dy))));
    /// assert_eq!((by_x + 10.0 * by_y).keeping_values().predict().wait()?, 52.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn linearize<V: Variables + ?Sized>(
        &self,
        variables: &V,
    ) -> impl Fn(&V::Gradients) -> Layer<T::Delta> + Clone + use<T, V> {
        let (this, variables, place) = (self.any().clone(), layers_of(variables), Location::caller());
        move |direction| {
            derivative_at(&tangents(place, vec![this.clone()], variables.clone(), layers_of(direction)), 1, place)
        }
    }
}
