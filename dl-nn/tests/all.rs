//! All tests, as one program.

mod layers;
mod mixture;
mod modules;
