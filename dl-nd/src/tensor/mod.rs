//! Tensors: their element types and ranks, the memory of their elements, and lazy tensors.

mod aliases;
pub(crate) mod aligned;
mod element;
#[allow(unsafe_code, reason = "a call of the system: see the module")]
mod huge_pages;
mod lazy;
mod nd;
mod place;
mod print;
mod shape;
mod storage;

pub use aliases::{NdExpression, NdLayer, NdWeight};
pub use element::{Derivative, Discrete, Element, HasRank, Item, Rank};
pub(crate) use element::{PerElement, on_device};
pub(crate) use lazy::{Expr, LazyTensor};
pub use nd::Nd;
pub(crate) use nd::{constant_tape, filled_array, tensor_of_shape, zeros};
pub(crate) use place::moved;
pub use shape::check_size;
pub(crate) use shape::{broadcast_shape, common_len, common_shape, dim_of, unit_shape, wrong_rank};
pub use storage::row_major_copy;
pub(crate) use storage::{Storage, compact_copy};
