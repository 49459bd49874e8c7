//! All tests except those that need a process of their own (`subscriber`), as one
//! program.

mod eager;
mod forward;
mod gradients;
mod modules;
mod pairings;
mod pytorch;
mod record;
mod waiting;
