//! Instruction selection: which values of a program are computed inside the instruction of their
//! only user.

use super::fused_ops::{ChainOp, CheapOp, FusedOp};
use super::loop_table::loops;
use super::loops::VectorLoop;
use super::program::{Instruction, Opcode, vector_nanoseconds};
use crate::tensor::Element;
use dl_core::{Binary, Unary};

/// A value of the program, in single-assignment form.
pub(super) enum Value<A> {
    Number(A),
    Whole(usize),
    Broadcast(usize),
    /// An operand on a device.
    View(usize),
    Copy(usize),
    Unary(Unary, usize),
    Binary(Binary, usize, usize),
}

/// A selected instruction, and the values that it reads. Unused operand positions repeat one of the
/// others.
pub(super) struct Selection {
    pub(super) kind: Pattern,
    pub(super) reads: [usize; 4],
    /// Further values that it computes.
    pub(super) extra_outputs: Vec<usize>,
}

pub(super) enum Pattern {
    Copy,
    Unary(Unary),
    /// `exp(−x)`
    ExpOfNegative,
    Binary(Binary),
    Fused(FusedOp),
    /// `a · b` and `last(next(a · b, c), d)`
    ProductAndMore {
        strong: bool,
        next: ChainOp,
        last: ChainOp,
    },
    /// The products of the first operand with each of the others, which may be strong.
    TwoProducts(bool),
    ThreeProducts(bool),
}

impl Selection {
    pub(super) fn new(kind: Pattern, reads: [usize; 4]) -> Self {
        Selection { kind, reads, extra_outputs: Vec::new() }
    }

    /// The instruction that reads the slots `reads` and writes the slots `to`.
    pub(super) fn compile<A: Element>(&self, reads: [usize; 4], to: &[usize]) -> Instruction<A> {
        let loops = loops::<A>();
        let cheap = |operations: usize| operations as f64 * Binary::Add.cost();
        let (opcode, cost) = match self.kind {
            Pattern::ProductAndMore { strong, next, last } => {
                (Opcode::Map2((loops.product_and_more)(strong, next, last), reads, [to[0], to[1]]), cheap(3))
            }
            Pattern::TwoProducts(strong) => {
                (Opcode::Map2((loops.two_products)(strong), reads, [to[0], to[1]]), cheap(2))
            }
            Pattern::ThreeProducts(strong) => {
                (Opcode::Map3((loops.three_products)(strong), reads, [to[0], to[1], to[2]]), cheap(3))
            }
            _ => {
                let cost = match self.kind {
                    Pattern::Unary(op) => op.cost(),
                    Pattern::Binary(op) => op.cost(),
                    Pattern::ExpOfNegative => Unary::Exp.cost(),
                    Pattern::Fused(nested) => cheap(nested.operations()),
                    _ => COPY_NANOSECONDS,
                };
                (Opcode::Map(self.loop_of_one(), reads, to[0]), cost)
            }
        };
        Instruction { opcode, nanoseconds: vector_nanoseconds(cost) }
    }

    /// The loop of an instruction with one output.
    pub(super) fn loop_of_one<A: Element>(&self) -> VectorLoop<A> {
        let loops = loops::<A>();
        match self.kind {
            Pattern::Copy => (loops.copy)(),
            Pattern::Unary(op) => (loops.unary)(op),
            Pattern::ExpOfNegative => (loops.exp_of_negative)(),
            Pattern::Binary(op) => (loops.binary)(op),
            Pattern::Fused(nested) => (loops.nested)(nested),
            Pattern::ProductAndMore { .. } | Pattern::TwoProducts(_) | Pattern::ThreeProducts(_) => {
                unreachable!("it has several outputs")
            }
        }
    }
}

/// The estimated time to copy an element.
pub(super) const COPY_NANOSECONDS: f64 = 0.5;

/// Results of operations that take longer than this per element are stored.
const EXPENSIVE_NANOSECONDS: f64 = 5.0;

impl<A> Value<A> {
    /// The values that it reads, from left to right.
    pub(super) fn reads(&self) -> impl Iterator<Item = usize> + use<A> {
        let reads = match *self {
            Value::Copy(x) | Value::Unary(_, x) => [Some(x), None],
            Value::Binary(_, a, b) => [Some(a), Some(b)],
            Value::Number(_) | Value::Whole(_) | Value::Broadcast(_) | Value::View(_) => [None, None],
        };
        reads.into_iter().flatten()
    }

    /// Whether an instruction computes it from other values.
    pub(super) fn is_computed(&self) -> bool {
        !matches!(self, Value::Number(_) | Value::Whole(_) | Value::Broadcast(_) | Value::View(_))
    }

