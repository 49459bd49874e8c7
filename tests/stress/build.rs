//! Creates layers from the description of a graph.

use super::foreign::{ask, block_on};
use super::graph::*;
use super::kernels::{self as ops, Many, Work, failure, planned};
use super::ledger::{Counted, Ledger, Token};
use super::typed::{Any, AnyWeight, Erase, Typed, binary, literal, unary};
use dl::{Differentiable, Do, Layer, Result, SideEffects};
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Arc, Mutex};

/// The layers of a graph.
pub(crate) struct Built {
    pub(crate) weights: Arc<[AnyWeight]>,
    pub(crate) roots: Vec<Layer<f64>>,
    pub(crate) places: Places,
}

/// The source location of each faulty node.
pub(crate) type Places = Arc<Mutex<HashMap<usize, &'static Location<'static>>>>;

pub(crate) fn build(graph: &Graph, ledger: &Arc<Ledger>) -> Built {
    let weights: Arc<[AnyWeight]> = graph.weights.iter().map(|variable| AnyWeight::new(variable, ledger)).collect();
    let places = Places::default();
    let builder = Builder { weights: weights.clone(), ledger: ledger.clone(), places: places.clone() };
    let mut seen = Seen(Vec::new());
    builder.scope(&graph.scope, &mut seen);
    let roots = graph.roots.iter().map(|&root| seen.of::<f64>(root)).collect();
    Built { weights, roots, places }
}

/// The layers of the nodes that a body can use, restricted to those that it does use.
#[derive(Clone)]
struct Seen(Vec<Option<Any>>);

impl Seen {
    fn of<T: Typed>(&self, node: usize) -> Layer<T> {
        T::of(self.0[node].as_ref().expect("a body owns the layers that it uses"))
    }

    fn all<T: Typed>(&self, nodes: &[usize]) -> Vec<Layer<T>> {
        nodes.iter().map(|&node| self.of(node)).collect()
    }

    fn only(&self, mentioned: &[usize]) -> Seen {
        let mut kept = Seen(vec![None; self.0.len()]);
        for &node in mentioned.iter().filter(|&&node| node < self.0.len()) {
            kept.0[node] = self.0[node].clone();
        }
        kept
    }
}

/// The context for creating layers. Bodies of dynamic nodes own a copy.
#[derive(Clone)]
struct Builder {
    weights: Arc<[AnyWeight]>,
    ledger: Arc<Ledger>,
    places: Places,
}

impl Builder {
    /// Creates the nodes of a scope after those that it sees. Returns its result.
    fn scope(&self, scope: &Scope, seen: &mut Seen) -> Any {
        for node in &scope.nodes {
            let layer = match node.kind {
                Kind::F64 => self.node::<f64>(&node.op, seen),
                Kind::F32 => self.node::<f32>(&node.op, seen),
                Kind::Many => self.node::<Many>(&node.op, seen),
                Kind::Counted => self.node::<Counted>(&node.op, seen),
            };
            seen.0.push(Some(layer));
        }
        seen.0[scope.result].clone().expect("a body owns the layers that it uses")
    }

    fn node<T: Typed>(&self, op: &Op, seen: &Seen) -> Any {
        match op {
            Op::Constant(value) => T::described(*value, &self.ledger).erase(),
            Op::Weight(weight) => self.weights[*weight].layer(),
            Op::Unary(op, x) => unary(*op, &seen.of::<T>(*x).erase()),
            Op::Binary(op, [a, b]) => binary(*op, &seen.of::<T>(*a).erase(), &seen.of::<T>(*b).erase()),
            Op::Literal(op, x, number, left) => literal(*op, &seen.of::<T>(*x).erase(), *number, *left),
            Op::Kernel(kernel, operands, effort) => self.kernel(kernel, operands, *effort, seen),
            Op::Gradient(of, weight) => match &self.weights[*weight] {
                AnyWeight::F64(weight) => Any::F64(seen.of::<f64>(*of).gradient(weight)),
                AnyWeight::F32(weight) => Any::F32(seen.of::<f64>(*of).gradient(weight)),
                AnyWeight::Many(weight) => Any::Many(seen.of::<f64>(*of).gradient(weight)),
                AnyWeight::Counted(weight) => Any::Counted(seen.of::<f64>(*of).gradient(weight)),
            },
            Op::Forward(of) => Layer::<T>::from(seen.of::<T>(*of).forward()).erase(),
            Op::Tape(tape) => Any::F64(Layer::from(self.tape(tape, seen))),
            Op::Computed(parts, together) => Any::F64(Layer::from(computed(seen.all(parts), *together))),
            Op::Dynamic(body) => match **body {
                Body::Fails { number, .. } if number % 2 == 0 => self.dynamic::<T>(body, seen),
                Body::Fails { .. } => self.dynamic::<T>(body, seen), // has a source location of its own
                _ => self.dynamic::<T>(body, seen),
            },
        }
    }

