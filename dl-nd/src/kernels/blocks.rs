//! Elementwise kernels over tensors of any element types, which broadcast.

use crate::fusion::{BroadcastStrides, CHUNK_LEN, load};
use crate::tensor::{Element, Item, Nd, Rank};
use dl_core::simd::vectorized;
use dl_core::{buffers, parallel};
use ndarray::{Array, ArrayView};
use std::borrow::Cow;

/// The number of elements that are computed together. Repeated operands are copied, and stay in L1.
const BLOCK_LEN: usize = 512;

/// The estimated time per element, in nanoseconds.
const NANOSECONDS: f64 = 0.3;

/// An operand, in row-major order, and how it is repeated if it has another shape.
pub(crate) struct Operand<'a, A: Item> {
    elements: Cow<'a, [A]>,
    strides: Option<BroadcastStrides>,
}

impl<'a, A: Item> Operand<'a, A> {
    /// A tensor, which must broadcast to this shape.
    pub(crate) fn of<D: Rank>(x: &'a Nd<A, D>, shape: &[usize]) -> Self {
        let elements = x.0.as_slice().map_or_else(|| Cow::Owned(x.0.iter().copied().collect()), Cow::Borrowed);
        let strides = (x.shape() != shape).then(|| BroadcastStrides::of(x.shape(), shape));
        Operand { elements, strides }
    }

    /// The elements from position `start` on, copied to `buffer` if they are repeated.
    fn read<'b>(&'b self, start: usize, len: usize, buffer: &'b mut Vec<A>) -> &'b [A] {
        let Some(strides) = &self.strides else { return &self.elements[start..start + len] };
        buffer.resize(len, self.elements[0]);
        load(&self.elements, strides, start, buffer);
        buffer
    }
}

/// Computes a result from three operands, block by block. `result` has the right length and any
/// elements. `compute` must not depend on the position of an element, and must be
/// `#[inline(always)]`.
pub(crate) fn map_blocks<A: Item, B: Item, C: Item, T: Item>(
    mut result: Vec<T>,
    (a, b, c): (&Operand<'_, A>, &Operand<'_, B>, &Operand<'_, C>),
    compute: impl Fn(&[A], &[B], &[C], &mut [T]) + Sync,
) -> Vec<T> {
    let nanoseconds = NANOSECONDS * CHUNK_LEN.min(result.len()) as f64;
    let mut chunks: Vec<&mut [T]> = result.chunks_mut(CHUNK_LEN).collect();
    parallel::for_each_mut(&mut chunks, nanoseconds, |chunk, to| {
        let (mut left, mut middle, mut right) = (Vec::new(), Vec::new(), Vec::new());
        for (block, to) in to.chunks_mut(BLOCK_LEN).enumerate() {
            let (start, len) = (chunk * CHUNK_LEN + block * BLOCK_LEN, to.len());
            let (a, b) = (a.read(start, len, &mut left), b.read(start, len, &mut middle));
            let c = c.read(start, len, &mut right);
            vectorized(
                #[inline(always)]
                || compute(a, b, c, to),
            );
        }
    });
    result
}

/// Converts each element. `each` must be `#[inline(always)]`.
pub(crate) fn map_elements<A: Item, B: Element, D: Rank>(
    x: ArrayView<'_, A, D>,
    each: impl Fn(A) -> B + Sync,
) -> Array<B, D> {
    let Some(elements) = x.as_slice() else { return x.mapv(each) };
    let operand = &Operand { elements: Cow::Borrowed(elements), strides: None };
    let converted = map_blocks(
        buffers::take_filled(elements.len()),
        (operand, operand, operand),
        #[inline(always)]
        |x, _, _, to| {
            for (to, &x) in to.iter_mut().zip(x) {
                *to = each(x);
            }
        },
    );
    Array::from_shape_vec(x.raw_dim(), converted).expect("as many elements")
}
