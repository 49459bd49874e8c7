//! Fused accumulation of the cotangent of a weight with many uses.
//!
//! A tree-LSTM uses a weight at every node of a tree. The cotangent of the weight is then a sum
//! with one product per node, and each product is as large as the weight. Only the sum reads them,
//! so each is added to the sum as it is computed (fused multiply-accumulate), with the same bits as
//! the sum of separate products.
//!
//! This applies only where cotangents are evaluated for the last time: for a training step, or for
//! gradients as values. Cotangents that may be differentiated again stay ordinary sums.

use crate::error::Result;
use crate::graph::inline_box::InlineBox;
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{AnyAlong, AnyAt, AnyPrimitive, OperandVec};
use crate::graph::value::Value;
use std::any::Any;

/// The same sum with fused terms. None if fewer than two terms can be fused.
pub(super) fn accumulated(sum: &NodeRef) -> Option<NodeRef> {
    let terms = summing(sum)?.operands();
    let left: Vec<bool> = terms.iter().map(|term| term.is_unique() && term.accumulates().is_some()).collect();
    if left.iter().filter(|&&left| left).count() < 2 {
        return None;
    }
    let (mut operands, mut values) = (Vec::new(), Vec::new());
    for (term, &left) in terms.iter().zip(&left) {
        for operand in if left { term.operands() } else { std::slice::from_ref(term) } {
            let constant = operand.op.as_constant();
            if constant.is_none() {
                operands.push(operand.clone());
            }
            values.push(constant);
        }
    }
    let mut left_terms = terms.iter().zip(&left).filter(|(_, left)| **left).filter_map(|(term, _)| term.accumulates());
    let is_pure = summing(sum)?.is_pure() && left_terms.all(|op| op.is_pure());
    let _entered = sum.enter();
    let accumulated = Accumulated { sum: sum.clone(), left, operands, values, is_pure };
    Some((sum.vtable.delta_layer)(NodeOp::Primitive(InlineBox::operation(accumulated)), sum.place))
}

/// The operation of the layer, if it is a sum.
fn summing(layer: &NodeRef) -> Option<&dyn AnyPrimitive> {
    match &layer.op {
        NodeOp::Primitive(op) if op.is_sum() => Some(&**op),
        _ => None,
    }
}

struct Accumulated {
    sum: NodeRef,
    /// For each term, whether it is fused. A fused term has no other consumer.
    left: Vec<bool>,
    /// The operands of the fused terms, and the other terms, in the order of the sum, without
    /// constants.
    operands: Vec<NodeRef>,
    /// The same list with the values of constants, and `None` for each of `operands`.
    values: Vec<Option<Value>>,
    /// Whether the sum and all fused operations are built-in.
    is_pure: bool,
}

impl Accumulated {
    fn summing(&self) -> &dyn AnyPrimitive {
        summing(&self.sum).expect("it was created from a sum")
    }

    /// The values of the operands of the fused terms, and of the other terms.
    fn values<'a>(&'a self, mut operands: &[&'a Value]) -> Vec<&'a Value> {
        let mut next = || operands.split_off_first().expect("a value for each operand");
        self.values.iter().map(|constant| constant.as_ref().unwrap_or_else(|| next())).collect()
    }

    /// All terms with the values of their operands, if all are fused; there are at least two.
    fn all_left<'a>(&'a self, operands: &'a [&'a Value]) -> Option<Vec<(&'a dyn AnyPrimitive, &'a [&'a Value])>> {
        let only = |term| match term {
            Term::Left(_, op, operands) => Some((op, operands)),
            Term::Whole(_) => None,
        };
        self.terms(operands).map(only).collect()
    }

    /// The terms, with these [`values`](Accumulated::values).
    fn terms<'a>(&'a self, mut values: &'a [&'a Value]) -> impl Iterator<Item = Term<'a>> {
        let mut next = move |count: usize| values.split_off(..count).expect("a value for each operand");
        self.sum.operands().iter().zip(&self.left).map(move |(term, &left)| match term.accumulates().filter(|_| left) {
            Some(op) => Term::Left(term, op, next(op.operands().len())),
            None => Term::Whole(next(1)[0]),
        })
    }
}

enum Term<'a> {
    Whole(&'a Value),
    Left(&'a NodeRef, &'a dyn AnyPrimitive, &'a [&'a Value]),
}

impl AnyPrimitive for Accumulated {
    fn name(&self) -> &'static str {
        self.summing().name()
    }

    fn operands(&self) -> &[NodeRef] {
        &self.operands
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        let operands = &self.values(operands)[..];
        // In one kernel, if all terms are operations of one type that has one.
        if let Some(terms) = self.all_left(operands)
            && let Some(sum) = terms[0].0.sum_of_values(&terms)
        {
            return Ok(sum);
        }
        let mut sum: Option<Value> = None;
        for term in self.terms(operands) {
            let made = match (term, &mut sum) {
                (Term::Left(_, op, operands), Some(sum)) if op.can_accumulate(operands, sum) => {
                    op.accumulate(operands, 1.0, sum);
                    continue;
                }
                (Term::Left(term, op, operands), _) => {
                    op.value(operands).map_err(|error| error.at(op.name(), term.site()))?
                }
                (Term::Whole(value), _) => value.clone(),
            };
            sum = Some(match sum {
                Some(sum) => self.summing().value(&[&sum, &made])?,
                None => made,
            });
        }
        Ok(sum.expect("a sum has terms"))
    }

    fn is_pure(&self) -> bool {
        self.is_pure
    }

    fn cost(&self, operands: &[&Value]) -> f64 {
        let operands = &self.values(operands)[..];
        if let Some(terms) = self.all_left(operands)
            && let Some(nanoseconds) = terms[0].0.cost_of_sum(&terms)
        {
            return nanoseconds;
        }
        self.terms(operands)
            .map(|term| match term {
                Term::Whole(value) => self.summing().cost(&[value, value]),
                Term::Left(_, op, operands) => op.cost(operands),
            })
            .sum()
    }

    fn pullback(&self, _: AnyAt<'_>) -> OperandVec<Option<NodeRef>> {
        unreachable!("it is not differentiated again")
    }

    fn pushforward(&self, _: AnyAlong<'_>) -> Option<NodeRef> {
        unreachable!("it is not differentiated again")
    }
}
