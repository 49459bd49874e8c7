//! Pictures of the path that a pass took.

#![forbid(unsafe_code)]

mod atoms;
mod build;
mod describe;
mod dot;
mod facts;
mod file;
mod fold;
mod functions;
mod graph;
mod layout;
#[cfg(test)]
mod samples;
mod scene;
mod svg;
mod text;
#[cfg(test)]
mod tests;

pub use graph::Graph;
