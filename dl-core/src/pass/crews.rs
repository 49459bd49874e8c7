//! Kernels of the pass that are divided among several threads (see `parallel.rs`).
//!
//! Tickets for the rayon pool bring workers only. Whoever drives the pass and has nothing to do at the moment may be another thread, or a worker that waits; and those who have helped
//! with the queue linger. They all find in the books what is being divided.

use super::Pass;
use super::books::Books;
use crate::parallel::Crew;
use std::sync::Arc;

impl Pass {
    /// A kernel is being divided. Says how many come without a ticket, at most as many as are wanted; or nothing if the books are not to be had, as they may be this thread's.
    pub(crate) fn open(self: &Arc<Self>, crew: &Arc<Crew>, wanted: usize) -> Option<usize> {
        let mut books = self.books.try_lock().ok()?;
        books.crews.push(crew.clone());
        let mut coming = books.lingering.min(wanted);
        while coming < wanted
            && let Some(driver) = books.drivers.take_idle()
        {
            books.woken.push(driver);
            coming += 1;
        }
        self.tell_news();
        self.release(books);
        Some(coming)
    }

    /// The kernel is done.
    pub(crate) fn close(&self, crew: &Arc<Crew>) {
        self.books().crews.retain(|open| !Arc::ptr_eq(open, crew));
    }

    /// Whether there is something to do for a thread that does not work at the moment.
    pub(super) fn has_work(&self, books: &Books) -> bool {
        books.queue.len() > 0 || self.open_crew(books).is_some()
    }

    /// A crew that takes one more.
    pub(super) fn open_crew<'a>(&self, books: &'a Books) -> Option<&'a Arc<Crew>> {
        books.crews.iter().find(|crew| crew.takes_one_more(self.width.working()))
    }
}
