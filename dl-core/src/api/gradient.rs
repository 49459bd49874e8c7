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

use crate::api::deferred::Do;
use crate::api::differentiable::Differentiable;
use crate::api::extract::{self, ExtractAll};
use crate::api::layer::BodyKind;
use crate::api::variables::{EachVariable, Variables};
use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::{forward, reverse};
use crate::error::direction::Direction;
use crate::error::{Error, Result};
use crate::exec::computation::PassChoice;
use crate::exec::{self, Keep, Purpose, user_code};
use crate::graph::data::Data;
use crate::graph::delta::{Nothing, checked};
use crate::graph::layer::Layer;
use crate::graph::node::Expression;
use crate::graph::node_ref::AnyLayer;
use crate::graph::op::Few;
use crate::graph::value::Value;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

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
        Derivation::of(self).with(Location::caller(), |each| each.variable(x)).1
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
        Derivation::of(self).with(Location::caller(), |each| variables.map(each)).1
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
        let (derivatives, gradient) = Derivation::of(self).with(Location::caller(), |each| each.variable(x));
        (derivative_at(&derivatives, 0, Location::caller()), gradient)
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
        let (derivatives, gradients) = Derivation::of(self).with(Location::caller(), |each| variables.map(each));
        (derivative_at(&derivatives, 0, Location::caller()), gradients)
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
        let delta = checked(self.any(), delta.any());
        let derivation = Derivation::along(vec![self.any().clone()], vec![delta]);
        derivation.with(Location::caller(), |each| variables.map(each)).1
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
    move |x| Derivation::of(&f(x.clone())).with(place, |each| x.map(each)).1
}

/// Root layers and the deltas that the backward pass starts with. An empty `deltas` means 1.
pub(crate) struct Derivation {
    pub(crate) roots: Vec<AnyLayer>,
    pub(crate) deltas: Vec<AnyLayer>,
    /// Layers known not to depend on the variables. The traversal stops at these.
    pub(crate) known: Vec<AnyLayer>,
}

/// The value of the first root, and its derivatives: layers, or values if the layers would refer to
/// values that their pass has released.
#[derive(Clone)]
pub(crate) struct Derivatives(Arc<[AnyDelta]>);

impl Data for Derivatives {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }
}

/// Derivative layers, built in a pass.
pub(crate) struct BuiltDerivatives {
    layers: Vec<AnyLayer>,
    /// The operands of the first layer, if its value is [computed
    /// together](crate::BuiltIn::CAN_DEFER_VALUE) with those of the other layers.
    deferred_root: Option<Vec<Value>>,
}

impl From<Vec<AnyLayer>> for BuiltDerivatives {
    fn from(layers: Vec<AnyLayer>) -> Self {
        BuiltDerivatives { layers, deferred_root: None }
    }
}

/// The form in which derivatives are requested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Layers,
    /// Values only. The first value may be computed after the others.
    Values,
}

/// A layer of derivatives, built in a pass that retains its values: the current pass if it does,
/// otherwise a nested one.
pub(crate) fn derivatives<F, Fut>(place: &'static Location<'static>, build: F) -> Layer<Derivatives>
where
    F: Fn(Form) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<BuiltDerivatives>> + Send + 'static,
{
    let build = Arc::new(build);
    Layer::dynamic_of_kind(BodyKind::Derivatives, place, move || {
        let build = build.clone();
        async move {
            let derivatives = match exec::current().map(|pass| pass.keep()) {
                // The derivatives of this pass may be differentiated again.
                Some(Keep::Values) => build(Form::Layers).await?.layers.into_iter().map(AnyDelta::Lazy).collect(),
                // This pass releases its values, so the derivatives need a nested pass that retains
                // them.
                _ => {
                    let evaluated = move || evaluated(build(Form::Values));
                    let (built, values) = Do::starting(PassChoice::New(Purpose::Derive), evaluated).await?;
                    // The nested pass has ended, so values need no link to it.
                    realize_all(built, values)?.into_iter().map(AnyDelta::Ready).collect()
                }
            };
            Ok(Layer::constant_at(Derivatives(derivatives), place))
        }
    })
}

