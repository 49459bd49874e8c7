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
    /// Called by the driver before it polls its future: says whether it can work itself.
    pub(crate) fn drive(&self) {
        self.books().driver_works = may_work();
    }

    /// Called by the driver when its own future cannot go on. Says whether that is worth another try now; if not, the driver's
    /// waker will be called.
    ///
    /// A driver that runs inside another pass does not work itself: it asks the workers of that pass to help, so that several
    /// such drivers, joined there, advance in parallel.
    pub(crate) fn advance(self: &Arc<Self>, waker: &Waker) -> bool {
        let mut books = self.books();
        if books.driver_works && books.jobs() == 0 && books.tickets > 0 {
            let read = self.news.load(Ordering::Acquire);
            self.release(books);
            linger(&self.news, read);
            if self.news.load(Ordering::Acquire) != read {
                return true;
            }
            books = self.books();
        }
        if books.driver_works {
            match (books.jobs(), super::current()) {
                (0, _) => books.idle_driver = Some(waker.clone()),
                (_, None) => {
                    let books = self.work(books);
                    self.release(books);
                    return true;
                }
                (_, Some(around)) => {
                    let nanoseconds = books.queued_nanoseconds();
                    books.idle_driver = Some(waker.clone());
                    self.release(books);
                    around.ask_for_help(self.clone(), nanoseconds);
                    return false;
                }
            }
        }
        self.offer(books);
        false
    }

    fn ask_for_help(&self, with: Arc<Pass>, nanoseconds: f64) {
        let mut books = self.books();
        books.queue_help(with, nanoseconds);
        self.offer(books);
    }

    /// Works until the queue is empty.
    fn work<'a>(self: &'a Arc<Self>, mut books: MutexGuard<'a, Books>) -> MutexGuard<'a, Books> {
        let mut batch = Vec::new();
        loop {
            self.share(&mut books, true);
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
            Task { future: None, state: State::Running, waker }
        });
        let (started, waker) = (task.future.take(), task.waker.clone());
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
        match step {
            Poll::Pending if books.tasks.contains_key(&index) => {
                let task = books.tasks.get_mut(&index).expect("the task is there");
                task.future = future;
                if matches!(task.state, State::RunningAndWoken) {
                    task.state = State::Queued;
                    books.queue_task(index);
                } else {
                    task.state = State::Parked;
                }
            }
            Poll::Pending => {
                // the pass was cancelled meanwhile
                drop(books);
                drop(future);
                books = self.books();
            }
            Poll::Ready(result) => {
                let expected = books.tasks.remove(&index).is_some();
                match result {
                    _ if !expected => {}
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

    /// Releases the lock, then wakes those who wait for what was done under it.
    pub(super) fn release(&self, mut books: MutexGuard<'_, Books>) {
        if books.woken.is_empty() {
            return;
        }
        let woken = std::mem::take(&mut books.woken);
        drop(books);
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
        let mut spare = books.jobs().saturating_sub(usize::from(working));
        if spare > 0 {
            self.news.fetch_add(1, Ordering::Release);
        }
        let worth_while = books.queued_nanoseconds() >= WORTH_OFFERING_NANOSECONDS;
        if spare > 0
            && (worth_while || !working)
            && let Some(driver) = books.idle_driver.take()
        {
            books.woken.push(driver);
            spare -= 1;
        }
        let limit = if books.driver_works { rayon::current_num_threads() - 1 } else { rayon::current_num_threads() };
        while books.tickets < limit && spare > books.tickets {
            if !worth_while && (books.driver_works || books.tickets > 0) {
                return;
            }
            books.tickets += 1;
            let (pass, news) = (self.me.clone(), self.news.clone());
            rayon::spawn(move || use_ticket(&pass, &news));
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
    catch_unwind(AssertUnwindSafe(|| op.value(&operands)))
        .unwrap_or_else(|payload| Err(Error::panic(payload)))
        .map_err(|error| error.at(op.name(), node.place))
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
