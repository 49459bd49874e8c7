//! Pointwise operations as a straight-line program, which runs over blocks of elements that fit into the nearest cache.
//!
//! An instruction does for a block what its operation does for an element, compiled for the instruction set at hand: AVX-512, AVX2, or what every
//! processor of its kind has. The arithmetic of an element is the same in all of them and does not depend on its place, so neither the blocks nor the
//! processor decide about the bits of a result.

#[allow(unsafe_code, reason = "a hint to the processor is an intrinsic")]
mod ahead;
mod direct;
mod loops;
mod nested;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use direct::{binary, broadcast, repeat, unary, with_number};
pub(crate) use loops::descend;

use crate::accurate::{self, Sum};
use crate::element::{Element, Rank};
use crate::elements::Elements;
use crate::formula::Formula;
use ahead::Ahead;
use dl_core::{Binary, Unary, buffers, parallel};
use loops::{Both, Each};
use ndarray::{ArcArray, IxDyn};
use nested::Nested;
use pulp::Arch;
use std::sync::LazyLock;

/// A register: some ten of them fit into the nearest cache.
const BLOCK_BYTES: usize = 2048;
/// A line of the cache. What begins within one takes twice as long to load and to store.
const LINE_BYTES: usize = 64;
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
    /// How many rows of lines that the next block touches are asked for with each of them; nothing if that is not worth while.
    rows_ahead: Vec<usize>,
    registers: usize,
    results: usize,
}

/// An operand in row-major order, and its [steps].
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
    Nested(Nested<Source>),
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
    run(formulas, false).1
}

/// The sum of the elements of this formula, which are not kept, and the elements of others, which are. To the bit the sum of the elements as they would be.
pub(crate) fn sum<A: Element, D: Rank>(formula: &Formula<A, D>, others: &[&Formula<A, D>]) -> A {
    let formulas: Vec<&Formula<A, D>> = std::iter::once(formula).chain(others.iter().copied()).collect();
    let (sum, computed) = run(&formulas, true);
    others.iter().zip(computed).for_each(|(formula, elements)| formula.keep(elements));
    sum
}

/// The elements of these formulas; when `sums`, the first one is only summed, and those are the elements of the others.
fn run<A: Element, D: Rank>(formulas: &[&Formula<A, D>], sums: bool) -> (A, Vec<Elements<A, D>>) {
    let (program, kept) = Program::of(formulas);
    let summed = usize::from(sums);
    let mut rooms: Vec<Vec<A>> = (summed..program.results).map(|_| program.room()).collect();
    let sum = program.run(&mut rooms, sums);
    let mut results: Vec<Elements<A, D>> = rooms.into_iter().map(|room| formulas[0].elements(room)).collect();
    kept.into_iter().for_each(|(formula, result)| formula.keep(results[result - summed].clone()));
    results.truncate(formulas.len() - summed);
    (sum, results)
}

/// Where in such room the first line begins.
pub(crate) fn lined_up<A>(room: &[A]) -> usize {
    room.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES / size_of::<A>())
}

const fn block_len<A>() -> usize {
    BLOCK_BYTES / size_of::<A>()
}

impl<A: Element> Program<A> {
    /// Room for a result from [where](lined_up) a line of the cache begins.
    fn room(&self) -> Vec<A> {
        buffers::take_filled(self.shape.iter().product::<usize>() + LINE_BYTES / size_of::<A>())
    }

