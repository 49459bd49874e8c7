//! Sixteen `f32` at once, which all programs here are written with: one register with AVX-512, two with AVX2. Both have the same functions, and
//! say how large the tiles of products are that fit into their registers.
#[cfg(target_feature = "avx512f")]
mod avx512;
#[cfg(target_feature = "avx512f")]
pub(crate) use avx512::*;

#[cfg(not(target_feature = "avx512f"))]
mod avx2;
#[cfg(not(target_feature = "avx512f"))]
pub(crate) use avx2::*;
