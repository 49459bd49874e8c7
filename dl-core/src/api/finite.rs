//! Non-finite numbers: failing on them, and finding the operation that produced the first one.
//!
//! ```
//! use dl_core::{Differentiable, Optimizer, Weight};
//! use dl_optim::{OptimizerExt, Sgd};
//! let w = Weight::new(-1.0_f64);
//! let loss = w.ln() * 2.0;
//! let sgd = Sgd::new(0.1).refuse_non_finite();
//! let error = loss.refuse_non_finite().train(&sgd).wait().unwrap_err();
//! assert!(error.is_not_finite() && w.value() == -1.0);
//! // nothing has changed, so the loss can be evaluated again
//! let first = loss.first_non_finite().wait()?.expect("the step failed");
//! assert!(first.op() == Some("ln") && first.place().is_some());
//! # dl_core::Result::Ok(())
//! ```

use crate::api::built_in::BuiltIn;
use crate::api::deferred::Do;
use crate::api::primitive::{Along, At, Deltas, Primitive};
use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::{forward, reverse};
use crate::error::{Error, Result};
use crate::exec::computation::PassChoice;
use crate::exec::extract::{ExtractAll, ExtractValue};
use crate::exec::{self, Pass, PassState, Purpose, Status};
use crate::graph::data::Data;
use crate::graph::layer::Layer;
use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

impl<T: Data> Layer<T> {
    /// This layer, with an error in place of a value that is not finite. Applied to a loss, it
    /// makes a training step fail. For deltas, see
    /// `OptimizerExt::refuse_non_finite`.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// let w = Weight::new(1.0_f64);
    /// assert_eq!(w.exp().refuse_non_finite().predict().wait()?, 1_f64.exp());
    /// w.set(1e3);
    /// assert!(w.exp().refuse_non_finite().predict().wait().unwrap_err().is_not_finite());
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn refuse_non_finite(&self) -> Layer<T> {
        Layer::apply_built_in(Finite(PhantomData), (self.clone(),))
    }

    /// Finds the first operation whose value or derivative is not finite although all its inputs
    /// are. Returns an error with the name and the source location of the operation, or `None`.
    ///
    /// It runs forward and backward in a pass that retains all values, and changes nothing. After a
    /// failed step, with the same [`seed`](Do::seed), it therefore sees the values of that step.
    ///
    /// Values are checked before derivatives. A non-finite value counts if it leads to a non-finite
    /// value of this layer; the infinite numbers of a mask before a softmax do not. The first value
    /// is the first in program order. The first derivative is that of the last operation in program
    /// order.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// let w = Weight::new(0.0_f64);
    /// let root = w.sqrt(); // 0, with an infinite derivative
    /// let loss = &root * 2.0 + Layer::constant(1.0);
    /// let error = loss.first_non_finite().wait()?.expect("the derivative");
    /// assert!(error.to_string().starts_with("sqrt: its derivative has inf in it"));
    /// w.set(1.0);
    /// assert!(loss.first_non_finite().wait()?.is_none());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`predict`](crate::Differentiable::predict).
    pub fn first_non_finite(&self) -> Do<Option<Error>> {
        let root = self.any().clone();
        Do::starting(PassChoice::New(Purpose::Train), move || find_first_non_finite(root.clone()))
    }
}

/// x ↦ x
#[derive(Clone)]
struct Finite<T>(PhantomData<fn() -> T>);

impl<T: Data> Primitive for Finite<T> {
    type Operands = (Layer<T>,);
    type Output = T;

    fn name(&self) -> &'static str {
        "refuse_non_finite"
    }

    fn value(&self, (x,): (&T,)) -> Result<T> {
        match x.non_finite() {
            Some(number) => Err(Error::not_finite(format!("the value has {number} in it"))),
            None => Ok(x.clone()),
        }
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<T::Delta>> {
        along.tangents.0.clone()
    }

    fn cost(&self, _: (&T,)) -> f64 {
        50.0
    }
}

impl<T: Data> BuiltIn for Finite<T> {}

async fn find_first_non_finite(root: NodeRef) -> Result<Option<Error>> {
    let value = ExtractValue::new(root.clone()).await?;
    let pass = exec::current().expect("an extract ends in its pass");
    let _hold = forward::hold(&pass, std::slice::from_ref(&root)).await?;
    let order = {
        let state = reverse::kept(&pass)?;
        let place = reverse::evaluated(&state, &root)?;
        let order = reverse::order(&state, [place], |_, _, _| true);
        if let Some(error) = first_non_finite_value(&state, place, &order) {
            return Ok(Some(error));
        }
        order
    };
    let one = AnyDelta::Ready(reverse::one(&root, &value)?).into_layer(&root);
    NodeDeltas::new(&pass, (root, one), order).await?.find_first().await
}

