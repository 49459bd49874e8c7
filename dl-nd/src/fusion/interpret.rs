//! Running a program, block by block. Everything that instructions read and write has a place, with
//! a number: first come the operands, then the results, then the registers.
//!
//! A block is so small that to begin an instruction must cost next to nothing. So there is one list
//! of addresses for all places, and what the instructions do with them is looked at once, before
//! the first piece.

use super::loops;
use super::program::{BLOCK_BYTES, BroadcastOperand, Instruction, Opcode, Program, block_len, elements, load};
use crate::tensor::{Element, aligned};
use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// The blocks of a piece, one after the other.
pub(super) struct BlockRunner<'a, A> {
    program: &'a Program<A>,
    /// Where the block begins in each place.
    slots: Vec<*mut A>,
    /// Its first element.
    from: usize,
    len: usize,
    /// The elements after it.
    left: usize,
    borrow: PhantomData<&'a mut [A]>,
}

/// Lends room for the registers of a program. What is there at first may be anything: each is
/// written before it is read.
pub(super) fn with_registers<A: Element, R>(program: &Program<A>, work: impl FnOnce(&mut [A]) -> R) -> R {
    let len = program.registers * block_len::<A>();
    aligned::with_thread_scratch(len, |room: *mut A| {
        // SAFETY: it is room for so many numbers, which nobody else has meanwhile, and whatever was
        // written there is a number
        work(unsafe { from_raw_parts_mut(room, len) })
    })
}

/// A program of which it is known that its instructions read and write where they may, with its
/// operands and its results.
pub(super) struct CheckedProgram<'a, A> {
    program: &'a Program<A>,
    /// Where they begin, of which the results are borrowed for as long as this is there.
    streams: Vec<*mut A>,
    borrow: PhantomData<&'a mut [A]>,
}

// SAFETY: what is behind the addresses are operands, which nobody writes to, and results, of which
// each thread that has a piece writes its own part: numbers, which can be shared and sent
unsafe impl<A: Element> Sync for CheckedProgram<'_, A> where Program<A>: Sync {}

/// A part of the results that nobody else has, and the same part of the operands.
pub(super) struct ProgramChunk<'a, A> {
    of: &'a CheckedProgram<'a, A>,
    from: usize,
    len: usize,
    /// The sum of what is summed, once it is known.
    pub(super) sum: A,
}

impl<'a, A: Element> CheckedProgram<'a, A> {
    /// # Panics
    /// If an instruction would read or write where nothing is, or write where it reads, to an
    /// operand, or to one place twice; if there are other results, or of another length.
    pub(super) fn new(program: &'a Program<A>, results: Vec<&'a mut [A]>) -> Self {
        let is_place = |slot: &usize| *slot < program.slots();
        for Instruction { opcode, .. } in &program.instructions {
            let (reads, to) = opcode.slots();
            assert!(reads.iter().all(is_place) && to.iter().all(is_place));
            for (index, slot) in to.iter().enumerate() {
                assert!(*slot >= program.operands.len() && !reads.contains(slot) && !to[..index].contains(slot));
            }
        }
        assert!(program.prefetch_plan.iter().all(|stretch| stretch.from + stretch.len <= block_len::<A>()));
        for (_, slot) in &program.numbers {
            assert!(is_place(slot) && *slot >= program.streams());
        }
        let len = program.len();
        let mut streams: Vec<*mut A> = Vec::with_capacity(program.streams());
        streams.extend(program.operands.iter().map(|operand| {
            let operand = elements(operand);
            assert_eq!(operand.len(), len);
            operand.as_ptr().cast_mut()
        }));
        streams.extend(results.into_iter().map(|result| {
            assert_eq!(result.len(), len);
            result.as_mut_ptr()
        }));
        assert_eq!(streams.len(), program.streams());
        CheckedProgram { program, streams, borrow: PhantomData }
    }

    /// All of it, in pieces of so many elements.
    pub(super) fn chunks(&mut self, each: usize) -> Vec<ProgramChunk<'_, A>> {
        let of = &*self;
        let len = of.program.len();
        let chunk = |from| ProgramChunk { of, from, len: each.min(len - from), sum: A::zero() };
        (0..len).step_by(each).map(chunk).collect()
    }
}

