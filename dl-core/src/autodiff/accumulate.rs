//! The delta of a weight that is used many times, without all its terms in memory.
//!
//! A tree-LSTM uses a weight at every node of a tree, so its delta is a sum of as many products,
//! each of them as large as the weight. Nobody but the sum wants them. So they are added up as they
//! are computed, in one place, which is to the bit what it would be if they were made first.
//!
//! Only where deltas are evaluated for good, for a step or for gradients as plain values: what is
//! written down, and may be differentiated again, stays a sum.

use crate::error::Result;
use crate::graph::inline_box::Kept;
use crate::graph::node::Expression;
use crate::graph::node_ref::AnyLayer;
use crate::graph::op::{AnyAlong, AnyAt, AnyPrimitive, Few};
use crate::graph::value::Value;
use std::any::Any;

/// The same sum, with terms that are left to it; none if there are not at least two of them.
pub(super) fn accumulated(sum: &AnyLayer) -> Option<AnyLayer> {
    let terms = summing(sum)?.operands();
    let left: Vec<bool> = terms.iter().map(|term| term.is_lone() && term.accumulates().is_some()).collect();
    if left.iter().filter(|&&left| left).count() < 2 {
        return None;
    }
    let operands = |(term, &left): (&AnyLayer, &bool)| if left { term.operands().to_vec() } else { vec![term.clone()] };
    let operands = terms.iter().zip(&left).flat_map(operands).collect();
    let mut left_terms = terms.iter().zip(&left).filter(|(_, left)| **left).filter_map(|(term, _)| term.accumulates());
    let is_plain = summing(sum)?.is_plain() && left_terms.all(|op| op.is_plain());
    let _entered = sum.enter();
    let accumulated = Accumulated { sum: sum.clone(), left, operands, is_plain };
    Some((sum.kind_of_data.delta_layer)(Expression::Primitive(Kept::operation(accumulated)), sum.place))
}

/// The operation, if this is a sum.
fn summing(layer: &AnyLayer) -> Option<&dyn AnyPrimitive> {
    match &layer.expression {
        Expression::Primitive(op) if op.is_sum() => Some(&**op),
        _ => None,
    }
}

struct Accumulated {
    sum: AnyLayer,
    /// Whether this term, which nobody else wants, is left to the sum.
    left: Vec<bool>,
    /// Those of the terms that are left to the sum, and the other terms.
    operands: Vec<AnyLayer>,
    /// Whether the sum and all that is left to it are operations of the library.
    is_plain: bool,
}

impl Accumulated {
    fn summing(&self) -> &dyn AnyPrimitive {
        summing(&self.sum).expect("it was made of a sum")
    }

    /// The terms with their operands, if all of them are left to it: at least two.
    fn all_left<'a>(&'a self, operands: &'a [&'a Value]) -> Option<Vec<(&'a dyn AnyPrimitive, &'a [&'a Value])>> {
        let only = |term| match term {
            Term::Left(_, op, operands) => Some((op, operands)),
            Term::Whole(_) => None,
        };
        self.terms(operands).map(only).collect()
    }

    /// The terms, with these values of the operands.
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
    Left(&'a AnyLayer, &'a dyn AnyPrimitive, &'a [&'a Value]),
}

impl AnyPrimitive for Accumulated {
    fn name(&self) -> &'static str {
        self.summing().name()
    }

    fn operands(&self) -> &[AnyLayer] {
        &self.operands
    }

    fn op(&self) -> &dyn Any {
        self
    }

    fn value(&self, operands: &[&Value]) -> Result<Value> {
        // in one go, if they are operations of one type that knows how
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

    fn is_plain(&self) -> bool {
        self.is_plain
    }

    fn cost(&self, operands: &[&Value]) -> f64 {
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

    fn pullback(&self, _: AnyAt<'_>) -> Few<Option<AnyLayer>> {
        unreachable!("nobody but its pass has it")
    }

    fn pushforward(&self, _: AnyAlong<'_>) -> Option<AnyLayer> {
        unreachable!("nobody but its pass has it")
    }
}
