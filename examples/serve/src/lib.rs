//! A network whose gate chooses an expert, served over HTTP, with a page where one draws a digit
//! and sees which expert that was.
//!
//! ```sh
//! cargo run --release -p serve        # then open http://127.0.0.1:8000
//! ```
//!
//! What to look at: [`net`] is the network, with one `!` in it; [`api`] awaits its predictions. All
//! requests share one net, and there is no lock: a prediction reads weights, has a graph of its
//! own, and builds nothing but the expert that its gate has chosen. `README.md` has the requests
//! and the figures.

#![forbid(unsafe_code)]

pub mod api;
mod guests;
pub mod net;
pub mod question;
pub mod refusal;
pub mod training;
