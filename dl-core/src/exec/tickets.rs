//! How those have a pass who have no right to it: for as long as there is something to do.
//!
//! Runs, tapes, and what a backward does own a pass, and its values go with the last of them.
//! Whoever holds a ticket, a helper or what wakes a body, takes the pass to look whether there is
//! something for him, and so has it for a moment, too. Should the last owner let go of it just
//! then, its values would stay until that thread runs again, which may be a while if the system has
//! taken its processor away. So the last owner waits for those who are *passing*: who only look, or
//! are on their way out. He does not wait for those who run something for the pass, which nobody
//! needs then, but which may take long.

use crate::error::Result;
use crate::exec::Pass;
use crate::parallel::sync::{AtomicUsize, Ordering, Patience, STUCK, fence, thread_local, yield_now};
use std::cell::{LazyCell, RefCell};
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// What can be read of a pass without having it.
#[derive(Default)]
pub(super) struct Board {
    /// Counts what a thread without work waits for: something queued, somebody woken.
    news: AtomicUsize,
    owners: AtomicUsize,
    /// How many have the pass by a ticket, and run nothing for it.
    passing: AtomicUsize,
}

thread_local! {
    /// Where this thread is passing: nobody waits for himself, whatever he calls meanwhile.
    static PASSING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
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
        let _ = PASSING.try_with(|boards| boards.borrow_mut().push(self.address()));
    }

    fn ends_passing(&self) {
        let here = |boards: &RefCell<Vec<usize>>| {
            let mut boards = boards.borrow_mut();
            if let Some(place) = boards.iter().rposition(|&board| board == self.address()) {
                boards.remove(place);
            }
        };
        let _ = PASSING.try_with(here);
        self.passing.fetch_sub(1, Ordering::Release);
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether another thread than this one is passing.
    fn others_pass(&self) -> bool {
        let passing = self.passing.load(Ordering::Acquire);
        let here =
            |boards: &RefCell<Vec<usize>>| boards.borrow().iter().filter(|&&board| board == self.address()).count();
        passing > 0 && passing > PASSING.try_with(here).unwrap_or(0)
    }

    /// Waits for others who are passing, unless they are held up by what is not ours, a destructor
    /// or a waker. Who comes later finds no pass.
    fn wait_for_those_passing(&self) {
        // with the one in `enter`: either he is seen here, or he sees that the pass has gone
        fence(Ordering::SeqCst);
        let since = LazyCell::new(Patience::new as fn() -> Patience);
        while self.others_pass() && since.lasts(STUCK) {
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

/// Lets whoever has it look at a pass.
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
        self.enter_from(None)
    }

    /// The same for a helper of the pass around it.
    pub(super) fn enter_from<'a>(&'a self, around: Option<&'a Visit<'a>>) -> Option<Visit<'a>> {
        self.board.begins_passing();
        let passing = Passing(&self.board);
        fence(Ordering::SeqCst);
        Some(Visit { pass: self.pass.upgrade()?, _passing: passing, around })
    }
}

/// Somebody has the pass by a ticket.
pub(crate) struct Visit<'a> {
    pub(super) pass: Arc<Pass>,
    /// Goes after the pass, which takes its values with it if nobody else has it any more.
    _passing: Passing<'a>,
    /// He helps here as a helper of that one.
    around: Option<&'a Visit<'a>>,
}

/// Runs something, as a helper or as somebody who has the pass by right. Nobody waits for that who
/// lets go of the pass meanwhile. Who helps is passing again before anybody can have what came of
/// it: this is called where he has the books, or while the leader of a crew waits for him.
pub(crate) fn at_work<R>(helper: Option<&Visit<'_>>, work: impl FnOnce() -> R) -> R {
    struct AtWork<'a>(Option<&'a Visit<'a>>);

    impl AtWork<'_> {
        fn boards(&self) -> impl Iterator<Item = &Board> {
            std::iter::successors(self.0, |visit| visit.around).map(|visit| &*visit.pass.board)
        }
    }

    impl Drop for AtWork<'_> {
        fn drop(&mut self) {
            self.boards().for_each(Board::begins_passing);
        }
    }

    let at_work = AtWork(helper);
    at_work.boards().for_each(Board::ends_passing);
    work()
}

/// Somebody who has a pass by right. If he is the last one its values have gone with him, but for
/// those that somebody works with.
pub(crate) struct Owner {
    pass: Arc<Pass>,
    /// After the pass.
    counted: Counted,
}

/// One of the owners.
struct Counted(Arc<Board>);

impl Counted {
    fn of(board: &Arc<Board>) -> Self {
        board.owners.fetch_add(1, Ordering::Relaxed);
        Counted(board.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.0.owners.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.wait_for_those_passing();
        }
    }
}

impl Owner {
    /// As [`Pass::part`] does.
    pub(crate) fn part(self) -> Result<()> {
        let Owner { pass, counted } = self;
        let parted = Pass::part(pass);
        drop(counted);
        parted
    }
}

impl From<Arc<Pass>> for Owner {
    fn from(pass: Arc<Pass>) -> Owner {
        let counted = Counted::of(&pass.board);
        Owner { pass, counted }
    }
}

impl Clone for Owner {
    fn clone(&self) -> Self {
        self.pass.clone().into()
    }
}

impl Deref for Owner {
    type Target = Arc<Pass>;

    fn deref(&self) -> &Arc<Pass> {
        &self.pass
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_himself() {
        let (board, other) = (Board::default(), Board::default());
        let elsewhere = || std::thread::scope(|scope| scope.spawn(|| board.others_pass()).join().expect("no panic"));
        board.begins_passing();
        other.begins_passing();
        assert!(!board.others_pass() && elsewhere());
        board.ends_passing();
        assert!(!board.others_pass() && !elsewhere() && !other.others_pass());
        other.ends_passing();
    }
}
