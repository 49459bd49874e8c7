//! The batches of one epoch, loaded on demand or prefetched by loader threads.
//!
//! Loader threads and the consumer share one [`BatchQueue`]. A loader thread claims the next batch
//! in order, loads it without the lock and inserts the result. The consumer takes batches in order;
//! if the next one is not ready, the consumer registers a waker. At most `prefetch` batches are
//! claimed and not yet taken. Loading runs as a [`Do`], so a panic in user code becomes an error of
//! that batch.

use crate::collate::Collate;
use crate::dataset::Dataset;
use crate::draw::Draw;
use crate::loader::Position;
use crate::order::Order;
use dl_core::{Do, Error, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

type BatchOf<D> = <<D as Dataset>::Item as Collate>::Batch;

/// The batches of an epoch, returned by [`Loader::epoch`](crate::Loader::epoch).
///
/// It is an iterator; `async` code uses [`next_batch`](Batches::next_batch). A batch that cannot be
/// read is returned as an error at its place in the order; the iteration can continue with the next
/// batch. Dropping the iterator stops the prefetch threads after the sample that each is reading.
///
/// ```
/// use dl_data::{InMemory, Loader};
/// let mut batches = Loader::new(InMemory((0..5_usize).collect::<Vec<_>>()), 2).prefetch(2).epoch(0)?;
/// let first = batches.next_batch().wait()?.expect("there are three");
/// assert_eq!(first, dl_nd::Nd::from([0_usize, 1]));
/// assert_eq!(batches.count(), 2);
/// # dl_core::Result::Ok(())
/// ```
pub struct Batches<D: Dataset>
where
    D::Item: Collate,
{
    queue: Arc<BatchQueue<D>>,
}

/// The batches to load in one epoch.
pub(crate) struct EpochPlan<D> {
    pub(crate) data: Arc<D>,
    pub(crate) order: Order,
    pub(crate) draw: Draw,
}

struct BatchQueue<D: Dataset>
where
    D::Item: Collate,
{
    plan: EpochPlan<D>,
    state: Mutex<State<BatchOf<D>>>,
    /// Signalled when a batch was taken or the queue was closed. Loader threads wait on it.
    space: Condvar,
    /// The limit on batches that are claimed and not yet taken; 0 if only the consumer loads.
    prefetch: usize,
}

struct State<B> {
    /// The next batch for a loader thread to claim.
    next_to_claim: usize,
    /// The next batch for the consumer. All earlier ones were taken.
    next_to_take: usize,
    /// Batches that are loaded and not yet taken.
    ready: BTreeMap<usize, Result<B>>,
    wakers: Vec<Waker>,
    closed: bool,
}

impl<D: Dataset + 'static> Batches<D>
where
    D::Item: Collate,
{
    pub(crate) fn start(plan: EpochPlan<D>, first: usize, prefetch: usize, threads: usize) -> Result<Self> {
        let state = State {
            next_to_claim: first,
            next_to_take: first,
            ready: BTreeMap::new(),
            wakers: Vec::new(),
            closed: false,
        };
        let rest = plan.order.len() - first;
        let batches =
            Batches { queue: Arc::new(BatchQueue { plan, state: Mutex::new(state), space: Condvar::new(), prefetch }) };
        for number in 0..threads.min(rest) {
            let queue = batches.queue.clone();
            let thread = thread::Builder::new().name(format!("dl-data-{number}"));
            thread
                .spawn(move || queue.run_worker())
                .map_err(|error| Error::other(error).context("a loader thread cannot be started"))?;
        }
        Ok(batches)
    }

    /// A computation that returns the next batch, or `None` after the last one. Each run takes one
    /// batch; a run that is dropped before it completes takes none.
    ///
    /// ```
    /// use dl_data::{InMemory, Loader};
    /// # futures::executor::block_on(async {
    /// let batches = Loader::new(InMemory(vec![0.5_f32; 3]), 2).prefetch(1).epoch(0)?;
    /// let mut sizes = Vec::new();
    /// while let Some(batch) = batches.next_batch().await? {
    ///     sizes.push(batch.len());
    /// }
    /// assert_eq!(sizes, [2, 1]);
    /// # dl_core::Result::Ok(()) })?;
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn next_batch(&self) -> Do<Option<BatchOf<D>>> {
        let queue = self.queue.clone();
        Do::from_fn(move || {
            let queue = queue.clone();
            async move {
                if queue.prefetch > 0 {
                    return std::future::poll_fn(|cx| queue.poll_take(cx)).await.transpose();
                }
                let Some(number) = queue.claim_for_consumer()? else { return Ok(None) };
                queue.load(number).map(Some)
            }
        })
    }

    /// The position of the next batch.
    ///
    /// ```
    /// let mut batches = dl_data::Loader::new(dl_data::InMemory(vec![0.5_f32; 3]), 2).epoch(0)?;
    /// batches.next();
    /// assert_eq!((batches.position().epoch, batches.position().batch), (0, 1));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn position(&self) -> Position {
        Position { epoch: self.queue.plan.draw.epoch, batch: self.queue.lock().next_to_take }
    }
}

