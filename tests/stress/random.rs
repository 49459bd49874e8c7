//! Random graphs, each from a seed.

use super::graph::*;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::mem::take;
use std::sync::Arc;

/// The graph of a seed.
pub(crate) fn graph(seed: u64) -> Graph {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let size = match rng.random_range(0..100) {
        0..60 => rng.random_range(3..25),
        60..95 => rng.random_range(25..90),
        _ => rng.random_range(90..350),
    };
    let faults = if rng.random_bool(0.25) { rng.random_range(1..4) } else { 0 };
    let maker = Maker {
        recent: *[0.0, 0.3, 0.7, 0.95].choose(&mut rng).expect("some styles"),
        rng,
        kinds: Vec::new(),
        bounds: Vec::new(),
        nested: 0,
        passes: 3,
        tapes: 6,
        gradients: if size < 90 { 3 } else { 2 },
        faults,
        next_fault: 0,
    };
    maker.graph(size)
}

/// The state of the generator.
pub(crate) struct Maker {
    pub(crate) rng: ChaCha8Rng,
    /// The probability that an operand is one of the latest nodes: small values make a graph flat,
    /// large ones make it deep.
    recent: f64,
    pub(crate) kinds: Vec<Kind>,
    /// A rough bound on the magnitude of each node, which keeps most numbers from overflowing.
    pub(crate) bounds: Vec<f64>,
    /// The nesting depth in bodies of dynamic nodes.
    nested: usize,
    /// The remaining number of nodes with a nested pass, with a hand-written backward, and
    /// gradients: their costs multiply. Zero in a loop.
    passes: usize,
    tapes: usize,
    gradients: usize,
    faults: usize,
    pub(crate) next_fault: usize,
}

/// Larger magnitudes are squashed.
const LARGE: f64 = 8.0;

impl Maker {
    fn graph(mut self, size: usize) -> Graph {
        let mut weights = Vec::new();
        for kind in [Kind::F64, Kind::F64, Kind::F32, Kind::Many, Kind::Counted] {
            for _ in 0..self.rng.random_range(1..3) {
                weights.push(Variable { kind, value: self.number(), frozen: self.rng.random_bool(0.1) });
            }
        }
        let mut nodes = Vec::new();
        for (number, weight) in weights.iter().enumerate() {
            self.push(&mut nodes, weight.kind, 1.5, Op::Weight(number));
        }
        self.fill(&mut nodes, size, &weights);
        let mut roots = vec![self.collect(&mut nodes)];
        for _ in 0..self.rng.random_range(0..3) {
            roots.push(self.pick(Kind::F64));
        }
        Graph { weights, scope: Scope { nodes, result: roots[0] }, roots }
    }

    /// A scope, and a bound on its result. The first node is its state, if it has one.
    fn scope(&mut self, kind: Kind, state: bool, weights: &[Variable]) -> (Scope, f64) {
        let base = self.kinds.len();
        if state {
            self.kinds.push(kind);
            self.bounds.push(LARGE);
        }
        self.nested += 1;
        let mut nodes = Vec::new();
        let size = self.rng.random_range(0..9);
        self.fill(&mut nodes, size, weights);
        let result =
            if kind == Kind::F64 && self.rng.random_bool(0.3) { self.collect(&mut nodes) } else { self.pick(kind) };
        let bound = self.bounds[result];
        self.nested -= 1;
        self.kinds.truncate(base);
        self.bounds.truncate(base);
        (Scope { nodes, result }, bound)
    }

    fn fill(&mut self, nodes: &mut Vec<Node>, size: usize, weights: &[Variable]) {
        let fault_at =
            if self.faults > 0 && self.rng.random_bool(0.8) { self.rng.random_range(0..=size) } else { size };
        for step in 0..size {
            if step == fault_at && self.faults > 0 {
                self.faults -= 1;
                self.faults(nodes);
            }
            match self.rng.random_range(0..100) {
                0..30 => self.binary(nodes),
                30..42 => self.unary(nodes),
                42..54 => self.literal(nodes),
                54..78 => self.kernel(nodes),
                78..87 if self.nested < 3 => self.dynamic(nodes, weights),
                87..91 if self.tapes > 0 => {
                    self.tapes -= 1;
                    self.tape(nodes);
                }
                91..94 => {
                    let (parts, together) = self.parts();
                    let bound = parts.iter().map(|&part| self.bounds[part]).sum();
                    self.push(nodes, Kind::F64, bound, Op::Computed(parts, together));
                }
                94..97 => {
                    let kind = self.kind();
                    let of = self.pick(kind);
                    self.push(nodes, kind, self.bounds[of], Op::Forward(of));
                }
                97..99 if self.gradients > 0 => {
                    self.gradients -= 1;
                    let (of, weight) = (self.pick(Kind::F64), self.rng.random_range(0..weights.len()));
                    let kind = weights[weight].kind;
                    if kind != Kind::Counted {
                        self.push(nodes, kind, f64::INFINITY, Op::Gradient(of, weight));
                    }
                }
                _ => {
                    let (kind, value) = (self.kind(), self.number());
                    self.push(nodes, kind, 1.5, Op::Constant(value));
                }
            }
        }
    }

