//! The backward of the reference: deltas as expressions, and their order of summation.
//!
//! - Expressions are listed by a depth-first traversal from the root, operands from left to right,
//!   each after its operands. Only expressions through which a gradient can flow to a weight are
//!   listed.
//! - From the end of the list to its beginning, each expression propagates its delta to its
//!   operands, from left to right.
//! - The deltas of an expression are summed in the order of arrival.
//!
//! So consumers are visited in reverse order of the traversal. The operand of a dynamic node is the
//! layer to which it has resolved. A hand-written backward is a traversal of its own, at the
//! position of its node. The delta of a weight is the sum of the results of all traversals, in
//! their order.

use super::graph::{Binary, Kernel, Kind, Part};
use super::numbers::{Failure, Value};
use super::reference::{Expression, Id, Pass};
use super::rules;
use std::collections::HashMap;

/// The result of a training step: the value, and the delta of each weight that it reaches.
#[derive(Clone, Debug)]
pub(crate) struct Trained {
    pub(crate) value: Value,
    pub(crate) deltas: Vec<(usize, Value)>,
}

/// The side effects of a backward.
#[derive(Default)]
struct Effects {
    terms: Vec<(usize, Id)>,
    failure: Option<Failure>,
}

impl Pass<'_> {
    pub(crate) fn train(&mut self, root: Id) -> Result<Trained, Failure> {
        let value = self.value(root)?;
        let one = self.add(Expression::Constant(value.filled(1.0)));
        let deltas = self.backward(root, one)?.by_weight()?;
        let deltas = deltas.into_iter().map(|(weight, terms)| {
            let delta = self.sum(self.graph.weights[weight].kind, terms);
            Ok((weight, self.value(delta)?))
        });
        Ok(Trained { value, deltas: deltas.collect::<Result<_, Failure>>()? })
    }

    /// The delta of a weight, as an expression. In a pass that retains nothing for a backward, a
    /// nested pass computes its value.
    pub(crate) fn gradient(&mut self, of: Id, weight: usize) -> Result<Id, Failure> {
        if self.predict {
            let mut inside = self.inside(false);
            let gradient = inside.gradient(of, weight)?;
            let value = inside.value(gradient)?;
            return Ok(self.add(Expression::Constant(value)));
        }
        let one = self.value(of)?.filled(1.0);
        let one = self.add(Expression::Constant(one));
        let leads = self.leading_to(of, weight);
        let terms = self.backward_along(of, one, &leads)?.by_weight()?;
        Ok(match terms.into_iter().find(|(other, _)| *other == weight) {
            Some((_, terms)) => self.sum(self.graph.weights[weight].kind, terms),
            None => self.add(Expression::Constant(self.weights[weight].filled(0.0))),
        })
    }

    /// The expressions that depend on a weight, frozen or not. Dependencies of a hand-written
    /// backward are unknown.
    fn leading_to(&self, root: Id, weight: usize) -> Vec<bool> {
        let mut order = Vec::new();
        let all = vec![true; self.expressions.len()];
        self.walk(root, &all, &mut vec![false; self.expressions.len()], &mut order);
        let mut leads = vec![false; self.expressions.len()];
        for id in order {
            leads[id] = match &self.expressions[id] {
                Expression::Weight(other) => *other == weight,
                Expression::Tape(..) => true,
                _ => self.operands(id).iter().any(|&operand| leads[operand]),
            };
        }
        leads
    }

    /// Creates the deltas of all trained weights.
    fn backward(&mut self, root: Id, delta: Id) -> Result<Effects, Failure> {
        let trained = self.trained.clone();
        self.backward_along(root, delta, &trained)
    }

    /// Creates the deltas of the weights that `leads` reaches.
    fn backward_along(&mut self, root: Id, delta: Id, leads: &[bool]) -> Result<Effects, Failure> {
        let mut effects = Effects::default();
        let mut order = Vec::new();
        if leads[root] {
            self.walk(root, leads, &mut vec![false; self.expressions.len()], &mut order);
        }
        let mut arrived = HashMap::from([(root, vec![delta])]);
        for &id in order.iter().rev() {
            let Some(terms) = arrived.remove(&id) else { continue };
            let kind = self.kind(id);
            let delta = self.sum(kind, terms);
            match self.expressions[id].clone() {
                Expression::Weight(weight) => effects.terms.push((weight, delta)),
                Expression::Tape(parts, of) => {
                    for (part, of) in parts.iter().zip(of) {
                        effects.extend(self.backward_of_part(part, of, delta));
                    }
                }
                _ => {
                    let operands = self.operands(id).to_vec();
                    for (operand, delta) in operands.into_iter().zip(rules::pull_back(self, id, delta)?) {
                        if let Some(delta) = delta.filter(|_| leads[operand]) {
                            arrived.entry(operand).or_default().push(delta);
                        }
                    }
                }
            }
        }
        Ok(effects)
    }

    fn backward_of_part(&mut self, part: &Part, of: Id, delta: Id) -> Effects {
        let delta = self.add(Expression::Detached(delta, part.factor));
        let mut effects = match self.backward(of, delta) {
            Ok(effects) => effects,
            Err(failure) => Effects { terms: Vec::new(), failure: Some(failure) },
        };
        if let Some(scale) = part.scale {
            for (weight, delta) in &mut effects.terms {
                *delta = rules::scale(self, self.graph.weights[*weight].kind, *delta, scale);
            }
        }
        effects
    }

    /// The expressions through which a gradient flows from this one along `leads`, each after its
    /// operands.
    fn walk(&self, id: Id, leads: &[bool], seen: &mut [bool], order: &mut Vec<Id>) {
        if !std::mem::replace(&mut seen[id], true) {
            for &operand in self.operands(id).iter().filter(|&&operand| leads[operand]) {
                self.walk(operand, leads, seen, order);
            }
            order.push(id);
        }
    }

    /// The sum of the deltas of an expression of this kind.
    fn sum(&mut self, kind: Kind, terms: Vec<Id>) -> Id {
        match (kind, terms.as_slice()) {
            (_, [term]) => *term,
            (Kind::Many | Kind::Counted, _) => self.add(Expression::Kernel(Kernel::Sum, terms)),
            (_, [first, others @ ..]) => {
                others.iter().fold(*first, |sum, term| self.add(Expression::Binary(Binary::Add, [sum, *term])))
            }
            (_, []) => unreachable!("a delta has arrived"),
        }
    }
}

impl Effects {
    fn extend(&mut self, other: Effects) {
        self.terms.extend(other.terms);
        self.failure = self.failure.take().or(other.failure);
    }

    /// The terms of each weight, in the order of first occurrence.
    fn by_weight(self) -> Result<Vec<(usize, Vec<Id>)>, Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let mut groups: Vec<(usize, Vec<Id>)> = Vec::new();
        for (weight, delta) in self.terms {
            match groups.iter_mut().find(|(other, _)| *other == weight) {
                Some((_, terms)) => terms.push(delta),
                None => groups.push((weight, vec![delta])),
            }
        }
        Ok(groups)
    }
}
