//! The element types that kernels work on: `f32` and `f64`.

use super::basic_block;
use crate::fusion::{compute, compute_on_device, filled_on, realize};
use crate::tensor::{Element, Item, LazyTensor, Nd, PerElement, Rank, Storage, on_device};
use dl_core::{BasicBlock, BlockKernel, Data, ElementType, Elements, Result, buffers};
use std::borrow::Cow;

macro_rules! elements {
    ($($A:ident $Variant:ident),*) => {$(
        impl Item for $A {
            type Derivative = $A;

            const UNIT: $A = 1.0;
            const IN_BLOCKS: Option<ElementType> = Some(ElementType::$Variant);

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
            fn copy_to_pool<D: Rank>(elements: &mut Storage<Self, D>) {
                elements.copy_to_pool();
            }

            #[allow(private_interfaces, reason = "not to be called by others")]
            fn compute<D: Rank>(lazy: &LazyTensor<Self, D>) -> Storage<Self, D> {
                compute(lazy)
            }

            #[allow(private_interfaces, reason = "not to be called by others")]
            fn compute_on_device<D: Rank>(lazy: &LazyTensor<Self, D>) -> Result<Storage<Self, D>> {
                compute_on_device(lazy)
            }

            fn realize<D: Rank>(tensors: &[&Nd<Self, D>]) {
                realize(tensors);
            }

            on_device!(|x| x.into());

            fn ones_like<D: Rank>(x: &Nd<Self, D>) -> Nd<Self, D> {
                filled_on(x.dim(), Self::UNIT, x.0.device().cloned())
            }

            fn elements(elements: Cow<'_, [Self]>) -> Option<Elements<'_>> {
                Some(Elements::$Variant(elements))
            }

            fn compile_block(block: BasicBlock) -> Option<Box<dyn BlockKernel>> {
                Some(Box::new(basic_block::Compiled::<$A>::new(block)))
            }

            fn non_finite(self) -> Option<f64> {
                Data::non_finite(&self)
            }
        }

        impl basic_block::OfBlock for $A {
            fn of_block<'a>(elements: &'a Elements<'_>) -> &'a [$A] {
                match elements {
                    Elements::$Variant(elements) => elements,
                    _ => unreachable!("a block has elements of one type"),
                }
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

elements!(f32 F32, f64 F64);
