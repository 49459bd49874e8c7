//! Writing a program: each formula and each operand occurs in it once, and a register is free again when it has been read for the last time.

use super::loops::{self, Loop};
use super::nested::{self, Cheap, Nested, Next};
use super::{Instruction, Operand, Place, Program, RESULTS, Repeated, Source, What, nanoseconds};
use crate::element::{Element, Rank};
use crate::formula::{Formula, Operation};
use crate::nd::Nd;
use dl_core::{Binary, Unary};
use ndarray::ArcArray;
use std::sync::Arc;

impl<A: Element> Program<A> {
    /// The program for some formulas. Beside them it computes those that come with it, which are below them, each with the result that it has.
    ///
    /// When `sums`, the first of them is only summed, and the results are those of the others.
    pub(super) fn of<D: Rank>(formulas: &[&Formula<A, D>], sums: bool) -> (Self, Kept<A, D>) {
        let mut writer = Writer::<A, D> {
            shape: formulas[0].shape(),
            steps: Vec::new(),
            operands: Vec::new(),
            known: Vec::new(),
            dear: Vec::new(),
        };
        let mut results: Vec<usize> = Vec::with_capacity(RESULTS);
        for formula in formulas {
            let mut step = writer.formula(formula);
            let computed = matches!(writer.steps[step], Step::Unary(..) | Step::Binary(..) | Step::Part(_));
            if !computed || results.contains(&step) {
                writer.steps.push(Step::Copy(step));
                step = writer.steps.len() - 1;
            }
            results.push(step);
        }
        let mut kept = Vec::new();
        for Dear { formula, step, uses } in std::mem::take(&mut writer.dear) {
            // besides this handle, and those of the formulas that use it
            let wanted = Arc::strong_count(&formula) > 1 + uses;
            if !wanted || results[..formulas.len()].contains(&step) {
                continue;
            }
            match results.iter().position(|&result| result == step) {
                // another one that says the same
                Some(result) => kept.push((formula, result)),
                None if results.len() < RESULTS => {
                    kept.push((formula, results.len()));
                    results.push(step);
                }
                None => {}
            }
        }
        (writer.finish(&results, sums), kept)
    }
}

/// Formulas that are kept, each with the number of its result.
pub(super) type Kept<A, D> = Vec<(Arc<Formula<A, D>>, usize)>;

/// A value of a program that is being written.
enum Step<A> {
    Number(A),
    Whole(usize),
    Part(usize),
    Copy(usize),
    Unary(Unary, usize),
    Binary(Binary, usize, usize),
}

/// Writes a program, in which each formula and each operand occurs once.
struct Writer<'a, A: Element, D: Rank> {
    shape: &'a D,
    steps: Vec<Step<A>>,
    operands: Vec<Operand<A>>,
    /// The steps of formulas, by address.
    known: Vec<(usize, usize)>,
    dear: Vec<Dear<A, D>>,
}

/// A formula that takes longer to compute than to fetch: it is kept if somebody else has it, who is going to look at it.
struct Dear<A: Element, D: Rank> {
    formula: Arc<Formula<A, D>>,
    step: usize,
    /// In how many places of the program it is an operand.
    uses: usize,
}

/// What an instruction computes, and the steps that it reads. Where it has fewer, others of them come again.
struct Code {
    kind: Kind,
    reads: [usize; 4],
}

enum Kind {
    Copy,
    Unary(Unary),
    /// `exp(−x)`.
    ExpOfNegative,
    Binary(Binary),
    Nested(Nested),
}

impl Kind {
    /// The loop, and about how long a single element takes.
    fn compile<A: Element>(&self) -> (Loop<A>, f64) {
        match *self {
            Kind::Copy => (loops::copy(), COPY_NANOSECONDS),
            Kind::Unary(op) => (loops::unary(op), op.cost()),
            Kind::ExpOfNegative => (loops::exp_of_negative(), Unary::Exp.cost()),
            Kind::Binary(op) => (loops::binary(op), op.cost()),
            Kind::Nested(nested) => (nested::compile(nested), nested.operations() as f64 * Binary::Add.cost()),
        }
    }
}

