//! Random graphs, each from a seed.

use super::graph::*;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// The graph of this seed.
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
        gradients: 3,
        faults,
        next_fault: 0,
    };
    maker.graph(size)
}

/// What is known while a graph is made.
struct Maker {
    rng: ChaCha8Rng,
    /// How often an operand is one of the latest nodes: small makes a graph flat, large makes it deep.
    recent: f64,
    kinds: Vec<Kind>,
    /// A rough bound of the magnitude of each node, so that few numbers overflow.
    bounds: Vec<f64>,
    /// How deep in bodies of dynamic nodes we are.
    nested: usize,
    /// How many more nodes with a pass of their own there may be, and how many gradients: their costs multiply.
    passes: usize,
    gradients: usize,
    faults: usize,
    next_fault: usize,
}

/// Magnitudes above this one are squashed.
const LARGE: f64 = 8.0;
const UNARY: [Unary; 12] = [
    Unary::Neg,
    Unary::Abs,
    Unary::Sign,
    Unary::Exp,
    Unary::Square,
    Unary::Recip,
    Unary::Sin,
    Unary::Cos,
    Unary::Tanh,
    Unary::Sigmoid,
    Unary::Relu,
    Unary::Softplus,
];

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

    /// A scope, and a bound of its result. A state that it starts from, if there is one, is its first node.
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
                87..91 => self.tape(nodes),
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

    fn push(&mut self, nodes: &mut Vec<Node>, kind: Kind, bound: f64, op: Op) {
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

    fn number(&mut self) -> f64 {
        self.rng.random_range(-1.5..1.5)
    }

    fn kind(&mut self) -> Kind {
        match self.rng.random_range(0..10) {
            0..6 => Kind::F64,
            6 => Kind::F32,
            7 | 8 => Kind::Many,
            _ => Kind::Counted,
        }
    }

    /// A kind that has arithmetic.
    fn arithmetic(&mut self) -> Kind {
        match self.kind() {
            Kind::Counted => Kind::F64,
            kind => kind,
        }
    }

    fn pick(&mut self, kind: Kind) -> usize {
        let of_kind: Vec<usize> = (0..self.kinds.len()).filter(|&node| self.kinds[node] == kind).collect();
        let from = if self.rng.random_bool(self.recent) { of_kind.len().saturating_sub(3) } else { 0 };
        *of_kind[from..].choose(&mut self.rng).expect("there is a weight of each kind")
    }

    fn effort(&mut self) -> Effort {
        let nanoseconds = *[0.0, 50.0, 1_000.0, 9_000.0, 20_000.0, 1e6].choose(&mut self.rng).expect("some costs");
        let spins = if self.rng.random_bool(0.05) { self.rng.random_range(0..3000) } else { 0 };
        Effort { nanoseconds, spins }
    }

    fn binary(&mut self, nodes: &mut Vec<Node>) {
        let kind = self.arithmetic();
        let (a, b) = (self.pick(kind), self.pick(kind));
        let (x, y) = (self.bounds[a], self.bounds[b]);
        let (op, bound) = match self.rng.random_range(0..10) {
            0..4 => (Binary::Add, x + y),
            4 | 5 => (Binary::Sub, x + y),
            6 | 7 => (Binary::Mul, x * y),
            8 => (Binary::Min, x.max(y)),
            _ => (Binary::Max, x.max(y)),
        };
        self.push(nodes, kind, bound, Op::Binary(op, [a, b]));
    }

    fn literal(&mut self, nodes: &mut Vec<Node>) {
        let kind = self.arithmetic();
        let (x, number, left) = (self.pick(kind), self.number(), self.rng.random());
        let (op, bound) = match self.rng.random_range(0..4) {
            0 => (Binary::Add, self.bounds[x] + 1.5),
            1 => (Binary::Sub, self.bounds[x] + 1.5),
            2 => (Binary::Mul, self.bounds[x] * 1.5),
            _ if left => (Binary::Div, f64::INFINITY),
            _ => (Binary::Div, self.bounds[x] / number.abs()),
        };
        self.push(nodes, kind, bound, Op::Literal(op, x, number, left));
    }

    fn unary(&mut self, nodes: &mut Vec<Node>) {
        let kind = self.arithmetic();
        let x = self.pick(kind);
        let op = *UNARY.choose(&mut self.rng).expect("some operations");
        let bound = match (op, self.bounds[x]) {
            (Unary::Neg | Unary::Abs | Unary::Relu, x) => x,
            (Unary::Softplus, x) => x + 1.0,
            (Unary::Square, x) => x * x,
            (Unary::Exp, x) => x.exp(),
            (Unary::Recip, _) => f64::INFINITY,
            (Unary::Sign | Unary::Sin | Unary::Cos | Unary::Tanh | Unary::Sigmoid, _) => 1.0,
        };
        self.push(nodes, kind, bound, Op::Unary(op, x));
    }

    fn kernel(&mut self, nodes: &mut Vec<Node>) {
        use Kind::{Counted, F32, F64, Many};
        let of = |maker: &mut Self, kinds: &[Kind]| kinds.iter().map(|&kind| maker.pick(kind)).collect::<Vec<_>>();
        let k = self.number();
        let (kernel, kind, operands) = match self.rng.random_range(0..12) {
            0 | 1 => (Kernel::Scale(k), F64, of(self, &[F64])),
            2 => (Kernel::Blend, F64, of(self, &[F64; 2])),
            3 => (Kernel::Fused, F64, of(self, &[F64; 3])),
            4 => {
                let wide = if self.rng.random_bool(0.1) { 40 } else { 6 };
                let number = self.rng.random_range(1..wide);
                let operands = of(self, &vec![F64; number]);
                let factors = operands.iter().map(|_| if self.rng.random_bool(0.2) { 0.0 } else { self.number() });
                (Kernel::Gather(factors.collect()), F64, operands)
            }
            5 => (Kernel::Widen, F64, of(self, &[F32])),
            6 => (Kernel::Narrow, F32, of(self, &[F64])),
            7 => (Kernel::Enter, Counted, of(self, &[F64])),
            8 => (Kernel::Leave, F64, of(self, &[Counted])),
            9 => (Kernel::Mix, Counted, of(self, &[Counted; 2])),
            10 => (Kernel::Spread, Many, of(self, &[F64])),
            _ => (Kernel::Total, F64, of(self, &[Many])),
        };
        let largest = operands.iter().map(|&x| self.bounds[x]).fold(0.0, f64::max);
        let bound = match &kernel {
            Kernel::Gather(factors) => largest * factors.iter().map(|k| k.abs()).sum::<f64>(),
            Kernel::Blend | Kernel::Fused => largest * (largest + 1.0),
            Kernel::Mix | Kernel::Total | Kernel::Scale(_) => largest * 2.0,
            _ => largest,
        };
        let effort = self.effort();
        self.push(nodes, kind, bound, Op::Kernel(kernel, operands, effort));
    }

    fn parts(&mut self) -> (Vec<usize>, Together) {
        let together = *[Together::Zip, Together::Join, Together::FlatMap].choose(&mut self.rng).expect("some ways");
        let parts = if matches!(together, Together::Join) { self.rng.random_range(1..5) } else { 2 };
        ((0..parts).map(|_| self.pick(Kind::F64)).collect(), together)
    }

    fn tape(&mut self, nodes: &mut Vec<Node>) {
        let (parts, together) = self.parts();
        let bound = 1.5 * parts.iter().map(|&part| self.bounds[part]).sum::<f64>();
        let parts = parts.into_iter().map(|of| Part {
            of,
            factor: self.number(),
            scale: if self.rng.random_bool(0.3) { Some(self.number()) } else { None },
        });
        let tape = Tape { parts: parts.collect(), together };
        self.push(nodes, Kind::F64, bound, Op::Tape(tape));
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
                let (limit, (scope, _)) = (self.rng.random_range(0.5..4.0), self.scope(Kind::F64, true, weights));
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

    /// One fault, or several whose errors, or whose deltas, meet.
    fn faults(&mut self, nodes: &mut Vec<Node>) {
        let mut faulty = Vec::new();
        for _ in 0..self.rng.random_range(1..4) {
            self.fault(nodes);
            faulty.push(self.kinds.len() - 1);
            let size = self.rng.random_range(0..2);
            (0..size).for_each(|_| self.kernel(nodes));
        }
        let last = self.kinds.len() - 1;
        if self.kinds[last] == Kind::F64 {
            faulty.push(last);
        }
        faulty.shuffle(&mut self.rng);
        let bound = faulty.iter().map(|&node| self.bounds[node]).sum();
        let op = match faulty[..] {
            [a, b] => Op::Binary(Binary::Sub, [a, b]),
            _ => Op::Kernel(Kernel::Gather(vec![1.0; faulty.len()]), faulty, self.effort()),
        };
        self.push(nodes, Kind::F64, bound, op);
    }

    fn fault(&mut self, nodes: &mut Vec<Node>) {
        let (x, number) = (self.pick(Kind::F64), self.next_fault);
        self.next_fault += 1;
        let fault = match self.rng.random_range(0..7) {
            0 => Fault::ValueFails,
            1 => Fault::ValuePanics,
            2 => Fault::PullbackPanics,
            3 => Fault::DeltaFails,
            4 => Fault::DeltaPanics,
            other => {
                let body = Body::Fails { after: x, number, panics: other == 5 };
                return self.push(nodes, Kind::F64, 1.0, Op::Dynamic(Arc::new(body)));
            }
        };
        let effort = self.effort();
        self.push(nodes, Kind::F64, self.bounds[x], Op::Kernel(Kernel::Faulty(number, fault), vec![x], effort));
    }

    /// A node that brings some of the others together.
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
