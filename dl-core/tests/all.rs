//! All tests but those that need a process of their own (`buffers`,
//! `subscriber`) and those of `optimizers`, as one program.

mod eager;
mod elementary;
mod forward;
mod gradients;
mod modules;
mod pairings;
mod parallel;
mod pytorch;
mod record;
mod waiting;
