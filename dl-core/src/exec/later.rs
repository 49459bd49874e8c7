//! Values that a device computes and the host reads: a node is pending until its read is served,
//! and no worker waits for it.
//!
//! A kernel [queues](later) its read and returns. Reads are served when a thread of the pass finds
//! no job, as nothing more can then be queued on the device. All of them go together to the
//! *reader*, a thread that waits for devices. When it has the values, it queues a job that
//! completes their nodes.
//!
//! Invariant: a pass has one batch of reads in flight. The next one must not begin before the nodes
//! are completed and their wakers have been called. Bodies that wait for the batch thus run first,
//! and their next reads share a batch.

use crate::error::{Error, Result};
use crate::exec::lifetime::Ticket;
use crate::exec::ready_queue::Work;
use crate::exec::state::PassState;
use crate::exec::{Pass, user_code};
use crate::graph::data::Data;
use crate::graph::value::Value;
use dl_parallel::sync::MutexGuard;
use std::cell::Cell;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Waits for a value.
type Read = Box<dyn FnOnce() -> Result<Value> + Send>;

/// What the kernel that this thread runs does with a read.
enum Kernel {
    /// It waits.
    Waits,
    /// It may return before the value is there.
    MayReturn,
    Returned(Read),
}

thread_local! {
    static KERNEL: Cell<Kernel> = const { Cell::new(Kernel::Waits) };
}

/// The value that `read` waits for, as the value of the operation whose kernel calls this, which
/// must [return the result as it is](crate::BuiltIn::CAN_BE_LATER): a queued job of a pass gets an
/// error in place of the value, and its node is pending until another thread has called `read`.
///
/// # Errors
/// Those of `read`.
pub fn later<T: Data>(read: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match KERNEL.replace(Kernel::Waits) {
        Kernel::MayReturn => {
            KERNEL.set(Kernel::Returned(Box::new(|| read().map(T::into_value))));
            Err(Error::cancelled())
        }
        other => {
            KERNEL.set(other);
            read()
        }
    }
}

/// The result of a kernel.
pub(super) enum Outcome {
    Value(Result<Value>),
    Read(Read),
}

/// Runs a kernel, which may return before its value is there or waits for it.
pub(super) fn run(may_return: bool, kernel: impl FnOnce() -> Result<Value>) -> Outcome {
    let around = KERNEL.replace(if may_return { Kernel::MayReturn } else { Kernel::Waits });
    let result = kernel();
    match (KERNEL.replace(around), result) {
        (Kernel::Returned(read), Err(_)) => Outcome::Read(read),
        (_, result) => Outcome::Value(result),
    }
}

/// The reads of a pass.
#[derive(Default)]
pub(super) struct Reads {
    queued: Vec<(u32, Read)>,
    /// Whether a batch is at the reader, or is being completed.
    in_flight: bool,
}

impl Reads {
    pub(super) fn push(&mut self, index: u32, read: Read) {
        self.queued.push((index, read));
    }

    /// Whether none is queued or in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty() && !self.in_flight
    }
}

impl Pass {
    /// Hands the queued reads to the reader, unless it has a batch of this pass.
    pub(super) fn serve_reads(self: &Arc<Self>, state: &mut PassState) {
        let reads = &mut state.tasks.reads;
        if !reads.in_flight && !reads.queued.is_empty() {
            reads.in_flight = true;
            let (batch, pass) = (std::mem::take(&mut reads.queued), Ticket::of(self));
            on_reader(Box::new(move || {
                let served = batch.into_iter().map(|(index, read)| (index, user_code::run_fallible(read))).collect();
                if let Some(pass) = pass.upgrade() {
                    pass.queue_served(served);
                }
            }));
        }
    }

    /// Queues the completion of the nodes of a batch. Called by the reader, which must not run code
    /// of the user, such as a destructor.
    fn queue_served(self: &Arc<Self>, served: Served) {
        let mut state = self.state();
        if state.workers.retired {
            return;
        }
        let nanoseconds = COMPLETION_NS * served.len() as f64;
        state.ready.push(Work::Served(served), nanoseconds);
        if !state.drivers.any_works() {
            return self.offer(state);
        }
        // a driver invites helpers of its own pool, to which the reader does not belong
        while let Some(driver) = state.drivers.take_idle() {
            state.deferred.wake(driver);
        }
        self.notify_events();
        self.release(state);
    }

    /// Completes the nodes of a batch, and calls the wakers of the bodies that wait for them.
    pub(super) fn complete_reads<'a>(
        self: &'a Arc<Self>,
        served: Served,
        mut state: MutexGuard<'a, PassState>,
    ) -> MutexGuard<'a, PassState> {
        for (index, value) in served {
            let node = state.node(index);
            let value = value.map_err(|error| error.at(node.name(), node.site()));
            state.complete(index, value);
        }
        self.release(state);
        let mut state = self.state();
        state.tasks.reads.in_flight = false;
        state
    }
}

/// The values of a batch, by the slots of their nodes.
pub(super) type Served = Vec<(u32, Result<Value>)>;

/// The estimated time to complete a node.
const COMPLETION_NS: f64 = 200.0;

type Job = Box<dyn FnOnce() + Send>;

