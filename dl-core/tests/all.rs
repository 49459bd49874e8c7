//! All tests except those that need a process of their own (`subscriber`), as one
//! program.

mod eager;
mod error_data;
mod forward;
mod gradients;
mod modules;
mod pairings;
mod participants;
mod parts;
mod pull;
mod pytorch;
mod record;
mod waiting;
