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

use crate::data::Data;
use crate::deferred::{Belongs, Do};
use crate::delta::Nothing;
use crate::differentiable::Differentiable;
use crate::error::{Error, Result};
use crate::extract::{self, ExtractAll};
use crate::forward;
use crate::layer::{Decider, Layer};
use crate::node::{AnyLayer, Expression};
use crate::pass::{self, Keep, Purpose, user_code};
use crate::primitive::Few;
use crate::record::Direction;
use crate::reverse::{self, AnyDelta};
use crate::value::Value;
use crate::variables::{EachVariable, Variables};
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

/// All of these can be predicted, trained on and differentiated again; they go through dynamic
/// nodes along the path taken. A variable that the layer does not depend on has the derivative
/// zero. Only what leads to the variables that were asked for is written down.
///
/// In a `predict`, whose pass keeps no values to look back at, the derivatives of one call are
/// computed together, in a pass of their own: what they share with the rest is then evaluated in
/// both. A program that takes gradients of what it made of gradients, an unrolled descent for
/// instance, starts anew for each of them there.
/// [`value_and_gradients`](Layer::value_and_gradients) evaluates it once, and so does
/// [`keeping_values`](Layer::keeping_values).
///
/// Through a hand-written backward (see [`Tape::new`](crate::Tape::new)) a derivative flows to
/// weights, not to other layers.
impl<T: Data> Layer<T> {
    /// The derivative of this layer (of the sum of its elements) with respect to a weight or to
    /// another layer, as a layer.
    ///
    /// That is also how to ask for the derivative with respect to an input, or to anything in
    /// between.
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

    /// The derivatives with respect to several variables at once, in the shape of these: see
    /// [`Variables`].
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

    /// The value, and the derivative with respect to a weight or a layer: both from one evaluation,
    /// also in a `predict`.
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
        (part(&derivatives, 0, Location::caller()), gradient)
    }

    /// The value, and the derivatives with respect to several variables: all from one evaluation,
    /// also in a `predict`.
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
        (part(&derivatives, 0, Location::caller()), gradients)
    }

    /// The vector-Jacobian product: what the backward makes of this delta,
    /// `deltaᵀ · ∂self/∂variables`.
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
        let delta = (self.any().kind_of_data.checked_delta)(self.any(), delta.any());
        let derivation = Derivation::along(vec![self.any().clone()], vec![delta]);
        derivation.with(Location::caller(), |each| variables.map(each)).1
    }

    /// This layer, evaluated in a pass that keeps its values, where derivatives share all that they
    /// have in common: the current one, if it does, as that of a `train`; else, in a `predict`, one
    /// of its own.
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
        part(&kept, 0, place)
    }

    /// The Hessian of this layer (of the sum of its elements) times a direction, which has the
    /// shape of the gradients. It costs about as much as two gradients, whatever the number of
    /// variables is.
    ///
    /// This is the derivative of the gradients along the direction, forward over reverse:
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
        let gradients = list(&self.gradients(variables));
        let tangents = forward::tangents(place, gradients, list(variables), list(direction));
        variables.map(&mut EachVariable { derivatives: &tangents, variables: &mut Vec::new(), place })
    }
}

/// The derivative of a function as a function: `x ↦ ∂f(x)/∂x`, in the shape of `x`.
///
/// This generalises the paper's `typeSafeTransform`: `f` takes layers (or weights, or a tuple,
/// array or `Vec` of these) and ends with a layer of any type. What comes back has the same
/// argument, and so can be differentiated again.
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

/// Layers, and the deltas that a backward starts with there: 1, if there are none.
pub(crate) struct Derivation {
    pub(crate) roots: Vec<AnyLayer>,
    pub(crate) deltas: Vec<AnyLayer>,
    /// What is known not to depend on the variables: no walk goes below.
    pub(crate) known: Vec<AnyLayer>,
}

/// The value of the first root, and what was asked for of the variables: layers, or, where these
/// would have to look back at values that are gone, values.
#[derive(Clone)]
pub(crate) struct Derivatives(Arc<[AnyDelta]>);

