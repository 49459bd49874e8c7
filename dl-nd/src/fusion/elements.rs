//! The element types that lazy tensors can have: `f32` and `f64`.

use super::{compute, defer, straight_line};
use crate::tensor::{Element, Item, LazyTensor, Nd, PerElement, Rank, Storage};
use dl_core::{Data, PointwiseInstruction, buffers};

macro_rules! elements {
    ($($A:ident),*) => {$(
        impl Item for $A {
            type Derivative = $A;

            const UNIT: $A = 1.0;

            fn order_key(self) -> u64 {
                // the sum turns −0 into 0
                let bits = (self + 0.0).to_bits();
                let sign = 1 << (8 * size_of::<$A>() - 1);
                let key = if bits & sign == 0 { bits | sign } else { !bits };
                (if self.is_nan() { !0 } else { key }) as u64
            }

            fn recycle(elements: Vec<$A>) {
                buffers::give_back(elements);
            }

            fn copied(elements: &[$A]) -> Vec<$A> {
                let mut copy = buffers::take(elements.len());
                copy.extend_from_slice(elements);
                copy
            }

            #[allow(private_interfaces, reason = "not to be called by others")]
            fn align<D: Rank>(elements: &mut Storage<Self, D>) {
                elements.align();
            }

            #[allow(private_interfaces, reason = "not to be called by others")]
            fn compute<D: Rank>(lazy: &LazyTensor<Self, D>) -> Storage<Self, D> {
                compute(lazy)
            }

            fn realize<D: Rank>(tensors: &[&Nd<Self, D>]) {
                defer::realize(tensors);
            }

            fn run_pointwise<D: Rank>(
                instructions: &[PointwiseInstruction],
                inputs: &[&Nd<Self, D>],
                results: &[usize],
            ) -> Option<Vec<Nd<Self, D>>> {
                straight_line::run(instructions, inputs, results)
            }

            fn non_finite(self) -> Option<f64> {
                Data::non_finite(&self)
            }
        }

        impl Element for $A {
            #[inline]
            fn per_element<T: PerElement>(table: T) -> T::For<Self> {
                table.$A()
            }
        }
    )*};
}

elements!(f32, f64);
