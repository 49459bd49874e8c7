//! Writing a program: each formula and each operand occurs in it once, and a register is free again
//! when it has been read for the last time.

use super::fused_ops::{ChainOp, CheapOp, FusedOp};
use super::loop_table::loops;
use super::loops::VectorLoop;
use super::program::{
    BroadcastOperand, BroadcastStrides, Instruction, MAX_RESULTS, Opcode, Program, vector_nanoseconds,
};
use super::{multi_output, prefetch};
use crate::tensor::{Element, Expr, LazyTensor, Nd, Rank};
use dl_core::{Binary, Unary};
use ndarray::{ArcArray, IxDyn};
use std::sync::Arc;

impl<A: Element> Program<A> {
    /// The program for some formulas. Beside them it computes those that come with it, which are
    /// below them, each with the result that it has.
    ///
    /// When `sums`, the first of them is only summed, and the results are those of the others.
    pub(super) fn of<D: Rank>(tensors: &[&LazyTensor<A, D>], sums: bool) -> (Self, CachedResults<A, D>) {
        let mut writer = Compiler::<A, D> {
            shape: tensors[0].shape(),
            steps: Vec::with_capacity(TYPICAL_VALUES),
            operands: Vec::with_capacity(TYPICAL_OPERANDS),
            parts: Vec::new(),
            known: Vec::with_capacity(TYPICAL_VALUES),
            expensive: Vec::new(),
        };
        let mut results: Vec<usize> = Vec::with_capacity(MAX_RESULTS);
        for lazy in tensors {
            let mut step = writer.lazy(lazy);
            let computed = matches!(
                writer.steps[step],
                SsaValue::Unary(..) | SsaValue::Binary(..) | SsaValue::BroadcastOperand(_)
            );
            if !computed || results.contains(&step) {
                writer.steps.push(SsaValue::Copy(step));
                step = writer.steps.len() - 1;
            }
            results.push(step);
        }
        let mut kept = Vec::new();
        for ExpensiveValue { lazy, step, uses } in std::mem::take(&mut writer.expensive) {
            // besides this handle, and those of the formulas that use it
            let wanted = Arc::strong_count(&lazy) > 1 + uses;
            if !wanted || results[..tensors.len()].contains(&step) {
                continue;
            }
            match results.iter().position(|&result| result == step) {
                // another one that says the same
                Some(result) => kept.push((lazy, result)),
                None if results.len() < MAX_RESULTS => {
                    kept.push((lazy, results.len()));
                    results.push(step);
                }
                None => {}
            }
        }
        (writer.finish(&results, sums), kept)
    }
}

/// A program seldom has more steps, and seldom more operands: its tables need not grow while it is
/// written.
const TYPICAL_VALUES: usize = 32;
const TYPICAL_OPERANDS: usize = 8;

/// Formulas that are kept, each with the number of its result.
pub(super) type CachedResults<A, D> = Vec<(Arc<LazyTensor<A, D>>, usize)>;

/// A value of a program that is being written.
enum SsaValue<A> {
    Number(A),
    Whole(usize),
    BroadcastOperand(usize),
    Copy(usize),
    Unary(Unary, usize),
    Binary(Binary, usize, usize),
}

/// Writes a program, in which each formula and each operand occurs once.
struct Compiler<'a, A: Element, D: Rank> {
    shape: &'a D,
    steps: Vec<SsaValue<A>>,
    operands: Vec<ArcArray<A, IxDyn>>,
    parts: Vec<BroadcastOperand<A>>,
    /// The steps of formulas, by address.
    known: Vec<(usize, usize)>,
    expensive: Vec<ExpensiveValue<A, D>>,
}

/// A formula that takes longer to compute than to fetch: it is kept if somebody else has it, who is
/// going to look at it.
struct ExpensiveValue<A: Element, D: Rank> {
    lazy: Arc<LazyTensor<A, D>>,
    step: usize,
    /// In how many places of the program it is an operand.
    uses: usize,
}

/// What an instruction computes, and the steps that it reads. Where it has fewer, others of them
/// come again.
pub(super) struct SelectedInstr {
    pub(super) kind: InstrKind,
    pub(super) reads: [usize; 4],
    /// The further steps that it computes.
    pub(super) extra_outputs: Vec<usize>,
}