impl Data for Derivatives {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }
}

/// Layers that were written down in a pass.
pub(crate) struct Written {
    layers: Vec<AnyLayer>,
    /// The operands of the first layer, if its value [waits](crate::Primitive::CAN_WAIT) for those
    /// of the others.
    waiting: Option<Vec<Value>>,
}

impl From<Vec<AnyLayer>> for Written {
    fn from(layers: Vec<AnyLayer>) -> Self {
        Written { layers, waiting: None }
    }
}

/// What becomes of what is written down.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Layers,
    /// Values alone, so one of them may wait for the others.
    Values,
}

/// A layer of derivatives that are written down in a pass that keeps its values: the current one,
/// or, where these would have to look back at values that are gone, one of their own.
pub(crate) fn derivatives<F, Fut>(place: &'static Location<'static>, write: F) -> Layer<Derivatives>
where
    F: Fn(Wanted) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Written>> + Send + 'static,
{
    let write = Arc::new(write);
    Layer::deciding(Decider::Derivatives, place, move || {
        let write = write.clone();
        async move {
            let derivatives = match pass::current().map(|pass| pass.keep()) {
                // the deltas of this pass may be differentiated again
                Some(Keep::Values) => write(Wanted::Layers).await?.layers.into_iter().map(AnyDelta::Lazy).collect(),
                // a pass that forgets its values cannot look back: take one that keeps them
                _ => {
                    let evaluated = move || evaluated(write(Wanted::Values));
                    let (written, values) = Do::starting(Belongs::Own(Purpose::Derive), evaluated).await?;
                    // that pass is over: what nobody looks back at any more need not be kept
                    settled(written, values)?.into_iter().map(AnyDelta::Ready).collect()
                }
            };
            Ok(Layer::constant_at(Derivatives(derivatives), place))
        }
    })
}

/// The values of all layers, or of all but the first one, which waits.
async fn evaluated(written: impl Future<Output = Result<Written>>) -> Result<(Written, Vec<Value>)> {
    let written = written.await?;
    let evaluated = &written.layers[usize::from(written.waiting.is_some())..];
    let values = ExtractAll::unsettled(evaluated.to_vec()).await?;
    Ok((written, values))
}

