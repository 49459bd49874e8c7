//! One pass: a call of `predict`, `train` or `forward`, and everything it evaluates.
//!
//! A pass keeps its books in dense tables of its own (`books.rs`), behind its own lock; kernels and user code run outside that
//! lock (`work.rs`). Whoever drives the pass works through its queue; other threads of the rayon pool are only *offered* a
//! share, by tickets, so nobody ever waits for a thread to become free, and a `wait()` inside a worker cannot deadlock.

mod books;
mod claim;
mod work;

pub(crate) use books::{Books, NONE, Status};
pub(crate) use claim::Claim;

use crate::error::{Error, Result};
use crate::node::AnyLayer;
use crate::value::Value;
use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::{Poll, Waker};

/// What a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Values only: they go as soon as nobody needs them.
    Predict,
    /// Values are kept for a backward.
    Train,
}

pub(crate) struct Pass {
    books: Mutex<Books>,
    /// Counts what a thread without work waits for: something queued, somebody woken.
    news: Arc<AtomicUsize>,
    me: Weak<Pass>,
}

/// A few microseconds.
const SPINS: usize = 100;

impl Pass {
    pub(crate) fn new(mode: Mode) -> Arc<Pass> {
        Arc::new_cyclic(|me| Pass { books: Mutex::new(Books::new(mode)), news: Arc::default(), me: me.clone() })
    }

    pub(crate) fn mode(&self) -> Mode {
        self.books().mode
    }

    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        // the books are never held for long, and parking a thread costs more than waiting for its turn
        for _ in 0..SPINS {
            match self.books.try_lock() {
                Ok(books) => return books,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters these layers, and all that they need, into the books. What is cheap is evaluated at once.
    pub(crate) fn request(&self, layers: &[AnyLayer]) {
        let mut books = self.books();
        for layer in layers {
            books.discover(layer);
        }
        self.offer(books);
    }

    /// The value of a layer, or a promise to wake up when it is there.
    pub(crate) fn poll_value(&self, layer: &AnyLayer, waker: &Waker) -> Poll<Result<Value>> {
        let mut books = self.books();
        let index = books.discover(layer);
        match books.status(index) {
            Status::Done(value) => Poll::Ready(Ok(value.clone())),
            Status::Failed(error) => Poll::Ready(Err(error.clone())),
            Status::Freed => unreachable!("a value is freed when nobody holds the layer any more"),
            Status::Pending if books.cancelled => Poll::Ready(Err(Error::cancelled())),
            Status::Pending => {
                books.wake_when_done(index, waker);
                self.offer(books);
                Poll::Pending
            }
        }
    }

    /// The driver is through. Tasks that nobody waits for any more are dropped; whoever else still wants a value is served by
    /// the pool.
    pub(crate) fn end(&self) {
        let mut books = self.books();
        books.driver_works = false;
        let tasks = books.abandon_tasks();
        self.release(books);
        drop(tasks);
    }

    /// The driver was dropped before its end: stop, and free what is held.
    pub(crate) fn cancel(&self) {
        let mut books = self.books();
        let jobs = books.cancel();
        let tasks = books.abandon_tasks();
        self.release(books);
        drop((jobs, tasks));
    }
}

thread_local! {
    /// The pass whose futures this thread is polling.
    static CURRENT: RefCell<Option<Arc<Pass>>> = const { RefCell::new(None) };
    /// Whether it polls a task of that pass, rather than the driver's own future.
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread may spend its time on the work of the passes that it polls: inside `wait()` and in workers.
    static MAY_WORK: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn current() -> Option<Arc<Pass>> {
    CURRENT.with_borrow(Clone::clone)
}

pub(crate) fn in_pass() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

fn is_current(pass: &Pass) -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_some_and(|current| std::ptr::eq(&**current, pass)))
}

fn may_work() -> bool {
    MAY_WORK.get() || rayon::current_thread_index().is_some()
}

/// Sets the context of this thread while `f` runs.
fn within<R>(pass: Option<Arc<Pass>>, in_task: bool, may_work: bool, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Arc<Pass>>, bool, bool);

    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
            IN_TASK.set(self.1);
            MAY_WORK.set(self.2);
        }
    }

    let _restore = Restore(CURRENT.replace(pass), IN_TASK.replace(in_task), MAY_WORK.replace(may_work));
    f()
}

/// Polls the driver's future in its pass.
pub(crate) fn enter<R>(pass: &Arc<Pass>, f: impl FnOnce() -> R) -> R {
    within(Some(pass.clone()), false, MAY_WORK.get(), f)
}

/// Runs `f` on a thread that blocks for it: outside any pass, and free to work.
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    within(None, false, true, f)
}

/// How a tape holds its pass: strongly, except inside a task of that same pass, which the pass itself holds.
pub(crate) enum Holder {
    Strong(Arc<Pass>),
    Weak(Weak<Pass>),
}

impl Holder {
    pub(crate) fn pass(&self) -> Option<Arc<Pass>> {
        match self {
            Holder::Strong(pass) => Some(pass.clone()),
            Holder::Weak(pass) => pass.upgrade(),
        }
    }
}

pub(crate) fn holder() -> Holder {
    let pass = current().expect("a tape is made in a pass");
    if IN_TASK.get() { Holder::Weak(Arc::downgrade(&pass)) } else { Holder::Strong(pass) }
}
