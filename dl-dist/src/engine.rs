//! The transport of messages between ranks.

use dl_core::Result;

/// What carries messages between ranks. Everything else, sums and votes, is built on it, and has the
/// same bits with every engine.
///
/// ```
/// use dl_dist::{Cluster, Engine};
///
/// /// A cluster of one rank sends nothing.
/// struct Alone;
///
/// impl Engine for Alone {
///     fn rank(&self) -> usize {
///         0
///     }
///     fn size(&self) -> usize {
///         1
///     }
///     fn send(&self, to: usize, _: Vec<u8>) -> dl_core::Result<()> {
///         unreachable!("there is no rank {to}")
///     }
///     fn receive(&self, from: usize) -> dl_core::Result<Vec<u8>> {
///         unreachable!("there is no rank {from}")
///     }
/// }
///
/// let (w, sgd) = (dl_core::Weight::new(1.0_f64), dl_optim::Sgd::new(0.5));
/// Cluster::with(Alone).sum(2, |part| &w * part as f64).train(&w, &sgd)?;
/// assert_eq!(w.value(), 0.5);
/// # dl_core::Result::Ok(())
/// ```
pub trait Engine: Send + Sync {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Sends a message to another rank. It must not wait until the message is received: two ranks
    /// may send to each other at the same time.
    ///
    /// # Errors
    /// If the message cannot arrive.
    fn send(&self, to: usize, message: Vec<u8>) -> Result<()>;

    /// Waits for the next message of another rank. Messages of one rank must arrive in the order in
    /// which they were sent, each once.
    ///
    /// # Errors
    /// If no message can arrive any more. An engine must notice that, or the cluster hangs.
    fn receive(&self, from: usize) -> Result<Vec<u8>>;
}
