//! Loops for the pointwise operations of a basic block. Up to three cheap operations are one loop.

use super::loops::VectorLoop;
use super::select::{Pattern, Value, Values};
use crate::tensor::Element;
use dl_core::PointwiseOp;

/// What an operation reads.
#[derive(Clone, Copy)]
pub(crate) enum LoopOperand<A> {
    /// The value of an earlier operation, by index.
    Operation(usize),
    /// Another array, by index.
    Array(usize),
    /// An array of this number.
    Number(A),
}

/// The loop that computes an operation, and with it operations that nothing else reads. All arrays
/// have one length. The caller must canonicalize NaN in elements that it stores.
pub(crate) struct BlockLoop<A> {
    pub(crate) compute: VectorLoop<A>,
    pub(crate) reads: [LoopOperand<A>; 4],
    /// Whether it reads more than the first two.
    pub(crate) has_many: bool,
}

/// The loops of these operations, which have two operands or one. `results` are those with values
/// that are read elsewhere. An operation has no loop if it is computed in that of another one, or if
/// nothing reads its value.
pub(crate) fn block_loops<A: Element>(
    operations: &[(PointwiseOp, [LoopOperand<A>; 2])],
    results: &[usize],
) -> Vec<Option<BlockLoop<A>>> {
    let (mut values, mut operands) = (Vec::new(), Vec::new());
    // the position of each operation among the values
    let mut places: Vec<usize> = Vec::with_capacity(operations.len());
    for &(op, reads) in operations {
        let mut value_of = |read: LoopOperand<A>| match read {
            LoopOperand::Operation(at) => places[at],
            LoopOperand::Array(array) => {
                operands.push((values.len(), read));
                values.push(Value::Whole(array));
                values.len() - 1
            }
            LoopOperand::Number(number) => {
                operands.push((values.len(), read));
                values.push(Value::Number(number));
                values.len() - 1
            }
        };
        let value = match op {
            PointwiseOp::Unary(op) => Value::Unary(op, value_of(reads[0])),
            PointwiseOp::Binary(op) => Value::Binary(op, value_of(reads[0]), value_of(reads[1])),
            PointwiseOp::WithNumber { op, number, left } => {
                let (x, number) = (value_of(reads[0]), value_of(LoopOperand::Number(A::of(number))));
                if left { Value::Binary(op, number, x) } else { Value::Binary(op, x, number) }
            }
        };
        places.push(values.len());
        values.push(value);
    }
    let results: Vec<usize> = results.iter().map(|&result| places[result]).collect();
    let values = Values(&values);
    let uses = values.uses(&results);
    let inlined = values.inlined(&uses, &results);
    let read = |value: usize| match operands.binary_search_by_key(&value, |&(at, _)| at) {
        Ok(found) => operands[found].1,
        Err(_) => LoopOperand::Operation(places.binary_search(&value).expect("it is an operation")),
    };
    let of = |&place: &usize| {
        (uses[place] > 0 && !inlined[place]).then(|| {
            let selection = values.selection(&values.0[place], &inlined);
            let has_many = matches!(selection.kind, Pattern::Fused(_));
            BlockLoop { compute: selection.loop_of_one(), reads: selection.reads.map(read), has_many }
        })
    };
    places.iter().map(of).collect()
}
