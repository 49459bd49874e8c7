//! Differentiation: the reverse pass, forward mode, rematerialization.

pub(crate) mod accumulate;
pub(crate) mod cotangent;
mod eager;
pub(crate) mod forward;
pub(crate) mod immediate;
pub(crate) mod optional_cotangent;
pub(crate) mod remat_group;
pub(crate) mod reverse;
pub(crate) mod scalar;
