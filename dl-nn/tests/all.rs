//! All tests, as one program.

mod generation;
mod layers;
mod mixture;
mod modules;
mod parts;
