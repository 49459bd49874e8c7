//! Serialization of tensors and tables as numeric arrays, and the types of this crate that can be
//! fields of a module.

use crate::device::Place;
use crate::fusion::moved;
use crate::ops::conv::{Conv, ConvTranspose};
use crate::ops::embedding::{Rows, Table};
use crate::ops::normalize::RunningStats;
use crate::ops::pool::{AvgPool, Pool};
use crate::tensor::{Element, Item, Nd, Rank, wrong_rank};
use dl_core::bang::Arguments;
use dl_core::parts::Row;
use dl_core::{DType, Data, DeltaNumbers, Error, Module, Numbers, Result, Stored, StoredElement, Torch, Visitor};
use ndarray::{Ix2, IxDyn};
use std::any::Any;

impl<A: Item + StoredElement, D: Rank> Stored for Nd<A, D> {
    const DTYPE: DType = A::ELEMENT;

    fn shape(&self) -> Vec<usize> {
        self.shape().to_vec()
    }

    fn numbers(&self) -> Numbers {
        A::into_numbers(self.clone().into_vec())
    }

    fn from_numbers(shape: &[usize], numbers: Numbers) -> Result<Self> {
        let tensor = Nd::from_vec(IxDyn(shape), A::row_of(numbers)?)?;
        let tensor = tensor.0.into_array().into_dimensionality::<D>();
        tensor.map(Nd::from).map_err(|_| wrong_rank::<D>(shape))
    }

    const HAS_DELTA_ROW: bool = matches!(A::ELEMENT, DType::F32 | DType::F64);

    fn delta_row(delta: &mut <Self as Data>::Delta) -> Option<Row<'_>> {
        let delta: &mut dyn Any = delta;
        if delta.is::<Nd<f32, D>>() {
            return delta.downcast_mut::<Nd<f32, D>>().map(|delta| delta.row_mut().into());
        }
        delta.downcast_mut::<Nd<f64, D>>().map(|delta| delta.row_mut().into())
    }

    fn moved(&self, place: &dyn Any) -> Result<Self> {
        moved(self, place.downcast_ref::<Place>().expect("the place of tensors"))
    }
}

impl<A: Element> Stored for Table<A> {
    const DTYPE: DType = A::ELEMENT;

    fn moved(&self, place: &dyn Any) -> Result<Self> {
        match place.downcast_ref::<Place>() {
            Some(Some(device)) => {
                Err(Error::invalid(format!("a table cannot lie on {} yet: use a matrix", device.name())))
            }
            _ => Ok(self.clone()),
        }
    }

    fn shape(&self) -> Vec<usize> {
        self.shape().to_vec()
    }

    fn numbers(&self) -> Numbers {
        self.to_nd().numbers()
    }

    fn from_numbers(shape: &[usize], numbers: Numbers) -> Result<Self> {
        Nd::<A, Ix2>::from_numbers(shape, numbers).map(Table::from)
    }

    fn delta_numbers(delta: &Rows<A>) -> Option<DeltaNumbers> {
        let rows = delta.touched().map(<[usize]>::to_vec);
        Some(DeltaNumbers { shape: delta.shape().to_vec(), rows, numbers: delta.block().numbers() })
    }

    fn delta_from_numbers(DeltaNumbers { shape, rows, numbers }: DeltaNumbers) -> Result<Rows<A>> {
        let &[height, width] = &shape[..] else { return Err(wrong_rank::<Ix2>(&shape)) };
        let stored = rows.as_ref().map_or(height, Vec::len);
        let block = Nd::<A, Ix2>::from_numbers(&[stored, width], numbers)?;
        match rows {
            Some(rows) => Rows::sparse([height, width], &rows, &block),
            None => Ok(Rows::dense(block)),
        }
    }
}

/// With the buffers `mean` and `variance`, PyTorch's `running_mean` and `running_var`.
impl<A: Element> Module for RunningStats<A> {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.field_in_torch("mean", Torch::same().named("running_mean"), &self.mean);
        visitor.field_in_torch("variance", Torch::same().named("running_var"), &self.variance);
    }

    fn compiled_arguments(&self, arguments: &mut Arguments) {
        self.mean.compiled_arguments(arguments);
        self.variance.compiled_arguments(arguments);
        arguments.plain(&self.momentum_bits());
    }
}

macro_rules! settings {
    ($($T:ty),*) => {$(
        /// Settings only: no weights.
        impl<const N: usize> Module for $T {
            fn visit(&self, _: &mut Visitor) {}

            fn compiled_arguments(&self, arguments: &mut Arguments) {
                arguments.plain(self);
            }
        }
    )*};
}

settings!(Conv<N>, ConvTranspose<N>, Pool<N>, AvgPool<N>);
