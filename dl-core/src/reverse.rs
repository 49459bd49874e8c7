//! The reverse pass: from the delta of a root to lazy deltas of the weights.
//!
//! It walks the evaluated graph from the root towards the weights, each node once, and *writes down* the deltas: what arrives at
//! a node from its consumers is summed in the order in which they are visited, which is fixed by the graph. Where node and delta
//! are plain numbers the deltas are computed at once (the numeric reading of the rules, see [`crate::rules`]); elsewhere they
//! are layers, which the executor evaluates like any others.

use crate::error::{Error, Result};
use crate::layer::Layer;
use crate::node::{AnyLayer, Expression, Held, Node, Side};
use crate::pass::{Books, Keep, NONE, Pass, Status};
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
    pub(crate) fn into_layer(self, node: &Node) -> AnyLayer {
        match self {
            Delta::Ready(value) => (node.kind_of_data.constant_delta)(value),
            Delta::Lazy(layer) => layer,
        }
    }

    /// The sum of some deltas of `node`, in their order.
    pub(crate) fn sum(node: &Node, mut deltas: Vec<Delta>) -> Delta {
        if deltas.len() == 1 {
            return deltas.remove(0);
        }
        let layers = deltas.into_iter().map(|delta| delta.into_layer(node)).collect();
        Delta::Lazy((node.kind_of_data.sum_deltas)(layers))
    }
}