    pub(crate) fn push(&mut self, nodes: &mut Vec<Node>, kind: Kind, bound: f64, op: Op) {
        nodes.push(Node { kind, op });
        self.kinds.push(kind);
        self.bounds.push(bound);
        if bound <= LARGE {
            return;
        }
        let last = self.kinds.len() - 1;
        let (op, bound) = match kind {
            Kind::Counted => (Op::Kernel(Kernel::Stretch(1.0 / bound), vec![last], self.effort()), 1.0),
            _ => (Op::Unary(Unary::Tanh, last), 1.0),
        };
        self.push(nodes, kind, bound, op);
    }

    pub(crate) fn number(&mut self) -> f64 {
        self.rng.random_range(-1.5..1.5)
    }

    pub(crate) fn kind(&mut self) -> Kind {
        match self.rng.random_range(0..10) {
            0..6 => Kind::F64,
            6 => Kind::F32,
            7 | 8 => Kind::Many,
            _ => Kind::Counted,
        }
    }

    /// A kind with arithmetic.
    pub(crate) fn arithmetic(&mut self) -> Kind {
        match self.kind() {
            Kind::Counted => Kind::F64,
            kind => kind,
        }
    }

    pub(crate) fn pick(&mut self, kind: Kind) -> usize {
        let of_kind: Vec<usize> = (0..self.kinds.len()).filter(|&node| self.kinds[node] == kind).collect();
        let from = if self.rng.random_bool(self.recent) { of_kind.len().saturating_sub(3) } else { 0 };
        *of_kind[from..].choose(&mut self.rng).expect("there is a weight of each kind")
    }

    fn dynamic(&mut self, nodes: &mut Vec<Node>, weights: &[Variable]) {
        let (kind, bound, body) = match self.rng.random_range(0..10) {
            0..5 => {
                let kind = if self.rng.random_bool(0.7) { Kind::F64 } else { self.kind() };
                let scores = (0..self.rng.random_range(1..4)).map(|_| self.pick(Kind::F64)).collect();
                let (joined, foreign) = (self.rng.random(), self.rng.random_bool(0.15));
                let threshold = self.number() / 2.0;
                let (then, one) = self.scope(kind, false, weights);
                let (otherwise, other) = self.scope(kind, false, weights);
                (kind, one.max(other), Body::Branch { scores, joined, foreign, threshold, then, otherwise })
            }
            5 | 6 => {
                let (start, rounds) = (self.pick(Kind::F64), self.rng.random_range(1..5));
                let limit = self.rng.random_range(0.5..4.0);
                let budget = (take(&mut self.passes), take(&mut self.tapes), take(&mut self.gradients));
                let (scope, _) = self.scope(Kind::F64, true, weights);
                (self.passes, self.tapes, self.gradients) = budget;
                (Kind::F64, f64::INFINITY, Body::Loop { start, rounds, limit, scope })
            }
            _ => {
                let (of, number) = (self.pick(Kind::F64), self.pick(Kind::F64));
                let route = match self.rng.random_range(0..8) {
                    0 if self.passes > 0 => Route::Predict,
                    1 if self.passes > 0 => Route::Wait,
                    2 if self.passes > 0 => Route::BlockOn,
                    3 | 4 => Route::Forward,
                    _ => Route::Extract,
                };
                if matches!(route, Route::Predict | Route::Wait | Route::BlockOn) {
                    self.passes -= 1;
                }
                (Kind::F64, self.bounds[of] * self.bounds[number], Body::Detached { of, number, route })
            }
        };
        self.push(nodes, kind, bound, Op::Dynamic(Arc::new(body)));
    }

    /// A node that combines some of the others.
    fn collect(&mut self, nodes: &mut Vec<Node>) -> usize {
        let mut sum = self.pick(Kind::F64);
        for _ in 0..self.rng.random_range(0..6) {
            let other = self.pick(Kind::F64);
            let bound = self.bounds[sum] + self.bounds[other];
            self.push(nodes, Kind::F64, bound, Op::Binary(Binary::Add, [sum, other]));
            sum = self.kinds.len() - 1;
        }
        sum
    }
}
