//! Pointwise operations as a straight-line program, which runs over blocks of elements that fit into the nearest cache.
//!
//! An instruction does for a block what its operation does for an element, compiled for the instruction set at hand: AVX-512, AVX2, or what every
//! processor of its kind has. The arithmetic of an element is the same in all of them and does not depend on its place, so neither the blocks nor the
//! processor decide about the bits of a result.

use crate::accurate::{self, Sum};
use crate::element::{Element, Rank};
use crate::elements::Elements;
use crate::formula::{Formula, Operation};
use crate::nd::Nd;
use dl_core::{Binary, BinaryLoop, Unary, UnaryLoop, buffers, parallel};
use ndarray::{ArcArray, IxDyn};
use pulp::Arch;
use std::sync::{Arc, LazyLock};

/// A register: some ten of them fit into the nearest cache.
const BLOCK_BYTES: usize = 2048;
/// What one thread does in a row.
pub(crate) const PIECE: usize = 1 << 15;
/// So many results a program may have.
pub(crate) const RESULTS: usize = 16;

/// What the processor can do, asked once.
pub(crate) fn arch() -> Arch {
    static ARCH: LazyLock<Arch> = LazyLock::new(Arch::new);
    *ARCH
}

/// Parts of the results.
type Parts<'a, A> = [&'a mut [A]; RESULTS];

/// A program for tensors of one shape.
struct Program<A> {
    shape: Vec<usize>,
    operands: Vec<Operand<A>>,
    /// The numbers in it: each fills a register from the beginning.
    numbers: Vec<(A, usize)>,
    instructions: Vec<Instruction>,
    registers: usize,
}

/// An operand in row-major order, and by how many elements it goes on with a step along each axis of the result: by none where it is repeated.
struct Operand<A> {
    array: ArcArray<A, IxDyn>,
    steps: Vec<usize>,
}

struct Instruction {
    what: What,
    to: Place,
}

#[derive(Clone, Copy)]
enum What {
    Copy(Source),
    Unary(Unary, Source),
    Binary(Binary, Source, Source),
    /// The part of a repeated operand that belongs to the block.
    Load(usize),
}

#[derive(Clone, Copy, PartialEq)]
enum Source {
    /// An operand of the shape of the result.
    Operand(usize),
    Place(Place),
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Register(usize),
    Result(usize),
}

/// The elements of this formula.
pub(crate) fn compute<A: Element, D: Rank>(formula: &Formula<A, D>) -> Elements<A, D> {
    compute_all(&[formula]).pop().expect("one result for one formula")
}

/// The elements of these formulas, at most [`RESULTS`], which have one shape.
pub(crate) fn compute_all<A: Element, D: Rank>(formulas: &[&Formula<A, D>]) -> Vec<Elements<A, D>> {
    let (program, kept) = Program::of(formulas);
    let mut results: Vec<Vec<A>> = (0..formulas.len() + kept.len()).map(|_| program.room()).collect();
    program.run(&mut results, false);
    for formula in kept.into_iter().rev() {
        formula.keep(formula.elements(results.pop().expect("a result for each")));
    }
    results.into_iter().zip(formulas).map(|(elements, formula)| formula.elements(elements)).collect()
}

/// The sum of the elements of this formula, which are not kept. To the bit the sum of the elements as they would be.
pub(crate) fn sum<A: Element, D: Rank>(formula: &Formula<A, D>) -> A {
    let (program, kept) = Program::of(&[formula]);
    let mut results: Vec<Vec<A>> = kept.iter().map(|_| program.room()).collect();
    let sum = program.run(&mut results, true);
    kept.into_iter().zip(results).for_each(|(formula, elements)| formula.keep(formula.elements(elements)));
    sum
}

const fn block_len<A>() -> usize {
    BLOCK_BYTES / size_of::<A>()
}