/// The values of all layers, except for a first layer that is computed after the others.
async fn evaluated(built: impl Future<Output = Result<BuiltDerivatives>>) -> Result<(BuiltDerivatives, Vec<Value>)> {
    let built = built.await?;
    let evaluated = &built.layers[usize::from(built.deferred_root.is_some())..];
    let values = ExtractAll::unsettled(evaluated.to_vec()).await?;
    Ok((built, values))
}

fn realize_all(
    BuiltDerivatives { layers, deferred_root }: BuiltDerivatives,
    mut values: Vec<Value>,
) -> Result<Vec<Value>> {
    if let (Some(operands), Expression::Primitive(op)) = (deferred_root, &layers[0].expression) {
        let operands: Vec<&Value> = operands.iter().collect();
        let _built = layers[0].enter();
        let fused = || exec::computing_in_task(|| op.value_fused_with(&operands, &values));
        let value = user_code::run_fallible(fused).map_err(|error| error.at(op.name_or_panic(), layers[0].site()))?;
        values.insert(0, value);
    }
    extract::settle(&layers, &values)?;
    Ok(values)
}

impl Derivation {
    fn of<T>(layer: &Layer<T>) -> Self {
        Derivation::along(vec![layer.any().clone()], Vec::new())
    }

    fn along(roots: Vec<AnyLayer>, deltas: Vec<AnyLayer>) -> Self {
        Derivation { roots, deltas, known: Vec::new() }
    }

