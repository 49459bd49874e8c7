//! Writing a program: each formula and each operand occurs in it once, and a register is free again
//! when it has been read for the last time.

use super::loops::Loop;
use super::nested::{Cheap, Nested, Next};
use super::{Instruction, Part, Program, RESULTS, Repeated, What, ahead, nanoseconds, together};
use crate::element::{Element, Rank};
use crate::formula::{Formula, Operation};
use crate::nd::Nd;
use dl_core::{Binary, Unary};
use ndarray::{ArcArray, IxDyn};
use std::sync::Arc;

impl<A: Element> Program<A> {
    /// The program for some formulas. Beside them it computes those that come with it, which are
    /// below them, each with the result that it has.
    ///
    /// When `sums`, the first of them is only summed, and the results are those of the others.
    pub(super) fn of<D: Rank>(formulas: &[&Formula<A, D>], sums: bool) -> (Self, Kept<A, D>) {
        let mut writer = Writer::<A, D> {
            shape: formulas[0].shape(),
            steps: Vec::with_capacity(USUAL_STEPS),
            operands: Vec::with_capacity(USUAL_OPERANDS),
            parts: Vec::new(),
            known: Vec::with_capacity(USUAL_STEPS),
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

/// A program seldom has more steps, and seldom more operands: its tables need not grow while it is
/// written.
const USUAL_STEPS: usize = 32;
const USUAL_OPERANDS: usize = 8;

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
    operands: Vec<ArcArray<A, IxDyn>>,
    parts: Vec<Part<A>>,
    /// The steps of formulas, by address.
    known: Vec<(usize, usize)>,
    dear: Vec<Dear<A, D>>,
}

/// A formula that takes longer to compute than to fetch: it is kept if somebody else has it, who is
/// going to look at it.
struct Dear<A: Element, D: Rank> {
    formula: Arc<Formula<A, D>>,
    step: usize,
    /// In how many places of the program it is an operand.
    uses: usize,
}

/// What an instruction computes, and the steps that it reads. Where it has fewer, others of them
/// come again.
pub(super) struct Code {
    pub(super) kind: Kind,
    pub(super) reads: [usize; 4],
    /// The further steps that it computes.
    pub(super) also: Vec<usize>,
}

pub(super) enum Kind {
    Copy,
    Unary(Unary),
    /// `exp(−x)`.
    ExpOfNegative,
    Binary(Binary),
    Nested(Nested),
    /// A product of the first two, and `last(next(product, c), d)`.
    ProductAndMore {
        next: Next,
        last: Next,
    },
    /// Of the first one and each of the others.
    TwoProducts,
    ThreeProducts,
}

impl Code {
    fn new(kind: Kind, reads: [usize; 4]) -> Self {
        Code { kind, reads, also: Vec::new() }
    }

    /// The instruction that reads these places, and writes to those.
    fn compile<A: Element>(&self, reads: [usize; 4], to: &[usize]) -> Instruction<A> {
        let loops = A::loops();
        let one = |code: Loop<A>| What::Compute(code, reads, to[0]);
        let cheap = |operations: usize| operations as f64 * Binary::Add.cost();
        let (what, cost) = match self.kind {
            Kind::Copy => (one((loops.copy)()), COPY_NANOSECONDS),
            Kind::Unary(op) => (one((loops.unary)(op)), op.cost()),
            Kind::ExpOfNegative => (one((loops.exp_of_negative)()), Unary::Exp.cost()),
            Kind::Binary(op) => (one((loops.binary)(op)), op.cost()),
            Kind::Nested(nested) => (one((loops.nested)(nested)), cheap(nested.operations())),
            Kind::ProductAndMore { next, last } => {
                (What::Two((loops.product_and_more)(next, last), reads, [to[0], to[1]]), cheap(3))
            }
            Kind::TwoProducts => (What::Two((loops.two_products)(), reads, [to[0], to[1]]), cheap(2)),
            Kind::ThreeProducts => (What::Three((loops.three_products)(), reads, [to[0], to[1], to[2]]), cheap(3)),
        };
        Instruction { what, nanoseconds: nanoseconds(cost) }
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

    /// A product with 1, which is what a delta begins with, is the other factor; a sum with a
    /// negative, which is what many a delta is, is a difference.
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

    /// A step, unless there is one like it: a rule writes down again what the operation has
    /// computed.
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
        let same = |other: &ArcArray<A, IxDyn>| {
            other.as_ptr() == array.as_ptr() && other.shape() == array.shape() && other.strides() == array.strides()
        };
        let known = self.steps.iter().position(|step| match *step {
            Step::Whole(index) => same(&self.operands[index]),
            Step::Part(index) => same(&self.parts[index].array),
            _ => false,
        });
        known.unwrap_or_else(|| {
            let array = array.clone().into_dyn();
            let array =
                if array.is_standard_layout() { array } else { array.as_standard_layout().into_owned().into_shared() };
            let is_whole = array.shape() == self.shape.slice();
            let step = if is_whole {
                self.operands.push(array);
                Step::Whole(self.operands.len() - 1)
            } else {
                let repeated = Repeated::of(array.shape(), self.shape.slice());
                self.parts.push(Part { array, repeated });
                Step::Part(self.parts.len() - 1)
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
            Step::Copy(x) => Code::new(Kind::Copy, [x; 4]),
            Step::Unary(op, x) => match negated(x) {
                Some(x) => Code::new(Kind::ExpOfNegative, [x; 4]),
                None => Code::new(Kind::Unary(op), [x; 4]),
            },
            Step::Binary(op, a, b) => self.nested(step, inside).unwrap_or(Code::new(Kind::Binary(op), [a, b, a, a])),
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
                return Some(Code::new(Kind::Nested(Nested::Both { outer, left, right }), [a, b, c, d]));
            }
            (Some(left), None) => (left, outer.on_the_left(), b),
            (None, Some(right)) => (right, outer.on_the_right(), a),
        };
        let three = |(first, c, d): (Cheap, usize, usize), next: Next, between: usize| {
            Code::new(Kind::Nested(Nested::Three { first, next, last }), [c, d, between, other])
        };
        Some(match (within(a), within(b)) {
            (Some(left), _) => three(left, op.on_the_left(), b),
            (None, Some(right)) => three(right, op.on_the_right(), a),
            (None, None) => Code::new(Kind::Nested(Nested::Two { first: op, next: last }), [a, b, other, a]),
        })
    }

    /// The steps as instructions; these are the results, in this order, of which the first is only
    /// summed when `sums`.
    fn finish(self, results: &[usize], sums: bool) -> Program<A> {
        let uses = self.uses(results);
        let inside = self.inside(&uses, results);
        let mut codes: Vec<Option<Code>> = Vec::with_capacity(self.steps.len());
        for (index, step) in self.steps.iter().enumerate() {
            let is_instruction = uses[index] > 0 && !inside[index] && step.is_computed();
            codes.push(is_instruction.then(|| self.code(step, &inside)));
        }
        together::join(&mut codes, |step, before| step < before || matches!(self.steps[step], Step::Whole(_)));
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
        let mut places: Vec<Option<usize>> = (self.steps.iter())
            .map(|step| if let Step::Whole(operand) = *step { Some(operand) } else { None })
            .collect();
        // numbers stay where they are
        let keeps = |step: usize| matches!(self.steps[step], Step::Number(_));
        for index in 0..self.steps.len() {
            if uses[index] == 0 || self.steps[index].is_computed() && codes[index].is_none() {
                continue;
            }
            let mut place = |step: usize| {
                let is_summed = sums && results[0] == step;
                let place = match results.iter().position(|&result| result == step) {
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
                    program.summed = Some(place);
                }
                places[step] = Some(place);
                place
            };
            match self.steps[index] {
                Step::Whole(_) => {}
                // one that is a result is copied
                Step::Number(number) => program.numbers.push((number, place(index))),
                Step::Part(part) => {
                    let what = What::Load(part, place(index));
                    program.instructions.push(Instruction { what, nanoseconds: nanoseconds(COPY_NANOSECONDS) });
                }
                _ => {
                    let code = codes[index].as_ref().expect("it is an instruction");
                    let to: Vec<usize> = std::iter::once(index).chain(code.also.iter().copied()).map(place).collect();
                    let reads = code.reads.map(|read| places[read].expect("it comes before whoever reads it"));
                    program.instructions.push(code.compile(reads, &to));
                }
            }
            // only now: a loop that writes where it reads is not compiled to vectors
            for x in codes[index].iter().flat_map(|code| code.reads) {
                if last_use[x] == index
                    && !keeps(x)
                    && let Some(register) = places[x].filter(|&place| place >= first_register)
                    && program.summed != Some(register)
                    && !free.contains(&register)
                {
                    free.push(register);
                }
            }
        }
        program.ahead = program.plan_ahead(ahead::register_bytes());
        program
    }
}

/// To the bit, but for the kinds of NaN.
fn is_same<A: Element>(a: A, b: A) -> bool {
    a == b && a.is_sign_negative() == b.is_sign_negative() || a.is_nan() && b.is_nan()
}
