//! The trait of derivatives, [`Delta`].

use crate::error::{Error, Result};
use crate::graph::data::Data;
use crate::graph::inline_box::InlineBox;
use crate::graph::layer::Layer;
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyAlong, AnyAt, AnyPrimitive, OperandVec};
use crate::graph::value::Value;
use smallvec::smallvec;
use std::any::{Any, TypeId};

/// A type of derivatives (*cotangents* and *tangents*): a vector space.
///
/// Deltas are lazy layers, so these methods build the sum and the multiple of deltas as layers;
/// they do not compute them.
///
/// ```
/// use dl_core::{Delta, Differentiable, Layer};
/// let sum = <f64 as Delta>::sum(vec![Layer::constant(1.0), Layer::constant(2.5)]);
/// assert_eq!(sum.predict().wait()?, 3.5);
/// assert_eq!(<f64 as Delta>::scale(&sum, 2.0).predict().wait()?, 7.0);
/// assert_eq!(3.0_f64.squared_norm(), 9.0);
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a derivative",
    note = "derivatives are `f32`, `f64`, tensors of these, `Nothing` for data that have none, or a type of your own that implements `Delta`"
)]
pub trait Delta: Data<Delta = Self> {
    /// The sum of one or more layers, in their order.
    fn sum(terms: Vec<Layer<Self>>) -> Layer<Self>;

    /// The sum of zero or more layers, in their order. The sum of no layers is
    /// [`none`](Delta::none).
    #[doc(hidden)]
    #[track_caller]
    fn sum_of(terms: impl Iterator<Item = Layer<Self>>) -> Layer<Self> {
        let terms: Vec<Layer<Self>> = terms.collect();
        if terms.is_empty() { Self::none() } else { Self::sum(terms) }
    }

    /// Adds another delta in place, with the same bits as the value of their [`sum`](Delta::sum).
    /// Returns whether it did; if not, the value is unchanged.
    #[doc(hidden)]
    fn add_in_place(&mut self, other: &Self) -> bool {
        let _ = other;
        false
    }

    /// The sum of no layers: zero for scalars. Where the sum has no known shape, as for tensors, it
    /// is a layer that fails when it is evaluated.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer};
    /// let nothing: Layer<f64> = std::iter::empty::<Layer<f64>>().sum();
    /// assert_eq!(nothing.predict().wait()?, 0.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn none() -> Layer<Self> {
        Layer::dynamic(|| async { Err(Error::invalid("the sum of no layers has no shape")) })
    }

    /// `factor` times a layer.
    fn scale(layer: &Layer<Self>, factor: f64) -> Layer<Self>;

    /// The sum of the squares of its numbers.
    /// [`SideEffects::clip_norm`](crate::SideEffects::clip_norm) adds it up over the weights.
    fn squared_norm(&self) -> f64;
}

/// The derivative of data without a derivative: masks, labels, random seeds.
///
/// ```
/// use dl_core::{Data, Layer, Nothing};
/// #[derive(Clone)]
/// struct Name(String);
/// impl Data for Name {
///     type Delta = Nothing;
///     fn one(&self) -> Nothing {
///         Nothing
///     }
/// }
/// let name = Layer::constant(Name("left".into()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nothing;

impl Data for Nothing {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }
}

impl Delta for Nothing {
    fn sum(mut terms: Vec<Layer<Nothing>>) -> Layer<Nothing> {
        terms.swap_remove(0)
    }

    #[track_caller]
    fn none() -> Layer<Nothing> {
        Layer::constant(Nothing)
    }

    fn scale(layer: &Layer<Nothing>, _: f64) -> Layer<Nothing> {
        layer.clone()
    }

    fn squared_norm(&self) -> f64 {
        0.0
    }
}

/// A layer with this delta that checks at evaluation whether it belongs to the value. An error has
/// the source location of the delta or, if a rule of an operation returned it, the name and the
/// source location of that operation.
pub(crate) fn checked(value: &NodeRef, delta: &NodeRef, by: Option<(&NodeRef, Rule)>) -> NodeRef {
    let kind = value.vtable;
    if [TypeId::of::<f32>(), TypeId::of::<f64>()].contains(&(kind.id)()) {
        return delta.clone();
    }
    let (place, by) = by.map_or((delta.place, None), |(op, rule)| (op.place, Some((op.name_or_panic(), rule))));
    let checked = InlineBox::operation(CheckedDelta { operands: [value.clone(), delta.clone()], by });
    (kind.delta_layer)(NodeOp::Primitive(checked), place)
}

/// Adds such a check to the selected deltas that a rule of user code returned for these operands. A
/// sum with other deltas could hide a wrong shape.
pub(crate) fn check_deltas(
    op: &NodeRef,
    operands: &[NodeRef],
    deltas: &mut [Option<NodeRef>],
    selected: impl Fn(&NodeRef, &NodeRef) -> bool,
) {
    for (number, (delta, operand)) in deltas.iter_mut().zip(operands).enumerate() {
        if let Some(delta) = delta.as_mut().filter(|delta| selected(operand, delta)) {
            *delta = checked(operand, delta, Some((op, Rule::Pullback(number))));
        }
    }
}

/// A rule of a user operation.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// For the operand with this number.
    Pullback(usize),
    Pushforward,
}

/// (value, delta) ↦ delta
struct CheckedDelta {
    operands: [NodeRef; 2],
    /// The name of the operation whose rule returned the delta.
    by: Option<(&'static str, Rule)>,
}

impl AnyPrimitive for CheckedDelta {
    fn name(&self) -> &'static str {
        self.by.map_or("derivative", |(name, _)| name)
    }

    fn operands(&self) -> &[NodeRef] {
        &self.operands
    }

    fn op(&self) -> &dyn Any {
        &()
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        let fits = (self.operands[0].vtable.check_delta)(operands[0], operands[1]);
        fits.map(|()| operands[1].clone()).map_err(|error| match self.by {
            Some((_, Rule::Pullback(operand))) => error.context(format_args!("the pullback to operand {operand}")),
            Some((_, Rule::Pushforward)) => error.context("the pushforward"),
            None => error,
        })
    }

    fn cost(&self, _: &[&Value]) -> f64 {
        50.0
    }

    fn pullback(&self, at: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        smallvec![None, Some(at.delta)]
    }

    fn pushforward(&self, along: AnyAlong<'_>) -> Option<NodeRef> {
        along.tangents[1].clone()
    }
}
