//! Working through the queue of a pass: kernels, and the futures of dynamic nodes.

use super::at_once::SMALL_OF_OURS_NANOSECONDS;
use super::bodies;
use super::books::Books;
use super::context::{computing, may_work, polling};
use super::kernels::ChainRun;
use super::queue::{Job, Work};
use super::tickets::{Events, Ticket};
use super::wakers::{TaskWaker, Wakeable};
use super::{Pass, context};
use crate::error::{Error, Result, drop_payload};
use crate::node::{Expression, KeptFuture, Outcome, help_is_over};
use crate::offer::{AWAKE, offer};
use crate::parallel::apart;
use crate::record::SpanWork;
use crate::seed::Position;
use crate::sync::{MutexGuard, Ordering, Patience, current_num_threads, spawn, spin_loop, spins, yield_now};
use crate::value::Value;
use std::cell::LazyCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The future of a dynamic node that waits.
pub(crate) struct Task {
    /// Absent while somebody polls it.
    future: Option<KeptFuture<Result<Outcome>>>,
    waker: Wakeable,
    /// Where it goes on to build layers.
    position: Position,
}

/// Waking another thread costs a few microseconds: less work than this is not worth it.
pub(super) const WORTH_OFFERING_NANOSECONDS: f64 = 10_000.0;

/// After so many polls of bodies that had begun before, a driver has itself polled again, and
/// whatever is polled with it: bodies may wake themselves, or one another, again and again, and
/// wait for what only these do.
const TURNS: usize = 16;

/// How often a thread without work looks for news before it goes: about as long as it takes to wake
/// one.
const LINGER_SPINS: usize = spins(300);
/// How often it looks for news before it looks again whether the books are free.
const GLANCES: usize = spins(20);

impl Pass {
    /// Called by a driver before it polls its future.
    pub(crate) fn drive(&self, driver: u32) {
        self.books().drivers.polled(driver, may_work());
    }

    /// Called by a driver when its own future cannot go on. Says whether that is worth another try
    /// now; if not, the driver's waker will be called.
    ///
    /// A driver that runs inside another pass first asks the workers of that pass to help, so that
    /// several such drivers, joined there, advance in parallel. It has itself woken, and does the
    /// work that is left then. `asked` is how many nanoseconds it has asked for.
    pub(crate) fn advance(self: &Arc<Self>, driver: u32, asked: &mut f64, waker: &Waker) -> bool {
        let mut books = self.books();
        if !books.drivers.works(driver) {
            self.share(&mut books, false);
            self.release(books);
            return false;
        }
        if !self.has_work(&books) && books.tickets > 0 {
            let read = self.events.count();
            self.release(books);
            // who works for the pass is mostly through before this thread, once it sleeps, would be
            // awake again
            self.lingering.store(true, Ordering::Relaxed);
            let heard = linger(&self.events, read, || self.width.working() > 0);
            self.lingering.store(false, Ordering::Relaxed);
            if heard {
                return true;
            }
            books = self.books();
        }
        if !self.has_work(&books) {
            *asked = 0.0;
            books.drivers.idle(driver, waker);
            self.release(books);
            return false;
        }
        let around = context::current().filter(|_| current_num_threads() > 1);
        let longest = around.as_ref().map_or(f64::INFINITY, |_| worth_asking_again(*asked));
        if books.queue.nanoseconds() < longest {
            *asked = 0.0;
            let ended;
            (books, ended) = self.work(books, false, TURNS, longest);
            if ended {
                self.release(books);
                return true;
            }
        }
        let queued = books.queue.nanoseconds();
        self.release(books);
        if let Some(around) = around.filter(|_| queued >= longest) {
            *asked = queued;
            around.ask_for_help(Ticket::of(self), queued);
        }
        // others who are polled with this driver come first
        waker.wake_by_ref();
        false
    }

