//! Derivatives of your own: gradients that stop, and rules that replace those of a function.

use crate::data::Data;
use crate::error::Result;
use crate::forward;
use crate::layer::Layer;
use crate::node::{AnyLayer, Expression, Kept};
use crate::primitive::{Along, AnyAlong, AnyAt, AnyPrimitive, At, Deltas, Few, Operands, Primitive, sealed};
use crate::value::Value;
use std::any::Any;
use std::marker::PhantomData;

/// What a rule for these operands returns: as [`Deltas`], for a function in the place of a
/// primitive.
type DeltasOf<O> = <O as sealed::Operands>::Deltas;

/// A function of layers with a derivative rule of your own.
///
/// The value is that of the layer that `function` makes of the operands. The derivative is not:
/// `rule` is given the operands, that layer and the delta that arrives, and writes the deltas of
/// the operands, as layers (`None` where no gradient flows). So a derivative can be cheaper, more
/// accurate, or another one on purpose. No gradient flows through `function` itself, also not to
/// other layers that it mentions.
///
/// The rule writes layers and computes nothing: it runs while the books of the pass are locked.
/// What it gives is checked to have the shape of the operand.
///
/// For derivatives in forward mode, which transpose the rule, it has to be linear in the delta. For
/// a kernel of your own write a [`Primitive`]; for one operand there is [`Layer::with_rule`].
///
/// ```
/// use dl_core::{Differentiable, Sgd, Weight, with_rule};
/// // a hard gate, open if the score is positive: the gradient takes it for the score itself
/// let (score, x) = (Weight::new(0.5_f64), Weight::new(3.0_f64));
/// let gated = with_rule(
///     (score.layer(), x.layer()),
///     |(score, x)| score.sign().relu() * x,
///     |(score, x), _, delta| (Some(delta * x), Some(delta * score)),
/// );
/// assert_eq!(gated.predict().wait()?, 3.0);
/// assert_eq!(gated.gradient(&score).predict().wait()?, 3.0);
/// assert_eq!(gated.gradient(&x).predict().wait()?, 0.5);
/// # dl_core::Result::Ok(())
/// ```
#[track_caller]
pub fn with_rule<O: Operands, T: Data>(
    operands: O,
    function: impl FnOnce(&O) -> Layer<T>,
    rule: impl Fn(&O, &Layer<T>, &Layer<T::Delta>) -> DeltasOf<O> + Send + Sync + 'static,
) -> Layer<T> {
    let value = function(&operands).into_any();
    let mut all: Vec<AnyLayer> = sealed::Operands::into_any(operands).as_ref().to_vec();
    all.push(value);
    let rule = move |at: AnyAt<'_>, operands: &[AnyLayer]| {
        let (value, operands) = operands.split_last().expect("the value is the last operand");
        let (operands, value) = (O::from_any(operands), Layer::from_any(value.clone()));
        O::deltas(rule(&operands, &value, &Layer::from_any(at.delta)))
    };
    Layer::from_expression(Expression::Primitive(Kept::operation(WithRule::<T, _> {
        operands: all,
        rule,
        data: PhantomData,
    })))
}

/// The value of the last operand, with a rule for the others.
struct WithRule<T, F> {
    operands: Vec<AnyLayer>,
    rule: F,
    data: PhantomData<fn() -> T>,
}

