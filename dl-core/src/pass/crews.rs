//! Kernels of the pass that are divided among several threads (see `parallel.rs`).
//!
//! Tickets for the rayon pool bring workers only. Whoever drives the pass and has nothing to do at the moment may be another thread, or a worker that waits; and those who have helped
//! with the queue linger. They all find in the books what is being divided.
//!
//! A kernel may hold locks of the user's, which the user's estimates of costs may want, too, under the lock of the books. So nobody waits for the books here.

use super::books::Books;
use super::{Pass, computing};
use crate::parallel::Crew;
use crate::sync::Ordering;
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::Waker;

impl Pass {
    /// A kernel is being divided, of this pass or of one inside it: wakes drivers, at most as many as are wanted. Not if the books are not to be had: perhaps they are this thread's. While weights are
    /// changed, only those hear of it who are awake: what wakes a driver is the user's, and must not run under the locks of the weights.
    pub(crate) fn tell_of(&self, crew: &Arc<Crew>, wanted: usize) -> bool {
        let Some(mut books) = self.books_at_once() else { return false };
        // it may be there, if those of the pass around were not to be had
        books.crews.retain(|other| other.has_more() && !Arc::ptr_eq(other, crew));
        books.crews.push(crew.clone());
        if self.commits.load(Ordering::Relaxed) {
            drop(books);
            self.tell_news();
            return true;
        }
        let Some(around) = self.around() else {
            let drivers: SmallVec<[Waker; 2]> = std::iter::from_fn(|| books.drivers.take_idle()).take(wanted).collect();
            drop(books);
            self.tell_news();
            for driver in drivers {
                let _ = catch_unwind(AssertUnwindSafe(|| driver.wake()));
            }
            return true;
        };
        drop(books);
        self.tell_news();
        // the driver of this one is a body of that one, and who waits is the driver of that one
        around.tell_of(crew, wanted)
    }

    /// The kernel is done. If the books are not to be had, it stays there, though nobody can have anything of it any more.
    pub(crate) fn forget(&self, crew: &Arc<Crew>) {
        if let Some(mut books) = self.books_at_once() {
            books.crews.retain(|other| !Arc::ptr_eq(other, crew));
        }
        if let Some(around) = self.around() {
            around.forget(crew);
        }
    }

    /// Changes weights, under their locks. Who has worked for the pass is mostly still awake, and helps.
    pub(crate) fn committing<R>(self: &Arc<Self>, change: impl FnOnce() -> R) -> R {
        struct Committed<'a>(&'a Pass);

        impl Drop for Committed<'_> {
            fn drop(&mut self) {
                self.0.width.rests();
                self.0.commits.store(false, Ordering::Relaxed);
            }
        }

        self.commits.store(true, Ordering::Relaxed);
        self.width.works();
        let _committed = Committed(self);
        computing(self, change)
    }

    fn around(&self) -> Option<Arc<Pass>> {
        self.around.as_ref().and_then(Weak::upgrade)
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

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use crate::pass::at_once::tests::{Probe, on_threads};
    use crate::pass::unshared::Unshared;
    use crate::{Differentiable, Do, Layer, parallel};
    use std::sync::{Arc, Mutex, mpsc};
    use std::thread;

    #[test]
    fn a_crew_that_could_not_be_forgotten_goes_with_its_pass() {
        let divides = |inner: &Arc<super::Pass>| {
            let (over, is_over) = mpsc::channel::<()>();
            let begin = Mutex::new(Some((inner.around().expect("it waits"), is_over)));
            let holder = Mutex::new(None);
            parallel::for_each(4, 1e6, |_| {
                let Some((outer, is_over)) = begin.lock().expect("nobody panics").take() else { return };
                let (tell, crews) = mpsc::channel();
                let thread = thread::spawn(move || {
                    let books = outer.books();
                    tell.send(books.crews.len()).expect("somebody waits");
                    let _ = is_over.recv();
                });
                assert_eq!(crews.recv(), Ok(1), "the books of the pass around are held, and have it");
                *holder.lock().expect("nobody panics") = Some(thread);
            });
            drop(over);
            let holder = holder.into_inner().expect("nobody panics").expect("there was a first piece");
            holder.join().expect("it ends");
        };
        // the pass of the body meets no layer of its own
        let body = move || {
            let y = Layer::apply(Probe::new(1e6, divides), (Layer::constant(1.0),));
            async move { y.predict().await }
        };
        let kept = on_threads(2, || {
            assert_eq!(Do::from_fn(body).wait().expect("it succeeds"), 2.0);
            // more than a thread keeps
            let passes = [(); 5].map(|()| Unshared::take());
            passes.each_ref().map(|pass| pass.books().crews.len())
        });
        assert_eq!(kept, [0; 5]);
    }
}