/// The first of these nodes with a non-finite value that leads to a non-finite value of the root.
fn first_non_finite_value(state: &PassState, root: u32, order: &[u32]) -> Option<Error> {
    let non_finite = |index| match state.status(index) {
        Status::Ready(value) => (state.node(index).vtable.non_finite)(value.as_value()),
        _ => None,
    };
    let below = |index| (0..state.edges(index)).map(move |which| state.edge(index, which));
    let mut leading: HashMap<u32, f64> = non_finite(root).map(|number| (root, number)).into_iter().collect();
    for &index in order.iter().rev() {
        if leading.contains_key(&index) {
            leading.extend(below(index).filter_map(|operand| Some((operand, non_finite(operand)?))));
        }
    }
    let is_first = |index: u32| below(index).all(|operand| !leading.contains_key(&operand));
    let &first = order.iter().find(|&&index| leading.contains_key(&index) && is_first(index))?;
    let (node, number) = (state.node(first), leading[&first]);
    let but = if state.edges(first) == 0 { "" } else { ", and all its inputs are finite" };
    Some(Error::not_finite(format!("its value has {number} in it{but}")).at(node.name(), node.site()))
}

/// All nodes that a training step differentiates, with their deltas.
struct NodeDeltas<'a> {
    pass: &'a Arc<Pass>,
    /// Operands before their consumers.
    order: Vec<u32>,
    deltas: HashMap<u32, (NodeRef, Value)>,
}

impl<'a> NodeDeltas<'a> {
    async fn new(pass: &'a Arc<Pass>, root: (NodeRef, NodeRef), mut order: Vec<u32>) -> Result<Self> {
        let layers: Vec<NodeRef> = {
            let mut state = reverse::kept(pass)?;
            order.retain(|&index| state.trained(index));
            order.iter().map(|&index| state.handle(index)).collect()
        };
        let (found, _) = reverse::deltas_of(pass, &[root], &layers, &[])?;
        let (places, found): (Vec<u32>, Vec<NodeRef>) =
            order.iter().zip(found).filter_map(|(&index, delta)| Some((index, delta?))).unzip();
        let values = ExtractAll::new(found.clone()).await?;
        let deltas = places.into_iter().zip(found.into_iter().zip(values)).collect();
        Ok(NodeDeltas { pass, order, deltas })
    }

    /// The operation that produces the first delta that is not finite.
    async fn find_first(&self) -> Result<Option<Error>> {
        let state = || reverse::kept(self.pass);
        let non_finite = |state: &PassState, &index: &u32| {
            let (_, delta) = self.deltas.get(&index)?;
            Some((index, (state.node(index).vtable.non_finite_delta)(delta)?))
        };
        let (target, number, consumers) = {
            let state = state()?;
            let first = self.order.iter().rev().find_map(|index| non_finite(&state, index));
            let Some((target, number)) = first else { return Ok(None) };
            let uses = |&index: &u32| (0..state.edges(index)).any(|which| state.edge(index, which) == target);
            (target, number, self.order.iter().rev().copied().filter(uses).collect::<Vec<u32>>())
        };
        for &consumer in &consumers {
            if let Some(number) = self.contribution(consumer, target).await? {
                let node = state()?.node(consumer);
                let why = format!("its derivative has {number} in it, and all its inputs are finite");
                return Ok(Some(Error::not_finite(why).at(node.name(), node.site())));
            }
        }
        let node = state()?.node(target);
        let why = match consumers.len() {
            0 => format!("a hand-written backward returned a delta with {number} in it"),
            _ => format!("the sum of its deltas has {number} in it, and each of them is finite"),
        };
        Ok(Some(Error::not_finite(why).at(node.name(), node.site())))
    }

