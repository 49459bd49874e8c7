//! Loops for the pointwise operations of a basic block. Up to three cheap operations are one loop.

use super::loops::VectorLoop;
use super::select::{Pattern, Value, Values};
use crate::tensor::Element;
use dl_core::PointwiseOp;

/// An operand of an operation.
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
/// that are read elsewhere. An operation has no loop if it is computed in that of another one, or
/// if nothing reads its value.
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

#[cfg(test)]
mod tests {
    use super::*;
    use dl_core::{Binary, Unary};

    const ARRAYS: [[f64; 5]; 3] =
        [[0.5, -0.0, 1.75, -3.25, 1e-3], [2.5, 0.1, f64::INFINITY, 0.3, -7.0], [-1.5, 0.7, 4.0, f64::NAN, 0.9]];

    /// `a·b`, `1 − a·b`, the product of c and that, its negative, and the exponential of that.
    fn operations() -> Vec<(PointwiseOp, [LoopOperand<f64>; 2])> {
        use LoopOperand::{Array, Operation};
        let one_minus = PointwiseOp::WithNumber { op: Binary::Sub, number: 1.0, left: true };
        vec![
            (PointwiseOp::Binary(Binary::Mul), [Array(0), Array(1)]),
            (one_minus, [Operation(0); 2]),
            (PointwiseOp::Binary(Binary::Mul), [Array(2), Operation(1)]),
            (PointwiseOp::Unary(Unary::Neg), [Operation(2); 2]),
            (PointwiseOp::Unary(Unary::Exp), [Operation(3); 2]),
        ]
    }

    /// The values of the operations that have a loop.
    fn values(results: &[usize]) -> Vec<Option<[f64; 5]>> {
        let mut values: Vec<Option<[f64; 5]>> = Vec::new();
        for found in block_loops(&operations(), results) {
            values.push(found.map(|BlockLoop { compute, reads, .. }| {
                let reads = reads.map(|read| match read {
                    LoopOperand::Array(array) => ARRAYS[array],
                    LoopOperand::Operation(at) => values[at].expect("a loop reads operations that have one"),
                    LoopOperand::Number(number) => [number; 5],
                });
                let mut to = [0.0; 5];
                compute([&reads[0], &reads[1], &reads[2], &reads[3]], &mut to);
                to
            }));
        }
        values
    }

    #[test]
    fn operation_that_others_read_has_loop_of_its_own() {
        let loops_for = |results: &[usize]| values(results).iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(loops_for(&[4]), [false, false, true, false, true]);
        assert_eq!(loops_for(&[0, 4]), [true, false, true, false, true]);
        assert_eq!(loops_for(&[3, 4]), [false, false, true, true, true]);
        assert_eq!(loops_for(&[1]), [false, true, false, false, false]);
        assert_eq!(loops_for(&[]), [false; 5]);
    }

    #[test]
    fn loops_of_several_operations_have_bits_of_single_ones() {
        let single = values(&[0, 1, 2, 3, 4]);
        for results in [&[4][..], &[2, 4], &[0, 4], &[1, 3, 4]] {
            for (value, single) in values(results).iter().zip(&single) {
                let (Some(value), Some(single)) = (value, single) else { continue };
                let is_same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                assert!(value.iter().zip(single).all(is_same), "{value:?} and {single:?}");
            }
        }
    }
}
