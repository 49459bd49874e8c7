//! Several pointwise operations on small tensors of one shape, in one run.
//!
//! The operations are known beforehand, so there is nothing to compile. A block of elements passes
//! through all of them while it is in the L1 cache, and only results get memory of their own.

use super::{loop_table, loops, should_defer};
use crate::tensor::{Element, Nd, Rank};
use dl_core::{PointwiseInstruction, PointwiseOp, buffers};

/// The number of elements that pass through all operations at a time.
const BLOCK_LEN: usize = 256;

/// The values of the registers `results`. `None` for tensors of different shapes, for large ones,
/// which are deferred, and for those that are not contiguous.
pub(crate) fn run<A: Element, D: Rank>(
    instructions: &[PointwiseInstruction],
    inputs: &[&Nd<A, D>],
    results: &[usize],
) -> Option<Vec<Nd<A, D>>> {
    let shape = inputs.first()?.dim();
    let len = inputs[0].len();
    if should_defer(len) {
        return None;
    }
    let slices = inputs.iter().map(|input| if input.dim() == shape { input.0.as_slice() } else { None });
    let inputs: Vec<&[A]> = slices.collect::<Option<_>>()?;
    let mut elements: Vec<Vec<A>> = results.iter().map(|_| buffers::take(len)).collect();
    let block_len = BLOCK_LEN.min(len);
    let mut registers: Vec<A> = buffers::take_filled(instructions.len() * block_len);
    let loops = loop_table::loops::<A>();
    for from in (0..len).step_by(BLOCK_LEN) {
        let block_len = block_len.min(len - from);
        for (at, &PointwiseInstruction { op, reads: [a, b] }) in instructions.iter().enumerate() {
            let (before, rest) = registers.split_at_mut(at * block_len);
            let read = |register: usize| match register.checked_sub(inputs.len()) {
                None => &inputs[register][from..from + block_len],
                Some(register) => &before[register * block_len..][..block_len],
            };
            let to = &mut rest[..block_len];
            match op {
                PointwiseOp::Unary(op) => (loops.unary)(op)([read(a); 4], to),
                PointwiseOp::Binary(op) => {
                    let (a, b) = (read(a), read(b));
                    (loops.binary)(op)([a, b, b, b], to);
                }
                PointwiseOp::WithNumber { op, number, left } => {
                    let (x, numbers) = (read(a), [A::of(number); BLOCK_LEN]);
                    let numbers = &numbers[..block_len];
                    let (a, b) = if left { (numbers, x) } else { (x, numbers) };
                    (loops.binary)(op)([a, b, b, b], to);
                }
            }
        }
        for (elements, &result) in elements.iter_mut().zip(results) {
            elements.extend_from_slice(&registers[(result - inputs.len()) * block_len..][..block_len]);
        }
    }
    buffers::give_back(registers);
    let tensor = |mut elements: Vec<A>| {
        loops::canonicalize_nans(&mut elements);
        Nd::from_elements(shape.clone(), elements)
    };
    Some(elements.into_iter().map(tensor).collect())
}
