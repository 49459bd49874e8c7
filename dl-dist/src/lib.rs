//! Training on several ranks for `dl`: the parts of a batch are distributed, and the step is the
//! same bits on any number of ranks.
//!
//! Users add the `monadic-dl` package with the feature `dist` (`use dl::dist::Cluster`).
//!
//! A *rank* runs the same program as all others, with its own copy of the weights. [`Cluster::run`]
//! starts the ranks. [`Cluster::sum`] and [`Cluster::mean`] describe a step on a batch in
//! [`Parts`](dl_core::Parts): each rank evaluates some of the parts, the deltas are summed along the
//! tree over the parts, and all ranks take the step, or none.
//!
//! ```
//! use dl_core::{Parts, Weight};
//! use dl_dist::Cluster;
//! use dl_optim::Adam;
//!
//! fn loss(w: &Weight<f64>, part: usize) -> dl_core::Layer<f64> {
//!     (part as f64 * w - 3.0).square()
//! }
//!
//! let trained = |ranks| {
//!     Cluster::run_on(ranks, |cluster| {
//!         let (w, adam) = (Weight::new(1.0_f64), Adam::new(0.1));
//!         for step in 0..10 {
//!             cluster.mean(8, |part| loss(&w, part)).seed(step).train(&w, &adam)?;
//!         }
//!         Ok(w.value().to_bits())
//!     })
//! };
//! // without a cluster
//! let (w, adam) = (Weight::new(1.0_f64), Adam::new(0.1));
//! for step in 0..10 {
//!     Parts::mean((0..8).map(|part| loss(&w, part))).train(&adam).seed(step).wait()?;
//! }
//! assert_eq!(trained(1)?, [w.value().to_bits()]);
//! assert_eq!(trained(3)?, [w.value().to_bits(); 3]);
//! # dl_core::Result::Ok(())
//! ```
//!
//! # Modules on other ranks
//!
//! [`Cluster::spread`] makes modules on all ranks in turns. A [`Placed`] module is a
//! [`Block`](dl_nn::Block) on every rank: a call is evaluated by its owner, and a step changes it
//! together with the weights of the caller. The owner finds the function by the name that
//! [`#[remote]`](remote) has registered.
//!
//! # Engines
//!
//! The ranks are threads of one process, for tests, and to try a program before it runs on many
//! machines; with the feature `mpi` they are processes that `mpirun` or `srun` has started. An
//! [`Engine`] of your own can carry the messages in another way. What an engine cannot give: if a
//! rank dies after it has agreed to a step, some ranks may have taken the step and others not. All
//! others then get errors, and the last checkpoint is the state to go on from.

#![deny(unsafe_code)]

mod cluster;
mod communication;
mod elsewhere;
mod engine;
mod exchange;
mod fingerprint;
mod function;
mod heartbeat;
mod launch;
mod message;
#[cfg(has_mpi)]
#[allow(unsafe_code, reason = "functions of MPI")]
mod mpi;
mod placed;
mod placement;
#[cfg(any(has_mpi, test))]
mod program;
mod ranks;
mod remote_step;
mod requests;
mod server;
mod shards;
mod slices;
mod step;
mod threads;
mod turn;
mod uses;

pub use cluster::Cluster;
pub use communication::Messages;
/// ```
/// # use dl_core::Module; use dl_macros::Module; use dl_nd::NdLayer; use dl_nd::init; use dl_nn::{Block, Linear};
/// #[derive(Clone, Module)]
/// # #[module(crate = dl_core)]
/// struct Expert {
///     output: Linear,
/// }
///
/// #[dl_dist::remote(crate = dl_dist)] // without the argument in programs that use `dl`
/// impl Block for Expert {
///     fn of(&self, x: &NdLayer) -> NdLayer {
///         self.output.of(x)
///     }
/// }
/// ```
pub use dl_macros::remote;
pub use engine::Engine;
pub use function::RemoteBlock;
pub use heartbeat::is_lost;
pub use placed::Placed;
pub use step::ClusterStep;

/// What `#[remote]` expands to, as `dl::dist` of the crate `dl`, and of this one.
#[doc(hidden)]
pub mod dist {
    pub use crate::function::{RemoteArgument, RemoteBlock, RemoteFunction};
    pub use inventory::submit;
}

#[doc(hidden)]
pub use dist::{RemoteArgument, RemoteFunction, submit};