/// What has arrived at a node so far.
#[derive(Default)]
pub(crate) enum Arrived {
    #[default]
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
    fn take(&mut self, node: impl FnOnce() -> Held) -> Option<Delta> {
        match std::mem::replace(self, Arrived::Nothing) {
            Arrived::Nothing => None,
            Arrived::F32(number) => Some(Delta::Ready(Value(Repr::F32(number)))),
            Arrived::F64(number) => Some(Delta::Ready(Value(Repr::F64(number)))),
            Arrived::Many(deltas) => Some(Delta::sum(&node(), *deltas)),
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
    if books.keep == Keep::Nothing {
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
    let mut arrived = books.take_arrived();
    arrived.resize_with(books.len(), Arrived::default);
    arrived[root as usize].add(delta);

    let steps = order.as_ref().map_or(root as usize + 1, Vec::len);
    for step in (0..steps).rev() {
        let index = order.as_ref().map_or(step as u32, |order| order[step]);
        let Some(delta) = arrived[index as usize].take(|| books.node(index)) else { continue };
        let node = books.node(index);
        match &node.expression {
            Expression::Unary(op, _) => {
                if let Some(delta) = unary(&mut books, *op, index, delta) {
                    arrived[books.operand(index, 0) as usize].add(delta);
                }
            }
            Expression::WithNumber(op, side, number, _) => {
                if let Some(delta) = with_number(&mut books, *op, *side, *number, index, delta) {
                    arrived[books.operand(index, 0) as usize].add(delta);
                }
            }
            Expression::Binary(op, _) => {
                let (da, db) = binary(&mut books, *op, index, delta);
                if let Some(delta) = da {
                    arrived[books.operand(index, 0) as usize].add(delta);
                }
                if let Some(delta) = db {
                    arrived[books.operand(index, 1) as usize].add(delta);
                }
            }
            Expression::Weight(_) => effects.push(node.handle(), delta, pass.clone()),
            Expression::Primitive(op) => {
                let places: Vec<u32> = (0..op.operands().len()).map(|which| books.operand(index, which)).collect();
                for &place in &places {
                    books.claim_lone(place); // the rule may hand them out
                }
                let output = books.handle(index);
                let values: Vec<&Value> = places.iter().map(|&x| books.value(x)).collect();
                let at = AnyAt {
                    values: &values,
                    output: &output,
                    value: books.value(index),
                    delta: delta.into_layer(&node),
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
                    let (delta, name, place) = (delta.into_layer(&node), recipe.name(), node.place);
                    drop(books);
                    let theirs = catch_unwind(AssertUnwindSafe(|| backward.backward(delta)));
                    effects = effects + theirs.map_err(|payload| Error::panic(payload).at(name, place))?;
                    books = pass.books();
                }
                (NONE, None) => {}
                (source, _) => arrived[source as usize].add(delta),
            },
            Expression::Constant(_) | Expression::Seed(_) => {}
        }
    }
    books.keep_arrived(arrived);
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
        let node = books.node(*index);
        let below = match &node.expression {
            Expression::Dynamic(_) => Some(books.source(*index)).filter(|&source| source != NONE && *next == 0),
            _ => (*next < node.operands().len()).then(|| books.operand(*index, *next)),
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

/// The delta of the operand of this entry.
#[inline]
fn unary(books: &mut Books, op: Unary, index: u32, delta: Delta) -> Option<Delta> {
    let x = books.operand(index, 0);
    match (&books.value(x).0, &books.value(index).0, &delta) {
        (Repr::F32(x), Repr::F32(y), Delta::Ready(Value(Repr::F32(d)))) => {
            op.pullback(&Term(*x), &Term(*y), &Term(*d)).map(|d| Delta::Ready(Value(Repr::F32(d.0))))
        }
        (Repr::F64(x), Repr::F64(y), Delta::Ready(Value(Repr::F64(d)))) => {
            op.pullback(&Term(*x), &Term(*y), &Term(*d)).map(|d| Delta::Ready(Value(Repr::F64(d.0))))
        }
        (Repr::F32(_), ..) => unary_layers::<f32>(op, [books.handle(x), books.handle(index)], delta),
        _ => unary_layers::<f64>(op, [books.handle(x), books.handle(index)], delta),
    }
}

fn unary_layers<T>(op: Unary, [x, y]: [AnyLayer; 2], delta: Delta) -> Option<Delta>
where
    Layer<T>: Algebra,
{
    let delta = delta.into_layer(&y);
    let [x, y, d] = [x, y, delta].map(|layer| Term(Layer::<T>::from_any(layer)));
    op.pullback(&x, &y, &d).map(|delta| Delta::Lazy(delta.0.into_any()))
}

/// The same for an operation with a plain number, which stands on this side.
#[inline]
fn with_number(books: &mut Books, op: Binary, side: Side, number: f64, index: u32, delta: Delta) -> Option<Delta> {
    let x = books.operand(index, 0);
    match (&books.value(x).0, &books.value(index).0, &delta) {
        (Repr::F32(x), Repr::F32(y), Delta::Ready(Value(Repr::F32(d)))) => {
            one_side(op, side, [number as f32, *x, *y, *d]).map(|d| Delta::Ready(Value(Repr::F32(d))))
        }
        (Repr::F64(x), Repr::F64(y), Delta::Ready(Value(Repr::F64(d)))) => {
            one_side(op, side, [number, *x, *y, *d]).map(|d| Delta::Ready(Value(Repr::F64(d))))
        }
        (Repr::F32(_), ..) => {
            let number = Layer::constant(number as f32).into_any();
            one_side_layers::<f32>(op, side, [number, books.handle(x), books.handle(index)], delta)
        }
        _ => {
            let number = Layer::constant(number).into_any();
            one_side_layers::<f64>(op, side, [number, books.handle(x), books.handle(index)], delta)
        }
    }
}

fn one_side_layers<T>(op: Binary, side: Side, [number, x, y]: [AnyLayer; 3], delta: Delta) -> Option<Delta>
where
    Layer<T>: Algebra,
{
    let delta = delta.into_layer(&y);
    let typed = [number, x, y, delta].map(Layer::<T>::from_any);
    one_side(op, side, typed).map(|delta| Delta::Lazy(delta.into_any()))
}

/// The rule for `x`, which stands across from the number.
#[inline(always)]
fn one_side<A: Algebra>(op: Binary, side: Side, [number, x, y, d]: [A; 4]) -> Option<A> {
    let (number, x, y, d) = (Term(number), Term(x), Term(y), Term(d));
    let delta = match side {
        Side::Left => op.pullback_right(&number, &x, &y, &d),
        Side::Right => op.pullback_left(&x, &number, &y, &d),
    };
    delta.map(|delta| delta.0)
}

type Pair = (Option<Delta>, Option<Delta>);

/// The deltas of both operands of this entry, as far as somebody wants them.
#[inline]
fn binary(books: &mut Books, op: Binary, index: u32, delta: Delta) -> Pair {
    let (a, b) = (books.operand(index, 0), books.operand(index, 1));
    let wanted = (books.trained(a), books.trained(b));
    match (&books.value(a).0, &books.value(b).0, &books.value(index).0, &delta) {
        (Repr::F32(a), Repr::F32(b), Repr::F32(y), Delta::Ready(Value(Repr::F32(d)))) => {
            both_sides(op, [*a, *b, *y, *d], wanted, |d| Delta::Ready(Value(Repr::F32(d))))
        }
        (Repr::F64(a), Repr::F64(b), Repr::F64(y), Delta::Ready(Value(Repr::F64(d)))) => {
            both_sides(op, [*a, *b, *y, *d], wanted, |d| Delta::Ready(Value(Repr::F64(d))))
        }
        (Repr::F32(_), ..) => {
            both_sides_layers::<f32>(op, [books.handle(a), books.handle(b), books.handle(index)], delta, wanted)
        }
        _ => both_sides_layers::<f64>(op, [books.handle(a), books.handle(b), books.handle(index)], delta, wanted),
    }
}

fn both_sides_layers<T>(op: Binary, [a, b, y]: [AnyLayer; 3], delta: Delta, wanted: (bool, bool)) -> Pair
where
    Layer<T>: Algebra,
{
    let delta = delta.into_layer(&y);
    let typed = [a, b, y, delta].map(Layer::<T>::from_any);
    both_sides(op, typed, wanted, |delta| Delta::Lazy(delta.into_any()))
}

#[inline(always)]
fn both_sides<A: Algebra>(op: Binary, [a, b, y, d]: [A; 4], wanted: (bool, bool), delta: impl Fn(A) -> Delta) -> Pair {
    let (a, b, y, d) = (Term(a), Term(b), Term(y), Term(d));
    let left = if wanted.0 { op.pullback_left(&a, &b, &y, &d) } else { None };
    let right = if wanted.1 { op.pullback_right(&a, &b, &y, &d) } else { None };
    (left.map(|d| delta(d.0)), right.map(|d| delta(d.0)))
}