    fn ask_for_help(self: &Arc<Self>, with: Ticket, nanoseconds: f64) {
        let mut books = self.books();
        books.queue.push(Work::Help(with), nanoseconds);
        self.share(&mut books, false);
        self.release(books);
    }

    /// Works until the queue is empty, or nobody drives the pass any more. Says whether it came to
    /// that: after so many turns somebody else is to have his, where the queue becomes longer than
    /// that, others are to be asked first, and who helps leaves what stays to a driver who is at
    /// the queue.
    fn work<'a>(
        self: &'a Arc<Self>,
        mut books: MutexGuard<'a, Books>,
        helps: bool,
        turns: usize,
        longest: f64,
    ) -> (MutexGuard<'a, Books>, bool) {
        let driver = usize::from(!helps);
        books.attentive += driver;
        let (mut books, ended) = self.work_through(books, helps, turns, longest);
        books.attentive -= driver;
        (books, ended)
    }

    fn work_through<'a>(
        self: &'a Arc<Self>,
        mut books: MutexGuard<'a, Books>,
        helps: bool,
        mut turns: usize,
        longest: f64,
    ) -> (MutexGuard<'a, Books>, bool) {
        let driver = usize::from(!helps);
        let mut run = ChainRun::default();
        let (mut chain, mut not_inline) = (Vec::new(), None);
        let mut spare = None;
        let threads = LazyCell::new(current_num_threads as fn() -> usize);
        self.width.works();
        loop {
            self.share_with(&mut books, true, &threads);
            if books.drivers.nobody() {
                break;
            }
            if books.queue.nanoseconds() >= longest {
                self.width.rests();
                return (books, false);
            }
            if helps && books.attentive > 0 && books.queue.len() > 0 && books.queue.all_stay() {
                self.width.rests();
                return (books, false);
            }
            if helps && self.leaves_to_driver(&books) {
                self.tell_news();
                break;
            }
            match books.queue.pop(helps) {
                Some(Job { what: Work::Kernel(index), nanoseconds, .. })
                    if !helps && not_inline != Some(index) && self.is_alone(index, nanoseconds, &books) =>
                {
                    books.running += 1;
                    (books, not_inline) = self.run_alone(index, books, &mut chain);
                    books.running -= 1;
                }
                Some(Job { what: Work::Kernel(index), nanoseconds, stays }) => {
                    let busy = if stays { 0 } else { driver };
                    books.attentive -= busy;
                    books.running += 1;
                    books = if books.has_followers(index) {
                        books.take_chain_to_run(index, (nanoseconds, stays), &mut run);
                        self.run_chain(&mut run, helps, books)
                    } else {
                        self.run_one(index, books)
                    };
                    books.running -= 1;
                    books.attentive += busy;
                }
                Some(Job { what: Work::Task(index), .. }) => {
                    let again = books.task(index).is_some();
                    books.attentive -= driver;
                    books.running += 1;
                    books = self.poll_task(index, books, &mut spare, &threads);
                    books.running -= 1;
                    books.attentive += driver;
                    turns -= usize::from(again);
                    if turns == 0 {
                        self.width.rests();
                        return (books, false);
                    }
                }
                Some(Job { what: Work::Help(ticket), nanoseconds, .. }) => {
                    books.attentive -= driver;
                    self.release(books);
                    let enough = worth_asking_again(nanoseconds);
                    let queued = ticket.upgrade().map_or(0.0, |pass| pass.help_for_a_while(enough));
                    books = self.books();
                    if queued >= enough {
                        books.queue.push(Work::Help(ticket), queued);
                    }
                    books.attentive += driver;
                }
                None => {
                    self.width.rests();
                    let Some(crew) = self.open_crew(&books).cloned() else { return (books, true) };
                    // until there is something to do for which nobody else may be there
                    let read = self.events.count();
                    books.attentive -= driver;
                    self.release(books);
                    crew.help(|| self.events.count() == read);
                    books = self.books();
                    books.attentive += driver;
                    self.width.works();
                }
            }
        }
        self.width.rests();
        (books, true)
    }

    /// Whether a helper had better leave what is queued, which is too little to be shared, to a
    /// driver who waits for it, awake: he has met the weights of the pass in its last step, or is
    /// going to change them, and where nobody else works, his way of working costs less. Only once:
    /// if he has not come by then, he has lost his processor.
    fn leaves_to_driver(&self, books: &Books) -> bool {
        books.queue.len() > 0 && !books.queue.is_worth_sharing() && self.lingering.swap(false, Ordering::Relaxed)
    }

    /// Polls the future of a dynamic node. Only one that has to wait is written down, and only what
    /// keeps its waker makes it a costly one.
    fn poll_task<'a>(
        self: &'a Arc<Self>,
        index: u32,
        mut books: MutexGuard<'a, Books>,
        spare: &mut Option<Wakeable>,
        threads: &LazyCell<usize>,
    ) -> MutexGuard<'a, Books> {
        let rests = books.rests;
        let node = books.node(index);
        let Expression::Dynamic(recipe) = &node.expression else { unreachable!("tasks belong to dynamic nodes") };
        let (started, task, position) = match books.task(index) {
            Some(task) => {
                task.waker.shared.polled();
                (task.future.take(), task.waker.clone(), task.position)
            }
            None => {
                let body = books.number_at(recipe.position());
                (None, Wakeable::new(self, index, spare.take()), Position::in_body(body))
            }
        };
        let first = started.is_none();
        self.release(books);

        let outside = position.enter();
        let body = node.enter();
        let mut future = started;
        let mut poll = || {
            catch_unwind(AssertUnwindSafe(|| {
                let running = future.get_or_insert_with(|| recipe.run());
                let step = Pin::new(running).poll(&mut Context::from_waker(&task.waker));
                if step.is_ready() {
                    // user values in the future are dropped outside the lock; a panic there is
                    // reported like any other
                    drop(future.take());
                }
                step
            }))
        };
        let mut poll =
            || polling(self, true, || self.during(SpanWork::Body, Some(&node), || self.told(index), &mut poll));
        let step = if **threads > 1 { bodies::timed(self, node.place, poll) } else { poll() };
        let step = match step {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(Ok(outcome))) => Poll::Ready(Ok(outcome)),
            failed => {
                let error = match failed {
                    Ok(Poll::Ready(Err(error))) => error,
                    Err(payload) => {
                        let _ = catch_unwind(AssertUnwindSafe(|| drop(future.take()))); // one panic is told
                        Error::panic(payload)
                    }
                    _ => unreachable!("the others have not failed"),
                };
                Poll::Ready(Err(error.at(node.name(), node.site())))
            }
        };
        drop(body);
        let position = outside.enter();

        let mut books = self.books();
        if books.rests != rests {
            // the pass has come to rest meanwhile, and this run was to end with that
            if books.drivers.nobody() {
                books.interrupted.push(index);
            } else {
                books.queue_task(index);
            }
            self.release(books);
            let _ = catch_unwind(AssertUnwindSafe(|| drop((future, step))));
            return self.books();
        }
        match step {
            Poll::Pending => {
                let woken = !task.shared.park();
                books.keep_task(index, Task { future, waker: task, position });
                if woken {
                    books.queue_task(index);
                }
            }
            Poll::Ready(result) => {
                if !first {
                    books.forget_task(index);
                }
                *spare = Some(task);
                match result {
                    Ok(Outcome::Layer(layer)) => books = self.follow(books, index, layer),
                    Ok(Outcome::Tape(value, backward)) => books.finish_tape(index, value, backward),
                    Err(error) => books.finish(index, Err(error)),
                }
            }
        }
        books
    }

    /// A thread that works for the pass is going to park, in a wait of its own: others may take
    /// what is queued.
    pub(super) fn goes_away(self: &Arc<Self>) {
        let mut books = self.books();
        books.away += 1;
        self.share(&mut books, false);
        self.release(books);
    }

    pub(super) fn comes_back(&self) {
        self.books().away -= 1;
    }

    /// A task that waits was woken, by whomever.
    pub(super) fn wake_task(self: &Arc<Self>, woken: &Arc<TaskWaker>) {
        let mut books = self.books();
        let index = woken.index.load(Ordering::Relaxed);
        // if the pass has come to rest since, this is another run of the body, or no run at all
        if books.tasks.get(&index).is_some_and(|task| Arc::ptr_eq(&task.waker.shared, woken)) {
            books.queue_task(index);
        }
        self.offer(books);
    }

    /// Releases the lock; whoever can help with what is in the queue is told.
    pub(super) fn offer(self: &Arc<Self>, mut books: MutexGuard<'_, Books>) {
        let working = may_work() && super::is_current(self);
        self.share(&mut books, working);
        self.release(books);
    }

    /// Releases the lock, then drops what was discarded under it and wakes those who wait for what
    /// was done.
    pub(super) fn release(self: &Arc<Self>, mut books: MutexGuard<'_, Books>) {
        if books.woken.is_empty() && books.discarded.is_empty() {
            return;
        }
        let (woken, discarded) = (std::mem::take(&mut books.woken), std::mem::take(&mut books.discarded));
        drop(books);
        if !discarded.is_empty() {
            computing(self, || discarded.into_iter().for_each(|(value, place)| self.discard(value, place)));
        }
        self.tell_news();
        for waker in woken {
            // a waker of the user's that panics has nobody to tell
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }

    /// Drops a dead value of the node that was written at this place. If the destructor panics, the
    /// pass is at fault.
    pub(super) fn discard(&self, value: Value, place: &'static Location<'static>) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
            let error = Error::panic(payload).at("destructor of a value", place);
            self.books().fault.get_or_insert(error);
        }
    }

    /// Offers a share of the queue to the driver, if it is idle, and to the rayon pool, as far as
    /// it is worth their while. `working` says that this thread is going to work through the queue
    /// itself.
    ///
    /// The number of threads counts all that work on the pass: a driver that works is one of them.
    pub(super) fn share(self: &Arc<Self>, books: &mut Books, working: bool) {
        self.share_with(books, working, &LazyCell::new(current_num_threads));
    }

    /// The same for somebody who shares again and again, and asks for the number of threads once.
    #[inline]
    fn share_with(self: &Arc<Self>, books: &mut Books, working: bool, threads: &LazyCell<usize>) {
        let mut spare = books.queue.spare(working);
        if spare == 0 || books.drivers.nobody() {
            return;
        }
        let driver_works = books.drivers.any_works();
        let limit = **threads - usize::from(driver_works) + books.away;
        if limit == 0 && books.tickets == 0 && !books.drivers.any_idle() {
            return; // there is nobody else
        }
        self.tell_news();
        let worth_while = match working {
            true => books.queue.is_worth_sharing(),
            false => books.queue.nanoseconds() >= WORTH_OFFERING_NANOSECONDS,
        };
        // where nobody is at work, all of them: the first one may be a run that somebody has, but
        // does not poll
        while (worth_while || !working)
            && let Some(driver) = books.drivers.take_idle()
        {
            books.woken.push(driver);
            spare = spare.saturating_sub(1);
            if working {
                break;
            }
        }
        while books.tickets < limit && spare + books.away > books.tickets {
            let somebody_comes = working || usize::from(driver_works) + books.tickets > books.away;
            if !worth_while && somebody_comes {
                return;
            }
            let ticket = Ticket::of(self);
            let help = move || {
                // nothing may unwind into the pool
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| use_ticket(&ticket))) {
                    drop_payload(payload);
                }
                help_is_over(); // the pass may have gone here, with all its nodes
            };
            if somebody_comes {
                if !offer(help) {
                    return;
                }
            } else {
                spawn(help); // nobody else is going to do it
            }
            books.tickets += 1;
        }
    }
}

