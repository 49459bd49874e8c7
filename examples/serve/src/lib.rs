//! A gated network served over HTTP, with a page on which the user draws a digit and sees the
//! selected expert.
//!
//! ```sh
//! cargo run --release -p serve        # then open http://127.0.0.1:8000
//! ```
//!
//! [`net`] is the network, with one `!`; [`api`] awaits its predictions. All requests share one
//! network without a lock: a prediction reads weights, has a graph of its own, and builds only the
//! expert that the gate selects. See `README.md` for the requests and measurements.

#![forbid(unsafe_code)]

pub mod api;
mod connections;
pub mod error;
pub mod net;
pub mod request;
pub mod training;
