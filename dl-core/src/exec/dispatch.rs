//! Where a kernel runs: inline, on the thread that drives the pass, or on any worker. All
//! thresholds of the executor are here; those of waiting are in `dl_parallel::thresholds`.
//!
//! # The rule
//!
//! 1. *Inline*: a built-in operation with ready operands and an estimated cost below
//!    [`inline_limit`], runs on the thread that has found it ready, with the state lock held.
//! 2. *Local*: where a backward follows, a built-in operation for which
//!    [`prefers_driver`] holds is queued for the thread that drives the pass. No other thread is
//!    invited for it.
//! 3. *Shared*: everything else is queued for all workers. Others are invited when [`INVITE_NS`] of
//!    work is queued, of which [`SPARE_NS`] remain for them.
//!
//! The rule decides where a kernel runs, never its value. Estimates are in nanoseconds on one core
//! of about 3 GHz. Each constant names the benchmark that fixed it: a row of `benches/figures`
//! (`w1` to `w8`), or a part of `benches/executor`.

use crate::graph::op::AnyPrimitive;
use dl_parallel::thresholds::THREAD_NS;

/// A built-in operation that costs less runs inline though another thread could run it: its
/// operands are tensors in the caches of this core, and to fetch the 24 KB of a product
/// `[16, 64] × [64, 64]` takes longer than to multiply. (`executor`: such products on two threads.)
pub(super) const INLINE_NS: f64 = 1_600.0;
/// The same if no other thread could run it: so long a thread that wants the lock may wait.
/// (`w8` on two threads.)
const INLINE_ALONE_NS: f64 = 20_000.0;
/// The same in a pool of one thread, where only threads outside of the pool can want the lock.
/// (`w8` on one thread.)
const INLINE_ONE_THREAD_NS: f64 = 50_000.0;
/// In bytes: larger values are dropped without the lock, as `munmap` may take a while. (`w3`.)
pub(super) const LARGE_VALUE_BYTES: usize = 1 << 20;

/// Queued work that is worth inviting another thread.
pub(super) const INVITE_NS: f64 = THREAD_NS;
/// So much of it must be left for the invited thread when this one has taken a job. A little less
/// than [`UNKNOWN_NS`], as sums are rounded.
pub(super) const SPARE_NS: f64 = 0.98 * UNKNOWN_NS;
/// The cost of a job of which nothing is known: two of them are worth inviting a thread.
/// (`executor`: parallel.)
pub(super) const UNKNOWN_NS: f64 = 5_000.0;
/// No estimate counts for more: a second. It keeps sums of estimates meaningful.
const MAX_COST_NS: f64 = 1e9;
/// In jobs: the longest job is looked for among the first so many. (`executor`: parallel.)
pub(super) const EXAMINED_JOBS: usize = 8;
/// To take an operand from the node table, or to release it. (`w1` on two threads.)
const BOOKKEEPING_NS: f64 = 100.0;

/// In polls: after so many polls of bodies that had waited before, a driver has its own future
/// polled, and others that are polled with it. Bodies may wake one another again and again, and
/// wait for what only these do. (`tests/executor/wake_ups.rs`.)
pub(super) const TURNS: usize = 16;
/// In polls: the cost of a body that was cheap is measured again after so many, as to read the
/// clock takes a good part of that cost. (`executor`: bangs.)
pub(super) const REMEASURE_POLLS: u8 = 16;
/// In nodes: while another thread waits for the lock, a traversal runs no more kernels than this
/// inline. (`w8` on two threads.)
pub(super) const INLINE_WHILE_AWAITED: usize = 16;

/// A backward of a compiled call with a lower estimated cost runs on the thread that walks back, with
/// the state lock held, as its operations would one by one. A longer one is emitted as layers, which
/// several threads can evaluate. (w7, compiled)
pub(crate) const INLINE_BACKWARD_NS: f64 = 50_000.0;

/// A built-in operation runs inline if it costs less. `alone` says that no other thread could run
/// it.
pub(crate) fn inline_limit(alone: bool, threads: usize) -> f64 {
    match (alone, threads) {
        (false, _) => INLINE_NS,
        (true, 1) => INLINE_ONE_THREAD_NS,
        (true, _) => INLINE_ALONE_NS,
    }
}

/// Whether an operation of this cost is best run by the thread that is going to walk back over it,
/// where no other core has it in its caches.
pub(super) fn prefers_driver(op: &dyn AnyPrimitive, cost: f64) -> bool {
    // any thread that takes it from the queue takes each operand, and releases it
    let bookkeeping = 2.0 * BOOKKEEPING_NS * op.operands().len() as f64;
    op.is_pure() && cost < INLINE_NS + bookkeeping
}

/// An estimate, made sane: user code may return anything.
pub(super) fn sane_cost(cost: f64) -> f64 {
    if cost >= 0.0 { cost.min(MAX_COST_NS) } else { UNKNOWN_NS }
}
