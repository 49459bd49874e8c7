//! What a pass did, for people: pictures of the path it took, tables of what each line cost, traces
//! of what the threads did.
//!
//! Users reach it as `dl::view`, with the feature `view` of the `monadic-dl` package. It shows what
//! a [`Recorder`](dl_core::record::Recorder) was told.
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
//! # Words
//!
//! - *picture*: what was computed from what in a pass, with its decisions ([`Graph`], [`Draw`]).
//!   Large passes are folded.
//! - *costs*: time, bytes and counts for each line of the user's code ([`Costs`]).
//! - *trace*: when which thread did what ([`chrome_trace`]).
//!
//! What it does not do: it records nothing itself, draws no bitmaps, and knows nothing of layers
//! that no pass has met: an arm that was not taken has a name, and no inside.

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
