//! Memory pools.

pub mod large;
pub(crate) mod size_classes;

pub use size_classes::{AtHand, Small};

use large::{Buffers, Free};

/// The element types that have pools: `f32` and `f64`.
pub trait Pooled: Copy + Default + Send + Sync + 'static {
    #[doc(hidden)]
    fn large(pools: &mut Free) -> &mut Buffers<Self>;

    #[doc(hidden)]
    fn small(cache: &mut AtHand) -> &mut Small<Self>;
}

macro_rules! pooled {
    ($($T:ident)*) => {$(
        impl Pooled for $T {
            fn large(pools: &mut Free) -> &mut Buffers<$T> {
                &mut pools.$T
            }

            fn small(cache: &mut AtHand) -> &mut Small<$T> {
                &mut cache.$T
            }
        }
    )*};
}

pooled!(f32 f64);
