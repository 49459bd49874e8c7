//! The description of a graph, which the reference interprets and from which layers are created.
//!
//! A [`Scope`] is a list of nodes. Operands are indices of earlier nodes. The body of a dynamic
//! node contains scopes of its own. They see all nodes before that node, and their indices
//! continue from its index.

use std::sync::Arc;

/// The number of elements of a tensor.
pub(crate) const LENGTH: usize = 3;

/// The type of the value of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F64,
    F32,
    /// A tensor of `f64` with [`LENGTH`] elements.
    Many,
    /// A number. Its copies are counted.
    Counted,
}

#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) weights: Vec<Variable>,
    pub(crate) scope: Scope,
    /// The roots of passes; numbers of type `f64`.
    pub(crate) roots: Vec<usize>,
}

/// A weight. The elements of a tensor are `value`, `value / 2`, `value / 3`, …
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) kind: Kind,
    pub(crate) value: f64,
    pub(crate) frozen: bool,
}

#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) nodes: Vec<Node>,
    pub(crate) result: usize,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) op: Op,
}

#[derive(Debug)]
pub(crate) enum Op {
    /// A constant with the value of a [`Variable`].
    Constant(f64),
    Weight(usize),
    Unary(Unary, usize),
    Binary(Binary, [usize; 2]),
    /// An operation on a layer and a literal, which is the left operand if the flag is set.
    Literal(Binary, usize, f64, bool),
    Kernel(Kernel, Vec<usize>, Effort),
    /// The gradient of a layer with respect to a weight, as a layer.
    Gradient(usize, usize),
    /// A layer made from the forward of another one.
    Forward(usize),
    Tape(Tape),
    /// The sum of some nodes as a plain computation: no gradient flows through it.
    Computed(Vec<usize>, Together),
    Dynamic(Arc<Body>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Unary {
    Neg,
    Abs,
    Sign,
    Exp,
    Square,
    Recip,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
    Relu,
    Softplus,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    /// The share of the left operand in the gradient of a maximum or minimum; only in deltas.
    Above,
    /// The left operand where the right one is positive, else 0; only in deltas.
    Gate,
    /// `a · b`, and 0 where `a` is 0; only in deltas.
    StrongMul,
    /// `a / b`, and 0 where `a` is 0; only in deltas.
    StrongDiv,
    /// `a · b`, and 0 where either is 0; only in deltas.
    BothStrongMul,
}

/// Operations with a kernel of their own.
#[derive(Clone, Debug)]
pub(crate) enum Kernel {
    /// `k · x`.
    Scale(f64),
    /// `a · b + a`.
    Blend,
    /// `a · b + c`, where no gradient flows to `b`.
    Fused,
    /// The weighted sum of the operands. No gradient flows to an operand with factor 0.
    Gather(Vec<f64>),
    /// From `f32` to `f64`, and back.
    Widen,
    Narrow,
    /// From a number to a counted one, and back.
    Enter,
    Leave,
    /// `a / 2 + b`, counted.
    Mix,
    /// `k · x`, counted.
    Stretch(f64),
    /// From a number to a tensor: `x, x / 2, x / 3, …`; and the transpose.
    Spread,
    Total,
    /// The sum of tensors, or of counted numbers; only in deltas.
    Sum,
    /// `x`, with a fault.
    Faulty(usize, Fault),
    /// The delta of an operation, with a fault; only in deltas.
    FaultyDelta(usize, Fault),
}

/// The failure of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    ValueFails,
    ValuePanics,
    PullbackPanics,
    DeltaFails,
    DeltaPanics,
}

/// The declared cost of a kernel, and the number of its spins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) nanoseconds: f64,
    pub(crate) spins: u32,
}

/// A value with a hand-written backward: a weighted sum of parts. The backward may scale a part
/// once more.
#[derive(Clone, Debug)]
pub(crate) struct Tape {
    pub(crate) parts: Vec<Part>,
    pub(crate) together: Together,
}

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) of: usize,
    pub(crate) factor: f64,
    pub(crate) scale: Option<f64>,
}

/// The combination of computations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Together {
    Zip,
    Join,
    FlatMap,
}

/// The body of a dynamic node.
#[derive(Debug)]
pub(crate) enum Body {
    /// One of two scopes, selected by the sum of the scores.
    Branch {
        scores: Vec<usize>,
        /// Whether the scores are extracted concurrently, rather than in sequence.
        joined: bool,
        /// Whether the sum is sent to another thread and awaited from there.
        foreign: bool,
        threshold: f64,
        then: Scope,
        otherwise: Scope,
    },
    /// A state goes through the scope, as its first node, a number of times, or until it exceeds
    /// the limit.
    Loop { start: usize, rounds: usize, limit: f64, scope: Scope },
    /// A layer times the value of another one, which is extracted by this route.
    Detached { of: usize, number: usize, route: Route },
    /// Extracts a node, then fails or panics.
    Fails { after: usize, number: usize, panics: bool },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    Extract,
    Forward,
    /// A nested pass: awaited, waited for, or run by another executor.
    Predict,
    Wait,
    BlockOn,
}

impl Op {
    /// The indices of all nodes that it uses, in its body as well.
    pub(crate) fn mentions(&self, found: &mut Vec<usize>) {
        match self {
            Op::Constant(_) | Op::Weight(_) => {}
            Op::Unary(_, x) | Op::Literal(_, x, ..) | Op::Gradient(x, _) | Op::Forward(x) => found.push(*x),
            Op::Binary(_, operands) => found.extend(operands),
            Op::Kernel(_, operands, _) | Op::Computed(operands, _) => found.extend(operands),
            Op::Tape(tape) => found.extend(tape.parts.iter().map(|part| part.of)),
            Op::Dynamic(body) => body.mentions(found),
        }
    }
}

impl Body {
    pub(crate) fn mentions(&self, found: &mut Vec<usize>) {
        match self {
            Body::Branch { scores, .. } => found.extend(scores),
            Body::Loop { start, .. } => found.push(*start),
            Body::Detached { of, number, .. } => found.extend([of, number]),
            Body::Fails { after, .. } => found.push(*after),
        }
        for scope in self.scopes() {
            scope.mentions(found);
        }
    }

    pub(crate) fn scopes(&self) -> Vec<&Scope> {
        match self {
            Body::Branch { then, otherwise, .. } => vec![then, otherwise],
            Body::Loop { scope, .. } => vec![scope],
            Body::Detached { .. } | Body::Fails { .. } => Vec::new(),
        }
    }
}

impl Scope {
    fn mentions(&self, found: &mut Vec<usize>) {
        found.push(self.result);
        for node in &self.nodes {
            node.op.mentions(found);
        }
    }
}
