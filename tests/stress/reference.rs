//! The reference: a sequential interpreter of graphs, which shares no code with the library.
//!
//! A pass has a list of expressions and evaluates each at most once, on demand, operands from left
//! to right, so its first failure is the leftmost one. A backward appends deltas to the list (see
//! `backward.rs`).

use super::graph::*;
use super::numbers::{self, Failure, Value};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

/// The index of an expression.
pub(crate) type Id = usize;

#[derive(Clone)]
pub(crate) enum Expression<'g> {
    Constant(Value),
    Weight(usize),
    Unary(Unary, [Id; 1]),
    Binary(Binary, [Id; 2]),
    Kernel(Kernel, Vec<Id>),
    /// The value times a number; no gradient flows through it.
    Detached(Id, f64),
    /// Another expression; its deltas are the same.
    Same([Id; 1]),
    Computed(Vec<Id>),
    Tape(&'g [Part], Vec<Id>),
    Gradient(Id, usize),
    /// The body sees all earlier expressions.
    Dynamic(&'g Body, Rc<[Id]>),
}

pub(crate) struct Pass<'g> {
    pub(crate) graph: &'g Graph,
    /// The values of the weights, which are the first expressions.
    pub(crate) weights: &'g [Value],
    /// Whether nothing is retained for a backward.
    pub(crate) predict: bool,
    pub(crate) expressions: Vec<Expression<'g>>,
    results: Vec<Option<Result<Value, Failure>>>,
    /// Whether a gradient can flow through an evaluated expression to some weight.
    pub(crate) trained: Vec<bool>,
    /// The expression to which a dynamic node or a gradient has resolved.
    sources: HashMap<Id, [Id; 1]>,
    /// The number of evaluated kernels, those of nested passes included.
    kernels: Rc<Cell<usize>>,
}

impl<'g> Pass<'g> {
    /// Creates a pass, and the expressions of all nodes of the graph.
    pub(crate) fn new(graph: &'g Graph, weights: &'g [Value], predict: bool) -> (Self, Vec<Id>) {
        let mut pass = Pass {
            graph,
            weights,
            predict,
            expressions: Vec::new(),
            results: Vec::new(),
            trained: Vec::new(),
            sources: HashMap::new(),
            kernels: Rc::default(),
        };
        for weight in 0..weights.len() {
            pass.add(Expression::Weight(weight));
        }
        let mut seen = Vec::new();
        pass.enter(&graph.scope, &mut seen);
        (pass, seen)
    }

    pub(crate) fn kernels(&self) -> usize {
        self.kernels.get()
    }

    pub(crate) fn value(&mut self, id: Id) -> Result<Value, Failure> {
        if let Some(result) = &self.results[id] {
            return result.clone();
        }
        let result = self.compute(id);
        self.results[id] = Some(result.clone());
        result
    }

    pub(crate) fn add(&mut self, expression: Expression<'g>) -> Id {
        self.expressions.push(expression);
        self.results.push(None);
        self.trained.push(false);
        self.expressions.len() - 1
    }

