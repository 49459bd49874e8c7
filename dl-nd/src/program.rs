//! Pointwise operations as a straight-line program, which runs over blocks of elements that fit
//! into the nearest cache.
//!
//! An instruction does for a block what its operation does for an element, compiled for the
//! instruction set at hand: AVX-512, AVX2, or what every processor of its kind has. The arithmetic
//! of an element does not depend on its place, so blocks do not decide about the bits of a result;
//! the instruction set does only where elementary functions fuse a product and a sum.

#[allow(unsafe_code, reason = "a hint to the processor is an intrinsic")]
mod ahead;
mod compiled;
mod direct;
mod in_place;
mod loops;
mod nested;
#[allow(unsafe_code, reason = "what instructions read and write is looked up in a list of addresses")]
mod run;
#[cfg(test)]
mod tests;
mod together;
mod write;

pub(crate) use ahead::ask_for;
pub(crate) use compiled::Compiled;
pub(crate) use direct::{binary, broadcast, repeat, unary, with_number};
pub(crate) use loops::{add, descend, each, one_nan};

use crate::accurate::{self, Sum};
use crate::element::{Element, Rank};
use crate::elements::Elements;
use crate::formula::Formula;
use crate::lines::{self, Room};
use ahead::Stretch;
use dl_core::parallel;
use loops::{Loop, Together};
use ndarray::{ArcArray, IxDyn};
use run::{Blocks, Checked};

/// A register: some ten of them fit into the nearest cache.
const BLOCK_BYTES: usize = 2048;
/// What one thread does in a row, at most.
pub(crate) const PIECE: usize = 1 << 15;
/// A piece that takes longer is halved, four times at most: so long somebody may have to wait for
/// the last one.
const PIECE_NANOSECONDS: f64 = 40_000.0;
/// So many results a program may have.
pub(crate) const RESULTS: usize = 16;

/// A program for tensors of one shape.
struct Program<A> {
    shape: Vec<usize>,
    /// Those of this shape, in row-major order.
    operands: Vec<ArcArray<A, IxDyn>>,
    parts: Vec<Part<A>>,
    /// The numbers in it: each fills a register from the beginning.
    numbers: Vec<(A, usize)>,
    instructions: Vec<Instruction<A>>,
    /// How they compute a whole block, if meanwhile it is worth while to ask for what the next one
    /// touches.
    ahead: Vec<Stretch>,
    registers: usize,
    /// The place whose elements are summed.
    summed: Option<usize>,
    results: usize,
}

/// An operand that is repeated, in row-major order.
struct Part<A> {
    array: ArcArray<A, IxDyn>,
    repeated: Repeated,
}

/// How a tensor is repeated in the shape to which it broadcasts.
struct Repeated {
    /// The lengths of the axes of that shape. What lies side by side in the tensor, or is repeated
    /// together, is one axis.
    shape: Vec<usize>,
    /// The [steps] along them.
    steps: Vec<usize>,
}

struct Instruction<A> {
    what: What<A>,
    /// A rough estimate of the time for an element.
    nanoseconds: f64,
}

/// An instruction, with the [places](run) that it reads, and those where it writes.
enum What<A> {
    Compute(Loop<A>, [usize; 4], usize),
    Two(Together<A, 2>, [usize; 4], [usize; 2]),
    Three(Together<A, 3>, [usize; 4], [usize; 3]),
    /// The part of a repeated operand that belongs to the block.
    Load(usize, usize),
}

/// The elements of this formula.
pub(crate) fn compute<A: Element, D: Rank>(formula: &Formula<A, D>) -> Elements<A, D> {
    in_place::compute(formula).unwrap_or_else(|| compute_all(&[formula]).pop().expect("one result for one formula"))
}

/// The elements of these formulas, at most [`RESULTS`], which have one shape.
pub(crate) fn compute_all<A: Element, D: Rank>(formulas: &[&Formula<A, D>]) -> Vec<Elements<A, D>> {
    run(formulas, false).1
}

/// The sum of the elements of this formula, which are not kept, and the elements of others, which
/// are. To the bit the sum of the elements as they would be.
pub(crate) fn sum<A: Element, D: Rank>(formula: &Formula<A, D>, others: &[&Formula<A, D>]) -> A {
    let formulas: Vec<&Formula<A, D>> = std::iter::once(formula).chain(others.iter().copied()).collect();
    let (sum, computed) = run(&formulas, true);
    others.iter().zip(computed).for_each(|(formula, elements)| formula.keep(elements));
    sum
}