/// Works through the queue, and lingers a little for more: waking a thread costs more than that. It
/// does not hold the pass meanwhile.
///
/// Nor does it in a training step, for [a while](AWAKE), where it has heard nothing and is about to
/// go, and somebody else has the books: he may have them for a whole walk back, and change weights
/// after that, of which nobody else is to have the values then. After that it waits for them like
/// everybody, so that a ticket comes back; in other passes it does so at once, as a walk hands the
/// books to those who wait.
fn use_ticket(ticket: &Ticket) {
    let events = ticket.events();
    let mut read = events.count();
    let mut goes: Option<Patience> = None;
    while let Some(pass) = ticket.upgrade() {
        let may_wait = !pass.steps || goes.as_ref().is_none_or(|since| !since.lasts(AWAKE));
        let Some(books) = (if may_wait { Some(pass.books()) } else { pass.books_at_once() }) else {
            drop(pass);
            if has_news(events, read, GLANCES) {
                goes = None;
            } else {
                // there may be more threads than processors
                yield_now();
            }
            continue;
        };
        let (mut books, ended) = apart(|| pass.work(books, true, usize::MAX, f64::INFINITY));
        let latest = events.count();
        // for what stays nobody is called: when there is something else, he is
        if latest == read || !ended {
            books.tickets -= 1;
            pass.release(books);
            return;
        }
        read = latest;
        pass.release(books);
        drop(pass);
        goes = (!has_news(events, read, LINGER_SPINS)).then(Patience::new);
    }
}

