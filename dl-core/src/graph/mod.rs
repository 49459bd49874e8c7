//! The graph: type-erased nodes, values and weights.
//!
//! Memory: nodes have one size, a cache line, and come from slabs (`dl_parallel::memory::slab`) through
//! thread-local free lists (`node_ref`). Small objects that belong to a node share these cells
//! (`inline_box`, `erased_arc`). `refcount` and `variable` implement the lifetime of nodes and of
//! weights.

pub(crate) mod basic_block;
pub(crate) mod chunk;
pub(crate) mod data;
pub(crate) mod delta;
#[allow(unsafe_code, reason = "manual reference count: see the module")]
pub(crate) mod erased_arc;
pub(crate) mod identity;
#[allow(unsafe_code, reason = "a box in a node cell: see the module")]
pub(crate) mod inline_box;
pub(crate) mod layer;
pub(crate) mod lazy_chunk;
pub(crate) mod node;
#[allow(unsafe_code, reason = "manual reference count and free list: see the module")]
pub(crate) mod node_ref;
pub(crate) mod op;
pub(crate) mod owner_stamp;
pub(crate) mod participant;
pub(crate) mod pointwise;
pub(crate) mod postorder;
pub(crate) mod refcount;
pub(crate) mod scalar;
pub(crate) mod seed;
pub(crate) mod training_step;
pub(crate) mod value;
#[allow(unsafe_code, reason = "a weight owns its replicas and outlives them: see the module")]
pub(crate) mod variable;
pub(crate) mod weight;
