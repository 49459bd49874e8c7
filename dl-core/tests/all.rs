//! All tests except those that need a process of their own (`buffers`, `subscriber`), as one
//! program.

mod eager;
mod forward;
mod gradients;
mod modules;
mod pairings;
mod parallel;
mod pytorch;
mod record;
mod waiting;