    fn kernel(&self, kernel: &Kernel, operands: &[usize], effort: Effort, seen: &Seen) -> Any {
        let work = Work { effort, token: Some(Token::new(&self.ledger)) };
        let number = |operand: usize| seen.of::<f64>(operands[operand]);
        let counted = |operand: usize| seen.of::<Counted>(operands[operand]);
        match kernel {
            Kernel::Scale(factor) => Layer::apply(ops::Scale { work, factor: *factor }, (number(0),)).erase(),
            Kernel::Blend => Layer::apply(ops::Blend { work }, (number(0), number(1))).erase(),
            Kernel::Fused => Layer::apply(ops::Fused { work }, (number(0), number(1), number(2))).erase(),
            Kernel::Gather(factors) => {
                let gather = ops::Gather { work, factors: factors.clone() };
                Layer::apply(gather, seen.all(operands)).erase()
            }
            Kernel::Widen => Layer::apply(ops::Widen { work }, (seen.of(operands[0]),)).erase(),
            Kernel::Narrow => Layer::apply(ops::Narrow { work }, (number(0),)).erase(),
            Kernel::Enter => {
                let enter = ops::Enter { work, token: Token::new(&self.ledger) };
                Layer::apply(enter, (number(0),)).erase()
            }
            Kernel::Leave => Layer::apply(ops::Leave { work }, (counted(0),)).erase(),
            Kernel::Mix => Layer::apply(ops::Mix { work }, (counted(0), counted(1))).erase(),
            Kernel::Stretch(factor) => Layer::apply(ops::Stretch { work, factor: *factor }, (counted(0),)).erase(),
            Kernel::Spread => Layer::apply(ops::Spread { work }, (number(0),)).erase(),
            Kernel::Total => Layer::apply(ops::Total { work }, (seen.of(operands[0]),)).erase(),
            Kernel::Faulty(fault_number, fault) => {
                let faulty = ops::Faulty { work, number: *fault_number, fault: *fault };
                let layer = match fault_number % 3 {
                    0 => self.faulty(faulty, number(0)),
                    1 => self.faulty(faulty, number(0)), // has a source location of its own
                    _ => self.faulty(faulty, number(0)),
                };
                layer.erase()
            }
            Kernel::Sum | Kernel::FaultyDelta(..) => unreachable!("these appear in deltas only"),
        }
    }

    #[track_caller]
    fn faulty(&self, faulty: ops::Faulty, x: Layer<f64>) -> Layer<f64> {
        self.places.lock().unwrap().insert(faulty.number, Location::caller());
        Layer::apply(faulty, (x,))
    }

    #[track_caller]
    fn dynamic<T: Typed>(&self, body: &Arc<Body>, seen: &Seen) -> Any {
        if let Body::Fails { number, .. } = **body {
            self.places.lock().unwrap().insert(number, Location::caller());
        }
        let mut mentioned = Vec::new();
        body.mentions(&mut mentioned);
        let (builder, body, seen) = (self.clone(), body.clone(), seen.only(&mentioned));
        let token = Token::new(&self.ledger);
        let layer = Layer::dynamic(move || {
            let (builder, body, seen, token) = (builder.clone(), body.clone(), seen.clone(), token.clone());
            async move {
                let _alive_as_long_as_this_run = token;
                builder.decide(&body, seen).await.map(|layer| T::of(&layer))
            }
        });
        layer.erase()
    }

