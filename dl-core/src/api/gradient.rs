//! The derivative of a layer is a layer.
//!
//! ```
//! use dl_core::{Differentiable, Weight};
//! let w = Weight::new(2.0_f64);
//! let cube = &w * &w * &w;
//! let slope = cube.gradient(&w); // 3w²
//! let curvature = slope.gradient(&w); // 6w
//! assert_eq!(slope.predict().wait()?, 12.0);
//! assert_eq!(curvature.predict().wait()?, 12.0);
//! # dl_core::Result::Ok(())
//! ```

use crate::api::differentiable::Differentiable;
use crate::api::variables::{EachVariable, Variables};
use crate::autodiff::derivatives::{Derivation, Derivatives, derivative_at, derivatives};
use crate::autodiff::forward;
use crate::graph::data::Data;
use crate::graph::delta::checked;
use crate::graph::layer::Layer;
use crate::graph::node_ref::NodeRef;
use std::panic::Location;

/// The derivatives can be predicted, trained on and differentiated again. They pass through dynamic
/// nodes along the path taken. With respect to a variable that the layer does not depend on, the
/// derivative is zero. Only nodes on a path to the given variables are differentiated.
///
/// A `predict` does not retain the values that a backward pass needs. There the derivatives of one
/// call are computed together in a nested pass, and nodes shared with the surrounding pass are
/// evaluated in both. A program that takes gradients of gradients, an unrolled gradient descent for
/// instance, recomputes each of them there. [`value_and_gradients`](Layer::value_and_gradients) and
/// [`keeping_values`](Layer::keeping_values) evaluate shared nodes once.
///
/// Through a hand-written backward (see [`Tape::new`](crate::Tape::new)) a derivative flows to
/// weights, but not to other layers.
impl<T: Data> Layer<T> {
    /// The derivative of this layer (of the sum of its elements) with respect to a weight or to
    /// another layer, as a layer.
    ///
    /// The variable may be an input or an intermediate layer.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// let (w, input) = (Weight::new(3.0_f64), Layer::constant(2.0));
    /// let hidden = &w * &input;
    /// let y = &hidden * &hidden;
    /// assert_eq!(y.gradient(&w).predict().wait()?, 24.0);
    /// assert_eq!(y.gradient(&input).predict().wait()?, 36.0);
    /// assert_eq!(y.gradient(&hidden).predict().wait()?, 12.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn gradient<X: Differentiable + Variables<Gradients = Layer<X::Delta>> + ?Sized>(
        &self,
        x: &X,
    ) -> Layer<X::Delta> {
        derive(self, Vec::new(), Location::caller(), |each| each.variable(x)).1
    }

    /// The derivatives with respect to several variables, in the same structure: see [`Variables`].
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// let (a, b) = (Weight::new(2.0_f64), Weight::new(5.0));
    /// let y = &a * &a * &b;
    /// let (da, db) = y.gradients(&(&a, &b));
    /// assert_eq!((da.predict().wait()?, db.predict().wait()?), (20.0, 4.0));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn gradients<V: Variables + ?Sized>(&self, variables: &V) -> V::Gradients {
        derive(self, Vec::new(), Location::caller(), |each| variables.map(each)).1
    }

    /// The value, and the derivative with respect to a weight or a layer. Both come from one
    /// evaluation, in a `predict`, too.
    ///
    /// ```
    /// use dl_core::{Differentiable, Do, Weight};
    /// let w = Weight::new(3.0_f64);
    /// let (value, slope) = (&w * &w).value_and_gradient(&w);
    /// assert_eq!((value + 10.0 * slope).predict().wait()?, 69.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn value_and_gradient<X: Differentiable + Variables<Gradients = Layer<X::Delta>> + ?Sized>(
        &self,
        x: &X,
    ) -> (Layer<T>, Layer<X::Delta>) {
        let place = Location::caller();
        let (derivatives, gradient) = derive(self, Vec::new(), place, |each| each.variable(x));
        (derivative_at(&derivatives, 0, place), gradient)
    }

    /// The value, and the derivatives with respect to several variables. All come from one
    /// evaluation, in a `predict`, too.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// let weights = [3.0_f64, 4.0].map(Weight::new);
    /// let (value, [da, db]) = (&weights[0] * &weights[1]).value_and_gradients(&weights);
    /// assert_eq!((value + da * db).predict().wait()?, 24.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn value_and_gradients<V: Variables + ?Sized>(&self, variables: &V) -> (Layer<T>, V::Gradients) {
        let place = Location::caller();
        let (derivatives, gradients) = derive(self, Vec::new(), place, |each| variables.map(each));
        (derivative_at(&derivatives, 0, place), gradients)
    }

    /// The vector-Jacobian product `deltaᵀ · ∂self/∂variables`: the backward pass, started with
    /// this delta.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// let w = Weight::new(2.0_f64);
    /// let pulled_back = (&w * &w).vjp(&w, &Layer::constant(10.0));
    /// assert_eq!(pulled_back.predict().wait()?, 40.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn vjp<V: Variables + ?Sized>(&self, variables: &V, delta: &Layer<T::Delta>) -> V::Gradients {
        let delta = checked(self.any(), delta.any(), None);
        derive(self, vec![delta], Location::caller(), |each| variables.map(each)).1
    }

    /// This layer, evaluated in a pass that retains its values, so that derivatives share their
    /// common subexpressions. In a pass that retains values (a `train`, for instance) it is the
    /// current pass; in a `predict`, a nested one.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// let w = Weight::new(2.0_f64);
    /// let y = w.sin();
    /// // the sine and its derivative, each evaluated once
    /// let newton = (&w - &y / y.gradient(&w)).keeping_values();
    /// assert_eq!(newton.predict().wait()?, 2.0 - 2_f64.sin() / 2_f64.cos());
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn keeping_values(&self) -> Layer<T> {
        let this = self.clone();
        let place = Location::caller();
        let kept = derivatives(place, move |_| std::future::ready(Ok(vec![this.any().clone()].into())));
        derivative_at(&kept, 0, place)
    }

    /// The Hessian-vector product: the Hessian of this layer (of the sum of its elements) times a
    /// direction, which has the shape of the gradients. It costs about as much as two gradients,
    /// regardless of the number of variables.
    ///
    /// It is computed forward over reverse, as the derivative of the gradients along the direction:
    /// Pearlmutter, *Fast exact multiplication by the Hessian*, 1994.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// let (x, y) = (Weight::new(2.0_f64), Weight::new(3.0));
    /// let f = &x * &x * &y; // its Hessian is [[2y, 2x], [2x, 0]]
    /// let direction = (Layer::constant(1.0), Layer::constant(10.0));
    /// let (along_x, along_y) = f.hvp(&(&x, &y), &direction);
    /// assert_eq!((along_x.predict().wait()?, along_y.predict().wait()?), (46.0, 4.0));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn hvp<V: Variables + ?Sized>(&self, variables: &V, direction: &V::Gradients) -> V::Gradients {
        let place = Location::caller();
        let gradients = layers_of(&self.gradients(variables));
        let tangents = forward::tangents(place, gradients, layers_of(variables), layers_of(direction));
        variables.map(&mut EachVariable { derivatives: &tangents, variables: &mut Vec::new(), place })
    }
}