/// What a copy of a number takes.
const COPY_NANOSECONDS: f64 = 0.5;
/// Of operations that take longer for an element the results are kept.
const DEAR_NANOSECONDS: f64 = 5.0;

impl<A> Step<A> {
    /// The steps that it reads, from left to right.
    fn reads(&self) -> impl Iterator<Item = usize> + use<A> {
        let reads = match *self {
            Step::Copy(x) | Step::Unary(_, x) => [Some(x), None],
            Step::Binary(_, a, b) => [Some(a), Some(b)],
            Step::Number(_) | Step::Whole(_) | Step::Part(_) => [None, None],
        };
        reads.into_iter().flatten()
    }

    /// Whether an instruction computes it from other steps.
    fn is_computed(&self) -> bool {
        !matches!(self, Step::Number(_) | Step::Whole(_) | Step::Part(_))
    }

    /// The operation with its operands, if it may be computed inside of another one.
    fn cheap(&self) -> Option<(Cheap, usize, usize)> {
        match *self {
            Step::Binary(op, a, b) => Some((Cheap::of(op)?, a, b)),
            _ => None,
        }
    }

    fn is_dear(&self) -> bool {
        match self {
            Step::Unary(op, _) => op.cost() >= DEAR_NANOSECONDS,
            Step::Binary(op, ..) => op.cost() >= DEAR_NANOSECONDS,
            _ => false,
        }
    }
}

