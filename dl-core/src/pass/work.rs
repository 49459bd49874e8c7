//! Working through the queue of a pass: kernels, and the futures of dynamic nodes.

use super::books::{Books, Job, Kernel, Work};
use super::{Pass, may_work, within};
use crate::deferred::BoxFuture;
use crate::error::{Error, Result};
use crate::node::{Expression, Outcome};
use crate::value::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};

/// The future of a dynamic node.
pub(crate) struct Task {
    /// Absent while somebody polls it.
    future: Option<BoxFuture<Result<Outcome>>>,
    state: State,
    waker: Waker,
    /// Distinguishes the runs of one node: a pass that rests and goes on begins its futures anew.
    run: Arc<()>,
}

enum State {
    /// Waits to be woken.
    Parked,
    /// In the queue.
    Queued,
    /// Somebody polls it.
    Running,
    /// It was woken while somebody polled it.
    RunningAndWoken,
}

/// Waking another thread costs a few microseconds: less work than this is not worth it.
const WORTH_OFFERING_NANOSECONDS: f64 = 10_000.0;

/// How often a thread without work looks for news before it goes: about as long as it takes to wake one.
const LINGER_SPINS: usize = 300;

impl Pass {
    /// Called by a driver before it polls its future.
    pub(crate) fn drive(&self, driver: u32) {
        self.books().drivers.polled(driver, may_work());
    }

    /// Called by a driver when its own future cannot go on. Says whether that is worth another try now; if not, the driver's
    /// waker will be called.
    ///
    /// A driver that runs inside another pass first asks the workers of that pass to help, so that several such drivers, joined
    /// there, advance in parallel. It has itself woken, and does the work that is left then.
    pub(crate) fn advance(self: &Arc<Self>, driver: u32, asked: &mut bool, waker: &Waker) -> bool {
        let mut books = self.books();
        if !books.drivers.works(driver) {
            self.share(&mut books, false);
            self.release(books);
            return false;
        }
        if books.jobs() == 0 && books.tickets > 0 {
            let read = self.news.load(Ordering::Acquire);
            self.release(books);
            linger(&self.news, read);
            if self.news.load(Ordering::Acquire) != read {
                return true;
            }
            books = self.books();
        }
        if books.jobs() == 0 {
            *asked = false;
            books.drivers.idle(driver, waker);
            self.release(books);
            return false;
        }
        match super::current() {
            Some(around) if !*asked && rayon::current_num_threads() > 1 => {
                *asked = true;
                let nanoseconds = books.queued_nanoseconds();
                self.release(books);
                around.ask_for_help(self.clone(), nanoseconds);
                waker.wake_by_ref();
                false
            }
            _ => {
                *asked = false;
                let books = self.work(books);
                self.release(books);
                true
            }
        }
    }

    fn ask_for_help(&self, with: Arc<Pass>, nanoseconds: f64) {
        let mut books = self.books();
        books.queue_help(with, nanoseconds);
        self.share(&mut books, false);
        self.release(books);
    }

    /// Works until the queue is empty, or nobody drives the pass any more.
    fn work<'a>(self: &'a Arc<Self>, mut books: MutexGuard<'a, Books>) -> MutexGuard<'a, Books> {
        let mut batch = Vec::new();
        loop {
            self.share(&mut books, true);
            if books.drivers.nobody() {
                return books;
            }
            match books.next_job() {
                Some(Job { what: Work::Kernel(kernel), nanoseconds }) => {
                    batch.push(kernel);
                    books.more_kernels(nanoseconds, &mut batch);
                    self.release(books);
                    let ended: Vec<_> = batch.drain(..).map(|kernel| (kernel.index, run(kernel))).collect();
                    books = self.books();
                    for (index, result) in ended {
                        books.finish(index, result);
                    }
                }
                Some(Job { what: Work::Task(index), .. }) => books = self.poll_task(index, books),
                Some(Job { what: Work::Help(pass), .. }) => {
                    self.release(books);
                    let theirs = pass.work(pass.books());
                    pass.release(theirs);
                    drop(pass);
                    books = self.books();
                }
                None => return books,
            }
        }
    }

