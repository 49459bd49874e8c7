//! All tests of the library but those that need a process of their own (`executor`, `memory`,
//! `stress`) and those of the macros (`macros`). They are one program, since linking one for each
//! file takes longer than compiling it.

mod calls;
mod checkpoint;
mod derivatives;
mod documented;
mod forward;
mod guide;
mod paper;
mod promises;
mod record;
mod targets;
#[cfg(feature = "view")]
mod view;
