//! Nodes of a random graph without scopes of their own.

use super::graph::*;
use super::random::Maker;
use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use std::sync::Arc;

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
    pub(crate) fn effort(&mut self) -> Effort {
        let nanoseconds = *[0.0, 50.0, 1_000.0, 9_000.0, 20_000.0, 1e6].choose(&mut self.rng).expect("some costs");
        let spins = if self.rng.random_bool(0.05) { self.rng.random_range(0..3000) } else { 0 };
        Effort { nanoseconds, spins }
    }

    pub(crate) fn binary(&mut self, nodes: &mut Vec<Node>) {
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

    pub(crate) fn literal(&mut self, nodes: &mut Vec<Node>) {
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

    pub(crate) fn unary(&mut self, nodes: &mut Vec<Node>) {
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

    pub(crate) fn kernel(&mut self, nodes: &mut Vec<Node>) {
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

    pub(crate) fn parts(&mut self) -> (Vec<usize>, Together) {
        let together = *[Together::Zip, Together::Join, Together::FlatMap].choose(&mut self.rng).expect("some ways");
        let parts = if matches!(together, Together::Join) { self.rng.random_range(1..5) } else { 2 };
        ((0..parts).map(|_| self.pick(Kind::F64)).collect(), together)
    }

    pub(crate) fn tape(&mut self, nodes: &mut Vec<Node>) {
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

    /// One fault, or several with a common consumer of their errors or deltas.
    pub(crate) fn faults(&mut self, nodes: &mut Vec<Node>) {
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
}
