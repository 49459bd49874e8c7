//! All tests of annotated functions, as one program.

mod language;
mod macro_algorithms;
mod macro_control_flow;
mod macro_joins;
mod macro_kinds;
mod macro_plain;
mod macro_scalars;
