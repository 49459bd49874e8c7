//! Inputs that wait together are computed together.

use dl_core::{Do, Error, Result};
use futures::channel::oneshot;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The settings of a [`Batcher`].
///
/// ```
/// use dl_train::Batching;
/// let at_most_8 = Batching { size: 8, ..Batching::default() };
/// assert_eq!((at_most_8.size, at_most_8.queue), (8, 1024));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// The largest number of inputs of a batch.
    pub size: usize,
    /// How long an input waits until its batch begins, if the batch is not full before and no other
    /// one is being computed. With 0 a batch has the inputs that came during the batch before.
    pub wait: Duration,
    /// The largest number of inputs that wait. Those of the batch that is being computed do not
    /// count.
    pub queue: usize,
}

/// Batches of at most 32 inputs after at most 0.5 ms, from a queue of 1,024.
impl Default for Batching {
    fn default() -> Self {
        Batching { size: 32, wait: Duration::from_micros(500), queue: 1024 }
    }
}

/// The queue of a [`Batcher`] has too little space, so that no input was accepted.
///
/// ```
/// assert_eq!(dl_train::QueueFull { queue: 8 }.to_string(), "the queue is full: it holds 8 inputs");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull {
    /// The largest number of inputs that wait.
    pub queue: usize,
}

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the queue is full: it holds {} inputs", self.queue)
    }
}

impl std::error::Error for QueueFull {}

/// A bounded queue of inputs, which a thread computes in batches: the inputs of requests that wait
/// at the same time become one batch (*dynamic batching*).
///
/// ```
/// use dl_core::{Differentiable, Do};
/// use dl_nd::{Nd, init};
/// use dl_nn::Linear;
/// use dl_train::{Batcher, Batching};
///
/// let net = Linear::<f32>::new(3, 2, &mut init::rng(1))?;
/// let batcher = Batcher::new(Batching::default(), move |inputs: &[[f32; 3]]| {
///     let x = Nd::from_vec([inputs.len(), 3], inputs.concat());
///     let y = x.map(|x| net.of(x).predict());
///     y.map_or_else(Do::fail, |y| y.map(|y| y.view().rows().into_iter().map(|row| row.to_vec()).collect()))
/// })?;
///
/// let one = batcher.submit([1.0, 0.0, 0.0]).expect("space in the queue");
/// let two = batcher.submit([0.0, 1.0, 0.0]).expect("space in the queue"); // the same batch
/// assert_eq!((one.wait()?.len(), two.wait()?.len()), (2, 2));
/// # dl_core::Result::Ok(())
/// ```
///
/// Batches are computed one after the other, their inputs in the order of submission; the passes of
/// a batch run on all threads. If a batch fails, each of its inputs is computed alone, so that an
/// error or a panic is the output of the inputs that cause it. An input whose output has been
/// dropped before its batch begins is not computed.
///
/// When the batcher is dropped, the thread computes all inputs that it has accepted, and ends.
///
/// An output is the same in every batch if `compute` is such a function. Matrix products give a row
/// the same bits in every batch of at least two rows.
pub struct Batcher<I, O>(Arc<Shared<I, O>>);

struct Shared<I, O> {
    batching: Batching,
    queue: Mutex<Queue<I, O>>,
    /// Notified when the first input comes, when a batch is full, and at the end.
    changed: Condvar,
}

struct Queue<I, O> {
    waiting: VecDeque<Waiting<I, O>>,
    is_closed: bool,
}

struct Waiting<I, O> {
    input: I,
    since: Instant,
    output: oneshot::Sender<Result<O>>,
}