    /// A non-finite number in the delta that a consumer passes to one of its operands.
    async fn contribution(&self, consumer: u32, target: u32) -> Result<Option<f64>> {
        let Some((_, delta)) = self.deltas.get(&consumer).filter(|(layer, _)| !layer.is_absent()).cloned() else {
            return Ok(None);
        };
        let (layer, operand, known, non_finite) = {
            let mut state = reverse::kept(self.pass)?;
            let others = (0..state.edges(consumer)).map(|which| state.edge(consumer, which));
            let others: Vec<u32> = others.filter(|&other| other != target).collect();
            let known: Vec<NodeRef> = others.into_iter().map(|other| state.handle(other)).collect();
            let non_finite = state.node(target).vtable.non_finite_delta;
            (state.handle(consumer), state.handle(target), known, non_finite)
        };
        let delta = AnyDelta::Ready(delta).into_layer(&layer);
        let (found, _) = reverse::deltas_of(self.pass, &[(layer, delta)], &[operand], &known)?;
        let values = ExtractAll::new(found.into_iter().flatten().collect()).await?;
        Ok(values.iter().find_map(non_finite))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Differentiable, Layer, Result, Weight, max};

    /// The name of the operation found, and its line relative to that of the macro.
    fn found_op(layer: &Layer<f64>) -> Result<Option<(&'static str, u32)>> {
        let found = layer.first_non_finite().wait()?;
        Ok(found.map(|error| {
            assert!(error.is_not_finite(), "{error}");
            (error.op().expect("an operation"), error.place().expect("a place").line())
        }))
    }

    #[test]
    fn first_non_finite_finds_first_value() -> Result<()> {
        let w = Weight::new(1000.0);
        let line = line!();
        let large = w.exp();
        let quotient = &large / &large;
        let loss: Layer<f64> = quotient + w.sin();
        assert!(loss.predict().wait()?.is_nan());
        assert_eq!(found_op(&loss)?, Some(("exp", line + 1)));
        w.set(1.0);
        assert_eq!(found_op(&loss)?, None);
        Ok(())
    }

    #[test]
    fn first_non_finite_finds_constants_and_weights() -> Result<()> {
        let line = line!();
        let input = Layer::constant(f64::NAN);
        let w = Weight::new(f64::INFINITY);
        assert_eq!(found_op(&(&input * 2.0))?, Some(("constant", line + 1)));
        assert_eq!(found_op(&(&w * 2.0))?, Some(("weight", line + 2)));
        Ok(())
    }

    #[test]
    fn first_non_finite_ignores_masked_infinity() -> Result<()> {
        let w = Weight::new(-1.0);
        let masked = max(Layer::constant(f64::NEG_INFINITY), &w);
        let line = line!();
        assert_eq!(found_op(&(masked * w.ln()))?, Some(("ln", line + 1)));
        assert_eq!(found_op(&max(Layer::constant(f64::NEG_INFINITY), &w))?, None);
        Ok(())
    }

    #[test]
    fn first_non_finite_finds_first_derivative() -> Result<()> {
        let (w, v) = (Weight::new(0.0), Weight::new(2.0));
        let line = line!();
        let root = w.sqrt();
        let loss = &v * &root + w.cos() + &w * &v;
        assert_eq!(found_op(&loss)?, Some(("sqrt", line + 1)));
        // A frozen weight takes no derivative.
        w.freeze();
        assert_eq!(found_op(&loss)?, None);
        Ok(())
    }

    #[test]
    fn first_non_finite_finds_overflow_in_sum_of_deltas() -> Result<()> {
        let w = Weight::new(-1.0);
        let line = line!();
        let hidden = &w + 1.0;
        let loss = &hidden * 1e308 + &hidden * 1e308;
        let error = loss.first_non_finite().wait()?.expect("the sum overflows");
        assert!(error.to_string().contains("the sum of its deltas has inf in it"), "{error}");
        assert_eq!(error.place().map(|place| place.line()), Some(line + 1));
        Ok(())
    }

    #[test]
    fn first_non_finite_sees_through_dynamic_layers_and_checkpoints() -> Result<()> {
        let w = Weight::new(0.0);
        let line = line!();
        let root = |x: Layer<f64>| x.sqrt();
        let inner = w.clone();
        let decided = Layer::dynamic(move || {
            let layer = root(inner.layer());
            async move { Ok(layer) }
        });
        assert_eq!(found_op(&(&decided * 2.0))?, Some(("sqrt", line + 1)));
        let marked = ((&w + 0.0).sqrt() + 1.0).checkpoint();
        assert_eq!(found_op(&(marked.sin().checkpoint() * 2.0))?, Some(("sqrt", line + 8)));
        let marked = ((&w - 1.0).ln() + 1.0).checkpoint();
        assert_eq!(found_op(&(marked.sin().checkpoint() * 2.0))?, Some(("ln", line + 10)));
        Ok(())
    }
}
