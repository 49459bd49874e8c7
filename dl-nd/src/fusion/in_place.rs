//! Binary operations that reuse the memory of their left operand, if it has no other owner.
//!
//! A delta that passes through a `relu` is such an operand: no further memory is touched.

use super::program::{CHUNK_LEN, block_len, transfer_nanoseconds, vector_nanoseconds};
use super::{loop_table, loops};
use crate::tensor::{Element, Expr, LazyTensor, Nd, Rank, Storage};
use dl_core::{Binary, parallel};
use ndarray::Array;

/// Computes the elements in place, if the expression is a binary operation on computed operands and
/// the left one is uniquely owned.
pub(super) fn compute<A: Element, D: Rank>(lazy: &LazyTensor<A, D>) -> Option<Storage<A, D>> {
    // a thread that compiles this expression meanwhile finds no operation, and waits for the
    // elements
    let (op, mut to, other) = match lazy.take_operation()? {
        Expr::Binary(op, a, b) if a.0.lazy().is_none() && b.0.lazy().is_none() => match a.0.try_into_unique() {
            Ok(a) if is_whole(&a, lazy) && b.shape() == a.shape() && b.0.as_slice().is_some() => (op, a, b),
            Ok(a) => return put_back(lazy, Expr::Binary(op, a.into(), b)),
            Err(a) => return put_back(lazy, Expr::Binary(op, Nd(a), b)),
        },
        operation => return put_back(lazy, operation),
    };
    let elements = to.as_slice_mut().expect("in row-major order");
    run(op, elements, other.0.as_slice().expect("its layout was checked"));
    Some(to.into_shared().into())
}

fn put_back<A: Element, D: Rank, R>(lazy: &LazyTensor<A, D>, operation: Expr<A, D>) -> Option<R> {
    lazy.put_back(operation);
    None
}

/// Whether the array is in row-major order and has the shape of the result.
fn is_whole<A: Element, D: Rank>(array: &Array<A, D>, lazy: &LazyTensor<A, D>) -> bool {
    array.raw_dim() == *lazy.shape() && array.is_standard_layout()
}

/// Block by block: LLVM does not vectorize a loop that writes where it reads, so each block is
/// copied first, within the L1 cache.
fn run<A: Element>(op: Binary, to: &mut [A], others: &[A]) {
    let code = (loop_table::loops::<A>().binary)(op);
    // two streams are read, one is written
    let nanoseconds = (vector_nanoseconds(op.cost()) + transfer_nanoseconds::<A>(3)) * CHUNK_LEN.min(to.len()) as f64;
    let mut chunks: Vec<(&mut [A], &[A])> = to.chunks_mut(CHUNK_LEN).zip(others.chunks(CHUNK_LEN)).collect();
    parallel::for_each_mut(&mut chunks, nanoseconds, |_, (to, others)| {
        let mut before = vec![A::zero(); block_len::<A>()];
        for (to, other) in to.chunks_mut(before.len()).zip(others.chunks(block_len::<A>())) {
            let before = &mut before[..to.len()];
            before.copy_from_slice(to);
            code([before, other, other, other], to);
            loops::canonicalize_nans(to);
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::tensor::{Expr, Nd};
    use dl_core::Binary;
    use ndarray::Ix2;

    /// Whether the operand has other owners depends on timing, so it must not affect the result.
    #[test]
    fn nan_in_place_has_same_bits() {
        let shape = [64, 64];
        let nan = |bits: u32| Nd::<f32, Ix2>::full(shape, f32::from_bits(bits));
        let sum = |a: Nd<f32, Ix2>| {
            let dim = a.dim();
            let sum = Expr::Binary(Binary::Add, a, nan(0xffc0_0001)).of_shape(dim);
            sum.view().mapv(f32::to_bits)
        };
        let a = nan(0x7fc0_0002);
        assert_eq!(sum(a.clone()), sum(a));
    }

    #[test]
    fn shared_operand_is_not_overwritten() {
        let shape = [100, 700]; // some pieces, of which the last one is shorter
        let numbers = |by: f32| -> Nd<f32, Ix2> {
            Nd::from_vec(shape, (0..shape[0] * shape[1]).map(|i| i as f32 * by).collect()).expect("one for each place")
        };
        let difference = |a: Nd<f32, Ix2>, b: Nd<f32, Ix2>| {
            let dim = a.dim();
            Expr::Binary(Binary::Sub, a, b).of_shape(dim)
        };
        let wanted = numbers(0.5).view().to_owned() - numbers(0.1).view();
        let (a, b) = (numbers(0.5), numbers(0.1));
        let slot = a.view().as_ptr();
        let kept = a.clone();
        let first = difference(a, b.clone());
        assert_eq!(first.view(), wanted);
        assert_ne!(first.view().as_ptr(), slot);
        assert_eq!(kept, numbers(0.5));
        let second = difference(kept, b.clone());
        assert_eq!(second.view(), wanted);
        assert_eq!(second.view().as_ptr(), slot, "now it is uniquely owned");
        assert_eq!(b, numbers(0.1));
        // the same tensor twice: the right operand is another owner
        let zero = difference(b.clone(), b);
        assert!(zero.view().iter().all(|&x| x == 0.0));
    }
}
