//! One pass: a call of `predict`, `train` or `forward`, and everything it evaluates.
//!
//! A pass keeps its books in dense tables of its own (`books.rs`), behind its own lock; kernels and bodies of dynamic nodes run outside
//! that lock (`work.rs`). Under it run only the estimates of costs and the rules that write down deltas, which compute nothing. Whoever drives the pass works through its queue; other threads of the rayon pool are only *offered* a
//! share, by tickets, so nobody ever waits for a thread to become free, and a `wait()` inside a worker cannot deadlock.

mod books;
mod claim;
mod drivers;
mod tables;
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
        let ended = match books.status(index) {
            Status::Done(value) => Ok(value.clone()),
            Status::Failed(error) => Err(error.clone()),
            Status::Freed => unreachable!("a value is freed when nobody holds the layer any more"),
            Status::Pending if books.drivers.nobody() => Err(Error::cancelled()),
            Status::Pending => {
                books.wake_when_done(index, waker);
                self.offer(books);
                return Poll::Pending;
            }
        };
        self.release(books);
        Poll::Ready(ended)
    }

    /// A run starts to drive the pass. What was left undone when the last driver left is taken up again.
    pub(crate) fn arrive(&self) -> u32 {
        let mut books = self.books();
        books.resume();
        books.drivers.arrive()
    }

    /// A driver is through, or was dropped. When it was the last one, the pass rests: futures are dropped, nothing is started any
    /// more, and whoever still waits for a value is told.
    pub(crate) fn leave(&self, driver: u32) {
        let mut books = self.books();
        books.drivers.leave(driver);
        let tasks = if books.drivers.nobody() { books.rest() } else { Vec::new() };
        self.release(books);
        drop(tasks);
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

pub(crate) fn is_current(pass: &Pass) -> bool {
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