    fn poll_task<'a>(self: &'a Arc<Self>, index: u32, mut books: MutexGuard<'a, Books>) -> MutexGuard<'a, Books> {
        let node = books.node(index).clone();
        let Expression::Dynamic(recipe) = &node.expression else { unreachable!("tasks belong to dynamic nodes") };
        let task = books.tasks.entry(index).or_insert_with(|| {
            let waker = Waker::from(Arc::new(TaskWaker { pass: self.me.clone(), index }));
            Task { future: None, state: State::Running, waker, run: Arc::new(()) }
        });
        let (started, waker, run) = (task.future.take(), task.waker.clone(), task.run.clone());
        task.state = State::Running;
        self.release(books);

        let mut future = None;
        let step = within(Some(self.clone()), true, true, || {
            catch_unwind(AssertUnwindSafe(|| {
                let future = future.insert(started.unwrap_or_else(|| recipe.run()));
                future.as_mut().poll(&mut Context::from_waker(&waker))
            }))
        });
        let step = step.unwrap_or_else(|payload| Poll::Ready(Err(Error::panic(payload))));
        let step = match step {
            Poll::Pending => Poll::Pending,
            Poll::Ready(result) => {
                // user values in the future are dropped outside the lock; a panic there is reported like any other
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(future.take())));
                Poll::Ready(
                    dropped.map_err(Error::panic).and(result).map_err(|error| error.at(recipe.name(), node.place)),
                )
            }
        };

        let mut books = self.books();
        let task = books.tasks.get_mut(&index).filter(|task| Arc::ptr_eq(&task.run, &run));
        match (step, task) {
            (Poll::Pending, Some(task)) => {
                task.future = future;
                if matches!(task.state, State::RunningAndWoken) {
                    task.state = State::Queued;
                    books.queue_task(index);
                } else {
                    task.state = State::Parked;
                }
            }
            (_, None) => {
                // the pass has come to rest meanwhile, and has forgotten this run
                self.release(books);
                let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
                books = self.books();
            }
            (Poll::Ready(result), Some(_)) => {
                books.tasks.remove(&index);
                match result {
                    Ok(Outcome::Layer(layer)) => books.follow(index, &layer),
                    Ok(Outcome::Tape(value, backward)) => books.finish_tape(index, value, backward),
                    Err(error) => books.finish(index, Err(error)),
                }
            }
        }
        books
    }

    /// A task was woken, by whomever.
    fn wake_task(&self, index: u32) {
        let mut books = self.books();
        if let Some(task) = books.tasks.get_mut(&index) {
            match task.state {
                State::Parked => {
                    task.state = State::Queued;
                    books.queue_task(index);
                }
                State::Running => task.state = State::RunningAndWoken,
                State::Queued | State::RunningAndWoken => {}
            }
        }
        self.offer(books);
    }

    /// Releases the lock; whoever can help with what is in the queue is told.
    pub(super) fn offer(&self, mut books: MutexGuard<'_, Books>) {
        let working = may_work() && super::is_current(self);
        self.share(&mut books, working);
        self.release(books);
    }

    /// Releases the lock, then drops what was discarded under it and wakes those who wait for what was done.
    pub(super) fn release(&self, mut books: MutexGuard<'_, Books>) {
        if books.woken.is_empty() && books.discarded.is_empty() {
            return;
        }
        let (woken, discarded) = (std::mem::take(&mut books.woken), std::mem::take(&mut books.discarded));
        drop(books);
        // a destructor of the user's that panics has nobody to tell
        let _ = catch_unwind(AssertUnwindSafe(|| drop(discarded)));
        self.news.fetch_add(1, Ordering::Release);
        for waker in woken {
            waker.wake();
        }
    }

    /// Offers a share of the queue to the driver, if it is idle, and to the rayon pool, as far as it is worth their while.
    /// `working` says that this thread is going to work through the queue itself.
    ///
    /// The number of threads counts all that work on the pass: a driver that works is one of them.
    fn share(&self, books: &mut Books, working: bool) {
        if books.drivers.nobody() {
            return;
        }
        let mut spare = books.jobs().saturating_sub(usize::from(working));
        if spare > 0 {
            self.news.fetch_add(1, Ordering::Release);
        }
        let worth_while = books.queued_nanoseconds() >= WORTH_OFFERING_NANOSECONDS;
        if spare > 0
            && (worth_while || !working)
            && let Some(driver) = books.drivers.take_idle()
        {
            books.woken.push(driver);
            spare -= 1;
        }
        let driver_works = books.drivers.any_works();
        let limit = if driver_works { rayon::current_num_threads() - 1 } else { rayon::current_num_threads() };
        while books.tickets < limit && spare > books.tickets {
            if !worth_while && (driver_works || books.tickets > 0) {
                return;
            }
            books.tickets += 1;
            let (pass, news) = (self.me.clone(), self.news.clone());
            rayon::spawn(move || {
                // nothing may unwind into the pool
                let _ = catch_unwind(AssertUnwindSafe(|| use_ticket(&pass, &news)));
            });
        }
    }
}

/// Works through the queue, and lingers a little for more: waking a thread costs more than that. It does not hold the pass
/// meanwhile.
fn use_ticket(pass: &Weak<Pass>, news: &AtomicUsize) {
    let mut read = news.load(Ordering::Acquire);
    while let Some(pass) = pass.upgrade() {
        let mut books = pass.work(pass.books());
        let latest = news.load(Ordering::Acquire);
        if latest == read {
            books.tickets -= 1;
            pass.release(books);
            return;
        }
        read = latest;
        pass.release(books);
        drop(pass);
        linger(news, read);
    }
}

/// Waits a few microseconds for news.
fn linger(news: &AtomicUsize, read: usize) {
    for _ in 0..LINGER_SPINS {
        if news.load(Ordering::Acquire) != read {
            return;
        }
        std::hint::spin_loop();
    }
}

/// Runs a kernel: whatever goes wrong in it is an error that points to where the user wrote the operation.
fn run(Kernel { node, operands, .. }: Kernel) -> Result<Value> {
    let Expression::Primitive(op, _) = &node.expression else { unreachable!("kernels belong to operations") };
    let result = catch_unwind(AssertUnwindSafe(|| {
        let result = op.value(&operands).map_err(|error| error.at(op.name(), node.place));
        drop(operands);
        result
    }));
    result.unwrap_or_else(|payload| Err(Error::panic(payload).at("operation", node.place)))
}

struct TaskWaker {
    pass: Weak<Pass>,
    index: u32,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(pass) = self.pass.upgrade() {
            pass.wake_task(self.index);
        }
    }
}