impl<I: Send + Sync + 'static, O: Send + 'static> Batcher<I, O> {
    /// Starts a thread that computes batches: `compute` returns an output for each input, in the
    /// same order.
    ///
    /// # Errors
    /// If a batch or the queue could hold no input, or if the thread cannot be started.
    pub fn new(batching: Batching, compute: impl Fn(&[I]) -> Do<Vec<O>> + Send + Sync + 'static) -> Result<Self> {
        if batching.size == 0 || batching.queue == 0 {
            return Err(Error::invalid(format!("Batcher: {batching:?} has no space for an input")));
        }
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), is_closed: false });
        let batcher = Batcher(Arc::new(Shared { batching, queue, changed: Condvar::new() }));
        let (shared, compute) = (batcher.0.clone(), Arc::new(compute));
        let thread = thread::Builder::new().name("dl-batcher".to_owned());
        thread
            .spawn(move || {
                while let Some(batch) = shared.next_batch() {
                    run(batch, &compute)
                }
            })
            .map_err(Error::other)?;
        Ok(batcher)
    }

    /// Adds an input to the queue. Its output can be awaited once.
    ///
    /// # Errors
    /// If the queue is full. The output fails with the error of `compute` for this input.
    pub fn submit(&self, input: I) -> std::result::Result<Do<O>, QueueFull> {
        self.submit_all([input]).map(|mut outputs| outputs.swap_remove(0))
    }

    /// Adds all of these inputs to the queue, or none of them.
    ///
    /// ```
    /// use dl_core::Do;
    /// use dl_train::{Batcher, Batching};
    /// let batching = Batching { queue: 3, ..Batching::default() };
    /// let squares = Batcher::new(batching, |inputs: &[i32]| Do::now(inputs.iter().map(|x| x * x).collect()))?;
    /// let outputs = squares.submit_all([1, 2, 3]).expect("space in the queue");
    /// assert_eq!(Do::join(outputs).wait()?, [1, 4, 9]);
    /// assert!(squares.submit_all([1, 2, 3, 4]).is_err());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If the queue has not enough space.
    pub fn submit_all(&self, inputs: impl IntoIterator<Item = I>) -> std::result::Result<Vec<Do<O>>, QueueFull> {
        let (since, Batching { size, queue: most, .. }) = (Instant::now(), self.0.batching);
        let (new, outputs): (Vec<_>, Vec<_>) = inputs
            .into_iter()
            .map(|input| {
                let (output, receiver) = oneshot::channel();
                let received =
                    async { receiver.await.unwrap_or_else(|_| Err(Error::invalid("the batcher has ended"))) };
                (Waiting { input, since, output }, Do::from_future(received))
            })
            .unzip();
        let mut queue = self.0.lock();
        let before = queue.waiting.len();
        if new.len() > most - before {
            return Err(QueueFull { queue: most });
        }
        queue.waiting.extend(new);
        if before == 0 || before < size && queue.waiting.len() >= size {
            self.0.changed.notify_one();
        }
        Ok(outputs)
    }

    /// The number of inputs that wait.
    ///
    /// ```
    /// use dl_core::Do;
    /// use dl_train::{Batcher, Batching};
    /// let batcher = Batcher::new(Batching::default(), |inputs: &[f32]| Do::now(inputs.to_vec()))?;
    /// assert_eq!(batcher.waiting(), 0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }
}

impl<I, O> Shared<I, O> {
    fn lock(&self) -> MutexGuard<'_, Queue<I, O>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a batch; `None` at the end.
    fn next_batch(&self) -> Option<Vec<Waiting<I, O>>> {
        let Batching { size, wait, .. } = self.batching;
        let mut queue = self.lock();
        loop {
            queue.waiting.retain(|waiting| !waiting.output.is_canceled());
            queue = match queue.waiting.front() {
                None if queue.is_closed => return None,
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(first) => {
                    let left = wait.saturating_sub(first.since.elapsed());
                    let count = queue.waiting.len().min(size);
                    if queue.is_closed || left.is_zero() || count == size {
                        return Some(queue.waiting.drain(..count).collect());
                    }
                    self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0
                }
            }
        }
    }
}

fn run<I, O, F>(batch: Vec<Waiting<I, O>>, compute: &Arc<F>)
where
    I: Send + Sync + 'static,
    O: Send + 'static,
    F: Fn(&[I]) -> Do<Vec<O>> + Send + Sync + 'static,
{
    let (inputs, senders): (Vec<_>, Vec<_>) = batch.into_iter().map(|waiting| (waiting.input, waiting.output)).unzip();
    let inputs = Arc::new(inputs);
    // inside of a `Do`, so that a panic of `compute` is an error
    let outputs = |range: Range<usize>| {
        let (inputs, compute) = (inputs.clone(), compute.clone());
        let outputs = async move {
            let outputs = compute(&inputs[range.clone()]).await?;
            match outputs.len() == range.len() {
                true => Ok(outputs),
                false => Err(Error::invalid(format!("{} outputs for a batch of {}", outputs.len(), range.len()))),
            }
        };
        Do::from_future(outputs).wait()
    };
    match outputs(0..inputs.len()) {
        // the receiver may have been dropped
        Ok(outputs) => senders.into_iter().zip(outputs).for_each(|(sender, output)| drop(sender.send(Ok(output)))),
        Err(error) if senders.len() == 1 => {
            senders.into_iter().for_each(|sender| drop(sender.send(Err(error.clone()))))
        }
        Err(_) => {
            for (number, sender) in senders.into_iter().enumerate() {
                let output = outputs(number..number + 1).map(|mut outputs| outputs.swap_remove(0));
                drop(sender.send(output));
            }
        }
    }
}

impl<I, O> Drop for Batcher<I, O> {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_one();
    }
}

impl<I, O> fmt::Debug for Batcher<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.0.lock().waiting.len();
        f.debug_struct("Batcher").field("batching", &self.0.batching).field("waiting", &waiting).finish()
    }
}