    /// The operation and its operands, if it can be fused into another one.
    fn cheap(&self) -> Option<(CheapOp, usize, usize)> {
        match *self {
            Value::Binary(op, a, b) => Some((CheapOp::of(op)?, a, b)),
            _ => None,
        }
    }

    pub(super) fn is_expensive(&self) -> bool {
        match self {
            Value::Unary(op, _) => op.cost() >= EXPENSIVE_NANOSECONDS,
            Value::Binary(op, ..) => op.cost() >= EXPENSIVE_NANOSECONDS,
            _ => false,
        }
    }
}

/// The values of a program, each after those that it reads.
pub(super) struct Values<'a, A>(pub(super) &'a [Value<A>]);

impl<A: Element> Values<'_, A> {
    /// The number of uses of each value by needed values and as a result.
    pub(super) fn uses(&self, results: &[usize]) -> Vec<usize> {
        let mut uses = vec![0; self.0.len()];
        results.iter().for_each(|&result| uses[result] += 1);
        // a user of a value comes after it
        for (index, value) in self.0.iter().enumerate().rev() {
            if uses[index] > 0 {
                value.reads().for_each(|read| uses[read] += 1);
            }
        }
        uses
    }

    /// The values that are computed inside the instruction of their only user. An instruction has
    /// at most three operations and four operands.
    pub(super) fn inlined(&self, uses: &[usize], results: &[usize]) -> Vec<bool> {
        let mut inlined = vec![false; self.0.len()];
        let only_one_reads = |read: usize| uses[read] == 1 && !results.contains(&read);
        let goes = |read: usize| only_one_reads(read) && self.0[read].cheap().is_some();
        for (index, value) in self.0.iter().enumerate().rev() {
            if uses[index] == 0 || inlined[index] {
                continue;
            }
            if let Value::Unary(Unary::Exp, x) = *value {
                inlined[x] = only_one_reads(x) && matches!(self.0[x], Value::Unary(Unary::Neg, _));
            }
            let Some((op, a, b)) = value.cheap() else { continue };
            let is_strong = |op: CheapOp| matches!(op, CheapOp::StrongMul);
            (inlined[a], inlined[b]) = (goes(a) && !(is_strong(op) && goes(b)), goes(b));
            if inlined[a] != inlined[b] {
                let within = if inlined[a] { a } else { b };
                // a strong product is not in the middle
                let is_first = self.0[within].cheap().is_some_and(|(op, ..)| is_strong(op));
                if let Some(read) = self.0[within].reads().find(|&read| !is_first && goes(read)) {
                    inlined[read] = true;
                }
            }
        }
        inlined
    }

    /// Selects the instruction of a value, together with the values inlined into it.
    pub(super) fn selection(&self, value: &Value<A>, inlined: &[bool]) -> Selection {
        let negated = |x: usize| match self.0[x] {
            Value::Unary(Unary::Neg, negated) if inlined[x] => Some(negated),
            _ => None,
        };
        match *value {
            Value::Copy(x) => Selection::new(Pattern::Copy, [x; 4]),
            Value::Unary(op, x) => match negated(x) {
                Some(x) => Selection::new(Pattern::ExpOfNegative, [x; 4]),
                None => Selection::new(Pattern::Unary(op), [x; 4]),
            },
            Value::Binary(op, a, b) => {
                self.nested(value, inlined).unwrap_or(Selection::new(Pattern::Binary(op), [a, b, a, a]))
            }
            Value::Number(_) | Value::Whole(_) | Value::Broadcast(_) | Value::View(_) => {
                unreachable!("nothing is computed")
            }
        }
    }

    /// Selects a fused instruction, if other values are inlined into this one.
    fn nested(&self, value: &Value<A>, inlined: &[bool]) -> Option<Selection> {
        let within = |read: usize| if inlined[read] { self.0[read].cheap() } else { None };
        let (outer, a, b) = value.cheap()?;
        // the last operation, and its operand that is not inlined
        let ((op, a, b), last, other) = match (within(a), within(b)) {
            (None, None) => return None,
            (Some((left, a, b)), Some((right, c, d))) => {
                return Some(Selection::new(Pattern::Fused(FusedOp::Pair { outer, left, right }), [a, b, c, d]));
            }
            (Some(left), None) => (left, outer.chained_left(), b),
            (None, Some(right)) => (right, outer.chained_right(), a),
        };
        let three = |(first, c, d): (CheapOp, usize, usize), next: ChainOp, between: usize| {
            Selection::new(Pattern::Fused(FusedOp::Three { first, next, last }), [c, d, between, other])
        };
        Some(match (within(a), within(b)) {
            (Some(left), _) => three(left, op.chained_left(), b),
            (None, Some(right)) => three(right, op.chained_right(), a),
            (None, None) => Selection::new(Pattern::Fused(FusedOp::Two { first: op, next: last }), [a, b, other, a]),
        })
    }
}