/// The elements of these formulas; when `sums`, the first one is only summed, and those are the
/// elements of the others.
fn run<A: Element, D: Rank>(formulas: &[&Formula<A, D>], sums: bool) -> (A, Vec<Elements<A, D>>) {
    let (program, kept) = Program::of(formulas, sums);
    let summed = usize::from(sums);
    let mut rooms: Vec<Room<A>> = program.rooms();
    let sum = program.run(&mut rooms);
    let mut results: Vec<Elements<A, D>> = rooms.into_iter().map(|room| formulas[0].elements(room)).collect();
    kept.into_iter().for_each(|(formula, result)| formula.keep(results[result - summed].clone()));
    results.truncate(formulas.len() - summed);
    (sum, results)
}

/// So many elements are in a piece, which take so long each: a power of two, so that the sum of a
/// piece is that of a whole subtree.
fn piece_len(nanoseconds: f64) -> usize {
    let is_long = |halvings: &usize| (PIECE >> halvings) as f64 * nanoseconds > PIECE_NANOSECONDS;
    PIECE >> (0..4).take_while(is_long).count()
}

/// So many elements are in a block: whole runs of a sum.
const fn block_len<A>() -> usize {
    BLOCK_BYTES / size_of::<A>()
}

impl<A: Element> Program<A> {
    /// How many elements each result has.
    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Room for the results, each in the part of a page where the fewest other tensors begin.
    fn rooms(&self) -> Vec<Room<A>> {
        let mut tensors = [0; lines::PARTS];
        for operand in &self.operands {
            tensors[lines::part_of(operand.as_ptr())] += 1;
        }
        let room = |_| {
            let part = (0..lines::PARTS).min_by_key(|&part| tensors[part]).expect("there are parts");
            tensors[part] += 1;
            Room::in_part(self.len(), part)
        };
        (0..self.results).map(room).collect()
    }

    /// Computes the results, and the sum of what is summed.
    fn run(&self, results: &mut [Room<A>]) -> A {
        let nanoseconds = self.nanoseconds() + moving::<A>(self.streams());
        let each = piece_len(nanoseconds);
        let mut checked = Checked::new(self, results.iter_mut().map(Room::elements).collect());
        let mut pieces = checked.pieces(each);
        parallel::for_each_mut(&mut pieces, nanoseconds * each.min(self.len()) as f64, |_, piece| {
            piece.sum = run::with_registers(self, |registers| self.run_blocks(Blocks::new(piece, registers)));
        });
        match self.summed {
            Some(_) => accurate::sum_of_sums(pieces.into_iter().map(|piece| piece.sum), each, self.len()),
            None => A::zero(),
        }
    }

    /// Not inlined: what is in a closure is looked up there, block by block.
    #[inline(never)]
    fn run_blocks(&self, mut blocks: Blocks<'_, A>) -> A {
        let mut sum = Sum::new();
        while blocks.next() {
            blocks.run();
            if let Some(place) = self.summed {
                sum.add_all(blocks.get(place));
            }
        }
        sum.total()
    }

    /// How many tensors are read or written line by line.
    fn streams(&self) -> usize {
        self.results + self.operands.len()
    }

    /// How many places there are: operands, results and registers.
    fn places(&self) -> usize {
        self.streams() + self.registers
    }

    /// A rough estimate of the time to compute an element.
    fn nanoseconds(&self) -> f64 {
        self.instructions.iter().map(|instruction| instruction.nanoseconds).sum()
    }
}

/// About how long an operation takes for an element, of many, that takes so long for a single
/// number: vectors have four to sixteen of them.
pub(crate) fn nanoseconds(cost: f64) -> f64 {
    cost / 8.0
}

/// About how long it takes to move an element of so many tensors between a core and what another
/// one may have written.
fn moving<A>(streams: usize) -> f64 {
    0.05 * (streams * size_of::<A>()) as f64
}

/// The elements of an operand.
fn elements<A>(operand: &ArcArray<A, IxDyn>) -> &[A] {
    operand.as_slice().expect("operands are in row-major order")
}

/// By how many elements a tensor in row-major order goes on with a step along each axis of a shape
/// to which it broadcasts: by none where it is repeated.
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