pub(super) enum InstrKind {
    Copy,
    Unary(Unary),
    /// `exp(−x)`.
    ExpOfNegative,
    Binary(Binary),
    FusedOp(FusedOp),
    /// A product of the first two, and `last(next(product, c), d)`.
    ProductAndMore {
        next: ChainOp,
        last: ChainOp,
    },
    /// Of the first one and each of the others.
    TwoProducts,
    ThreeProducts,
}

impl SelectedInstr {
    fn new(kind: InstrKind, reads: [usize; 4]) -> Self {
        SelectedInstr { kind, reads, extra_outputs: Vec::new() }
    }

    /// The instruction that reads these places, and writes to those.
    fn compile<A: Element>(&self, reads: [usize; 4], to: &[usize]) -> Instruction<A> {
        let loops = loops::<A>();
        let one = |code: VectorLoop<A>| Opcode::Map(code, reads, to[0]);
        let cheap = |operations: usize| operations as f64 * Binary::Add.cost();
        let (opcode, cost) = match self.kind {
            InstrKind::Copy => (one((loops.copy)()), COPY_NANOSECONDS),
            InstrKind::Unary(op) => (one((loops.unary)(op)), op.cost()),
            InstrKind::ExpOfNegative => (one((loops.exp_of_negative)()), Unary::Exp.cost()),
            InstrKind::Binary(op) => (one((loops.binary)(op)), op.cost()),
            InstrKind::FusedOp(nested) => (one((loops.nested)(nested)), cheap(nested.operations())),
            InstrKind::ProductAndMore { next, last } => {
                (Opcode::Map2((loops.product_and_more)(next, last), reads, [to[0], to[1]]), cheap(3))
            }
            InstrKind::TwoProducts => (Opcode::Map2((loops.two_products)(), reads, [to[0], to[1]]), cheap(2)),
            InstrKind::ThreeProducts => {
                (Opcode::Map3((loops.three_products)(), reads, [to[0], to[1], to[2]]), cheap(3))
            }
        };
        Instruction { opcode, nanoseconds: vector_nanoseconds(cost) }
    }
}

/// What a copy of a number takes.
const COPY_NANOSECONDS: f64 = 0.5;
/// Of operations that take longer for an element the results are kept.
const EXPENSIVE_NANOSECONDS: f64 = 5.0;

impl<A> SsaValue<A> {
    /// The steps that it reads, from left to right.
    fn reads(&self) -> impl Iterator<Item = usize> + use<A> {
        let reads = match *self {
            SsaValue::Copy(x) | SsaValue::Unary(_, x) => [Some(x), None],
            SsaValue::Binary(_, a, b) => [Some(a), Some(b)],
            SsaValue::Number(_) | SsaValue::Whole(_) | SsaValue::BroadcastOperand(_) => [None, None],
        };
        reads.into_iter().flatten()
    }

    /// Whether an instruction computes it from other steps.
    fn is_computed(&self) -> bool {
        !matches!(self, SsaValue::Number(_) | SsaValue::Whole(_) | SsaValue::BroadcastOperand(_))
    }

    /// The operation with its operands, if it may be computed inside of another one.
    fn cheap(&self) -> Option<(CheapOp, usize, usize)> {
        match *self {
            SsaValue::Binary(op, a, b) => Some((CheapOp::of(op)?, a, b)),
            _ => None,
        }
    }

    fn is_expensive(&self) -> bool {
        match self {
            SsaValue::Unary(op, _) => op.cost() >= EXPENSIVE_NANOSECONDS,
            SsaValue::Binary(op, ..) => op.cost() >= EXPENSIVE_NANOSECONDS,
            _ => false,
        }
    }
}