fn settled(Written { layers, waiting }: Written, mut values: Vec<Value>) -> Result<Vec<Value>> {
    if let (Some(operands), Expression::Primitive(op)) = (waiting, &layers[0].expression) {
        let operands: Vec<&Value> = operands.iter().collect();
        let _built = layers[0].enter();
        let beside = || pass::computing_in_task(|| op.value_beside(&operands, &values));
        let value = user_code::run_fallible(beside).map_err(|error| error.at(op.name_or_panic(), layers[0].site()))?;
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

    /// The layer that all derivatives are part of, and these.
    pub(crate) fn with<G>(
        self,
        place: &'static Location<'static>,
        map: impl FnOnce(&mut EachVariable<'_>) -> G,
    ) -> (Layer<Derivatives>, G) {
        let (this, variables) = (Arc::new(self), Arc::new(OnceLock::new()));
        let known = variables.clone();
        let derivatives =
            derivatives(place, move |wanted| this.clone().derive(known.get().cloned().unwrap_or_default(), wanted));
        let mut list = Vec::new();
        let gradients = map(&mut EachVariable { derivatives: &derivatives, variables: &mut list, place });
        let _ = variables.set(list);
        (derivatives, gradients)
    }

    /// Evaluates the roots in the current pass and writes down the derivatives.
    async fn derive(self: Arc<Self>, variables: Vec<AnyLayer>, wanted: Wanted) -> Result<Written> {
        let waits = wanted == Wanted::Values && self.may_wait(&variables);
        let below = if waits { self.below().await? } else { None };
        let (roots, waiting) = match below {
            Some((operands, slopes)) => (slopes, Some(operands)),
            None => (self.with_deltas().await?, None),
        };
        let pass = pass::current().expect("an extract ends in its pass");
        let mut found = reverse::derivatives_of(&pass, &roots, &variables, &self.known)?;
        for (variable, delta) in variables.iter().zip(&mut found) {
            if delta.is_none() {
                *delta = Some(zero(variable).await?);
            }
        }
        // somebody may have asked for the root meanwhile: a variable that depends on it, for
        // instance
        let is_there = waiting.is_some() && reverse::evaluated(&*reverse::kept(&pass)?, &self.roots[0]).is_ok();
        let waiting = waiting.filter(|_| !is_there);
        let first = self.roots.first().cloned();
        Ok(Written { layers: first.into_iter().chain(found.into_iter().flatten()).collect(), waiting })
    }

    /// The roots, which are evaluated, and the deltas that the walk begins with.
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

    /// Whether there is one root, whose value can wait, and which is itself no variable.
    fn may_wait(&self, variables: &[AnyLayer]) -> bool {
        let [root] = &self.roots[..] else { return false };
        let can_wait = matches!(&root.expression, Expression::Primitive(op) if op.can_wait());
        can_wait && self.deltas.is_empty() && !variables.iter().any(|variable| variable.identity() == root.identity())
    }

    /// The values of the operands of a root that waits, and these operands with the deltas that the
    /// walk then begins with. Nothing if it is not worth while to wait; nor when somebody watches,
    /// who is to see all of it.
    async fn below(&self) -> Result<Option<(Vec<Value>, Vec<(AnyLayer, AnyLayer)>)>> {
        let root = &self.roots[0];
        let Expression::Primitive(op) = &root.expression else { return Ok(None) };
        if pass::current().is_none_or(|pass| pass.is_watched()) {
            return Ok(None);
        }
        let values = ExtractAll::unsettled(op.operands().to_vec()).await?;
        let slopes = {
            let _rule = root.enter_rule(Direction::Backward);
            let slopes = || op.slopes(&values.iter().collect::<Vec<_>>());
            user_code::run(slopes).map_err(|error| error.at(op.name_or_panic(), root.site()))?
        };
        let with_slopes = |slopes: Few<Option<AnyLayer>>| {
            let with_slope = |(operand, slope): (&AnyLayer, Option<AnyLayer>)| Some((operand.clone(), slope?));
            op.operands().iter().zip(slopes).filter_map(with_slope).collect()
        };
        Ok(slopes.map(|slopes| (values, with_slopes(slopes))))
    }
}

/// The derivative with respect to a layer that nothing depends on.
pub(crate) async fn zero(layer: &AnyLayer) -> Result<AnyLayer> {
    let values = ExtractAll::new(vec![layer.clone()]).await?;
    let _rule = layer.enter_rule(Direction::Backward);
    let one = AnyDelta::Ready(reverse::one(layer, &values[0])?).into_layer(layer);
    Ok((layer.kind_of_data.scale_delta)(&one, 0.0))
}

/// One of some derivatives.
pub(crate) fn part<T: Data>(
    derivatives: &Layer<Derivatives>,
    which: usize,
    place: &'static Location<'static>,
) -> Layer<T> {
    let derivatives = derivatives.clone();
    Layer::deciding(Decider::Derivative, place, move || {
        let derivatives = derivatives.extract();
        async move {
            match derivatives.await?.0.get(which).cloned() {
                Some(AnyDelta::Lazy(layer)) => Ok(Layer::from_any(layer)),
                Some(AnyDelta::Ready(value)) => {
                    Ok(Layer::from_any(AnyLayer::new::<T>(Expression::constant(value), place)))
                }
                Some(_) => unreachable!("it is summed, and made, before it is a derivative"),
                None => Err(Error::invalid("`Variables::map` has to show the same variables each time")),
            }
        }
    })
}

/// The layers that some derivatives consist of.
pub(crate) fn list<V: Variables + ?Sized>(layers: &V) -> Vec<AnyLayer> {
    let mut list = Vec::new();
    let place = Location::caller();
    let none = Layer::constant_at(Derivatives(Arc::new([])), place);
    layers.map(&mut EachVariable { derivatives: &none, variables: &mut list, place });
    list
}
