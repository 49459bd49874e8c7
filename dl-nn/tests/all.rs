//! All tests, as one program.

mod compiled;
mod generation;
mod layers;
mod mixture;
mod modules;
mod parts;
