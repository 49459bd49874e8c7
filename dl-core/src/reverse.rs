//! The reverse pass: from the delta of a root to lazy deltas of the weights.
//!
//! It walks the evaluated graph from the root towards the weights, each node once, and *writes down* the deltas: what arrives at
//! a node from its consumers is summed in the order in which they are visited, which is fixed by the graph. Where node and delta
//! are plain numbers the deltas are computed at once (the numeric reading of the rules, see [`crate::rules`]); elsewhere they
//! are layers, which the executor evaluates like any others.

use crate::checkpoint::{Groups, Perhaps};
use crate::error::{Error, Result};
use crate::layer::Layer;
use crate::node::{AnyLayer, Expression, Held, Node, Side};
use crate::pass::{Arithmetic, Books, Entry, Keep, NONE, Pass, Scalar, Seen, Status};
use crate::primitive::AnyAt;
use crate::rules::{Algebra, Binary, Number, Pointwise, Term};
use crate::side_effects::SideEffects;
use crate::value::{Repr, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The delta of some node, computed or yet to be computed.
#[derive(Clone)]
pub(crate) enum Delta {
    Ready(Value),
    Lazy(AnyLayer),
    /// Known when a segment has been evaluated again: only on the way to the sum of what arrives somewhere.
    Perhaps(Box<Perhaps>),
}

impl Delta {
    /// This delta of `node`, as a layer.
    pub(crate) fn into_layer(self, node: &Node) -> AnyLayer {
        match self {
            Delta::Ready(value) => (node.kind_of_data.constant_delta)(value),
            Delta::Lazy(layer) => layer,
            Delta::Perhaps(_) => unreachable!("what may arrive from a segment is summed when it is known"),
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
    pub(crate) fn add(&mut self, delta: Delta) {
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

    /// Takes what has arrived, if it is a number.
    #[inline]
    fn take_number(&mut self) -> Option<Delta> {
        let number = match self {
            Arrived::F32(number) => Repr::F32(*number),
            Arrived::F64(number) => Repr::F64(*number),
            _ => return None,
        };
        *self = Arrived::Nothing;
        Some(Delta::Ready(Value(number)))
    }

    /// Takes all that has arrived.
    pub(crate) fn take(&mut self) -> Vec<Delta> {
        match self.take_number() {
            Some(number) => vec![number],
            None => match std::mem::take(self) {
                Arrived::Many(deltas) => *deltas,
                _ => Vec::new(),
            },
        }
    }
}

/// The delta that a backward pass starts with.
pub(crate) fn one(root: &Node, value: &Value) -> Result<Value> {
    catch_unwind(AssertUnwindSafe(|| (root.kind_of_data.one)(value)))
        .map_err(|payload| Error::panic(payload).at(root.name(), root.place))
}

/// The lazy deltas of all weights that `root`, which has been evaluated in `pass`, depends on.
///
/// # Errors
/// A panic in a rule of the user's; a pass that does not keep its values.
pub(crate) fn side_effects(pass: &Arc<Pass>, root: &AnyLayer, delta: Delta) -> Result<SideEffects> {
    let mut effects = SideEffects::none();
    let deltas = walk_back(pass, root, delta, &mut effects)?;
    effects.push(pass, deltas);
    Ok(effects)
}

/// The same where nothing but scalar arithmetic was evaluated: the deltas are there at once. They are to be used while somebody has a
/// handle to the root.
pub(crate) fn deltas(pass: &Arc<Pass>, root: &AnyLayer, delta: Delta) -> Result<Vec<(Held, Delta)>> {
    let mut theirs = SideEffects::none();
    let deltas = walk_back(pass, root, delta, &mut theirs)?;
    debug_assert!(theirs.is_none(), "only dynamic nodes have a backward of the user's");
    Ok(deltas)
}

/// How a delta knows its weight.
trait Knows {
    fn node(node: Held) -> Self;
    fn layer(self) -> AnyLayer;
}

impl Knows for AnyLayer {
    fn node(node: Held) -> Self {
        node.handle()
    }

    fn layer(self) -> AnyLayer {
        self
    }
}

impl Knows for Held {
    fn node(node: Held) -> Self {
        node
    }

    fn layer(self) -> AnyLayer {
        self.handle()
    }
}

/// The deltas since the last backward of the user's that it met; those before, and what that one did, are added to `effects`.
fn walk_back<K: Knows>(
    pass: &Arc<Pass>,
    root: &AnyLayer,
    delta: Delta,
    effects: &mut SideEffects,
) -> Result<Vec<(K, Delta)>> {
    let mut deltas = Vec::new();
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
        return Ok(deltas);
    }
    let order = if books.in_order() { None } else { Some(order(&mut books, root)) };
    let mut arrived = books.take_arrived();
    arrived[books.unmarked(root) as usize].add(delta);

    let steps = order.as_ref().map_or(root as usize + 1, Vec::len);
    for step in (0..steps).rev() {
        let index = order.as_ref().map_or(step as u32, |order| order[step]);
        let numeric = match &arrived[index as usize] {
            Arrived::Nothing => continue,
            &Arrived::F32(d) => in_numbers(&books, index, d, &mut arrived),
            &Arrived::F64(d) => in_numbers(&books, index, d, &mut arrived),
            Arrived::Many(_) => false,
        };
        if numeric {
            arrived[index as usize] = Arrived::Nothing;
            continue;
        }
        if books.has_forgotten() && Groups::of(pass).take(&mut books, index, &mut arrived, Books::trained) {
            continue;
        }
        let node = books.node(index);
        let delta = match arrived[index as usize].take_number() {
            Some(delta) => delta,
            None => take_sum(&mut arrived[index as usize], node)?,
        };
        match &node.expression {
            Expression::Weight(_) => deltas.push((K::node(node), delta)),
            Expression::Dynamic(recipe) => match (books.source(index), books.backward(index)) {
                (NONE, Some(backward)) => {
                    // code of the user's, which may want to use this pass
                    let (delta, name, place) = (delta.into_layer(&node), recipe.name(), node.place);
                    drop(books);
                    let theirs = catch_unwind(AssertUnwindSafe(|| backward.backward(delta)));
                    effects.push(pass, deltas.drain(..).map(|(weight, delta)| (K::layer(weight), delta)).collect());
                    *effects += theirs.map_err(|payload| Error::panic(payload).at(name, place))?;
                    books = pass.books();
                }
                (NONE, None) => {}
                (source, _) => arrived[books.unmarked(source) as usize].add(delta),
            },
            Expression::Constant(_) | Expression::Seed(_) => {}
            _ => {
                for (which, delta) in pull_back(&mut books, index, delta)?.into_iter().enumerate() {
                    let Some(delta) = delta else { continue };
                    let place = books.unmarked(books.operand(index, which));
                    if books.trained(place) {
                        arrived[place as usize].add(Delta::Lazy(delta));
                    }
                }
            }
        }
    }
    books.keep_arrived(arrived);
    Ok(deltas)
}

/// The sum of the deltas that have arrived at this node; that of the user's data may panic. Not inlined: the loop over plain numbers is
/// faster without.
#[inline(never)]
fn take_sum(arrived: &mut Arrived, node: Held) -> Result<Delta> {
    let Arrived::Many(deltas) = std::mem::take(arrived) else { unreachable!("a number is no sum") };
    sum(node, *deltas)
}

/// The sum of some deltas of this node.
pub(crate) fn sum(node: Held, deltas: Vec<Delta>) -> Result<Delta> {
    catch_unwind(AssertUnwindSafe(|| Delta::sum(&node, deltas)))
        .map_err(|payload| Error::panic(payload).at(node.name(), node.place))
}

/// What the delta of an entry adds to its operands, by the rule of the operation.
pub(crate) fn pull_back(books: &mut Books, index: u32, delta: Delta) -> Result<Vec<Option<AnyLayer>>> {
    let node = books.node(index);
    Ok(match &node.expression {
        Expression::Primitive(op) => {
            let places: Vec<u32> = (0..op.operands().len()).map(|which| books.operand(index, which)).collect();
            for &place in &places {
                books.claim_lone(place); // the rule may hand them out
            }
            let output = books.handle(index);
            let values: Vec<Seen<'_>> = places.iter().map(|&x| books.value(x)).collect();
            let values: Vec<&Value> = values.iter().map(Seen::as_value).collect();
            let value = books.value(index);
            let at =
                AnyAt { values: &values, output: &output, value: value.as_value(), delta: delta.into_layer(&node) };
            catch_unwind(AssertUnwindSafe(|| op.pullback(at)))
                .map_err(|payload| Error::panic(payload).at(op.name_or_panic(), node.place))?
        }
        _ if node.kind_of_data.is_single => in_layers::<f32>(books, index, delta).into(),
        _ => in_layers::<f64>(books, index, delta).into(),
    })
}

/// The entries through which a gradient can flow from `root`, operands before consumers.
///
/// It depends on the graph alone, not on the order in which the pass met its parts.
fn order(books: &mut Books, root: u32) -> Vec<u32> {
    let mut order = Vec::new();
    let mut seen = books.take_seen();
    let mut walk = vec![(root, 0)];
    seen.visit(root);
    while let Some((index, next)) = walk.last_mut() {
        let node = books.node(*index);
        let below = match &node.expression {
            Expression::Dynamic(_) => Some(books.source(*index)).filter(|&source| source != NONE && *next == 0),
            _ => (*next < node.operands().len()).then(|| books.operand(*index, *next)),
        };
        *next += 1;
        match below {
            Some(below) if books.trained(below) && seen.visit(below) => walk.push((below, 0)),
            Some(_) => {}
            None => {
                order.push(*index);
                walk.pop();
            }
        }
    }
    books.keep_seen(seen);
    order
}

/// Plain numbers, as the numeric reading meets them.
trait Plain: Number {
    fn of_entry(entry: &Entry) -> Option<Self>;
    fn add_to(self, arrived: &mut Arrived);
}

macro_rules! plain {
    ($T:ident $Repr:ident) => {
        impl Plain for $T {
            #[inline(always)]
            fn of_entry(entry: &Entry) -> Option<Self> {
                match entry.number() {
                    Some(Scalar::$Repr(number)) => Some(number),
                    _ => None,
                }
            }

            #[inline(always)]
            fn add_to(self, arrived: &mut Arrived) {
                match arrived {
                    Arrived::Nothing => *arrived = Arrived::$Repr(self),
                    Arrived::$Repr(sum) => *sum += self,
                    _ => arrived.add(Delta::Ready(Value(Repr::$Repr(self)))),
                }
            }
        }
    };
}

plain!(f32 F32);
plain!(f64 F64);

/// The numeric reading: what the delta `d` of scalar arithmetic adds to its operands. Says whether it was that.
#[inline(always)]
fn in_numbers<N: Plain>(books: &Books, index: u32, d: N, arrived: &mut [Arrived]) -> bool {
    let entry = books.entry(index);
    let [at, bt] = entry.operands;
    let Some(y) = N::of_entry(entry).map(Term) else { return false };
    let d = Term(d);
    match entry.arithmetic {
        Arithmetic::Binary(op) => {
            let (left, right) = (books.entry(at), books.entry(bt));
            let (Some(a), Some(b)) = (N::of_entry(left), N::of_entry(right)) else { return false };
            let (da, db) = op.pullbacks([&Term(a), &Term(b), &y, &d], (left.trained, right.trained));
            if let Some(delta) = da {
                delta.0.add_to(&mut arrived[at as usize]);
            }
            if let Some(delta) = db {
                delta.0.add_to(&mut arrived[bt as usize]);
            }
        }
        Arithmetic::WithNumber => {
            let node = entry.held();
            let Expression::WithNumber(op, side, number, _) = &node.expression else { return false };
            let Some(x) = N::of_entry(books.entry(at)) else { return false };
            if let Some(delta) = one_side(*op, *side, [N::of(*number), x, y.0, d.0]) {
                delta.add_to(&mut arrived[at as usize]);
            }
        }
        Arithmetic::Unary(op) => {
            let Some(x) = N::of_entry(books.entry(at)) else { return false };
            if let Some(delta) = op.pullback(&Term(x), &y, &d) {
                delta.0.add_to(&mut arrived[at as usize]);
            }
        }
        Arithmetic::None => return false,
    }
    true
}

/// The layer reading: the deltas of both operands of scalar arithmetic, as far as there are two and somebody wants them.
fn in_layers<T: Number + Pointwise>(books: &mut Books, index: u32, delta: Delta) -> [Option<AnyLayer>; 2] {
    let node = books.node(index);
    let [y, d] = [books.handle(index), delta.into_layer(&node)].map(Layer::<T>::from_any);
    let mut operand = |which| {
        let operand = books.operand(index, which);
        (Layer::<T>::from_any(books.handle(operand)), books.trained(operand))
    };
    let deltas = match &node.expression {
        Expression::Unary(op, _) => [op.pullback(&Term(operand(0).0), &Term(y), &Term(d)).map(|delta| delta.0), None],
        Expression::WithNumber(op, side, number, _) => {
            let number = Layer::constant(T::of(*number));
            [one_side(*op, *side, [number, operand(0).0, y, d]), None]
        }
        Expression::Binary(op, _) => {
            let ((a, left), (b, right)) = (operand(0), operand(1));
            let [a, b, y, d] = &[a, b, y, d].map(Term);
            let (left, right) = op.pullbacks([a, b, y, d], (left, right));
            [left, right].map(|delta| delta.map(|delta| delta.0))
        }
        _ => unreachable!("only scalar arithmetic is read so"),
    };
    deltas.map(|delta| delta.map(Layer::into_any))
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
