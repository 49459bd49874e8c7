//! Visualisation of recorded passes: pictures of the executed graph, cost tables by source line,
//! and traces of the threads.
//!
//! Users reach this crate as `dl::view`, with the feature `view` of the `monadic-dl` package. Its
//! input is the recording of a [`Recorder`](dl_core::record::Recorder).
//!
//! ```
//! use dl_core::record::Recorder;
//! use dl_core::{Differentiable, Weight};
//! use dl_optim::Sgd;
//! use dl_view::{Costs, Draw, Graph, save_chrome_trace};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = |name: &str| folder.path().join(name);
//! let w = Weight::new(3.0_f64);
//! let loss = (&w * &w).sin();
//! loss.graph().wait()?.save(path("loss.svg"))?; // one `predict`
//!
//! let recorder = Recorder::new();
//! for _ in 0..10 {
//!     loss.train(&Sgd::new(0.01)).recorded(&recorder).wait()?;
//! }
//! let recording = recorder.take();
//! Graph::of(&recording.passes[0]).backward(true).save(path("step.svg"))?;
//! println!("{}", Costs::of(&recording));
//! save_chrome_trace(&recording, path("trace.json"))?;
//! # dl_core::Result::Ok(())
//! ```
//!
//! # Glossary
//!
//! - *picture*: the values a pass computed, their dependencies and the decisions taken ([`Graph`],
//!   [`Draw`]). Pictures of large passes are folded.
//! - *costs*: time, bytes and counts for each source line ([`Costs`]).
//! - *trace*: which thread executed which kernel when ([`chrome_trace`]).
//!
//! This crate records nothing itself and renders no bitmaps. An arm that was not taken appears as a
//! name only, because its layers were never built.

#![forbid(unsafe_code)]

mod atoms;
mod build;
mod costs;
mod describe;
mod dot;
mod draw;
mod facts;
mod fold;
mod functions;
mod graph;
mod layout;
mod open;
#[cfg(test)]
mod samples;
mod scene;
mod svg;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod trace;

pub use costs::{BranchCost, Costs, LineCost, RuntimeCost};
pub use draw::Draw;
pub use graph::Graph;
pub use trace::{chrome_trace, save_chrome_trace};