impl<A: Element> Program<A> {
    /// The program for some formulas. Beside them it computes those that come with it, which are below them.
    fn of<D: Rank>(formulas: &[&Formula<A, D>]) -> (Self, Vec<Arc<Formula<A, D>>>) {
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

    /// Room for a result.
    fn room(&self) -> Vec<A> {
        buffers::take_filled(self.shape.iter().product())
    }

    fn registers(&self) -> Vec<Vec<A>> {
        let mut registers = vec![vec![A::zero(); block_len::<A>()]; self.registers];
        for &(number, register) in &self.numbers {
            registers[register].fill(number);
        }
        registers
    }

    /// Computes the results. When `sums`, the first of them is only summed, and what is given are the others.
    fn run(&self, results: &mut [Vec<A>], sums: bool) -> A {
        let len: usize = self.shape.iter().product();
        let mut pieces: Vec<(Parts<'_, A>, A)> =
            (0..len.div_ceil(PIECE)).map(|_| (Parts::default(), A::zero())).collect();
        let first = usize::from(sums);
        let count = first + results.len();
        for (number, result) in results.iter_mut().enumerate() {
            for ((parts, _), part) in pieces.iter_mut().zip(result.chunks_mut(PIECE)) {
                parts[first + number] = part;
            }
        }
        let nanoseconds = self.nanoseconds() * PIECE.min(len) as f64;
        parallel::for_each_mut(&mut pieces, nanoseconds, |piece, (parts, sum)| {
            let from = piece * PIECE;
            *sum = self.run_piece(from, PIECE.min(len - from), &mut parts[..count], sums);
        });
        if sums { accurate::sum_of_sums(pieces.into_iter().map(|(_, sum)| sum).collect(), len) } else { A::zero() }
    }

    fn run_piece(&self, from: usize, len: usize, results: &mut [&mut [A]], sums: bool) -> A {
        let mut registers = self.registers();
        let mut summed = if sums { vec![A::zero(); block_len::<A>()] } else { Vec::new() };
        let mut sum = Sum::new();
        for start in (0..len).step_by(block_len::<A>()) {
            let here = block_len::<A>().min(len - start);
            let mut blocks = Parts::default();
            for (block, result) in blocks.iter_mut().zip(&mut *results) {
                let rest = std::mem::take(result);
                // what is only summed has no room
                let (now, later) = rest.split_at_mut(here.min(rest.len()));
                (*block, *result) = (now, later);
            }
            if sums {
                blocks[0] = &mut summed[..here];
            }
            self.run_block(&mut registers, from + start, &mut blocks[..results.len()]);
            if sums {
                sum.add_all(blocks[0]);
            }
        }
        sum.total()
    }

    /// Runs for the elements from `start` on, as many as there is room for in each of the results.
    fn run_block(&self, registers: &mut [Vec<A>], start: usize, results: &mut [&mut [A]]) {
        let arch = self::arch();
        let len = results[0].len();
        for Instruction { what, to } in &self.instructions {
            // taken out, so that the others can be read meanwhile
            let mut register = Vec::new();
            let mut result: &mut [A] = &mut [];
            let to_block: &mut [A] = match *to {
                Place::Register(index) => {
                    register = std::mem::take(&mut registers[index]);
                    &mut register[..len]
                }
                Place::Result(index) => {
                    result = std::mem::take(&mut results[index]);
                    result
                }
            };
            let block = |source: Source| -> &[A] {
                match source {
                    Source::Operand(index) => &self.operands[index].elements()[start..start + len],
                    Source::Place(Place::Register(index)) => &registers[index][..len],
                    Source::Place(Place::Result(index)) => &results[index][..len],
                }
            };
            match *what {
                What::Copy(x) => to_block.copy_from_slice(block(x)),
                What::Unary(op, x) => op.each(Each { arch, x: block(x), to: to_block }),
                What::Binary(op, a, b) => op.each(Both { arch, a: block(a), b: block(b), to: to_block }),
                What::Load(index) => self.operands[index].load(&self.shape, start, to_block),
            }
            match *to {
                Place::Register(index) => registers[index] = register,
                Place::Result(index) => results[index] = result,
            }
        }
    }

    /// A rough estimate of the time for an element.
    fn nanoseconds(&self) -> f64 {
        let of = |instruction: &Instruction| match instruction.what {
            What::Copy(_) | What::Load(_) => 0.5,
            What::Unary(op, _) => op.cost(),
            What::Binary(op, ..) => op.cost(),
        };
        self.instructions.iter().map(of).sum::<f64>() / 4.0
    }
}

/// The loop over one block.
struct Each<'a, A> {
    arch: Arch,
    x: &'a [A],
    to: &'a mut [A],
}

impl<A: Element> UnaryLoop<A> for Each<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run(self, value: impl Fn(A) -> A) {
        let Each { arch, x, to } = self;
        arch.dispatch(
            #[inline(always)]
            || to.iter_mut().zip(x).for_each(|(to, &x)| *to = value(x)),
        );
    }
}

/// The loop over two blocks.
struct Both<'a, A> {
    arch: Arch,
    a: &'a [A],
    b: &'a [A],
    to: &'a mut [A],
}

impl<A: Element> BinaryLoop<A> for Both<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run(self, value: impl Fn(A, A) -> A) {
        let Both { arch, a, b, to } = self;
        arch.dispatch(
            #[inline(always)]
            || to.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (&a, &b))| *to = value(a, b)),
        );
    }
}

/// One operation on elements that lie side by side, without a program.
pub(crate) fn unary<A: Element>(op: Unary, x: &[A]) -> Vec<A> {
    let mut result = buffers::take_filled(x.len());
    op.each(Each { arch: arch(), x, to: &mut result });
    result
}

