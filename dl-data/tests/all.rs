//! All tests but those that need a process of their own (`memory`), as one program.

mod csv;
#[cfg(feature = "images")]
mod images;
mod loader;
#[cfg(feature = "images")]
mod mutations;
mod readers;