impl<A: Element, D: Rank> Compiler<'_, A, D> {
    fn lazy(&mut self, lazy: &LazyTensor<A, D>) -> usize {
        let address = std::ptr::from_ref(lazy).addr();
        if let Some(&(_, step)) = self.known.iter().find(|(known, _)| *known == address) {
            return step;
        }
        let step = match lazy.operation() {
            // it has been computed just now
            None => return self.operand(lazy.compute()),
            Some(Expr::Repeat(x)) => self.value(&x),
            Some(Expr::Unary(op, x)) => {
                let x = self.value(&x);
                self.push(SsaValue::Unary(op, x))
            }
            Some(Expr::Binary(op, a, b)) => {
                let (a, b) = (self.value(&a), self.value(&b));
                self.binary(op, a, b)
            }
            Some(Expr::WithNumber { op, number, left, x }) => {
                let x = self.value(&x);
                let number = self.number(number);
                let (a, b) = if left { (number, x) } else { (x, number) };
                self.binary(op, a, b)
            }
        };
        self.known.push((address, step));
        step
    }

    fn value(&mut self, x: &Nd<A, D>) -> usize {
        let Some(lazy) = x.lazy() else { return self.operand(&x.0) };
        let step = self.lazy(lazy);
        match self.expensive.iter_mut().find(|expensive| Arc::ptr_eq(&expensive.lazy, lazy)) {
            Some(expensive) => expensive.uses += 1,
            None if self.steps[step].is_expensive() => {
                self.expensive.push(ExpensiveValue { lazy: lazy.clone(), step, uses: 1 });
            }
            None => {}
        }
        step
    }

    /// A product with 1, which is what a delta begins with, is the other factor; a sum with a
    /// negative, which is what many a delta is, is a difference.
    fn binary(&mut self, op: Binary, a: usize, b: usize) -> usize {
        let is_one = |step: usize| matches!(self.steps[step], SsaValue::Number(number) if number == A::of(1.0));
        let negated = |step: usize| match self.steps[step] {
            SsaValue::Unary(Unary::Neg, x) => Some(x),
            _ => None,
        };
        let (op, a, b) = match (op, negated(a), negated(b)) {
            (Binary::Add, _, Some(b)) => (Binary::Sub, a, b),
            (Binary::Add, Some(a), None) => (Binary::Sub, b, a),
            (Binary::Sub, _, Some(b)) => (Binary::Add, a, b),
            _ => (op, a, b),
        };
        match op {
            Binary::Mul if is_one(a) => b,
            Binary::Mul if is_one(b) => a,
            _ => self.push(SsaValue::Binary(op, a, b)),
        }
    }

    /// A step, unless there is one like it: a rule writes down again what the operation has
    /// computed.
    fn push(&mut self, step: SsaValue<A>) -> usize {
        let known = self.steps.iter().position(|known| match (known, &step) {
            (SsaValue::Unary(known, x), SsaValue::Unary(op, y)) => (known, x) == (op, y),
            (SsaValue::Binary(known, a, b), SsaValue::Binary(op, c, d)) => (known, a, b) == (op, c, d),
            _ => false,
        });
        known.unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        })
    }

    fn number(&mut self, number: A) -> usize {
        let same = |step: &SsaValue<A>| matches!(step, SsaValue::Number(other) if is_same(*other, number));
        match self.steps.iter().position(same) {
            Some(step) => step,
            None => self.push(SsaValue::Number(number)),
        }
    }

    fn operand(&mut self, array: &ArcArray<A, D>) -> usize {
        if array.len() == 1 {
            return self.number(*array.first().expect("one element"));
        }
        let same = |other: &ArcArray<A, IxDyn>| {
            other.as_ptr() == array.as_ptr() && other.shape() == array.shape() && other.strides() == array.strides()
        };
        let known = self.steps.iter().position(|step| match *step {
            SsaValue::Whole(index) => same(&self.operands[index]),
            SsaValue::BroadcastOperand(index) => same(&self.parts[index].array),
            _ => false,
        });
        known.unwrap_or_else(|| {
            let array = array.clone().into_dyn();
            let array =
                if array.is_standard_layout() { array } else { array.as_standard_layout().into_owned().into_shared() };
            let is_whole = array.shape() == self.shape.slice();
            let step = if is_whole {
                self.operands.push(array);
                SsaValue::Whole(self.operands.len() - 1)
            } else {
                let strides = BroadcastStrides::of(array.shape(), self.shape.slice());
                self.parts.push(BroadcastOperand { array, strides });
                SsaValue::BroadcastOperand(self.parts.len() - 1)
            };
            self.push(step)
        })
    }

    /// How often each step is read, by steps that somebody needs, or is a result.
    fn uses(&self, results: &[usize]) -> Vec<usize> {
        let mut uses = vec![0; self.steps.len()];
        results.iter().for_each(|&result| uses[result] += 1);
        // whoever reads a step comes after it
        for (index, step) in self.steps.iter().enumerate().rev() {
            if uses[index] > 0 {
                step.reads().for_each(|read| uses[read] += 1);
            }
        }
        uses
    }

    /// Which steps are computed inside of another one, the only one that reads them. An instruction
    /// has at most three operations, with four operands.
    fn inlined(&self, uses: &[usize], results: &[usize]) -> Vec<bool> {
        let mut inlined = vec![false; self.steps.len()];
        let only_one_reads = |read: usize| uses[read] == 1 && !results.contains(&read);
        let goes = |read: usize| only_one_reads(read) && self.steps[read].cheap().is_some();
        for (index, step) in self.steps.iter().enumerate().rev() {
            if uses[index] == 0 || inlined[index] {
                continue;
            }
            if let SsaValue::Unary(Unary::Exp, x) = *step {
                inlined[x] = only_one_reads(x) && matches!(self.steps[x], SsaValue::Unary(Unary::Neg, _));
            }
            let Some((_, a, b)) = step.cheap() else { continue };
            (inlined[a], inlined[b]) = (goes(a), goes(b));
            if inlined[a] != inlined[b] {
                let within = if inlined[a] { a } else { b };
                if let Some(read) = self.steps[within].reads().find(|&read| goes(read)) {
                    inlined[read] = true;
                }
            }
        }
        inlined
    }

    /// What an instruction computes: this step with those that are inside of it.
    fn code(&self, step: &SsaValue<A>, inlined: &[bool]) -> SelectedInstr {
        let negated = |x: usize| match self.steps[x] {
            SsaValue::Unary(Unary::Neg, negated) if inlined[x] => Some(negated),
            _ => None,
        };
        match *step {
            SsaValue::Copy(x) => SelectedInstr::new(InstrKind::Copy, [x; 4]),
            SsaValue::Unary(op, x) => match negated(x) {
                Some(x) => SelectedInstr::new(InstrKind::ExpOfNegative, [x; 4]),
                None => SelectedInstr::new(InstrKind::Unary(op), [x; 4]),
            },
            SsaValue::Binary(op, a, b) => {
                self.nested(step, inlined).unwrap_or(SelectedInstr::new(InstrKind::Binary(op), [a, b, a, a]))
            }
            SsaValue::Number(_) | SsaValue::Whole(_) | SsaValue::BroadcastOperand(_) => {
                unreachable!("nothing is computed")
            }
        }
    }

    /// An operation with those that are inside of it, if there are any.
    fn nested(&self, step: &SsaValue<A>, inlined: &[bool]) -> Option<SelectedInstr> {
        let within = |read: usize| if inlined[read] { self.steps[read].cheap() } else { None };
        let (outer, a, b) = step.cheap()?;
        // the last operation, with an operand on the other side
        let ((op, a, b), last, other) = match (within(a), within(b)) {
            (None, None) => return None,
            (Some((left, a, b)), Some((right, c, d))) => {
                return Some(SelectedInstr::new(
                    InstrKind::FusedOp(FusedOp::Both { outer, left, right }),
                    [a, b, c, d],
                ));
            }
            (Some(left), None) => (left, outer.chained_left(), b),
            (None, Some(right)) => (right, outer.chained_right(), a),
        };
        let three = |(first, c, d): (CheapOp, usize, usize), next: ChainOp, between: usize| {
            SelectedInstr::new(InstrKind::FusedOp(FusedOp::Three { first, next, last }), [c, d, between, other])
        };
        Some(match (within(a), within(b)) {
            (Some(left), _) => three(left, op.chained_left(), b),
            (None, Some(right)) => three(right, op.chained_right(), a),
            (None, None) => {
                SelectedInstr::new(InstrKind::FusedOp(FusedOp::Two { first: op, next: last }), [a, b, other, a])
            }
        })
    }

    /// The steps as instructions; these are the results, in this order, of which the first is only
    /// summed when `sums`.
    fn finish(self, results: &[usize], sums: bool) -> Program<A> {
        let uses = self.uses(results);
        let inlined = self.inlined(&uses, results);
        let mut codes: Vec<Option<SelectedInstr>> = Vec::with_capacity(self.steps.len());
        for (index, step) in self.steps.iter().enumerate() {
            let is_instruction = uses[index] > 0 && !inlined[index] && step.is_computed();
            codes.push(is_instruction.then(|| self.code(step, &inlined)));
        }
        multi_output::join(&mut codes, |step, before| step < before || matches!(self.steps[step], SsaValue::Whole(_)));
        let mut last_use = vec![0; self.steps.len()];
        for (index, code) in codes.iter().enumerate() {
            code.iter().flat_map(|code| code.reads).for_each(|read| last_use[read] = index);
        }
        let mut program = Program {
            shape: self.shape.slice().to_vec(),
            operands: self.operands,
            parts: self.parts,
            numbers: Vec::new(),
            instructions: Vec::with_capacity(self.steps.len()),
            ahead: Vec::new(),
            registers: 0,
            summed: None,
            results: results.len() - usize::from(sums),
        };
        let first_result = program.operands.len();
        let first_register = first_result + program.results;
        let mut free: Vec<usize> = Vec::new();
        // nobody reads what is inside of another step
        let mut slots: Vec<Option<usize>> = (self.steps.iter())
            .map(|step| if let SsaValue::Whole(operand) = *step { Some(operand) } else { None })
            .collect();
        // numbers stay where they are
        let keeps = |step: usize| matches!(self.steps[step], SsaValue::Number(_));
        for index in 0..self.steps.len() {
            if uses[index] == 0 || self.steps[index].is_computed() && codes[index].is_none() {
                continue;
            }
            let mut slot = |step: usize| {
                let is_summed = sums && results[0] == step;
                let slot = match results.iter().position(|&result| result == step) {
                    Some(result) if !is_summed => first_result + result - usize::from(sums),
                    _ => match if keeps(step) { None } else { free.pop() } {
                        Some(register) => register,
                        None => {
                            program.registers += 1;
                            first_register + program.registers - 1
                        }
                    },
                };
                if is_summed {
                    program.summed = Some(slot);
                }
                slots[step] = Some(slot);
                slot
            };
            match self.steps[index] {
                SsaValue::Whole(_) => {}
                // one that is a result is copied
                SsaValue::Number(number) => program.numbers.push((number, slot(index))),
                SsaValue::BroadcastOperand(part) => {
                    let opcode = Opcode::Load(part, slot(index));
                    program
                        .instructions
                        .push(Instruction { opcode, nanoseconds: vector_nanoseconds(COPY_NANOSECONDS) });
                }
                _ => {
                    let code = codes[index].as_ref().expect("it is an instruction");
                    let to: Vec<usize> =
                        std::iter::once(index).chain(code.extra_outputs.iter().copied()).map(slot).collect();
                    let reads = code.reads.map(|read| slots[read].expect("it comes before whoever reads it"));
                    program.instructions.push(code.compile(reads, &to));
                }
            }
            // only now: a loop that writes where it reads is not compiled to vectors
            for x in codes[index].iter().flat_map(|code| code.reads) {
                if last_use[x] == index
                    && !keeps(x)
                    && let Some(register) = slots[x].filter(|&slot| slot >= first_register)
                    && program.summed != Some(register)
                    && !free.contains(&register)
                {
                    free.push(register);
                }
            }
        }
        program.ahead = program.plan_prefetch(prefetch::register_bytes());
        program
    }
}

/// To the bit, but for the kinds of NaN.
fn is_same<A: Element>(a: A, b: A) -> bool {
    a == b && a.is_sign_negative() == b.is_sign_negative() || a.is_nan() && b.is_nan()
}