/// The derivative of a function as a function: `x ↦ ∂f(x)/∂x`, in the structure of `x`.
///
/// This generalises the paper's `typeSafeTransform`. `f` takes layers (or weights, or a tuple,
/// array or `Vec` of these) and returns a layer of any type. The result takes the same argument,
/// and can be differentiated again.
///
/// ```
/// use dl_core::{Differentiable, Layer, derivative};
/// let cube = |x: Layer<f64>| &x * &x * &x;
/// let slope = derivative(cube);
/// let curvature = derivative(derivative(cube));
/// assert_eq!(slope(2.0.into_layer()).predict().wait()?, 12.0);
/// assert_eq!(curvature(2.0.into_layer()).predict().wait()?, 12.0);
///
/// let area = derivative(|(width, height): (Layer<f64>, Layer<f64>)| width * height);
/// let (by_width, by_height) = area((3.0.into_layer(), 4.0.into_layer()));
/// assert_eq!((by_width.predict().wait()?, by_height.predict().wait()?), (4.0, 3.0));
/// # dl_core::Result::Ok(())
/// ```
#[track_caller]
pub fn derivative<A: Variables + Clone, T: Data>(f: impl Fn(A) -> Layer<T>) -> impl Fn(A) -> A::Gradients {
    let place = Location::caller();
    move |x| derive(&f(x.clone()), Vec::new(), place, |each| x.map(each)).1
}

/// All derivatives of a layer, given its deltas (none means 1), and the result of `map`.
fn derive<T, G>(
    layer: &Layer<T>,
    deltas: Vec<NodeRef>,
    place: &'static Location<'static>,
    map: impl FnOnce(&mut EachVariable<'_>) -> G,
) -> (Layer<Derivatives>, G) {
    Derivation::of(vec![layer.any().clone()], deltas)
        .build(place, |derivatives, variables| map(&mut EachVariable { derivatives, variables, place }))
}

/// The layers that a structure of derivatives consists of.
pub(crate) fn layers_of<V: Variables + ?Sized>(layers: &V) -> Vec<NodeRef> {
    let mut list = Vec::new();
    let place = Location::caller();
    let none = Layer::constant_at(Derivatives::default(), place);
    layers.map(&mut EachVariable { derivatives: &none, variables: &mut list, place });
    list
}
