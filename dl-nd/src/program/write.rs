//! Writing a program: each formula and each operand occurs in it once, and a register is free again when it has been read for the last time.

use super::{Instruction, Operand, Place, Program, RESULTS, Source, What, steps};
use crate::element::{Element, Rank};
use crate::formula::{Formula, Operation};
use crate::nd::Nd;
use dl_core::{Binary, Unary};
use ndarray::ArcArray;
use std::sync::Arc;

impl<A: Element> Program<A> {
    /// The program for some formulas. Beside them it computes those that come with it, which are below them.
    pub(super) fn of<D: Rank>(formulas: &[&Formula<A, D>]) -> (Self, Vec<Arc<Formula<A, D>>>) {
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
            if wanted && results.len() < RESULTS && !results.contains(&step) {
                results.push(step);
                kept.push(formula);
            }
        }
        (writer.finish(&results), kept)
    }
}

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

/// Of operations that take longer for an element the results are kept.
const DEAR_NANOSECONDS: f64 = 5.0;

impl<A> Step<A> {
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
        match self.dear.iter_mut().find(|dear| dear.step == step) {
            // and not a product of it with 1
            Some(dear) => dear.uses += usize::from(Arc::ptr_eq(&dear.formula, formula)),
            None if self.steps[step].is_dear() => {
                self.dear.push(Dear { formula: formula.clone(), step, uses: 1 });
            }
            None => {}
        }
        step
    }

    /// A product with 1, which is what a delta begins with, is the other factor.
    fn binary(&mut self, op: Binary, a: usize, b: usize) -> usize {
        let is_one = |step: usize| matches!(self.steps[step], Step::Number(number) if number == A::of(1.0));
        match op {
            Binary::Mul if is_one(a) => b,
            Binary::Mul if is_one(b) => a,
            _ => self.push(Step::Binary(op, a, b)),
        }
    }

    fn push(&mut self, step: Step<A>) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
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

    /// The steps as instructions; these are the results, in this order.
    fn finish(self, results: &[usize]) -> Program<A> {
        let mut last_use = vec![0; self.steps.len()];
        for (index, step) in self.steps.iter().enumerate() {
            match *step {
                Step::Copy(x) | Step::Unary(_, x) => last_use[x] = index,
                Step::Binary(_, a, b) => (last_use[a], last_use[b]) = (index, index),
                Step::Number(_) | Step::Whole(_) | Step::Part(_) => {}
            }
        }
        let mut program = Program {
            shape: self.shape.slice().to_vec(),
            operands: self.operands,
            numbers: Vec::new(),
            instructions: Vec::new(),
            lines_ahead: Vec::new(),
            registers: 0,
        };
        let mut free: Vec<usize> = Vec::new();
        let mut sources: Vec<Source> = Vec::with_capacity(self.steps.len());
        // numbers stay where they are
        let keeps = |step: &Step<A>| matches!(step, Step::Number(_));
        for (index, step) in self.steps.iter().enumerate() {
            if let Step::Whole(operand) = *step {
                sources.push(Source::Operand(operand));
                continue;
            }
            let mut register = || match if keeps(step) { None } else { free.pop() } {
                Some(register) => register,
                None => {
                    program.registers += 1;
                    program.registers - 1
                }
            };
            let to = match results.iter().position(|&result| result == index) {
                Some(result) => Place::Result(result),
                None => Place::Register(register()),
            };
            let what = match *step {
                Step::Number(number) => {
                    let Place::Register(register) = to else { unreachable!("a number that is a result is copied") };
                    program.numbers.push((number, register));
                    None
                }
                Step::Whole(_) => unreachable!("it is no instruction"),
                Step::Part(operand) => Some(What::Load(operand)),
                Step::Copy(x) => Some(What::Copy(sources[x])),
                Step::Unary(op, x) => Some(What::Unary(op, sources[x])),
                Step::Binary(op, a, b) => Some(What::Binary(op, sources[a], sources[b])),
            };
            program.instructions.extend(what.map(|what| Instruction { what, to }));
            sources.push(Source::Place(to));
            // only now: a loop that writes where it reads is not compiled to vectors
            let read = match *step {
                Step::Copy(x) | Step::Unary(_, x) => [Some(x), None],
                Step::Binary(_, a, b) => [Some(a), Some(b).filter(|_| a != b)],
                Step::Number(_) | Step::Whole(_) | Step::Part(_) => [None, None],
            };
            for x in read.into_iter().flatten() {
                if last_use[x] == index
                    && !keeps(&self.steps[x])
                    && let Source::Place(Place::Register(register)) = sources[x]
                {
                    free.push(register);
                }
            }
        }
        program.lines_ahead = program.plan_ahead(results.len());
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
        let steps = steps(array.shape(), shape);
        Operand { array, steps }
    }
}
