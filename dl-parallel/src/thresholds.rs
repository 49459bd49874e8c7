//! All thresholds of this crate. Those of the executor are in `dl-core/src/exec/dispatch.rs`.
//!
//! Each constant names its unit, its reason and the benchmark that fixed it: a row of
//! `benches/figures` (`w1` to `w8`), or a part of `benches/executor`. None changes a value.

use crate::sync::spins;
use std::time::Duration;

/// The least work for a thread, in nanoseconds: to wake one takes 5 to 50 µs. (`executor`:
/// parallel.)
pub const THREAD_NS: f64 = 10_000.0;
/// Waiting offers for each thread of the pool: all its workers may wait in passes, and take none.
pub const JOBS_PER_THREAD: usize = 4;

/// Polls between two yields of the processor: about a microsecond. There may be more threads than
/// processors. (`w1` on two threads.)
pub const SPINS: usize = spins(50);
/// Polls for a lock that is never held for long, before the thread parks: a few microseconds.
/// (`w1` on two threads.)
pub const LOCK_SPINS: usize = spins(100);
/// Polls for an event: about as long as it takes to wake a thread. (`w1` on two threads.)
pub const EVENT_SPINS: usize = spins(300);
/// Rounds of polls between two reads of the clock by an idle worker.
pub const ROUNDS: usize = spins(4);
/// An idle thread polls for so long before it parks or returns to the pool: a little longer than
/// the sequential parts of a small training step. (`w1` with two columns, on two threads.)
pub const IDLE_TIMEOUT: Duration = Duration::from_micros(100);
/// The longest idle timeout, for offers that come at longer intervals: other jobs of the pool wait
/// meanwhile. (`w1` without skipping, on two threads.)
pub const MAX_IDLE_TIMEOUT: Duration = Duration::from_millis(1);

/// In bytes: buffers up to this size are cached by threads. (`w8`.)
pub const SMALL_BUFFER_BYTES: usize = 1 << 14;
/// In bytes: the small buffers that a thread caches for each element type. (`w8`.)
pub const CACHED_BYTES: usize = 1 << 19;
/// In bytes: the large buffers that are kept for all threads. (`w3`.)
pub const POOLED_BYTES: usize = 1 << 28;
/// The cells that a thread keeps: 1 MB. A model checker inspects freed memory. (`w2`.)
pub const CACHED_CELLS: usize = if cfg!(any(shuttle, loom)) { 0 } else { 1 << 14 };
/// In bytes: the unused slabs that are kept, the nodes of a graph of two million. (`w2`.)
pub const SLAB_BYTES: usize = 128 << 20;
