//! Pointwise operations as a straight-line program, which runs over blocks of elements that fit into the nearest cache.
//!
//! An instruction does for a block what its operation does for an element, compiled for the instruction set at hand: AVX-512, AVX2, or what every
//! processor of its kind has. The arithmetic of an element is the same in all of them and does not depend on its place, so neither the blocks nor the
//! processor decide about the bits of a result.

#[allow(unsafe_code, reason = "a hint to the processor is an intrinsic")]
mod ahead;
mod direct;
mod in_place;
mod loops;
mod nested;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use direct::{binary, broadcast, repeat, unary, with_number};
pub(crate) use loops::{add, descend, each};

use crate::accurate::{self, Sum};
use crate::element::{Element, Rank};
use crate::elements::Elements;
use crate::formula::Formula;
use crate::lines;
use ahead::{Ahead, Asked};
use dl_core::parallel;
use loops::Loop;
use ndarray::{ArcArray, IxDyn};
use std::ops::Range;

/// A register: some ten of them fit into the nearest cache.
const BLOCK_BYTES: usize = 2048;
/// What one thread does in a row.
pub(crate) const PIECE: usize = 1 << 15;
/// So many results a program may have.
pub(crate) const RESULTS: usize = 16;

/// A program for tensors of one shape.
struct Program<A> {
    shape: Vec<usize>,
    operands: Vec<Operand<A>>,
    /// The numbers in it: each fills a register from the beginning.
    numbers: Vec<(A, usize)>,
    instructions: Vec<Instruction<A>>,
    /// What the next block touches and is asked for with each of them; nothing if that is not worth while.
    ahead: Vec<Asked>,
    registers: usize,
    /// The register whose elements are summed.
    summed: Option<usize>,
    results: usize,
}

/// An operand in row-major order.
struct Operand<A> {
    array: ArcArray<A, IxDyn>,
    repeated: Repeated,
}

/// How a tensor is repeated in the shape to which it broadcasts.
struct Repeated {
    /// The lengths of the axes of that shape. What lies side by side in the tensor, or is repeated together, is one axis.
    shape: Vec<usize>,
    /// The [steps] along them.
    steps: Vec<usize>,
}

struct Instruction<A> {
    what: What<A>,
    to: Place,
    /// A rough estimate of the time for an element.
    nanoseconds: f64,
}

enum What<A> {
    Compute(Loop<A>, [Source; 4]),
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
    in_place::compute(formula).unwrap_or_else(|| compute_all(&[formula]).pop().expect("one result for one formula"))
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
    let (program, kept) = Program::of(formulas, sums);
    let summed = usize::from(sums);
    let mut rooms: Vec<Vec<A>> = (0..program.results).map(|_| lines::room(program.len())).collect();
    let sum = program.run(&mut rooms);
    let mut results: Vec<Elements<A, D>> = rooms.into_iter().map(|room| formulas[0].elements(room)).collect();
    kept.into_iter().for_each(|(formula, result)| formula.keep(results[result - summed].clone()));
    results.truncate(formulas.len() - summed);
    (sum, results)
}

const fn block_len<A>() -> usize {
    BLOCK_BYTES / size_of::<A>()
}

