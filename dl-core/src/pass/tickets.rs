//! How those who help have a pass: not by right, but for as long as there is something to do.
//!
//! Runs, tapes, and what a backward does have a pass, and its values go with the last of them. Whoever holds a ticket takes it to look whether he can help, and so has it for a moment, too. Should the last
//! owner let go of it just then, its values would stay until that helper runs again, which may be a while if the system has taken his processor away. So who lets go of a pass waits for those who are
//! passing: who only look, or are on their way out. He does not wait for those who run something for it, which nobody needs then, but which may take long.

use super::Pass;
use crate::sync::{AtomicUsize, Ordering, Patience, fence, yield_now};
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Helpers who pass need far less than that if they have a processor, unless they are held up by what is not ours: a destructor, or a waker.
const LONGEST_PASSING: Duration = Duration::from_millis(200);

/// What can be read of a pass without having it.
#[derive(Default)]
pub(super) struct Board {
    /// Counts what a thread without work waits for: something queued, somebody woken.
    news: AtomicUsize,
    /// How many have the pass by a ticket, and run nothing for it.
    passing: AtomicUsize,
}

impl Board {
    #[inline]
    pub(super) fn news(&self) -> usize {
        self.news.load(Ordering::Acquire)
    }

    /// Those who wait for news have another look.
    #[inline]
    pub(super) fn tell_news(&self) {
        self.news.fetch_add(1, Ordering::Release);
    }

    fn begins_passing(&self) {
        self.passing.fetch_add(1, Ordering::Relaxed);
    }

    fn ends_passing(&self) {
        self.passing.fetch_sub(1, Ordering::Release);
    }

    /// Waits for those who are passing. Who comes later finds no pass, if the caller was the last one who had it.
    fn wait_for_those_passing(&self) {
        // with the one in `enter`: either he is seen here, or he sees that the pass has gone
        fence(Ordering::SeqCst);
        let since = Patience::new();
        while self.passing.load(Ordering::Acquire) > 0 && since.lasts(LONGEST_PASSING) {
            // there may be more threads than processors
            yield_now();
        }
    }
}

/// Somebody is passing as long as there is this.
struct Passing<'a>(&'a Board);

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.0.ends_passing();
    }
}

/// Lets whoever has it help with a pass.
pub(super) struct Ticket {
    pass: Weak<Pass>,
    board: Arc<Board>,
}

impl Ticket {
    pub(super) fn of(pass: &Arc<Pass>) -> Self {
        Ticket { pass: Arc::downgrade(pass), board: pass.board.clone() }
    }

    pub(super) fn board(&self) -> &Board {
        &self.board
    }

    /// The pass, if it is still there, for a moment.
    pub(super) fn enter(&self) -> Option<Visit<'_>> {
        self.board.begins_passing();
        let passing = Passing(&self.board);
        fence(Ordering::SeqCst);
        Some(Visit { pass: self.pass.upgrade()?, _passing: passing })
    }
}

/// A helper has the pass.
pub(super) struct Visit<'a> {
    pub(super) pass: Arc<Pass>,
    /// Goes after the pass, which takes its values with it if nobody else has it any more.
    _passing: Passing<'a>,
}

/// Runs something for a pass, as a helper or as somebody who has it by right. Nobody waits for that who lets go of the pass meanwhile. To be called, and to come back, under the lock of the books,
/// while somebody drives the pass.
pub(super) fn at_work<R>(helper: Option<&Visit<'_>>, work: impl FnOnce() -> R) -> R {
    struct AtWork<'a>(&'a Board);

    impl Drop for AtWork<'_> {
        fn drop(&mut self) {
            self.0.begins_passing();
        }
    }

    let _at_work = helper.map(|visit| {
        visit.pass.board.ends_passing();
        AtWork(&visit.pass.board)
    });
    work()
}

/// Somebody who has a pass by right. If he is the last one its values have gone with him, but for those that somebody works with.
#[derive(Clone)]
pub(crate) struct Owner {
    pass: Arc<Pass>,
    /// After the pass.
    _then: WaitForThosePassing,
}

#[derive(Clone)]
struct WaitForThosePassing(Arc<Board>);

impl Drop for WaitForThosePassing {
    fn drop(&mut self) {
        self.0.wait_for_those_passing();
    }
}

impl From<Arc<Pass>> for Owner {
    fn from(pass: Arc<Pass>) -> Owner {
        let _then = WaitForThosePassing(pass.board.clone());
        Owner { pass, _then }
    }
}

impl Deref for Owner {
    type Target = Arc<Pass>;

    fn deref(&self) -> &Arc<Pass> {
        &self.pass
    }
}
