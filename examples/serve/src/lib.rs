//! A gated network served over HTTP, with a page on which the user draws a digit and sees the
//! selected expert.
//!
//! ```sh
//! cargo run --release -p serve        # then open http://127.0.0.1:8000
//! ```
//!
//! [`net`] is the network, with one `!`; [`api`] computes the images of requests that wait together
//! in one batch, with a `Batcher`. A prediction reads weights without a lock, has a graph of its own,
//! and builds only the experts that the gate selects. See `README.md` for the requests and
//! measurements.

#![forbid(unsafe_code)]

pub mod api;
mod connections;
#[cfg(feature = "embed")]
mod embed;
pub mod error;
mod metrics;
pub mod net;
pub mod request;
pub mod training;
