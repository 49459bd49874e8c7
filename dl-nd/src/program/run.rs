//! Running a program, block by block. Everything that instructions read and write has a place, with a number: first come the operands, then the results, then the registers.
//!
//! A block is so small that to begin an instruction must cost next to nothing. So there is one list of addresses for all places, and what the instructions do with them is looked at once, before
//! the first block.

use super::{Instruction, Part, Program, What, block_len, elements, load, loops};
use crate::element::Element;
use crate::lines;
use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// The blocks of a piece, one after the other.
pub(super) struct Blocks<'a, A> {
    program: &'a Program<A>,
    /// Where the block begins in each place.
    places: Vec<*mut A>,
    /// Its first element.
    from: usize,
    len: usize,
    /// The elements after it.
    left: usize,
    lives: PhantomData<&'a mut [A]>,
}

/// Room for the registers of a program.
pub(super) fn registers<A: Element>(program: &Program<A>) -> Vec<A> {
    vec![A::zero(); program.registers * block_len::<A>() + lines::LINE_BYTES / size_of::<A>()]
}

impl<'a, A: Element> Blocks<'a, A> {
    /// For these parts of the results, of so many elements from an element on. The [next](Blocks::next) block is the first.
    ///
    /// # Panics
    /// If an operand, a result or a register is missing or too short, or if an instruction would write where it reads, to an operand, or to one place twice.
    pub(super) fn new(
        program: &'a Program<A>,
        from: usize,
        len: usize,
        results: Vec<&'a mut [A]>,
        registers: &'a mut [A],
    ) -> Self {
        let operands = program.operands.iter().map(|operand| elements(operand)[from..from + len].as_ptr().cast_mut());
        let mut places: Vec<*mut A> = operands.collect();
        for result in results {
            assert_eq!(result.len(), len);
            places.push(result.as_mut_ptr());
        }
        assert_eq!(places.len(), program.streams());
        let begin = lines::begin(registers);
        for register in registers[begin..].chunks_exact_mut(block_len::<A>()) {
            places.push(register.as_mut_ptr());
        }
        let is_place = |place: &usize| *place < places.len();
        for Instruction { what, .. } in &program.instructions {
            let (reads, to) = what.places();
            assert!(reads.iter().all(is_place) && to.iter().all(is_place));
            for (index, place) in to.iter().enumerate() {
                assert!(*place >= program.operands.len() && !reads.contains(place) && !to[..index].contains(place));
            }
        }
        for &(number, place) in &program.numbers {
            assert!(is_place(&place) && place >= program.streams());
            // SAFETY: a register has so many elements, and nobody else has borrowed any
            unsafe { from_raw_parts_mut(places[place], block_len::<A>()) }.fill(number);
        }
        Blocks { program, places, from, len: 0, left: len, lives: PhantomData }
    }

    /// Goes on to the next block, if there is one.
    pub(super) fn next(&mut self) -> bool {
        for place in &mut self.places[..self.program.streams()] {
            // SAFETY: there are so many elements from there on, so that it is among them or at their end
            *place = unsafe { place.add(self.len) };
        }
        self.from += self.len;
        self.len = block_len::<A>().min(self.left);
        self.left -= self.len;
        self.len > 0
    }

    /// Computes the block.
    pub(super) fn run(&mut self) {
        let Program { instructions, ahead, parts, .. } = self.program;
        let streams = &self.places[..self.program.streams()];
        let (places, len) = (self.places.as_ptr(), self.len);
        let mut row = 0;
        for (number, Instruction { what, .. }) in instructions.iter().enumerate() {
            let mut done = 0;
            while done < len {
                let at_once = ahead.get(number).map(|asked| asked.ask(streams, len * size_of::<A>(), &mut row));
                let now = at_once.map_or(len, |elements| elements.min(len - done));
                // SAFETY: each place has `len` elements from here on, in a stream as in a register. Places do not overlap, but for operands, which nobody writes to; and an instruction
                // borrows what it reads and what it writes for as long as it runs. When the blocks were made, it was seen that these are places, and different ones.
                let read = |place: usize| unsafe { from_raw_parts((*places.add(place)).add(done).cast_const(), now) };
                // SAFETY: the same
                let write = |place: usize| unsafe { from_raw_parts_mut((*places.add(place)).add(done), now) };
                match *what {
                    What::Compute(ref code, [a, b, c, d], to) => code([read(a), read(b), read(c), read(d)], write(to)),
                    What::Two(ref code, [a, b, c, d], [to, second]) => {
                        code([read(a), read(b), read(c), read(d)], [write(to), write(second)]);
                    }
                    What::Three(ref code, [a, b, c, d], [to, second, third]) => {
                        code([read(a), read(b), read(c), read(d)], [write(to), write(second), write(third)]);
                    }
                    What::Load(part, to) => {
                        let Part { array, repeated } = &parts[part];
                        load(elements(array), repeated, self.from + done, write(to));
                    }
                }
                done += now;
            }
        }
        for &result in &self.places[self.program.operands.len()..self.program.streams()] {
            // SAFETY: as above, and nothing is borrowed any more
            loops::one_nan_each(unsafe { from_raw_parts_mut(result, len) });
        }
    }

    /// What is in a place.
    pub(super) fn get(&self, place: usize) -> &[A] {
        // SAFETY: as above, and nobody writes there as long as the blocks are borrowed
        unsafe { from_raw_parts(self.places[place], self.len) }
    }
}

impl<A> What<A> {
    /// The places that it reads, and those where it writes.
    fn places(&self) -> (&[usize], &[usize]) {
        match self {
            What::Compute(_, reads, to) => (reads, std::slice::from_ref(to)),
            What::Two(_, reads, to) => (reads, to),
            What::Three(_, reads, to) => (reads, to),
            What::Load(_, to) => (&[], std::slice::from_ref(to)),
        }
    }
}
