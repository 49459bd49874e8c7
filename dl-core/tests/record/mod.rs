//! Records of passes.

mod decisions;
mod ends;
mod nodes;
mod passes;
mod spans;
mod support;
#[cfg(feature = "tracing")]
mod traced;