    /// The registers in the beginning, and one more.
    fn registers<'a>(&self, room: &'a mut [A]) -> Vec<&'a mut [A]> {
        let start = lined_up(room);
        let mut registers: Vec<&mut [A]> = room[start..].chunks_exact_mut(block_len::<A>()).collect();
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
            let start = lined_up(result);
            for ((parts, _), part) in pieces.iter_mut().zip(result[start..start + len].chunks_mut(PIECE)) {
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
        let mut room = vec![A::zero(); (self.registers + 1) * block_len::<A>() + LINE_BYTES / size_of::<A>()];
        let mut registers = self.registers(&mut room);
        let summed = registers.pop().expect("there is one more");
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
            self.run_block(&mut registers, from + start, &mut blocks[..results.len()], usize::from(sums));
            if sums {
                sum.add_all(blocks[0]);
            }
        }
        sum.total()
    }

    /// Runs for the elements from `start` on, as many as there is room for in each of the results. The first `summed` of these are in no memory.
    fn run_block(&self, registers: &mut [&mut [A]], start: usize, results: &mut [&mut [A]], summed: usize) {
        let arch = self::arch();
        let len = results[0].len();
        let whole = self.operands.iter().filter(|operand| operand.is_whole(&self.shape));
        let read = whole.map(|operand| operand.elements().as_ptr().wrapping_add(start + len));
        let written = results[summed..].iter().map(|result| result.as_ptr().wrapping_add(len));
        let mut ahead = (!self.rows_ahead.is_empty()).then(|| Ahead::of(read.chain(written)));
        for (number, Instruction { what, to }) in self.instructions.iter().enumerate() {
            let step = ahead.as_mut().map_or(len, |ahead| ahead.begin(self.rows_ahead[number], len));
            // taken out, so that the others can be read meanwhile
            let (mut register, mut result): (&mut [A], &mut [A]) = Default::default();
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
                What::Unary(op, x) => {
                    for (x, to) in block(x).chunks(step).zip(to_block.chunks_mut(step)) {
                        op.each(Each { arch, x, to });
                        if let Some(ahead) = &mut ahead {
                            ahead.go_on();
                        }
                    }
                }
                What::Binary(op, a, b) => op.each(Both { arch, a: block(a), b: block(b), to: to_block }),
                What::Nested(nested) => nested::run(nested.map(block), to_block),
                What::Load(index) => {
                    let operand = &self.operands[index];
                    load(operand.elements(), &operand.steps, &self.shape, start, to_block);
                }
            }
            match *to {
                Place::Register(index) => registers[index] = register,
                Place::Result(index) => results[index] = result,
            }
        }
    }

    /// A rough estimate of the time for an element.
    fn nanoseconds(&self) -> f64 {
        self.instructions.iter().map(Instruction::nanoseconds).sum()
    }
}

impl Instruction {
    fn nanoseconds(&self) -> f64 {
        let of_one = match self.what {
            What::Copy(_) | What::Load(_) => 0.5,
            What::Unary(op, _) => op.cost(),
            What::Binary(op, ..) => op.cost(),
            What::Nested(nested) => nested.operations() as f64 * Binary::Add.cost(),
        };
        nanoseconds(of_one)
    }
}

/// About how long an operation takes for an element, of many, that takes so long for a single number: vectors have four to sixteen of them.
pub(crate) fn nanoseconds(cost: f64) -> f64 {
    cost / 8.0
}

impl<A: Element> Operand<A> {
    /// Whether none of it is repeated in a result of this shape.
    fn is_whole(&self, shape: &[usize]) -> bool {
        self.array.shape() == shape
    }

    fn elements(&self) -> &[A] {
        self.array.as_slice().expect("operands are in row-major order")
    }
}

/// By how many elements a tensor in row-major order goes on with a step along each axis of a shape to which it broadcasts: by none where it is repeated.
fn steps(own: &[usize], shape: &[usize]) -> Vec<usize> {
    let missing = shape.len() - own.len();
    let mut steps = vec![0; shape.len()];
    let mut step = 1;
    for (axis, &length) in own.iter().enumerate().rev() {
        if length != 1 {
            steps[missing + axis] = step;
        }
        step *= length;
    }
    steps
}

/// A part of a tensor that is repeated to this shape: from the element `start` on, as many as there is room for.
fn load<A: Element>(elements: &[A], steps: &[usize], shape: &[usize], start: usize, to: &mut [A]) {
    let (&length, outer) = shape.split_last().expect("there are axes along which it is repeated");
    let (&step, outer_steps) = steps.split_last().expect("a step for each axis");
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