impl Pass {
    /// Takes some turns. Returns how much is queued then, in nanoseconds.
    fn help_for_a_while(self: &Arc<Self>, longest: f64) -> f64 {
        let (books, _) = self.work(self.books(), true, TURNS, longest);
        let queued = books.queue.nanoseconds();
        self.release(books);
        queued
    }
}

/// With how much in its queue a driver asks others for help that has just asked with so much in it.
/// If that was a little, they may not have come, and a little may become much: a body that decides
/// at once may turn out to be a large network.
fn worth_asking_again(asked: f64) -> f64 {
    match asked {
        0.0 => SMALL_OF_OURS_NANOSECONDS,
        ..WORTH_OFFERING_NANOSECONDS => WORTH_OFFERING_NANOSECONDS,
        _ => f64::INFINITY,
    }
}

/// Waits a few microseconds for news, and on for a moment as long as there is somebody to wait for.
/// Says whether they have come.
fn linger(events: &Events, read: usize, goes_on: impl Fn() -> bool) -> bool {
    let since = Patience::new();
    loop {
        if has_news(events, read, LINGER_SPINS) {
            return true;
        }
        if !goes_on() || !since.lasts(AWAKE) {
            return false;
        }
        // there may be more threads than processors
        yield_now();
    }
}

/// Whether there are news, within so many glances.
fn has_news(events: &Events, read: usize, spins: usize) -> bool {
    (0..spins).any(|_| {
        let heard = events.count() != read;
        if !heard {
            spin_loop();
        }
        heard
    })
}

impl Task {
    /// Whether the future is here, rather than with somebody who polls it and will see that the
    /// pass rests.
    pub(super) fn waits(&self) -> bool {
        self.future.is_some()
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use crate::pass::{Purpose, Settings};

    #[test]
    fn who_helps_leaves_what_stays_to_a_driver_at_the_queue() {
        let pass = Pass::new(Purpose::Step, &Settings::default());
        let mut books = pass.books();
        let driver = books.drivers.arrive();
        books.drivers.polled(driver, true);
        books.queue.push_to_stay(0, 1_000.0);
        books.attentive = 1;
        let (mut books, ended) = pass.work(books, true, usize::MAX, f64::INFINITY);
        assert!(!ended && books.queue.len() == 1 && books.attentive == 1);
        books.queue.clear();
    }
}
