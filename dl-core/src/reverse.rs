//! The reverse pass: from the delta of a root to lazy deltas of the weights.
//!
//! It walks the evaluated graph from the root towards the weights, each node once, and *writes down* the deltas: what arrives at
//! a node from its consumers is summed in the order in which they are visited, which is fixed by the graph. Where node and delta
//! are plain numbers the deltas are computed at once (the numeric reading of the rules, see [`crate::rules`]); elsewhere they
//! are layers, which the executor evaluates like any others.

use crate::error::{Error, Result};
use crate::layer::Layer;
use crate::node::{AnyLayer, Expression};
use crate::pass::{Books, Mode, NONE, Pass, Status};
use crate::primitive::AnyAt;
use crate::rules::{Algebra, Binary, Term, Unary};
use crate::side_effects::SideEffects;
use crate::value::{Repr, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The delta of some node, computed or yet to be computed.
#[derive(Clone)]
pub(crate) enum Delta {
    Ready(Value),
    Lazy(AnyLayer),
}

impl Delta {
    /// This delta of `node`, as a layer.
    pub(crate) fn into_layer(self, node: &AnyLayer) -> AnyLayer {
        match self {
            Delta::Ready(value) => (node.kind_of_data.constant_delta)(value),
            Delta::Lazy(layer) => layer,
        }
    }

    /// The sum of some deltas of `node`, in their order.
    pub(crate) fn sum(node: &AnyLayer, mut deltas: Vec<Delta>) -> Delta {
        if deltas.len() == 1 {
            return deltas.remove(0);
        }
        let layers = deltas.into_iter().map(|delta| delta.into_layer(node)).collect();
        Delta::Lazy((node.kind_of_data.sum_deltas)(layers))
    }
}

/// What has arrived at a node so far.
#[derive(Clone)]
enum Arrived {
    Nothing,
    F32(f32),
    F64(f64),
    /// Not boxed unless there is more than a number: most nodes of a scalar net never see it.
    #[allow(clippy::box_collection, reason = "keeps the common case at two words")]
    Many(Box<Vec<Delta>>),
}

impl Arrived {
    #[inline]
    fn add(&mut self, delta: Delta) {
        match (&mut *self, &delta) {
            (Arrived::F32(sum), Delta::Ready(Value(Repr::F32(number)))) => *sum += number,
            (Arrived::F64(sum), Delta::Ready(Value(Repr::F64(number)))) => *sum += number,
            (Arrived::Nothing, Delta::Ready(Value(Repr::F32(number)))) => *self = Arrived::F32(*number),
            (Arrived::Nothing, Delta::Ready(Value(Repr::F64(number)))) => *self = Arrived::F64(*number),
            (Arrived::Many(deltas), _) => deltas.push(delta),
            _ => {
                let mut deltas: Vec<Delta> = self.take_number().into_iter().collect();
                deltas.push(delta);
                *self = Arrived::Many(Box::new(deltas));
            }
        }
    }

    fn take_number(&mut self) -> Option<Delta> {
        match std::mem::replace(self, Arrived::Nothing) {
            Arrived::F32(number) => Some(Delta::Ready(Value(Repr::F32(number)))),
            Arrived::F64(number) => Some(Delta::Ready(Value(Repr::F64(number)))),
            _ => None,
        }
    }

    /// The sum of all that has arrived at `node`.
    #[inline]
    fn take(&mut self, node: &AnyLayer) -> Option<Delta> {
        match std::mem::replace(self, Arrived::Nothing) {
            Arrived::Nothing => None,
            Arrived::F32(number) => Some(Delta::Ready(Value(Repr::F32(number)))),
            Arrived::F64(number) => Some(Delta::Ready(Value(Repr::F64(number)))),
            Arrived::Many(deltas) => Some(Delta::sum(node, *deltas)),
        }
    }
}

/// The lazy deltas of all weights that `root`, which has been evaluated in `pass`, depends on.
///
/// # Errors
/// A panic in a rule of the user's; a pass that does not keep its values.
pub(crate) fn side_effects(pass: &Arc<Pass>, root: &AnyLayer, delta: Delta) -> Result<SideEffects> {
    let mut effects = SideEffects::none();
    let mut books = pass.books();
    if books.mode == Mode::Predict {
        let why =
            "a backward inside `predict`, which keeps no values for it: run it in `train`, or in a pass of its own";
        return Err(Error::invalid(why));
    }
    let Some(root) = books.find(root).filter(|&root| matches!(books.status(root), Status::Done(_))) else {
        return Err(Error::cancelled());
    };
    if !books.trained(root) {
        return Ok(effects);
    }
    let order = if books.in_order() { None } else { Some(order(&books, root)) };
    let mut arrived = vec![Arrived::Nothing; books.len()];
    arrived[root as usize].add(delta);

    let steps = order.as_ref().map_or(root as usize + 1, Vec::len);
    for step in (0..steps).rev() {
        let index = order.as_ref().map_or(step as u32, |order| order[step]);
        let node = books.node(index);
        let Some(delta) = arrived[index as usize].take(node) else { continue };
        match &node.expression {
            Expression::Unary(op, [x]) => {
                let at = books.entry_of(x);
                if let Some(delta) = unary(*op, [x, node], [books.value(at), books.value(index)], delta) {
                    arrived[at as usize].add(delta);
                }
            }
            Expression::Binary(op, [a, b]) => {
                let (at, bt) = (books.entry_of(a), books.entry_of(b));
                let values = [books.value(at), books.value(bt), books.value(index)];
                let (da, db) = binary(*op, [a, b, node], values, delta, (books.trained(at), books.trained(bt)));
                if let Some(delta) = da {
                    arrived[at as usize].add(delta);
                }
                if let Some(delta) = db {
                    arrived[bt as usize].add(delta);
                }
            }
            Expression::Weight(_) => effects.push(node.clone(), delta, pass.clone()),
            Expression::Primitive(op, operands) => {
                let places: Vec<u32> = operands.iter().map(|x| books.entry_of(x)).collect();
                let values: Vec<Value> = places.iter().map(|&x| books.value(x).clone()).collect();
                let at = AnyAt {
                    operands,
                    values: &values,
                    output: node,
                    value: books.value(index),
                    delta: delta.into_layer(node),
                };
                let deltas = catch_unwind(AssertUnwindSafe(|| op.pullback(at)))
                    .map_err(|payload| Error::panic(payload).at(op.name(), node.place))?;
                for (place, delta) in places.into_iter().zip(deltas) {
                    if let Some(delta) = delta.filter(|_| books.trained(place)) {
                        arrived[place as usize].add(Delta::Lazy(delta));
                    }
                }
            }
            Expression::Dynamic(recipe) => match (books.source(index), books.backward(index)) {
                (NONE, Some(backward)) => {
                    // code of the user's, which may want to use this pass
                    let (delta, name, place) = (delta.into_layer(node), recipe.name(), node.place);
                    drop(books);
                    let theirs = catch_unwind(AssertUnwindSafe(|| backward.backward(delta)));
                    effects = effects + theirs.map_err(|payload| Error::panic(payload).at(name, place))?;
                    books = pass.books();
                }
                (NONE, None) => {}
                (source, _) => arrived[source as usize].add(delta),
            },
            Expression::Constant(_) | Expression::Dropped => {}
        }
    }
    Ok(effects)
}

/// The entries through which a gradient can flow from `root`, operands before consumers.
///
/// It depends on the graph alone, not on the order in which the pass met its parts.
fn order(books: &Books, root: u32) -> Vec<u32> {
    let mut order = Vec::new();
    let mut seen = vec![false; books.len()];
    let mut walk = vec![(root, 0)];
    seen[root as usize] = true;
    while let Some((index, next)) = walk.last_mut() {
        let operands = books.node(*index).operands();
        let source = books.source(*index);
        let below = if source != NONE && *next == 0 {
            Some(source)
        } else {
            operands.get(*next).and_then(|operand| books.find(operand))
        };
        *next += 1;
        match below {
            Some(below) if seen[below as usize] || !books.trained(below) => {}
            Some(below) => {
                seen[below as usize] = true;
                walk.push((below, 0));
            }
            None => {
                order.push(*index);
                walk.pop();
            }
        }
    }
    order
}

#[inline]
fn unary(op: Unary, [x, y]: [&AnyLayer; 2], values: [&Value; 2], delta: Delta) -> Option<Delta> {
    match (&values[0].0, &values[1].0, delta) {
        (Repr::F32(x), Repr::F32(y), Delta::Ready(Value(Repr::F32(d)))) => {
            op.pullback(&Term(*x), &Term(*y), &Term(d)).map(|d| Delta::Ready(Value(Repr::F32(d.0))))
        }
        (Repr::F64(x), Repr::F64(y), Delta::Ready(Value(Repr::F64(d)))) => {
            op.pullback(&Term(*x), &Term(*y), &Term(d)).map(|d| Delta::Ready(Value(Repr::F64(d.0))))
        }
        (Repr::F32(_), _, delta) => unary_layers::<f32>(op, x, y, delta.into_layer(y)),
        (_, _, delta) => unary_layers::<f64>(op, x, y, delta.into_layer(y)),
    }
}

fn unary_layers<T>(op: Unary, x: &AnyLayer, y: &AnyLayer, d: AnyLayer) -> Option<Delta>
where
    Layer<T>: Algebra,
{
    let term = |layer: &AnyLayer| Term(Layer::<T>::from_any(layer.clone()));
    op.pullback(&term(x), &term(y), &term(&d)).map(|delta| Delta::Lazy(delta.0.into_any()))
}

type Pair = (Option<Delta>, Option<Delta>);

#[inline]
fn binary(op: Binary, [a, b, y]: [&AnyLayer; 3], values: [&Value; 3], delta: Delta, wanted: (bool, bool)) -> Pair {
    match (&values[0].0, &values[1].0, &values[2].0, delta) {
        (Repr::F32(a), Repr::F32(b), Repr::F32(y), Delta::Ready(Value(Repr::F32(d)))) => {
            sides(op, [*a, *b, *y, d], wanted, |d| Delta::Ready(Value(Repr::F32(d))))
        }
        (Repr::F64(a), Repr::F64(b), Repr::F64(y), Delta::Ready(Value(Repr::F64(d)))) => {
            sides(op, [*a, *b, *y, d], wanted, |d| Delta::Ready(Value(Repr::F64(d))))
        }
        (Repr::F32(_), _, _, delta) => binary_layers::<f32>(op, [a, b, y], delta.into_layer(y), wanted),
        (_, _, _, delta) => binary_layers::<f64>(op, [a, b, y], delta.into_layer(y), wanted),
    }
}

fn binary_layers<T>(op: Binary, [a, b, y]: [&AnyLayer; 3], d: AnyLayer, wanted: (bool, bool)) -> Pair
where
    Layer<T>: Algebra,
{
    let typed = [a, b, y, &d].map(|layer| Layer::<T>::from_any(layer.clone()));
    sides(op, typed, wanted, |delta| Delta::Lazy(delta.into_any()))
}

/// Both sides of a rule, as far as somebody wants them.
#[inline(always)]
fn sides<A: Algebra>(op: Binary, [a, b, y, d]: [A; 4], wanted: (bool, bool), delta: impl Fn(A) -> Delta) -> Pair {
    let (a, b, y, d) = (Term(a), Term(b), Term(y), Term(d));
    let left = if wanted.0 { op.pullback_left(&a, &b, &y, &d) } else { None };
    let right = if wanted.1 { op.pullback_right(&a, &b, &y, &d) } else { None };
    (left.map(|d| delta(d.0)), right.map(|d| delta(d.0)))
}