/// The same of a number and such elements; the number stands on the left when `left`.
pub(crate) fn with_number<A: Element>(op: Binary, x: &[A], number: A, left: bool) -> Vec<A> {
    let mut result = buffers::take_filled(x.len());
    let numbers = [number; 64];
    for (to, x) in result.chunks_mut(numbers.len()).zip(x.chunks(numbers.len())) {
        let numbers = &numbers[..x.len()];
        let (a, b) = if left { (numbers, x) } else { (x, numbers) };
        op.each(Both { arch: arch(), a, b, to });
    }
    result
}

/// The same of two operands.
pub(crate) fn binary<A: Element>(op: Binary, a: &[A], b: &[A]) -> Vec<A> {
    let mut result = buffers::take_filled(a.len());
    op.each(Both { arch: arch(), a, b, to: &mut result });
    result
}

/// Takes `rate · delta` away from each value.
pub(crate) fn descend<A: Element>(rate: A, values: &mut [A], deltas: &[A]) {
    arch().dispatch(
        #[inline(always)]
        || values.iter_mut().zip(deltas).for_each(|(value, &delta)| *value = *value - rate * delta),
    );
}

impl<A: Element> Operand<A> {
    fn elements(&self) -> &[A] {
        self.array.as_slice().expect("operands are in row-major order")
    }

    /// The elements of a block of the result.
    fn load(&self, shape: &[usize], start: usize, to: &mut [A]) {
        let elements = self.elements();
        let (&length, outer) = shape.split_last().expect("there are axes along which it is repeated");
        let (&step, outer_steps) = self.steps.split_last().expect("a step for each axis");
        let (mut row, mut column) = (start / length, start % length);
        let mut done = 0;
        while done < to.len() {
            let now = (length - column).min(to.len() - done);
            let mut rest = row;
            let mut place = column * step;
            for (&length, &step) in outer.iter().zip(outer_steps).rev() {
                place += rest % length * step;
                rest /= length;
            }
            let to = &mut to[done..done + now];
            match step {
                0 => to.fill(elements[place]),
                1 => to.copy_from_slice(&elements[place..place + now]),
                _ => to.iter_mut().zip(elements[place..].iter().step_by(step)).for_each(|(to, &x)| *to = x),
            }
            done += now;
            (row, column) = (row + 1, 0);
        }
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
            None if matches!(self.steps[step], Step::Unary(op, _) if op.cost() >= DEAR_NANOSECONDS) => {
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
        let missing = shape.len() - array.ndim();
        let mut steps = vec![0; shape.len()];
        let mut step = 1;
        for (axis, &length) in array.shape().iter().enumerate().rev() {
            if length != 1 {
                steps[missing + axis] = step;
            }
            step *= length;
        }
        Operand { array, steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Dim, Ix1};

    fn unary(op: Unary, x: &Nd<f32, Ix1>) -> Nd<f32, Ix1> {
        Operation::Unary(op, x.clone()).of_shape(x.dim())
    }

    /// What becomes of the result of `op` when its negative is computed, or summed.
    fn is_kept(op: Unary, somebody_has_it: bool, summed: bool) -> bool {
        let x = Nd::full(Dim(1 << 16), 0.25_f32);
        let inner = unary(op, &x);
        let outer = unary(Unary::Neg, &inner);
        // whoever looks, without being somebody who has it
        let looked_at = Arc::downgrade(inner.formula().expect("large tensors are written down"));
        let kept = somebody_has_it.then_some(inner);
        let formula = outer.formula().expect("large tensors are written down");
        let right = -op.value(0.25_f32);
        if summed {
            let mean = sum(formula) / (1 << 16) as f32;
            assert!((mean - right).abs() < 1e-6, "{mean}, not {right}");
        } else {
            assert!(compute(formula).iter().all(|&found| found == right));
        }
        let computed = looked_at.upgrade().is_some_and(|formula| formula.computed().is_some());
        drop(kept);
        computed
    }

    #[test]
    fn a_product_with_1_is_no_instruction() {
        let x = Nd::full(Dim(1 << 16), -0.0_f32);
        let times_one = Operation::WithNumber { op: Binary::Mul, number: 1.0, left: true, x }.of_shape(Dim(1 << 16));
        let outer = unary(Unary::Neg, &times_one);
        let formula = outer.formula().expect("large tensors are written down");
        assert_eq!(Program::of(&[formula]).0.instructions.len(), 1);
        let formula = times_one.formula().expect("large tensors are written down");
        assert!(compute(formula).iter().all(|found| found.to_bits() == (-0.0_f32).to_bits()));
    }

    #[test]
    fn what_is_dear_is_kept_for_whoever_has_it() {
        for summed in [false, true] {
            assert!(is_kept(Unary::Tanh, true, summed));
            assert!(!is_kept(Unary::Tanh, false, summed), "nobody is going to look at it");
            assert!(!is_kept(Unary::Square, true, summed), "it is cheap");
        }
    }
}