    /// The layer that holds all derivatives, and the derivatives.
    pub(crate) fn with<G>(
        self,
        place: &'static Location<'static>,
        map: impl FnOnce(&mut EachVariable<'_>) -> G,
    ) -> (Layer<Derivatives>, G) {
        let (this, variables) = (Arc::new(self), Arc::new(OnceLock::new()));
        let known = variables.clone();
        let derivatives =
            derivatives(place, move |form| this.clone().derive(known.get().cloned().unwrap_or_default(), form));
        let mut list = Vec::new();
        let gradients = map(&mut EachVariable { derivatives: &derivatives, variables: &mut list, place });
        let _ = variables.set(list);
        (derivatives, gradients)
    }

    /// Evaluates the roots in the current pass and builds the derivatives.
    async fn derive(self: Arc<Self>, variables: Vec<AnyLayer>, form: Form) -> Result<BuiltDerivatives> {
        let defers = form == Form::Values && self.may_defer_root(&variables);
        let inputs = if defers { self.root_inputs().await? } else { None };
        let (roots, deferred_root) = match inputs {
            Some((operands, slopes)) => (slopes, Some(operands)),
            None => (self.with_deltas().await?, None),
        };
        let pass = exec::current().expect("an extract ends in its pass");
        let mut found = reverse::derivatives_of(&pass, &roots, &variables, &self.known)?;
        for (variable, delta) in variables.iter().zip(&mut found) {
            if delta.is_none() {
                *delta = Some(zero(variable).await?);
            }
        }
        // The root may have been evaluated meanwhile, for a variable that depends on it, for
        // instance.
        let is_evaluated =
            deferred_root.is_some() && reverse::evaluated(&*reverse::kept(&pass)?, &self.roots[0]).is_ok();
        let deferred_root = deferred_root.filter(|_| !is_evaluated);
        let first = self.roots.first().cloned();
        Ok(BuiltDerivatives { layers: first.into_iter().chain(found.into_iter().flatten()).collect(), deferred_root })
    }

    /// The roots, evaluated, with the deltas that the backward pass starts with.
    async fn with_deltas(&self) -> Result<Vec<(AnyLayer, AnyLayer)>> {
        let values = ExtractAll::new(self.roots.clone()).await?;
        let mut deltas = self.deltas.clone();
        if deltas.is_empty() {
            for (root, value) in self.roots.iter().zip(&values) {
                let _rule = root.enter_rule(Direction::Backward);
                deltas.push(AnyDelta::Ready(reverse::one(root, value)?).into_layer(root));
            }
        }
        Ok(self.roots.iter().cloned().zip(deltas).collect())
    }

    /// Whether the value of the root can be computed after its derivatives: there is one root, its
    /// op permits that, and it is not one of the variables.
    fn may_defer_root(&self, variables: &[AnyLayer]) -> bool {
        let [root] = &self.roots[..] else { return false };
        let can_defer = matches!(&root.expression, Expression::Primitive(op) if op.can_defer_value());
        can_defer && self.deltas.is_empty() && !variables.iter().any(|variable| variable.identity() == root.identity())
    }

    /// The operand values of a root that is computed after its derivatives, and its operands with
    /// the deltas that the backward pass starts with. `None` if this does not pay off, or if a
    /// recorder is attached, which must see every operation.
    async fn root_inputs(&self) -> Result<Option<(Vec<Value>, Vec<(AnyLayer, AnyLayer)>)>> {
        let root = &self.roots[0];
        let Expression::Primitive(op) = &root.expression else { return Ok(None) };
        if exec::current().is_none_or(|pass| pass.is_watched()) {
            return Ok(None);
        }
        let values = ExtractAll::unsettled(op.operands().to_vec()).await?;
        let slopes = {
            let _rule = root.enter_rule(Direction::Backward);
            let slopes = || op.unit_cotangents(&values.iter().collect::<Vec<_>>());
            user_code::run(slopes).map_err(|error| error.at(op.name_or_panic(), root.site()))?
        };
        let with_slopes = |slopes: Few<Option<AnyLayer>>| {
            let with_slope = |(operand, slope): (&AnyLayer, Option<AnyLayer>)| Some((operand.clone(), slope?));
            op.operands().iter().zip(slopes).filter_map(with_slope).collect()
        };
        Ok(slopes.map(|slopes| (values, with_slopes(slopes))))
    }
}

/// The derivative with respect to a layer that the root does not depend on.
pub(crate) async fn zero(layer: &AnyLayer) -> Result<AnyLayer> {
    let values = ExtractAll::new(vec![layer.clone()]).await?;
    let _rule = layer.enter_rule(Direction::Backward);
    let one = AnyDelta::Ready(reverse::one(layer, &values[0])?).into_layer(layer);
    Ok((layer.kind_of_data.scale_delta)(&one, 0.0))
}

/// One of several derivatives.
pub(crate) fn derivative_at<T: Data>(
    derivatives: &Layer<Derivatives>,
    which: usize,
    place: &'static Location<'static>,
) -> Layer<T> {
    let derivatives = derivatives.clone();
    Layer::dynamic_of_kind(BodyKind::Derivative, place, move || {
        let derivatives = derivatives.extract();
        async move {
            match derivatives.await?.0.get(which).cloned() {
                Some(AnyDelta::Lazy(layer)) => Ok(Layer::from_any(layer)),
                Some(AnyDelta::Ready(value)) => {
                    Ok(Layer::from_any(AnyLayer::new::<T>(Expression::constant(value), place)))
                }
                Some(_) => unreachable!("derivatives are summed and evaluated"),
                None => Err(Error::invalid("`Variables::map` must visit the same variables each time")),
            }
        }
    })
}

/// The layers that a structure of derivatives consists of.
pub(crate) fn layers_of<V: Variables + ?Sized>(layers: &V) -> Vec<AnyLayer> {
    let mut list = Vec::new();
    let place = Location::caller();
    let none = Layer::constant_at(Derivatives(Arc::new([])), place);
    layers.map(&mut EachVariable { derivatives: &none, variables: &mut list, place });
    list
}