/// Runs a job on the reader, which begins with the first job and never ends.
fn on_reader(job: Job) {
    static READER: OnceLock<Sender<Job>> = OnceLock::new();
    let start = || {
        let (sender, jobs) = channel::<Job>();
        let run = move || jobs.into_iter().for_each(user_code::ignore_panic);
        thread::Builder::new().name("dl-reader".to_owned()).spawn(run).expect("there is room for a thread");
        sender
    };
    READER.get_or_init(start).send(job).expect("the reader never ends");
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::later;
    use crate::exec::inline::tests::on_threads;
    use crate::{At, BuiltIn, Deltas, Differentiable, Do, Error, Layer, Primitive, Result};
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::sync::mpsc::{Receiver, channel};
    use std::sync::{Arc, Mutex};
    use std::task::Poll;
    use std::time::Duration;

    /// Adds a number that is sent to it.
    #[derive(Clone)]
    struct Receives {
        from: Arc<Mutex<Receiver<f64>>>,
        begun: Arc<AtomicBool>,
    }

    impl Primitive for Receives {
        type Operands = (Layer<f64>,);
        type Output = f64;

        fn name(&self) -> &'static str {
            "receives"
        }

        fn value(&self, (&x,): (&f64,)) -> Result<f64> {
            let from = self.from.clone();
            self.begun.store(true, Relaxed);
            later(move || {
                let sent = from.lock().expect("nobody panics").recv_timeout(Duration::from_secs(10));
                sent.map(|sent| x + sent).map_err(|_| Error::invalid("nothing was sent"))
            })
        }

        fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
            (Some(at.delta.clone()),)
        }

        fn cost(&self, _: (&f64,)) -> f64 {
            1e6
        }
    }

    impl BuiltIn for Receives {
        const IS_PURE: bool = true;
        const CAN_BE_LATER: bool = true;
    }

    #[test]
    fn body_goes_on_while_a_read_of_the_only_thread_is_pending() {
        let (sender, receiver) = channel();
        let begun = Arc::<AtomicBool>::default();
        let receives = Receives { from: Arc::new(Mutex::new(receiver)), begun: begun.clone() };
        let received = Layer::apply_built_in(receives, (Layer::constant(1.0),));
        // sends when the read has begun
        let sends = Layer::dynamic(move || {
            let (sender, begun) = (sender.clone(), begun.clone());
            async move {
                let wait = |cx: &mut std::task::Context<'_>| {
                    cx.waker().wake_by_ref();
                    if begun.load(Relaxed) { Poll::Ready(()) } else { Poll::Pending }
                };
                poll_fn(wait).await;
                sender.send(2.5).map_err(|_| Error::invalid("nothing is received"))?;
                Ok(Layer::constant(0.0))
            }
        });
        let values = on_threads(1, || Do::predict(vec![received.clone() * 2.0, sends]).wait());
        assert_eq!(values.expect("it succeeds"), [7.0, 0.0]);
    }

    #[test]
    fn failed_read_is_an_error_at_its_operation() {
        let (sender, receiver) = channel();
        drop(sender);
        let receives = Receives { from: Arc::new(Mutex::new(receiver)), begun: Arc::default() };
        let line = line!() + 1;
        let received = Layer::apply_built_in(receives, (Layer::constant(1.0),));
        let error = on_threads(1, || (received * 2.0).predict().wait()).expect_err("nothing was sent");
        assert!(error.to_string().contains("nothing was sent"), "{error}");
        assert_eq!((error.op(), error.place().map(|place| place.line())), (Some("receives"), Some(line)));
    }

    /// Counts how many numbers a wait serves: the reads that are queued then.
    #[derive(Clone, Default)]
    struct Queue(Arc<Mutex<(usize, Vec<usize>)>>);

    #[derive(Clone)]
    struct Asks(Queue);

    impl Primitive for Asks {
        type Operands = (Layer<f64>,);
        type Output = f64;

        fn name(&self) -> &'static str {
            "asks"
        }

        fn value(&self, (&x,): (&f64,)) -> Result<f64> {
            let queue = self.0.clone();
            queue.0.lock().expect("nobody panics").0 += 1;
            later(move || {
                let (queued, batches) = &mut *queue.0.lock().expect("nobody panics");
                if *queued > 0 {
                    batches.push(std::mem::take(queued));
                }
                Ok(x + 1.0)
            })
        }

        fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
            (Some(at.delta.clone()),)
        }

        fn cost(&self, _: (&f64,)) -> f64 {
            1e6
        }
    }

    impl BuiltIn for Asks {
        const IS_PURE: bool = true;
        const CAN_BE_LATER: bool = true;
    }

    #[test]
    fn reads_of_many_bodies_form_one_batch_each_round() {
        for _ in 0..20 {
            let queue = Queue::default();
            let ran = Arc::<AtomicUsize>::default();
            let body = |_| {
                let (queue, ran) = (queue.clone(), ran.clone());
                Layer::dynamic(move || {
                    let (queue, ran) = (queue.clone(), ran.clone());
                    async move {
                        let mut x = 0.0;
                        for _ in 0..8 {
                            x = Layer::apply_built_in(Asks(queue.clone()), (Layer::constant(x),)).extract().await?;
                            ran.fetch_add(1, Relaxed);
                        }
                        Ok(Layer::constant(x))
                    }
                })
            };
            let bodies: Vec<Layer<f64>> = (0..64).map(body).collect();
            let values = on_threads(1, || Do::predict(bodies).wait()).expect("it succeeds");
            assert!(values.iter().all(|&x| x == 8.0) && ran.load(Relaxed) == 512);
            assert_eq!(queue.0.lock().expect("nobody panics").1, [64; 8]);
        }
    }
}