impl<A: Element> Program<A> {
    /// How many elements each result has.
    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The registers in the beginning.
    fn registers<'a>(&self, room: &'a mut [A]) -> Vec<&'a mut [A]> {
        let start = lines::begin(room);
        let mut registers: Vec<&mut [A]> = room[start..].chunks_exact_mut(block_len::<A>()).collect();
        for &(number, register) in &self.numbers {
            registers[register].fill(number);
        }
        registers
    }

    /// Computes the results, and the sum of what is summed.
    fn run(&self, results: &mut [Vec<A>]) -> A {
        let len = self.len();
        let mut pieces: Vec<(Vec<&mut [A]>, A)> =
            (0..len.div_ceil(PIECE)).map(|_| (Vec::with_capacity(results.len()), A::zero())).collect();
        for result in results {
            let start = lines::begin(result);
            for ((parts, _), part) in pieces.iter_mut().zip(result[start..start + len].chunks_mut(PIECE)) {
                parts.push(part);
            }
        }
        let nanoseconds = (self.nanoseconds() + moving::<A>(self.streams())) * PIECE.min(len) as f64;
        parallel::for_each_mut(&mut pieces, nanoseconds, |piece, (parts, sum)| {
            let from = piece * PIECE;
            *sum = self.run_piece(from, PIECE.min(len - from), std::mem::take(parts));
        });
        match self.summed {
            Some(_) => accurate::sum_of_sums(pieces.into_iter().map(|(_, sum)| sum).collect(), len),
            None => A::zero(),
        }
    }

    /// Computes these parts of the results, so many elements from an element on.
    fn run_piece(&self, from: usize, len: usize, results: Vec<&mut [A]>) -> A {
        let mut room = vec![A::zero(); self.registers * block_len::<A>() + lines::LINE_BYTES / size_of::<A>()];
        let mut sum = Sum::new();
        let mut ahead = (!self.ahead.is_empty()).then(|| {
            let read = self.operands.iter().filter(|operand| operand.is_whole(&self.shape));
            let read = read.map(|operand| operand.elements()[from..].as_ptr());
            Ahead::of(&self.ahead, read.chain(results.iter().map(|result| result.as_ptr())))
        });
        let mut blocks = Blocks {
            operands: self.operands.iter().map(Operand::elements).collect(),
            registers: self.registers(&mut room),
            results,
            from,
            here: 0..0,
        };
        while blocks.here.end < len {
            let start = blocks.here.end;
            blocks.here = start..len.min(start + block_len::<A>());
            if let Some(ahead) = &mut ahead {
                ahead.block(blocks.here.end);
            }
            self.run_block(&mut blocks, ahead.as_mut());
            if let Some(register) = self.summed {
                sum.add_all(blocks.get(Source::Place(Place::Register(register))));
            }
        }
        sum.total()
    }

    fn run_block(&self, blocks: &mut Blocks<'_, A>, mut ahead: Option<&mut Ahead<'_, A>>) {
        for (number, Instruction { what, to, .. }) in self.instructions.iter().enumerate() {
            // taken out, so that the others can be read meanwhile
            let taken = std::mem::take(blocks.place(*to));
            let to_block = &mut taken[blocks.range(*to)];
            match what {
                What::Compute(code, operands) => {
                    let [a, b, c, d] = *operands;
                    let [a, b, c, d] = [blocks.get(a), blocks.get(b), blocks.get(c), blocks.get(d)];
                    let mut done = 0;
                    while done < to_block.len() {
                        let here = ahead.as_mut().map_or(to_block.len(), |ahead| ahead.ask(number));
                        let now = done..to_block.len().min(done + here);
                        done = now.end;
                        code([&a[now.clone()], &b[now.clone()], &c[now.clone()], &d[now.clone()]], &mut to_block[now]);
                    }
                }
                What::Load(index) => {
                    if let Some(ahead) = &mut ahead {
                        ahead.ask(number);
                    }
                    let operand = &self.operands[*index];
                    load(blocks.operands[*index], &operand.repeated, blocks.from + blocks.here.start, to_block);
                    if let Place::Result(_) = to {
                        to_block.iter_mut().for_each(|x| *x = loops::one_nan(*x));
                    }
                }
            }
            *blocks.place(*to) = taken;
        }
    }

    /// How many tensors are read or written line by line.
    fn streams(&self) -> usize {
        self.results + self.operands.iter().filter(|operand| operand.is_whole(&self.shape)).count()
    }

    /// A rough estimate of the time to compute an element.
    fn nanoseconds(&self) -> f64 {
        self.instructions.iter().map(|instruction| instruction.nanoseconds).sum()
    }
}

/// What the instructions read and write while a piece is computed.
struct Blocks<'a, A> {
    operands: Vec<&'a [A]>,
    registers: Vec<&'a mut [A]>,
    results: Vec<&'a mut [A]>,
    /// Where the piece begins.
    from: usize,
    /// The block: these elements of the piece.
    here: Range<usize>,
}

impl<'a, A> Blocks<'a, A> {
    #[inline(always)]
    fn get(&self, source: Source) -> &[A] {
        match source {
            Source::Operand(index) => &self.operands[index][self.from + self.here.start..][..self.here.len()],
            Source::Place(Place::Register(index)) => &self.registers[index][..self.here.len()],
            Source::Place(Place::Result(index)) => &self.results[index][self.here.clone()],
        }
    }

    #[inline(always)]
    fn place(&mut self, place: Place) -> &mut &'a mut [A] {
        match place {
            Place::Register(index) => &mut self.registers[index],
            Place::Result(index) => &mut self.results[index],
        }
    }

    /// Where in a place the block is.
    #[inline(always)]
    fn range(&self, place: Place) -> Range<usize> {
        match place {
            Place::Register(_) => 0..self.here.len(),
            Place::Result(_) => self.here.clone(),
        }
    }
}

/// About how long an operation takes for an element, of many, that takes so long for a single number: vectors have four to sixteen of them.
pub(crate) fn nanoseconds(cost: f64) -> f64 {
    cost / 8.0
}

/// About how long it takes to move an element of so many tensors between a core and what another one may have written.
fn moving<A>(streams: usize) -> f64 {
    0.05 * (streams * size_of::<A>()) as f64
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

impl Repeated {
    /// A tensor of this shape, repeated to another one.
    fn of(own: &[usize], shape: &[usize]) -> Self {
        let mut repeated = Repeated { shape: Vec::new(), steps: Vec::new() };
        for (&length, step) in shape.iter().zip(steps(own, shape)) {
            match (repeated.shape.last_mut(), repeated.steps.last_mut()) {
                (Some(outer), Some(outer_step)) if *outer_step == step * length => {
                    *outer *= length;
                    *outer_step = step;
                }
                _ => {
                    repeated.shape.push(length);
                    repeated.steps.push(step);
                }
            }
        }
        repeated
    }
}

/// A part of a tensor that is repeated: from the element `start` on, as many as there is room for.
fn load<A: Element>(elements: &[A], Repeated { shape, steps }: &Repeated, start: usize, to: &mut [A]) {
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