impl<D: Dataset + 'static> Iterator for Batches<D>
where
    D::Item: Collate,
{
    type Item = Result<BatchOf<D>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().wait().transpose()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let rest = self.queue.plan.order.len() - self.queue.lock().next_to_take;
        (rest, Some(rest))
    }
}

impl<D: Dataset + 'static> ExactSizeIterator for Batches<D> where D::Item: Collate {}

impl<D: Dataset> Drop for Batches<D>
where
    D::Item: Collate,
{
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.closed = true;
        let (ready, wakers) = (std::mem::take(&mut state.ready), std::mem::take(&mut state.wakers));
        drop(state);
        drop(ready);
        self.queue.space.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<D: Dataset> fmt::Debug for Batches<D>
where
    D::Item: Collate,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.queue.lock();
        f.debug_struct("Batches").field("next", &state.next_to_take).field("of", &self.queue.plan.order.len()).finish()
    }
}

fn dropped_error() -> Error {
    Error::invalid("the batches of this epoch were dropped, so no more are loaded")
}

impl<D: Dataset> BatchQueue<D>
where
    D::Item: Collate,
{
    fn lock(&self) -> MutexGuard<'_, State<BatchOf<D>>> {
        // user code must not run under this lock
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the next batch for the consumer, which loads it on its own thread.
    fn claim_for_consumer(&self) -> Result<Option<usize>> {
        let mut state = self.lock();
        if state.closed {
            return Err(dropped_error());
        }
        let number = state.next_to_take;
        if number == self.plan.order.len() {
            return Ok(None);
        }
        state.next_to_take += 1;
        Ok(Some(number))
    }

    fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<Result<BatchOf<D>>>> {
        let mut state = self.lock();
        if state.closed {
            return Poll::Ready(Some(Err(dropped_error())));
        }
        let number = state.next_to_take;
        if number == self.plan.order.len() {
            return Poll::Ready(None);
        }
        let Some(batch) = state.ready.remove(&number) else {
            if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.wakers.push(cx.waker().clone());
            }
            return Poll::Pending;
        };
        state.next_to_take += 1;
        drop(state);
        self.space.notify_all();
        Poll::Ready(Some(batch))
    }

    /// Claims the next batch for a loader thread. Blocks while the prefetch limit is reached.
    /// Returns `None` if no batch is left or the queue was closed.
    fn claim_next(&self) -> Option<usize> {
        let mut state = self.lock();
        while !state.closed
            && state.next_to_claim < self.plan.order.len()
            && state.next_to_claim - state.next_to_take >= self.prefetch
        {
            state = self.space.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed || state.next_to_claim == self.plan.order.len() {
            return None;
        }
        state.next_to_claim += 1;
        Some(state.next_to_claim - 1)
    }

    fn insert(&self, number: usize, batch: Result<BatchOf<D>>) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.ready.insert(number, batch);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Reads the samples of a batch and collates them.
    fn read_batch(&self, number: usize) -> Result<BatchOf<D>> {
        let EpochPlan { data, order, draw } = &self.plan;
        let mut samples = Vec::with_capacity(order.batch(number).len());
        for &index in order.batch(number) {
            if self.lock().closed {
                return Err(dropped_error());
            }
            samples.push(data.drawn(index, *draw).map_err(|error| error.context(format_args!("sample {index}")))?);
        }
        Collate::collate(samples)
    }
}

impl<D: Dataset + 'static> BatchQueue<D>
where
    D::Item: Collate,
{
    /// The computation of a batch. A panic in user code becomes an error of its run.
    fn computation(self: &Arc<Self>, number: usize) -> Do<BatchOf<D>> {
        let queue = self.clone();
        Do::from_fn(move || {
            let queue = queue.clone();
            async move { queue.read_batch(number) }
        })
    }

    /// Loads a batch on the calling thread. Errors get the epoch and the batch as context.
    fn load(self: &Arc<Self>, number: usize) -> Result<BatchOf<D>> {
        let epoch = self.plan.draw.epoch;
        self.computation(number).wait().map_err(|error| error.context(format_args!("epoch {epoch}, batch {number}")))
    }

    /// The main loop of a loader thread.
    fn run_worker(self: Arc<Self>) {
        while let Some(number) = self.claim_next() {
            self.insert(number, self.load(number));
        }
    }
}