impl<'a, A: Element> BlockRunner<'a, A> {
    /// For this piece. The [next](Blocks::next) block is the first.
    ///
    /// # Panics
    /// If a register is missing or too short.
    pub(super) fn new(
        &mut ProgramChunk { of: &CheckedProgram { program, ref streams, .. }, from, len, .. }: &'a mut ProgramChunk<
            '_,
            A,
        >,
        registers: &'a mut [A],
    ) -> Self {
        let mut slots: Vec<*mut A> = Vec::with_capacity(program.slots());
        // SAFETY: all operands and results have the elements of the piece
        slots.extend(streams.iter().map(|&stream| unsafe { stream.add(from) }));
        slots.extend(registers.chunks_exact_mut(block_len::<A>()).map(|register| register.as_mut_ptr()));
        assert_eq!(slots.len(), program.slots());
        for &(number, slot) in &program.numbers {
            // SAFETY: it is a register, which has so many elements, and nobody else has borrowed
            // any
            unsafe { from_raw_parts_mut(slots[slot], block_len::<A>()) }.fill(number);
        }
        BlockRunner { program, slots, from, len: 0, left: len, borrow: PhantomData }
    }

    /// Goes on to the next block, if there is one.
    pub(super) fn next(&mut self) -> bool {
        for slot in &mut self.slots[..self.program.streams()] {
            // SAFETY: there are so many elements from there on, so that it is among them or at
            // their end
            *slot = unsafe { slot.add(self.len) };
        }
        self.from += self.len;
        self.len = block_len::<A>().min(self.left);
        self.left -= self.len;
        self.len > 0
    }

    /// Computes the block.
    pub(super) fn run(&mut self) {
        let Program { instructions, prefetch_plan, .. } = self.program;
        let len = self.len;
        if !prefetch_plan.is_empty() && len == block_len::<A>() {
            for stretch in prefetch_plan {
                stretch.ask(&self.slots[..self.program.streams()], BLOCK_BYTES);
                self.compute(&instructions[stretch.instruction], stretch.from, stretch.len);
            }
        } else {
            instructions.iter().for_each(|instruction| self.compute(instruction, 0, len));
        }
        let results = &self.slots[self.program.operands.len()..self.program.streams()];
        // SAFETY: as above, and nothing is borrowed any more
        if loops::has_nan(results.iter().map(|&result| unsafe { from_raw_parts(result.cast_const(), len) })) {
            for &result in results {
                // SAFETY: the same
                loops::canonicalize_nans(unsafe { from_raw_parts_mut(result, len) });
            }
        }
    }

    /// Computes an instruction for so many elements of the block, from an element on.
    #[inline(always)]
    fn compute(&mut self, Instruction { opcode, .. }: &Instruction<A>, from: usize, len: usize) {
        let slots = self.slots.as_ptr();
        // SAFETY: each place has the elements of a block from here on, in a stream as in a
        // register, and these are among them. Places do not overlap, but for operands, which nobody
        // writes to; and an instruction borrows what it reads and what it writes for as long as it
        // runs. The program has been checked: these are places, and different ones.
        let read = |slot: usize| unsafe { from_raw_parts((*slots.add(slot)).add(from).cast_const(), len) };
        // SAFETY: the same
        let write = |slot: usize| unsafe { from_raw_parts_mut((*slots.add(slot)).add(from), len) };
        match *opcode {
            Opcode::Map(ref code, [a, b, c, d], to) => code([read(a), read(b), read(c), read(d)], write(to)),
            Opcode::Map2(ref code, [a, b, c, d], [to, second]) => {
                code([read(a), read(b), read(c), read(d)], [write(to), write(second)]);
            }
            Opcode::Map3(ref code, [a, b, c, d], [to, second, third]) => {
                code([read(a), read(b), read(c), read(d)], [write(to), write(second), write(third)]);
            }
            Opcode::Load(part, to) => {
                let BroadcastOperand { array, strides } = &self.program.broadcasts[part];
                load(elements(array), strides, self.from + from, write(to));
            }
        }
    }

    /// What is in a place.
    pub(super) fn get(&self, slot: usize) -> &[A] {
        // SAFETY: as above, and nobody writes there as long as the blocks are borrowed
        unsafe { from_raw_parts(self.slots[slot], self.len) }
    }
}

impl<A> Opcode<A> {
    /// The places that it reads, and those where it writes.
    fn slots(&self) -> (&[usize], &[usize]) {
        match self {
            Opcode::Map(_, reads, to) => (reads, std::slice::from_ref(to)),
            Opcode::Map2(_, reads, to) => (reads, to),
            Opcode::Map3(_, reads, to) => (reads, to),
            Opcode::Load(_, to) => (&[], std::slice::from_ref(to)),
        }
    }
}
