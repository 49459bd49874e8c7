//! The batches of one epoch, loaded when they are asked for or ahead of that.
//!
//! Each batch is a [`Do`]: a recipe that threads of the loader, or the consumer itself, run. What
//! is ready lies in a shelf that knows the order; a consumer that comes too early leaves its waker
//! there.

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

/// The batches of an epoch: what [`Loader::epoch`](crate::Loader::epoch) returns.
///
/// An iterator; [`next_batch`](Batches::next_batch) is the same for `async` code. What cannot be
/// read is an error at its place in the order, after which one may go on with the next batch.
/// Dropping it stops the threads that load ahead, after the sample at which each one is.
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
    shelf: Arc<Shelf<D>>,
}

/// What there is to load.
pub(crate) struct Job<D> {
    pub(crate) data: Arc<D>,
    pub(crate) order: Order,
    pub(crate) draw: Draw,
}

struct Shelf<D: Dataset>
where
    D::Item: Collate,
{
    job: Job<D>,
    state: Mutex<State<BatchOf<D>>>,
    /// Something was taken, or the shelf was closed.
    room: Condvar,
    /// How many batches may be begun before they are taken; 0 if nobody loads but the consumer.
    ahead: usize,
}

struct State<B> {
    /// The batch that nobody has begun.
    next: usize,
    /// The batch that the consumer takes next. All before it are gone.
    taken: usize,
    /// Batches that are loaded and not taken.
    ready: BTreeMap<usize, Result<B>>,
    wakers: Vec<Waker>,
    closed: bool,
}

impl<D: Dataset + 'static> Batches<D>
where
    D::Item: Collate,
{
    pub(crate) fn start(job: Job<D>, first: usize, ahead: usize, threads: usize) -> Result<Self> {
        let state = State { next: first, taken: first, ready: BTreeMap::new(), wakers: Vec::new(), closed: false };
        let rest = job.order.len() - first;
        let batches = Batches { shelf: Arc::new(Shelf { job, state: Mutex::new(state), room: Condvar::new(), ahead }) };
        for number in 0..threads.min(rest) {
            let shelf = batches.shelf.clone();
            let thread = thread::Builder::new().name(format!("dl-data-{number}"));
            thread
                .spawn(move || shelf.load_ahead())
                .map_err(|error| Error::other(error).context("a thread to load with cannot be started"))?;
        }
        Ok(batches)
    }

    /// A computation that ends with the next batch, or with `None` after the last one. Each run of
    /// it takes another batch; a run that is dropped takes none.
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
        let shelf = self.shelf.clone();
        Do::from_fn(move || {
            let shelf = shelf.clone();
            async move {
                if shelf.ahead > 0 {
                    return std::future::poll_fn(|cx| shelf.poll_take(cx)).await.transpose();
                }
                let Some(number) = shelf.take_to_load()? else { return Ok(None) };
                shelf.load(number).map(Some)
            }
        })
    }

    /// The batch that comes next.
    ///
    /// ```
    /// let mut batches = dl_data::Loader::new(dl_data::InMemory(vec![0.5_f32; 3]), 2).epoch(0)?;
    /// batches.next();
    /// assert_eq!((batches.position().epoch, batches.position().batch), (0, 1));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn position(&self) -> Position {
        Position { epoch: self.shelf.job.draw.epoch, batch: self.shelf.lock().taken }
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
        let rest = self.shelf.job.order.len() - self.shelf.lock().taken;
        (rest, Some(rest))
    }
}

impl<D: Dataset + 'static> ExactSizeIterator for Batches<D> where D::Item: Collate {}

impl<D: Dataset> Drop for Batches<D>
where
    D::Item: Collate,
{
    fn drop(&mut self) {
        let mut state = self.shelf.lock();
        state.closed = true;
        let (ready, wakers) = (std::mem::take(&mut state.ready), std::mem::take(&mut state.wakers));
        drop(state);
        drop(ready);
        self.shelf.room.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<D: Dataset> fmt::Debug for Batches<D>
where
    D::Item: Collate,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shelf.lock();
        f.debug_struct("Batches").field("next", &state.taken).field("of", &self.shelf.job.order.len()).finish()
    }
}

fn dropped() -> Error {
    Error::invalid("the batches of this epoch were dropped, so nobody loads them any more")
}

impl<D: Dataset> Shelf<D>
where
    D::Item: Collate,
{
    fn lock(&self) -> MutexGuard<'_, State<BatchOf<D>>> {
        // no code of the user's runs under this lock
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The batch that the consumer is to load itself.
    fn take_to_load(&self) -> Result<Option<usize>> {
        let mut state = self.lock();
        if state.closed {
            return Err(dropped());
        }
        let number = state.taken;
        if number == self.job.order.len() {
            return Ok(None);
        }
        state.taken += 1;
        Ok(Some(number))
    }

    fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<Result<BatchOf<D>>>> {
        let mut state = self.lock();
        if state.closed {
            return Poll::Ready(Some(Err(dropped())));
        }
        let number = state.taken;
        if number == self.job.order.len() {
            return Poll::Ready(None);
        }
        let Some(batch) = state.ready.remove(&number) else {
            if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.wakers.push(cx.waker().clone());
            }
            return Poll::Pending;
        };
        state.taken += 1;
        drop(state);
        self.room.notify_all();
        Poll::Ready(Some(batch))
    }

    /// The batch that a thread is to load, once there is room for it.
    fn begin(&self) -> Option<usize> {
        let mut state = self.lock();
        while !state.closed && state.next < self.job.order.len() && state.next - state.taken >= self.ahead {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed || state.next == self.job.order.len() {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    fn put(&self, number: usize, batch: Result<BatchOf<D>>) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.ready.insert(number, batch);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The samples of a batch, put together.
    fn batch(&self, number: usize) -> Result<BatchOf<D>> {
        let Job { data, order, draw } = &self.job;
        let mut samples = Vec::with_capacity(order.batch(number).len());
        for &index in order.batch(number) {
            if self.lock().closed {
                return Err(dropped());
            }
            samples.push(data.drawn(index, *draw).map_err(|error| error.context(format_args!("sample {index}")))?);
        }
        Collate::collate(samples)
    }
}

impl<D: Dataset + 'static> Shelf<D>
where
    D::Item: Collate,
{
    /// The recipe of a batch. A panic in code of the user's is an error of its run.
    fn recipe(self: &Arc<Self>, number: usize) -> Do<BatchOf<D>> {
        let shelf = self.clone();
        Do::from_fn(move || {
            let shelf = shelf.clone();
            async move { shelf.batch(number) }
        })
    }

    /// Loads a batch on this thread. An error says where it happened.
    fn load(self: &Arc<Self>, number: usize) -> Result<BatchOf<D>> {
        let epoch = self.job.draw.epoch;
        self.recipe(number).wait().map_err(|error| error.context(format_args!("epoch {epoch}, batch {number}")))
    }

    /// What a thread of the loader does.
    fn load_ahead(self: Arc<Self>) {
        while let Some(number) = self.begin() {
            self.put(number, self.load(number));
        }
    }
}
