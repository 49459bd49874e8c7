//! Tests of the library, as one program: linking a program per file takes longer than compiling it.
//! The tests in `executor`, `memory` and `stress` need a process of their own. `macros` tests the
//! macros.

mod calls;
mod checkpoint;
mod compiled;
mod derivatives;
mod documented;
mod forward;
mod guide;
mod layers;
mod paper;
mod promises;
mod record;
mod targets;
#[cfg(feature = "view")]
mod view;