impl<T: Data, F> AnyPrimitive for WithRule<T, F>
where
    F: Fn(AnyAt<'_>, &[AnyLayer]) -> Few<Option<AnyLayer>> + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        "with_rule"
    }

    fn operands(&self) -> &[AnyLayer] {
        &self.operands
    }

    fn op(&self) -> &dyn Any {
        &()
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        Ok(operands.last().map(|&value| value.clone()).expect("the value is the last operand"))
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        50.0
    }

    fn pullback(&self, at: AnyAt<'_>) -> Few<Option<AnyLayer>> {
        let mut deltas = (self.rule)(at, &self.operands);
        // a rule is easily written for the shape of the value; the sum with other deltas would hide
        // it
        for (delta, operand) in deltas.iter_mut().zip(&self.operands) {
            *delta = delta.take().map(|delta| (operand.kind_of_data.checked_delta)(operand, &delta));
        }
        deltas.push(None); // nothing flows into the function itself
        deltas
    }

    fn is_own(&self) -> bool {
        false
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<AnyLayer> {
        let AnyAlong { values, output, value, .. } = along;
        let at = |delta: &Layer<T::Delta>| AnyAt { values, output, value, delta: delta.any().clone() };
        forward::transposed::<T>(&along, |delta| self.pullback(at(delta))).map(Layer::into_any)
    }
}

impl<T: Data> Layer<T> {
    /// A function of this layer with a derivative rule of your own: [`with_rule`] for one operand.
    /// The rule is given this layer, the value, and the delta that arrives.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight, max, min};
    /// let w = Weight::new(2.6_f64);
    /// // the straight-through estimator: rounded on the way there, not on the way back (Bengio et al., 2013)
    /// let rounded = w.layer().with_rule(|x| (x + 0.5).floor(), |_, _, delta| delta.clone());
    /// assert_eq!(rounded.predict().wait()?, 3.0);
    /// assert_eq!(rounded.gradient(&w).predict().wait()?, 1.0);
    ///
    /// // a gradient that is clipped where it passes
    /// let clipped = w.layer().with_rule(|x| x.clone(), |_, _, delta| min(max(delta, -1.0), 1.0));
    /// assert_eq!((100.0 * clipped).gradient(&w).predict().wait()?, 1.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn with_rule<U: Data>(
        &self,
        function: impl FnOnce(&Layer<T>) -> Layer<U>,
        rule: impl Fn(&Layer<T>, &Layer<U>, &Layer<U::Delta>) -> Layer<T::Delta> + Send + Sync + 'static,
    ) -> Layer<U> {
        with_rule((self.clone(),), |(x,)| function(x), move |(x,), value, delta| (Some(rule(x, value, delta)),))
    }

    /// This layer, through which no gradient flows. The value is the same; what depends on it in
    /// other ways is differentiated as before.
    ///
    /// PyTorch calls it `detach`, JAX and TensorFlow call it `stop_gradient`. To exempt a weight
    /// from training altogether there is [`Weight::freeze`](crate::Weight::freeze).
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// let w = Weight::new(3.0_f64);
    /// let y = &w * w.layer().stop_gradient();
    /// assert_eq!(y.predict().wait()?, 9.0);
    /// assert_eq!(y.gradient(&w).predict().wait()?, 3.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[doc(alias = "detach")]
    #[track_caller]
    pub fn stop_gradient(&self) -> Layer<T> {
        Layer::apply(StopGradient(PhantomData), (self.clone(),))
    }

    /// The same as [`stop_gradient`](Layer::stop_gradient), under the name that it has in PyTorch.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// let w = Weight::new(3.0_f64);
    /// assert_eq!(w.layer().detach().gradient(&w).predict().wait()?, 0.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn detach(&self) -> Layer<T> {
        self.stop_gradient()
    }
}

/// Its operand; no gradient flows.
struct StopGradient<T>(PhantomData<fn() -> T>);

impl<T: Data> Primitive for StopGradient<T> {
    type Operands = (Layer<T>,);
    type Output = T;
    const IS_BUILT_IN: bool = true;

    fn name(&self) -> &'static str {
        "stop_gradient"
    }

    fn value(&self, (x,): (&T,)) -> Result<T> {
        Ok(x.clone())
    }

    fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
        (None,)
    }

    fn pushforward(&self, _: &Along<'_, Self>) -> Option<Layer<T::Delta>> {
        None
    }

    fn cost(&self, _: (&T,)) -> f64 {
        50.0
    }
}