impl<A: Element, D: Rank> Writer<'_, A, D> {
    fn formula(&mut self, formula: &Formula<A, D>) -> usize {
        let address = std::ptr::from_ref(formula).addr();
        if let Some(&(_, step)) = self.known.iter().find(|(known, _)| *known == address) {
            return step;
        }
        let step = match formula.operation() {
            // it has been computed just now
            None => return self.operand(formula.compute()),
            Some(Operation::Repeat(x)) => self.value(&x),
            Some(Operation::Unary(op, x)) => {
                let x = self.value(&x);
                self.push(Step::Unary(op, x))
            }
            Some(Operation::Binary(op, a, b)) => {
                let (a, b) = (self.value(&a), self.value(&b));
                self.binary(op, a, b)
            }
            Some(Operation::WithNumber { op, number, left, x }) => {
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
        let Some(formula) = x.formula() else { return self.operand(&x.0) };
        let step = self.formula(formula);
        match self.dear.iter_mut().find(|dear| Arc::ptr_eq(&dear.formula, formula)) {
            Some(dear) => dear.uses += 1,
            None if self.steps[step].is_dear() => {
                self.dear.push(Dear { formula: formula.clone(), step, uses: 1 });
            }
            None => {}
        }
        step
    }

    /// A product with 1, which is what a delta begins with, is the other factor; a sum with a negative, which is what many a delta is, is a difference.
    fn binary(&mut self, op: Binary, a: usize, b: usize) -> usize {
        let is_one = |step: usize| matches!(self.steps[step], Step::Number(number) if number == A::of(1.0));
        let negated = |step: usize| match self.steps[step] {
            Step::Unary(Unary::Neg, x) => Some(x),
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
            _ => self.push(Step::Binary(op, a, b)),
        }
    }

    /// A step, unless there is one like it: a rule writes down again what the operation has computed.
    fn push(&mut self, step: Step<A>) -> usize {
        let known = self.steps.iter().position(|known| match (known, &step) {
            (Step::Unary(known, x), Step::Unary(op, y)) => (known, x) == (op, y),
            (Step::Binary(known, a, b), Step::Binary(op, c, d)) => (known, a, b) == (op, c, d),
            _ => false,
        });
        known.unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        })
    }

    fn number(&mut self, number: A) -> usize {
        let same = |step: &Step<A>| matches!(step, Step::Number(other) if is_same(*other, number));
        match self.steps.iter().position(same) {
            Some(step) => step,
            None => self.push(Step::Number(number)),
        }
    }

    fn operand(&mut self, array: &ArcArray<A, D>) -> usize {
        if array.len() == 1 {
            return self.number(*array.first().expect("one element"));
        }
        let same = |other: &Operand<A>| {
            other.array.as_ptr() == array.as_ptr()
                && other.array.shape() == array.shape()
                && other.array.strides() == array.strides()
        };
        let known = self.operands.iter().position(same);
        let index = known.unwrap_or_else(|| {
            self.operands.push(Operand::new(array, self.shape.slice()));
            self.operands.len() - 1
        });
        let step = |step: &Step<A>| matches!(step, Step::Whole(other) | Step::Part(other) if *other == index);
        if let Some(step) = self.steps.iter().position(step) {
            return step;
        }
        let whole = self.operands[index].array.shape() == self.shape.slice();
        self.push(if whole { Step::Whole(index) } else { Step::Part(index) })
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

    /// Which steps are computed inside of another one, the only one that reads them. An instruction has at most three operations, with four operands.
    fn inside(&self, uses: &[usize], results: &[usize]) -> Vec<bool> {
        let mut inside = vec![false; self.steps.len()];
        let only_one_reads = |read: usize| uses[read] == 1 && !results.contains(&read);
        let goes = |read: usize| only_one_reads(read) && self.steps[read].cheap().is_some();
        for (index, step) in self.steps.iter().enumerate().rev() {
            if uses[index] == 0 || inside[index] {
                continue;
            }
            if let Step::Unary(Unary::Exp, x) = *step {
                inside[x] = only_one_reads(x) && matches!(self.steps[x], Step::Unary(Unary::Neg, _));
            }
            let Some((_, a, b)) = step.cheap() else { continue };
            (inside[a], inside[b]) = (goes(a), goes(b));
            if inside[a] != inside[b] {
                let within = if inside[a] { a } else { b };
                if let Some(read) = self.steps[within].reads().find(|&read| goes(read)) {
                    inside[read] = true;
                }
            }
        }
        inside
    }

    /// What an instruction computes: this step with those that are inside of it.
    fn code(&self, step: &Step<A>, inside: &[bool]) -> Code {
        let negated = |x: usize| match self.steps[x] {
            Step::Unary(Unary::Neg, negated) if inside[x] => Some(negated),
            _ => None,
        };
        match *step {
            Step::Copy(x) => Code { kind: Kind::Copy, reads: [x; 4] },
            Step::Unary(op, x) => match negated(x) {
                Some(x) => Code { kind: Kind::ExpOfNegative, reads: [x; 4] },
                None => Code { kind: Kind::Unary(op), reads: [x; 4] },
            },
            Step::Binary(op, a, b) => {
                self.nested(step, inside).unwrap_or(Code { kind: Kind::Binary(op), reads: [a, b, a, a] })
            }
            Step::Number(_) | Step::Whole(_) | Step::Part(_) => unreachable!("nothing is computed"),
        }
    }

    /// An operation with those that are inside of it, if there are any.
    fn nested(&self, step: &Step<A>, inside: &[bool]) -> Option<Code> {
        let within = |read: usize| if inside[read] { self.steps[read].cheap() } else { None };
        let (outer, a, b) = step.cheap()?;
        // the last operation, with an operand on the other side
        let ((op, a, b), last, other) = match (within(a), within(b)) {
            (None, None) => return None,
            (Some((left, a, b)), Some((right, c, d))) => {
                return Some(Code { kind: Kind::Nested(Nested::Both { outer, left, right }), reads: [a, b, c, d] });
            }
            (Some(left), None) => (left, outer.on_the_left(), b),
            (None, Some(right)) => (right, outer.on_the_right(), a),
        };
        let three = |(first, c, d): (Cheap, usize, usize), next: Next, between: usize| Code {
            kind: Kind::Nested(Nested::Three { first, next, last }),
            reads: [c, d, between, other],
        };
        Some(match (within(a), within(b)) {
            (Some(left), _) => three(left, op.on_the_left(), b),
            (None, Some(right)) => three(right, op.on_the_right(), a),
            (None, None) => Code { kind: Kind::Nested(Nested::Two { first: op, next: last }), reads: [a, b, other, a] },
        })
    }

    /// The steps as instructions; these are the results, in this order, of which the first is only summed when `sums`.
    fn finish(self, results: &[usize], sums: bool) -> Program<A> {
        let uses = self.uses(results);
        let inside = self.inside(&uses, results);
        let is_instruction = |index: usize| uses[index] > 0 && !inside[index];
        let mut last_use = vec![0; self.steps.len()];
        let mut codes: Vec<Option<Code>> = Vec::with_capacity(self.steps.len());
        for (index, step) in self.steps.iter().enumerate() {
            let code = (is_instruction(index) && step.is_computed()).then(|| self.code(step, &inside));
            code.iter().flat_map(|code| code.reads).for_each(|read| last_use[read] = index);
            codes.push(code);
        }
        let mut program = Program {
            shape: self.shape.slice().to_vec(),
            operands: Vec::new(),
            numbers: Vec::new(),
            instructions: Vec::new(),
            ahead: Vec::new(),
            registers: 0,
            summed: None,
            results: results.len() - usize::from(sums),
        };
        let mut free: Vec<usize> = Vec::new();
        // nobody reads what is inside of another step
        let mut sources: Vec<Option<Source>> = vec![None; self.steps.len()];
        let source = |sources: &[Option<Source>], of: usize| sources[of].expect("it comes before whoever reads it");
        // numbers stay where they are
        let keeps = |step: &Step<A>| matches!(step, Step::Number(_));
        for (index, step) in self.steps.iter().enumerate() {
            if let Step::Whole(operand) = *step {
                sources[index] = Some(Source::Operand(operand));
                continue;
            }
            if !is_instruction(index) {
                continue;
            }
            let mut register = || match if keeps(step) { None } else { free.pop() } {
                Some(register) => register,
                None => {
                    program.registers += 1;
                    program.registers - 1
                }
            };
            let is_summed = sums && results[0] == index;
            let to = match results.iter().position(|&result| result == index) {
                Some(result) if !is_summed => Place::Result(result - usize::from(sums)),
                _ => Place::Register(register()),
            };
            if let (true, Place::Register(register)) = (is_summed, to) {
                program.summed = Some(register);
            }
            match *step {
                Step::Number(number) => {
                    let Place::Register(register) = to else { unreachable!("a number that is a result is copied") };
                    program.numbers.push((number, register));
                }
                Step::Part(operand) => {
                    let nanoseconds = nanoseconds(COPY_NANOSECONDS);
                    program.instructions.push(Instruction { what: What::Load(operand), to, nanoseconds });
                }
                _ => {
                    let Code { kind, reads } = codes[index].as_ref().expect("it is an instruction");
                    let (code, cost) = kind.compile();
                    let operands = reads.map(|read| source(&sources, read));
                    let nanoseconds = nanoseconds(cost);
                    program.instructions.push(Instruction { what: What::Compute(code, operands), to, nanoseconds });
                }
            }
            sources[index] = Some(Source::Place(to));
            // only now: a loop that writes where it reads is not compiled to vectors
            for x in codes[index].iter().flat_map(|code| code.reads) {
                if last_use[x] == index
                    && !keeps(&self.steps[x])
                    && let Some(Source::Place(Place::Register(register))) = sources[x]
                    && program.summed != Some(register)
                    && !free.contains(&register)
                {
                    free.push(register);
                }
            }
        }
        program.operands = self.operands;
        program.ahead = program.plan_ahead();
        program
    }
}

/// To the bit, but for the kinds of NaN.
fn is_same<A: Element>(a: A, b: A) -> bool {
    a == b && a.is_sign_negative() == b.is_sign_negative() || a.is_nan() && b.is_nan()
}

impl<A: Element> Operand<A> {
    fn new<D: Rank>(array: &ArcArray<A, D>, shape: &[usize]) -> Self {
        let array = array.clone().into_dyn();
        let array =
            if array.is_standard_layout() { array } else { array.as_standard_layout().into_owned().into_shared() };
        let repeated = Repeated::of(array.shape(), shape);
        Operand { array, repeated }
    }
}
