//! Custom derivatives: stopped gradients, and functions with a derivative rule of their own.

use crate::api::built_in::BuiltIn;
use crate::api::primitive::{Along, At, Deltas, Operands, Primitive, sealed};
use crate::autodiff::forward;
use crate::error::Result;
use crate::graph::data::Data;
use crate::graph::delta::check_deltas;
use crate::graph::inline_box::InlineBox;
use crate::graph::layer::Layer;
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyAlong, AnyAt, AnyPrimitive, OperandVec};
use crate::graph::value::Value;
use std::any::Any;
use std::marker::PhantomData;

/// The result type of a rule for these operands: [`Deltas`] by operands instead of by primitive.
type DeltasOf<O> = <O as sealed::Operands>::Deltas;

/// A function of layers with a custom derivative rule.
///
/// The value is that of the layer that `function` returns for the operands. The derivative is
/// defined by `rule`: it gets the operands, that layer and the delta of its value, and returns the
/// deltas of the operands as layers (`None` where no gradient flows). A custom rule can be cheaper
/// or more accurate than the derivative of `function`, or deliberately different. No gradient flows
/// through `function` itself, nor to other layers that it uses.
///
/// The rule builds layers and computes nothing: it runs under the state lock of the pass. Each
/// delta is checked to have the shape of its operand.
///
/// Forward-mode derivatives transpose the rule, so it must be linear in the delta. For an operation
/// with its own kernel, implement [`Primitive`]. For a single operand, see [`Layer::with_rule`].
///
/// ```
/// use dl_core::{Differentiable, Weight, with_rule};
/// use dl_optim::Sgd;
/// // a hard gate, open if the score is positive; the gradient treats it as the score itself
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
    let mut all: Vec<NodeRef> = sealed::Operands::into_any(operands).as_ref().to_vec();
    all.push(value);
    let rule = move |at: AnyAt<'_>, operands: &[NodeRef]| {
        let (value, operands) = operands.split_last().expect("the value is the last operand");
        let (operands, value) = (O::from_any(operands), Layer::from_any(value.clone()));
        O::deltas(rule(&operands, &value, &Layer::from_any(at.delta)))
    };
    Layer::from_op(NodeOp::Primitive(InlineBox::operation(WithRule::<T, _> { operands: all, rule, data: PhantomData })))
}

/// The value of the last operand, with a rule for the others.
struct WithRule<T, F> {
    operands: Vec<NodeRef>,
    rule: F,
    data: PhantomData<fn() -> T>,
}

impl<T: Data, F> AnyPrimitive for WithRule<T, F>
where
    F: Fn(AnyAt<'_>, &[NodeRef]) -> OperandVec<Option<NodeRef>> + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        "with_rule"
    }

    fn operands(&self) -> &[NodeRef] {
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

    fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        let output = at.output;
        let mut deltas = (self.rule)(at, &self.operands);
        check_deltas(output, &self.operands, &mut deltas, |_, _| true);
        deltas.push(None); // no gradient flows into the function itself
        deltas
    }

    fn is_own(&self) -> bool {
        false
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
        let AnyAlong { values, output, value, .. } = along;
        let at = |delta: &Layer<T::Delta>| AnyAt {
            values,
            output,
            value,
            delta: delta.any().clone(),
            may_differentiate: true,
        };
        forward::transposed::<T>(&along, |delta| self.pullback(at(delta))).map(Layer::into_any)
    }
}

impl<T: Data> Layer<T> {
    /// A function of this layer with a custom derivative rule: [`with_rule`] for one operand. The
    /// rule gets this layer, the value, and the delta of the value.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight, max, min};
    /// let w = Weight::new(2.6_f64);
    /// // the straight-through estimator: rounded forward, identity backward (Bengio et al., 2013)
    /// let rounded = w.layer().with_rule(|x| (x + 0.5).floor(), |_, _, delta| delta.clone());
    /// assert_eq!(rounded.predict().wait()?, 3.0);
    /// assert_eq!(rounded.gradient(&w).predict().wait()?, 1.0);
    ///
    /// // the gradient is clipped on its way back
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

    /// This layer without its gradient: no gradient flows through it. The value is the same, and
    /// other uses of this layer are differentiated as before.
    ///
    /// PyTorch calls it `detach`, JAX and TensorFlow call it `stop_gradient`. To exclude a weight
    /// from training, use [`Weight::freeze`](crate::Weight::freeze).
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
        Layer::apply_built_in(StopGradient(PhantomData), (self.clone(),))
    }

    /// [`stop_gradient`](Layer::stop_gradient) under its PyTorch name.
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

/// The value of its operand. No gradient flows.
#[derive(Clone)]
struct StopGradient<T>(PhantomData<fn() -> T>);

impl<T: Data> Primitive for StopGradient<T> {
    type Operands = (Layer<T>,);
    type Output = T;

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

impl<T: Data> BuiltIn for StopGradient<T> {}
