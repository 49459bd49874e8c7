//! All tests, as one program.

mod batcher;
mod checkpoints;
mod files;
mod foreign_files;
mod hostile;
mod load;
mod metrics;
mod mutations;
#[cfg(feature = "plot")]
mod plot;
mod resume;
mod state_dict;
mod trainer;
