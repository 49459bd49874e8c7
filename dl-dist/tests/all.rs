//! All tests, as one program.

mod edges;
mod errors;
mod experts;
mod failures;
mod faults;
mod heartbeat;
mod random_programs;
mod same_bits;
mod shard_state;
mod sharded;
mod slices;
mod support;
mod trainer;
mod waits;
