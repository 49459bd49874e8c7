//! Runs a program block by block.
//!
//! Everything that instructions read or write has a slot. Slots are numbered: first the operands,
//! then the results, then the registers.
//!
//! A block is small, so the overhead of an instruction must be low. There is one table of addresses
//! for all slots, and the slots of all instructions are checked once, before the first chunk.

use super::loops;
use super::program::{BLOCK_BYTES, BroadcastOperand, Instruction, Opcode, Program, block_len, elements, load};
use crate::tensor::{Element, aligned};
use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Runs the blocks of a chunk.
pub(super) struct BlockRunner<'a, A> {
    program: &'a Program<A>,
    /// The address of the current block in each slot.
    slots: Vec<*mut A>,
    /// The position of the first element of the block.
    from: usize,
    len: usize,
    /// The number of elements after the block.
    left: usize,
    borrow: PhantomData<&'a mut [A]>,
}

/// Lends memory for the registers of a program. It is uninitialized in the sense that its numbers
/// are arbitrary: a program writes each register before it reads it.
pub(super) fn with_registers<A: Element, R>(program: &Program<A>, work: impl FnOnce(&mut [A]) -> R) -> R {
    let len = program.registers * block_len::<A>();
    aligned::with_thread_scratch(len, |scratch: *mut A| {
        // SAFETY: the scratch memory has room for `len` numbers, is borrowed exclusively, and holds
        // valid numbers whatever their bits are
        work(unsafe { from_raw_parts_mut(scratch, len) })
    })
}

/// A program with its operands and results. Its instructions have been checked: they access
/// existing slots only, and write no slot that must not be written.
pub(super) struct CheckedProgram<'a, A> {
    program: &'a Program<A>,
    /// The addresses of the operands and the results. The results are borrowed for the lifetime of
    /// this struct.
    streams: Vec<*mut A>,
    borrow: PhantomData<&'a mut [A]>,
}

// SAFETY: the addresses are those of operands, which are only read, and of results, of which each
// thread writes the disjoint part of its chunk; numbers can be shared and sent
unsafe impl<A: Element> Sync for CheckedProgram<'_, A> where Program<A>: Sync {}

/// A part of the results, borrowed exclusively, and the same part of the operands.
pub(super) struct ProgramChunk<'a, A> {
    of: &'a CheckedProgram<'a, A>,
    from: usize,
    len: usize,
    /// The sum of the summed slot, after the run.
    pub(super) sum: A,
}

impl<'a, A: Element> CheckedProgram<'a, A> {
    /// # Panics
    /// If an instruction accesses a slot that does not exist, writes an operand or a slot that it
    /// reads, or writes a slot twice; if the number or the lengths of the results are wrong.
    pub(super) fn new(program: &'a Program<A>, results: Vec<&'a mut [A]>) -> Self {
        let is_slot = |slot: &usize| *slot < program.slots();
        for Instruction { opcode, .. } in &program.instructions {
            let (reads, to) = opcode.slots();
            assert!(reads.iter().all(is_slot) && to.iter().all(is_slot));
            for (index, slot) in to.iter().enumerate() {
                assert!(*slot >= program.operands.len() && !reads.contains(slot) && !to[..index].contains(slot));
            }
        }
        assert!(program.prefetch_plan.iter().all(|span| span.from + span.len <= block_len::<A>()));
        for (_, slot) in &program.numbers {
            assert!(is_slot(slot) && *slot >= program.streams());
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

    /// Divides the results into chunks of `each` elements.
    pub(super) fn chunks(&mut self, each: usize) -> Vec<ProgramChunk<'_, A>> {
        let of = &*self;
        let len = of.program.len();
        let chunk = |from| ProgramChunk { of, from, len: each.min(len - from), sum: A::zero() };
        (0..len).step_by(each).map(chunk).collect()
    }
}

impl<'a, A: Element> BlockRunner<'a, A> {
    /// Prepares the run of a chunk. [`next`](BlockRunner::next) moves to the first block.
    ///
    /// # Panics
    /// If `registers` is too small.
    pub(super) fn new(
        &mut ProgramChunk { of: &CheckedProgram { program, ref streams, .. }, from, len, .. }: &'a mut ProgramChunk<
            '_,
            A,
        >,
        registers: &'a mut [A],
    ) -> Self {
        let mut slots: Vec<*mut A> = Vec::with_capacity(program.slots());
        // SAFETY: all operands and results have the elements of the chunk
        slots.extend(streams.iter().map(|&stream| unsafe { stream.add(from) }));
        slots.extend(registers.chunks_exact_mut(block_len::<A>()).map(|register| register.as_mut_ptr()));
        assert_eq!(slots.len(), program.slots());
        for &(number, slot) in &program.numbers {
            // SAFETY: a register has this many elements, and no register is borrowed here
            unsafe { from_raw_parts_mut(slots[slot], block_len::<A>()) }.fill(number);
        }
        BlockRunner { program, slots, from, len: 0, left: len, borrow: PhantomData }
    }

    /// Moves to the next block, if there is one.
    pub(super) fn next(&mut self) -> bool {
        for slot in &mut self.slots[..self.program.streams()] {
            // SAFETY: at least `self.len` elements of the chunk follow, so the address stays in
            // bounds or one past the end
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
            for span in prefetch_plan {
                span.prefetch_next(&self.slots[..self.program.streams()], BLOCK_BYTES);
                self.compute(&instructions[span.instruction], span.from, span.len);
            }
        } else {
            instructions.iter().for_each(|instruction| self.compute(instruction, 0, len));
        }
        let results = &self.slots[self.program.operands.len()..self.program.streams()];
        // SAFETY: the results have `len` elements of the block, and no slot is borrowed here
        if loops::has_nan(results.iter().map(|&result| unsafe { from_raw_parts(result.cast_const(), len) })) {
            for &result in results {
                // SAFETY: as above
                loops::canonicalize_nans(unsafe { from_raw_parts_mut(result, len) });
            }
        }
    }

    /// Executes an instruction for `len` elements of the block from element `from` on.
    #[inline(always)]
    fn compute(&mut self, Instruction { opcode, .. }: &Instruction<A>, from: usize, len: usize) {
        let slots = self.slots.as_ptr();
        // SAFETY: each slot has the elements of the block, and `from..from + len` is among them.
        // Slots do not overlap, except for operands, which are only read. An instruction borrows
        // its slots only while it runs. `CheckedProgram::new` has checked that its slots exist and
        // that the written ones are distinct from each other and from those read.
        let read = |slot: usize| unsafe { from_raw_parts((*slots.add(slot)).add(from).cast_const(), len) };
        // SAFETY: as above
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

    /// The elements of the block in a slot.
    pub(super) fn get(&self, slot: usize) -> &[A] {
        // SAFETY: the slot has `len` elements, and `&self` prevents writes while they are borrowed
        unsafe { from_raw_parts(self.slots[slot], self.len) }
    }
}

impl<A> Opcode<A> {
    /// The slots that it reads, and those that it writes.
    fn slots(&self) -> (&[usize], &[usize]) {
        match self {
            Opcode::Map(_, reads, to) => (reads, std::slice::from_ref(to)),
            Opcode::Map2(_, reads, to) => (reads, to),
            Opcode::Map3(_, reads, to) => (reads, to),
            Opcode::Load(_, to) => (&[], std::slice::from_ref(to)),
        }
    }
}