    pub(crate) fn expression(&self, id: Id) -> &Expression<'g> {
        &self.expressions[id]
    }

    pub(crate) fn operands(&self, id: Id) -> &[Id] {
        match &self.expressions[id] {
            Expression::Unary(_, operands) | Expression::Same(operands) => operands,
            Expression::Binary(_, operands) => operands,
            Expression::Kernel(_, operands) => operands,
            Expression::Dynamic(..) | Expression::Gradient(..) => self.sources.get(&id).map_or(&[], |source| source),
            _ => &[],
        }
    }

    fn compute(&mut self, id: Id) -> Result<Value, Failure> {
        let expression = self.expressions[id].clone();
        match &expression {
            Expression::Constant(_) => {}
            Expression::Weight(weight) => self.trained[id] = !self.graph.weights[*weight].frozen,
            Expression::Tape(..) => self.trained[id] = true,
            Expression::Dynamic(body, seen) => {
                let source = self.decide(body, seen.to_vec())?;
                self.sources.insert(id, [source]);
            }
            Expression::Gradient(of, weight) => {
                let source = self.gradient(*of, *weight)?;
                self.sources.insert(id, [source]);
            }
            _ => {}
        }
        let operands = self.operands(id).to_vec();
        let values = operands.iter().map(|&operand| self.value(operand)).collect::<Result<Vec<_>, _>>()?;
        self.trained[id] |= operands.iter().any(|&operand| self.trained[operand]);
        match &expression {
            Expression::Constant(value) => Ok(value.clone()),
            Expression::Weight(weight) => Ok(self.weights[*weight].clone()),
            Expression::Unary(op, _) => Ok(numbers::unary(*op, &values[0])),
            Expression::Binary(op, _) => Ok(numbers::binary(*op, &values[0], &values[1])),
            Expression::Kernel(kernel, _) => {
                if !matches!((kernel, &values[0]), (Kernel::Sum, Value::Many(_))) {
                    self.kernels.set(self.kernels.get() + 1);
                }
                numbers::kernel(kernel, &values)
            }
            Expression::Same(_) | Expression::Dynamic(..) | Expression::Gradient(..) => Ok(values[0].clone()),
            Expression::Detached(of, factor) => Ok(Value::F64(self.value(*of)?.number() * factor)),
            Expression::Computed(parts) => {
                let mut sum = 0.0;
                for &part in parts {
                    sum += self.value(part)?.number();
                }
                Ok(Value::F64(sum))
            }
            Expression::Tape(parts, of) => {
                let mut sum = 0.0;
                for (part, &of) in parts.iter().zip(of) {
                    sum += part.factor * self.value(of)?.number();
                }
                Ok(Value::F64(sum))
            }
        }
    }

    /// Creates the expressions of a scope after those that it sees. Returns its result.
    fn enter(&mut self, scope: &'g Scope, seen: &mut Vec<Id>) -> Id {
        for node in &scope.nodes {
            let expression = match &node.op {
                Op::Constant(value) => Expression::Constant(Value::of(node.kind, *value)),
                Op::Weight(weight) => {
                    seen.push(*weight);
                    continue;
                }
                Op::Unary(op, x) => Expression::Unary(*op, [seen[*x]]),
                Op::Binary(op, [a, b]) => Expression::Binary(*op, [seen[*a], seen[*b]]),
                Op::Literal(op, x, number, left) => {
                    let number = self.add(Expression::Constant(Value::of(node.kind, 0.0).filled(*number)));
                    let operands = if *left { [number, seen[*x]] } else { [seen[*x], number] };
                    Expression::Binary(*op, operands)
                }
                Op::Kernel(kernel, operands, _) => {
                    Expression::Kernel(kernel.clone(), operands.iter().map(|&x| seen[x]).collect())
                }
                Op::Gradient(of, weight) => Expression::Gradient(seen[*of], *weight),
                Op::Forward(of) => Expression::Same([seen[*of]]),
                Op::Tape(tape) => Expression::Tape(&tape.parts, tape.parts.iter().map(|part| seen[part.of]).collect()),
                Op::Computed(parts, _) => Expression::Computed(parts.iter().map(|&x| seen[x]).collect()),
                Op::Dynamic(body) => Expression::Dynamic(body, seen.as_slice().into()),
            };
            let id = self.add(expression);
            seen.push(id);
        }
        seen[scope.result]
    }

    /// The expression to which the body of a dynamic node resolves.
    fn decide(&mut self, body: &'g Body, mut seen: Vec<Id>) -> Result<Id, Failure> {
        match body {
            Body::Branch { scores, threshold, then, otherwise, .. } => {
                let mut sum = 0.0;
                for &score in scores {
                    sum += self.value(seen[score])?.number();
                }
                let scope = if sum > *threshold { then } else { otherwise };
                Ok(self.enter(scope, &mut seen))
            }
            Body::Loop { start, rounds, limit, scope } => {
                let (mut state, outside) = (seen[*start], seen.len());
                for _ in 0..*rounds {
                    if self.value(state)?.number().abs() > *limit {
                        break;
                    }
                    seen.truncate(outside);
                    seen.push(state);
                    state = self.enter(scope, &mut seen);
                }
                Ok(state)
            }
            Body::Detached { of, number, route } => {
                let number = match route {
                    Route::Extract | Route::Forward => self.value(seen[*number])?,
                    Route::Predict | Route::Wait | Route::BlockOn => self.inside(true).value(seen[*number])?,
                };
                let number = self.add(Expression::Constant(number));
                Ok(self.add(Expression::Binary(Binary::Mul, [seen[*of], number])))
            }
            Body::Fails { after, number, panics } => {
                self.value(seen[*after])?;
                Err(Failure { number: *number, panics: *panics, delta: false, op: "differentiable function" })
            }
        }
    }

    /// A nested pass: it sees the same expressions, and evaluates them again.
    pub(crate) fn inside(&self, predict: bool) -> Pass<'g> {
        let new = self.expressions.len();
        Pass {
            predict,
            expressions: self.expressions.clone(),
            results: vec![None; new],
            trained: vec![false; new],
            sources: HashMap::new(),
            kernels: self.kernels.clone(),
            ..*self
        }
    }

    /// The kind of the value of an evaluated expression.
    pub(crate) fn kind(&self, id: Id) -> Kind {
        match &self.expressions[id] {
            Expression::Weight(weight) => self.graph.weights[*weight].kind,
            Expression::Kernel(Kernel::Enter | Kernel::Mix | Kernel::Stretch(_), _) => Kind::Counted,
            Expression::Kernel(Kernel::Sum, terms) => self.kind(terms[0]),
            Expression::Same([of]) => self.kind(*of),
            Expression::Dynamic(..) | Expression::Gradient(..) => self.kind(self.sources[&id][0]),
            _ => match &self.results[id] {
                Some(Ok(Value::F32(_))) => Kind::F32,
                Some(Ok(Value::Many(_))) => Kind::Many,
                _ => Kind::F64,
            },
        }
    }
}