    async fn decide(&self, body: &Body, mut seen: Seen) -> Result<Any> {
        match body {
            Body::Branch { scores, joined, foreign, threshold, then, otherwise } => {
                let scores: Vec<Layer<f64>> = seen.all(scores);
                let mut sum = 0.0;
                if *joined {
                    for score in futures::future::join_all(scores.iter().map(Layer::extract)).await {
                        sum += score?;
                    }
                } else {
                    for score in scores {
                        sum += score.extract().await?;
                    }
                }
                if *foreign {
                    sum = ask(sum).await?;
                }
                let scope = if sum > *threshold { then } else { otherwise };
                Ok(self.scope(scope, &mut seen))
            }
            Body::Loop { start, rounds, limit, scope } => {
                let (mut state, outside) = (seen.of::<f64>(*start), seen.0.len());
                for _ in 0..*rounds {
                    if state.extract().await?.abs() > *limit {
                        break;
                    }
                    seen.0.truncate(outside);
                    seen.0.push(Some(state.erase()));
                    state = f64::of(&self.scope(scope, &mut seen));
                }
                Ok(state.erase())
            }
            Body::Detached { of, number, route } => {
                let number = seen.of::<f64>(*number);
                let number = match route {
                    Route::Extract => number.extract().await?,
                    Route::Forward => *number.forward().await?.data(),
                    Route::Predict => number.predict().await?,
                    Route::Wait => number.predict().wait()?,
                    Route::BlockOn => block_on(number.predict().run())?,
                };
                Ok((seen.of::<f64>(*of) * number).erase())
            }
            Body::Fails { after, number, panics } => {
                seen.of::<f64>(*after).extract().await?;
                assert!(!panics, "{}", planned(*number));
                Err(failure(*number))
            }
        }
    }

    /// The forward of a tape with a hand-written backward.
    fn tape(&self, tape: &Tape, seen: &Seen) -> Do<dl::Tape<f64, f64>> {
        let layers = tape.parts.iter().map(|part| seen.of::<f64>(part.of)).collect::<Vec<_>>();
        let (parts, token) = (tape.parts.clone(), Token::new(&self.ledger));
        let forwards = layers.iter().map(|layer| layer.forward().map(Arc::new));
        together(forwards.collect(), tape.together).map(move |tapes| {
            let (parts, token) = (parts.clone(), token.clone());
            let value = parts.iter().zip(&tapes).fold(0.0, |sum, (part, tape)| sum + part.factor * tape.data());
            dl::Tape::new(value, move |delta: Do<f64>| {
                let _alive_as_long_as_this_tape = &token;
                let effects = parts.iter().zip(&tapes).map(|(part, tape)| {
                    let factor = part.factor;
                    let effects = tape.backward(delta.map(move |delta| delta * factor));
                    match part.scale {
                        Some(scale) => scale * effects,
                        None => effects,
                    }
                });
                effects.sum::<SideEffects>()
            })
        })
    }
}

/// The sum of the values of some layers, as a computation.
fn computed(layers: Vec<Layer<f64>>, how: Together) -> Do<f64> {
    let values = layers.into_iter().map(|layer| Do::from_fn(move || layer.extract())).collect();
    together(values, how).map(|values| values.iter().fold(0.0, |sum, value| sum + value))
}

fn together<T: Clone + Send + Sync + 'static>(all: Vec<Do<T>>, how: Together) -> Do<Vec<T>> {
    match (how, all.as_slice()) {
        (Together::Zip, [a, b]) => a.zip(b.clone()).map(|(a, b)| vec![a, b]),
        (Together::FlatMap, [a, b]) => {
            let b = b.clone();
            a.flat_map(move |a| b.map(move |b| vec![a.clone(), b]))
        }
        _ => Do::join(all),
    }
}
