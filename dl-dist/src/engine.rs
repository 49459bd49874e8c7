//! The transport of messages between ranks.

use dl_core::Result;
use std::time::Duration;

/// What carries messages between ranks. Everything else, calls, sums and votes, is built on it, and
/// has the same bits with every engine.
///
/// One thread of each rank, the communication thread, owns the engine. No other thread calls it.
///
/// ```
/// use dl_dist::{Cluster, Engine};
/// use std::time::Duration;
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
///     fn send(&mut self, to: usize, _: Vec<u8>) -> dl_core::Result<()> {
///         unreachable!("there is no rank {to}")
///     }
///     fn receive(&mut self, _: Duration) -> dl_core::Result<Option<(usize, Vec<u8>)>> {
///         Ok(None)
///     }
/// }
///
/// let (w, sgd) = (dl_core::Weight::new(1.0_f64), dl_optim::Sgd::new(0.5));
/// Cluster::with(Alone).sum(2, |part| &w * part as f64).train(&w, &sgd)?;
/// assert_eq!(w.value(), 0.5);
/// # dl_core::Result::Ok(())
/// ```
pub trait Engine: Send {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Sends a message to another rank. It must not wait until the message is received: two ranks
    /// may send to each other at the same time.
    ///
    /// # Errors
    /// If the message cannot arrive. The communication thread then treats the rank as lost.
    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<()>;

    /// The next message of any other rank, and the rank; `None` if none has come within `wait`, or
    /// if a [`waker`](Engine::waker) was called. Messages of one rank must come in the order in
    /// which they were sent, each once.
    ///
    /// # Errors
    /// If no message of any rank can arrive any more.
    fn receive(&mut self, wait: Duration) -> Result<Option<(usize, Vec<u8>)>>;

    /// A function that ends a `receive` that waits, called by threads that have something to send.
    /// Without one the communication thread waits for short times only.
    ///
    /// ```
    /// # use dl_core::Result;
    /// # use std::time::Duration;
    /// use dl_dist::Engine;
    /// # struct Alone;
    /// # impl Engine for Alone {
    /// #   fn rank(&self) -> usize { 0 }
    /// #   fn size(&self) -> usize { 1 }
    /// #   fn send(&mut self, _: usize, _: Vec<u8>) -> Result<()> { Ok(()) }
    /// #   fn receive(&mut self, _: Duration) -> Result<Option<(usize, Vec<u8>)>> { Ok(None) }
    /// # }
    /// assert!(Alone.waker().is_none());
    /// ```
    fn waker(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        None
    }

    /// The time without any message after which a rank counts as lost, for an engine with ranks that can
    /// die one by one. Then the communication thread sends an empty message to each rank six times in
    /// that time. Empty messages may overtake others. After a loss everything that waits fails, and
    /// the job is [aborted](Engine::abort).
    ///
    /// ```
    /// # use dl_core::Result;
    /// # use std::time::Duration;
    /// use dl_dist::Engine;
    /// # struct Alone;
    /// # impl Engine for Alone {
    /// #   fn rank(&self) -> usize { 0 }
    /// #   fn size(&self) -> usize { 1 }
    /// #   fn send(&mut self, _: usize, _: Vec<u8>) -> Result<()> { Ok(()) }
    /// #   fn receive(&mut self, _: Duration) -> Result<Option<(usize, Vec<u8>)>> { Ok(None) }
    /// # }
    /// assert!(Alone.silence().is_none()); // no rank dies alone
    /// ```
    fn silence(&self) -> Option<Duration> {
        None
    }

    /// Ends the connection, when the programs of all ranks have ended, or that of this rank has
    /// failed. Then it must not wait for other ranks.
    ///
    /// ```
    /// # use dl_core::Result;
    /// # use std::time::Duration;
    /// use dl_dist::Engine;
    /// # struct Alone;
    /// # impl Engine for Alone {
    /// #   fn rank(&self) -> usize { 0 }
    /// #   fn size(&self) -> usize { 1 }
    /// #   fn send(&mut self, _: usize, _: Vec<u8>) -> Result<()> { Ok(()) }
    /// #   fn receive(&mut self, _: Duration) -> Result<Option<(usize, Vec<u8>)>> { Ok(None) }
    /// # }
    /// Alone.end(false); // there is no connection
    /// ```
    fn end(&mut self, failed: bool) {
        let _ = failed;
    }

    /// Ends the programs of all ranks, if the engine can do that. The reason is for their logs.
    ///
    /// ```
    /// # use dl_core::Result;
    /// # use std::time::Duration;
    /// use dl_dist::Engine;
    /// # struct Alone;
    /// # impl Engine for Alone {
    /// #   fn rank(&self) -> usize { 0 }
    /// #   fn size(&self) -> usize { 1 }
    /// #   fn send(&mut self, _: usize, _: Vec<u8>) -> Result<()> { Ok(()) }
    /// #   fn receive(&mut self, _: Duration) -> Result<Option<(usize, Vec<u8>)>> { Ok(None) }
    /// # }
    /// Alone.abort("rank 3 is silent"); // there is no other rank
    /// ```
    fn abort(&mut self, reason: &str) {
        let _ = reason;
    }

    /// The machine of this rank, for error messages.
    ///
    /// ```
    /// # use dl_core::Result;
    /// # use std::time::Duration;
    /// use dl_dist::Engine;
    /// # struct Alone;
    /// # impl Engine for Alone {
    /// #   fn rank(&self) -> usize { 0 }
    /// #   fn size(&self) -> usize { 1 }
    /// #   fn send(&mut self, _: usize, _: Vec<u8>) -> Result<()> { Ok(()) }
    /// #   fn receive(&mut self, _: Duration) -> Result<Option<(usize, Vec<u8>)>> { Ok(None) }
    /// # }
    /// assert_eq!(Alone.host(), "localhost");
    /// ```
    fn host(&self) -> String {
        "localhost".to_owned()
    }
}
