//! Working through the queue of a pass: kernels, and the futures of dynamic nodes.

use crate::error::Result;
use crate::exec::bodies;
use crate::exec::books::PassState;
use crate::exec::context::{computing, may_work, polling};
use crate::exec::dispatch::{IDLE_SPINS, INLINE_NS, INVITE_NS, RETRY_SPINS, TURNS};
use crate::exec::kernels::ChainRun;
use crate::exec::queue::{Job, Work};
use crate::exec::tickets::{Events, Ticket};
use crate::exec::wakers::{TaskWaker, Wakeable};
use crate::exec::{Pass, context, user_code};
use crate::graph::inline_box::KeptFuture;
use crate::graph::node::{Expression, Outcome};
use crate::graph::node_ref::help_is_over;
use crate::graph::seed::Position;
use crate::graph::value::Value;
use crate::parallel::fork_join::outside_team;
use crate::parallel::injector::{IDLE_TIMEOUT, offer};
use crate::parallel::sync::{MutexGuard, Ordering, Patience, current_num_threads, spawn, spin_loop, yield_now};
use crate::record::SpanWork;
use std::cell::LazyCell;
use std::panic::Location;
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

impl Pass {
    /// Called by a driver before it polls its future.
    pub(crate) fn drive(&self, driver: u32) {
        self.state().drivers.polled(driver, may_work());
    }

    /// Called by a driver when its own future cannot go on. Says whether that is worth another try
    /// now; if not, the driver's waker will be called.
    ///
    /// A driver that runs inside another pass first asks the workers of that pass to help, so that
    /// several such drivers, joined there, advance in parallel. It has itself woken, and does the
    /// work that is left then. `asked` is how many nanoseconds it has asked for.
    pub(crate) fn advance(self: &Arc<Self>, driver: u32, asked: &mut f64, waker: &Waker) -> bool {
        let mut state = self.state();
        if !state.drivers.works(driver) {
            self.share(&mut state, false);
            self.release(state);
            return false;
        }
        if !self.has_work(&state) && state.workers.tickets() > 0 {
            let read = self.events.count();
            self.release(state);
            // who works for the pass is mostly through before this thread, once it sleeps, would be
            // awake again
            self.lingering.store(true, Ordering::Relaxed);
            let heard = linger(&self.events, read, || self.width.working() > 0);
            self.lingering.store(false, Ordering::Relaxed);
            if heard {
                return true;
            }
            state = self.state();
        }
        if !self.has_work(&state) {
            *asked = 0.0;
            state.drivers.idle(driver, waker);
            self.release(state);
            return false;
        }
        let around = context::current().filter(|_| current_num_threads() > 1);
        let longest = around.as_ref().map_or(f64::INFINITY, |_| worth_asking_again(*asked));
        if state.ready.nanoseconds() < longest {
            *asked = 0.0;
            let ended;
            (state, ended) = self.work(state, false, TURNS, longest);
            if ended {
                self.release(state);
                return true;
            }
        }
        let queued = state.ready.nanoseconds();
        self.release(state);
        if let Some(around) = around.filter(|_| queued >= longest) {
            *asked = queued;
            around.ask_for_help(Ticket::of(self), queued);
        }
        // others who are polled with this driver come first
        waker.wake_by_ref();
        false
    }

    fn ask_for_help(self: &Arc<Self>, with: Ticket, nanoseconds: f64) {
        let mut state = self.state();
        state.ready.push(Work::Help(with), nanoseconds);
        self.share(&mut state, false);
        self.release(state);
    }

    /// Works until the queue is empty, or nobody drives the pass any more. Says whether it came to
    /// that: after so many turns somebody else is to have his, where the queue becomes longer than
    /// that, others are to be asked first, and who helps leaves what stays to a driver who is at
    /// the queue.
    fn work<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, PassState>,
        helps: bool,
        turns: usize,
        longest: f64,
    ) -> (MutexGuard<'a, PassState>, bool) {
        let driver = usize::from(!helps);
        state.workers.driver_polls(driver);
        let (mut state, ended) = self.work_through(state, helps, turns, longest);
        state.workers.driver_leaves(driver);
        (state, ended)
    }

    fn work_through<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, PassState>,
        helps: bool,
        mut turns: usize,
        longest: f64,
    ) -> (MutexGuard<'a, PassState>, bool) {
        let driver = usize::from(!helps);
        let mut run = ChainRun::default();
        let (mut chain, mut not_inline) = (Vec::new(), None);
        let mut spare = None;
        let threads = LazyCell::new(current_num_threads as fn() -> usize);
        self.width.works();
        loop {
            self.share_with(&mut state, true, &threads);
            if state.drivers.is_empty() {
                break;
            }
            if state.ready.nanoseconds() >= longest {
                self.width.rests();
                return (state, false);
            }
            if helps && state.workers.active_drivers() > 0 && state.ready.len() > 0 && state.ready.all_stay() {
                self.width.rests();
                return (state, false);
            }
            if helps && self.leaves_to_driver(&state) {
                self.tell_news();
                break;
            }
            match state.ready.pop(helps) {
                Some(Job { what: Work::Kernel(index), nanoseconds, .. })
                    if !helps && not_inline != Some(index) && self.is_alone(index, nanoseconds, &state) =>
                {
                    state.workers.run_begin();
                    (state, not_inline) = self.run_alone(index, state, &mut chain);
                    state.workers.run_end();
                }
                Some(Job { what: Work::Kernel(index), nanoseconds, stays }) => {
                    let busy = if stays { 0 } else { driver };
                    state.workers.driver_leaves(busy);
                    state.workers.run_begin();
                    state = if state.has_followers(index) {
                        state.take_chain_to_run(index, (nanoseconds, stays), &mut run);
                        self.run_chain(&mut run, helps, state)
                    } else {
                        self.run_one(index, state)
                    };
                    state.workers.run_end();
                    state.workers.driver_polls(busy);
                }
                Some(Job { what: Work::Task(index), .. }) => {
                    let again = state.task(index).is_some();
                    state.workers.driver_leaves(driver);
                    state.workers.run_begin();
                    state = self.poll_task(index, state, &mut spare, &threads);
                    state.workers.run_end();
                    state.workers.driver_polls(driver);
                    turns -= usize::from(again);
                    if turns == 0 {
                        self.width.rests();
                        return (state, false);
                    }
                }
                Some(Job { what: Work::Help(ticket), nanoseconds, .. }) => {
                    state.workers.driver_leaves(driver);
                    self.release(state);
                    let enough = worth_asking_again(nanoseconds);
                    let queued = ticket.upgrade().map_or(0.0, |pass| pass.help_for_a_while(enough));
                    state = self.state();
                    if queued >= enough {
                        state.ready.push(Work::Help(ticket), queued);
                    }
                    state.workers.driver_polls(driver);
                }
                None => {
                    self.width.rests();
                    let Some(crew) = self.open_crew(&state).cloned() else { return (state, true) };
                    // until there is something to do for which nobody else may be there
                    let read = self.events.count();
                    state.workers.driver_leaves(driver);
                    self.release(state);
                    crew.help(|| self.events.count() == read);
                    state = self.state();
                    state.workers.driver_polls(driver);
                    self.width.works();
                }
            }
        }
        self.width.rests();
        (state, true)
    }

    /// Whether a helper had better leave what is queued, which is too little to be shared, to a
    /// driver who waits for it, awake: he has met the weights of the pass in its last step, or is
    /// going to change them, and where nobody else works, his way of working costs less. Only once:
    /// if he has not come by then, he has lost his processor.
    fn leaves_to_driver(&self, state: &PassState) -> bool {
        state.ready.len() > 0 && !state.ready.is_worth_sharing() && self.lingering.swap(false, Ordering::Relaxed)
    }

    /// Polls the future of a dynamic node. Only one that has to wait is written down, and only what
    /// keeps its waker makes it a costly one.
    fn poll_task<'a>(
        self: &'a Arc<Self>,
        index: u32,
        mut state: MutexGuard<'a, PassState>,
        spare: &mut Option<Wakeable>,
        threads: &LazyCell<usize>,
    ) -> MutexGuard<'a, PassState> {
        let rests = state.drivers.rests();
        let node = state.node(index);
        let Expression::Dynamic(recipe) = &node.expression else { unreachable!("tasks belong to dynamic nodes") };
        let (started, task, position) = match state.task(index) {
            Some(task) => {
                task.waker.shared.polled();
                (task.future.take(), task.waker.clone(), task.position)
            }
            None => {
                let body = state.env.number_at(recipe.position());
                (None, Wakeable::new(self, index, spare.take()), Position::in_body(body))
            }
        };
        let first = started.is_none();
        self.release(state);

        let outside = position.enter();
        let body = node.enter();
        let mut future = started;
        let mut poll = || {
            user_code::run(|| {
                let running = future.get_or_insert_with(|| recipe.run());
                let step = Pin::new(running).poll(&mut Context::from_waker(&task.waker));
                if step.is_ready() {
                    // user values in the future are dropped outside the lock; a panic there is
                    // reported like any other
                    drop(future.take());
                }
                step
            })
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
                    Err(error) => {
                        user_code::ignore_panic(|| drop(future.take())); // one panic is reported
                        error
                    }
                    _ => unreachable!("the others have not failed"),
                };
                Poll::Ready(Err(error.at(node.name(), node.site())))
            }
        };
        drop(body);
        let position = outside.enter();

        let mut state = self.state();
        if state.drivers.rests() != rests {
            // the pass has come to rest meanwhile, and this run was to end with that
            if state.drivers.is_empty() {
                state.tasks.interrupt(index);
            } else {
                state.queue_task(index);
            }
            self.release(state);
            user_code::ignore_panic(|| drop((future, step)));
            return self.state();
        }
        match step {
            Poll::Pending => {
                let woken = !task.shared.park();
                state.keep_task(index, Task { future, waker: task, position });
                if woken {
                    state.queue_task(index);
                }
            }
            Poll::Ready(result) => {
                if !first {
                    state.forget_task(index);
                }
                *spare = Some(task);
                match result {
                    Ok(Outcome::Layer(layer)) => state = self.follow(state, index, layer),
                    Ok(Outcome::Tape(value, backward)) => state.finish_tape(index, value, backward),
                    Err(error) => state.complete(index, Err(error)),
                }
            }
        }
        state
    }

    /// A thread that works for the pass is going to park, in a wait of its own: others may take
    /// what is queued.
    pub(super) fn goes_away(self: &Arc<Self>) {
        let mut state = self.state();
        state.workers.block_begin();
        self.share(&mut state, false);
        self.release(state);
    }

    pub(super) fn comes_back(&self) {
        self.state().workers.block_end();
    }

    /// A task that waits was woken, by whomever.
    pub(super) fn wake_task(self: &Arc<Self>, woken: &Arc<TaskWaker>) {
        let mut state = self.state();
        let index = woken.index.load(Ordering::Relaxed);
        // if the pass has come to rest since, this is another run of the body, or no run at all
        if state.tasks.get(index).is_some_and(|task| Arc::ptr_eq(&task.waker.shared, woken)) {
            state.queue_task(index);
        }
        self.offer(state);
    }

    /// Releases the lock; whoever can help with what is in the queue is told.
    pub(super) fn offer(self: &Arc<Self>, mut state: MutexGuard<'_, PassState>) {
        let working = may_work() && crate::exec::is_current(self);
        self.share(&mut state, working);
        self.release(state);
    }

    /// Releases the lock, then drops what was discarded under it and wakes those who wait for what
    /// was done.
    pub(super) fn release(self: &Arc<Self>, mut state: MutexGuard<'_, PassState>) {
        if state.deferred.is_empty() {
            return;
        }
        let (woken, discarded) = state.deferred.take();
        drop(state);
        if !discarded.is_empty() {
            computing(self, || discarded.into_iter().for_each(|(value, place)| self.discard(value, place)));
        }
        self.tell_news();
        for waker in woken {
            // a waker of the user's that panics has nobody to tell
            user_code::ignore_panic(|| waker.wake());
        }
    }

    /// Drops a dead value of the node that was written at this place. If the destructor panics, the
    /// pass is at fault.
    pub(super) fn discard(&self, value: Value, place: &'static Location<'static>) {
        if let Err(error) = user_code::run(|| drop(value)) {
            self.state().deferred.set_fault(error.at("destructor of a value", place));
        }
    }

    /// Offers a share of the queue to the driver, if it is idle, and to the rayon pool, as far as
    /// it is worth their while. `working` says that this thread is going to work through the queue
    /// itself.
    ///
    /// The number of threads counts all that work on the pass: a driver that works is one of them.
    pub(super) fn share(self: &Arc<Self>, state: &mut PassState, working: bool) {
        self.share_with(state, working, &LazyCell::new(current_num_threads));
    }

    /// The same for somebody who shares again and again, and asks for the number of threads once.
    #[inline]
    fn share_with(self: &Arc<Self>, state: &mut PassState, working: bool, threads: &LazyCell<usize>) {
        let mut spare = state.ready.spare(working);
        if spare == 0 || state.drivers.is_empty() {
            return;
        }
        let driver_works = state.drivers.any_works();
        let limit = **threads - usize::from(driver_works) + state.workers.blocked();
        if limit == 0 && state.workers.tickets() == 0 && !state.drivers.any_idle() {
            return; // there is nobody else
        }
        self.tell_news();
        let worth_while = match working {
            true => state.ready.is_worth_sharing(),
            false => state.ready.nanoseconds() >= INVITE_NS,
        };
        // where nobody is at work, all of them: the first one may be a run that somebody has, but
        // does not poll
        while (worth_while || !working)
            && let Some(driver) = state.drivers.take_idle()
        {
            state.deferred.wake(driver);
            spare = spare.saturating_sub(1);
            if working {
                break;
            }
        }
        while state.workers.tickets() < limit && spare + state.workers.blocked() > state.workers.tickets() {
            let somebody_comes =
                working || usize::from(driver_works) + state.workers.tickets() > state.workers.blocked();
            if !worth_while && somebody_comes {
                return;
            }
            let ticket = Ticket::of(self);
            let help = move || {
                // nothing may unwind into the pool
                user_code::ignore_panic(|| use_ticket(&ticket));
                help_is_over(); // the pass may have gone here, with all its nodes
            };
            if somebody_comes {
                if !offer(help) {
                    return;
                }
            } else {
                spawn(help); // nobody else is going to do it
            }
            state.workers.ticket_issued();
        }
    }
}

/// Works through the queue, and lingers a little for more: waking a thread costs more than that. It
/// does not hold the pass meanwhile.
///
/// Nor does it in a training step, for [a while](IDLE_TIMEOUT), where it has heard nothing and is about to
/// go, and somebody else has the state: he may have them for a whole walk back, and change weights
/// after that, of which nobody else is to have the values then. After that it waits for them like
/// everybody, so that a ticket comes back; in other passes it does so at once, as a walk hands the
/// state to those who wait.
fn use_ticket(ticket: &Ticket) {
    let events = ticket.events();
    let mut read = events.count();
    let mut goes: Option<Patience> = None;
    while let Some(pass) = ticket.upgrade() {
        let may_wait = !pass.steps || goes.as_ref().is_none_or(|since| !since.lasts(IDLE_TIMEOUT));
        let Some(state) = (if may_wait { Some(pass.state()) } else { pass.try_state() }) else {
            drop(pass);
            if has_news(events, read, RETRY_SPINS) {
                goes = None;
            } else {
                // there may be more threads than processors
                yield_now();
            }
            continue;
        };
        let (mut state, ended) = outside_team(|| pass.work(state, true, usize::MAX, f64::INFINITY));
        let latest = events.count();
        // for what stays nobody is called: when there is something else, he is
        if latest == read || !ended {
            state.workers.ticket_returned();
            pass.release(state);
            return;
        }
        read = latest;
        pass.release(state);
        drop(pass);
        goes = (!has_news(events, read, IDLE_SPINS)).then(Patience::new);
    }
}

impl Pass {
    /// Takes some turns. Returns how much is queued then, in nanoseconds.
    fn help_for_a_while(self: &Arc<Self>, longest: f64) -> f64 {
        let (state, _) = self.work(self.state(), true, TURNS, longest);
        let queued = state.ready.nanoseconds();
        self.release(state);
        queued
    }
}

/// With how much in its queue a driver asks others for help that has just asked with so much in it.
/// If that was a little, they may not have come, and a little may become much: a body that decides
/// at once may turn out to be a large network.
fn worth_asking_again(asked: f64) -> f64 {
    match asked {
        0.0 => INLINE_NS,
        ..INVITE_NS => INVITE_NS,
        _ => f64::INFINITY,
    }
}

/// Waits a few microseconds for news, and on for a moment as long as there is somebody to wait for.
/// Says whether they have come.
fn linger(events: &Events, read: usize, goes_on: impl Fn() -> bool) -> bool {
    let since = Patience::new();
    loop {
        if has_news(events, read, IDLE_SPINS) {
            return true;
        }
        if !goes_on() || !since.lasts(IDLE_TIMEOUT) {
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
    use crate::exec::{Purpose, Settings};

    #[test]
    fn who_helps_leaves_what_stays_to_a_driver_at_the_queue() {
        let pass = Pass::new(Purpose::Step, &Settings::default());
        let mut state = pass.state();
        let driver = state.drivers.arrive();
        state.drivers.polled(driver, true);
        state.ready.push_to_stay(0, 1_000.0);
        state.workers.driver_polls(1);
        let (mut state, ended) = pass.work(state, true, usize::MAX, f64::INFINITY);
        assert!(!ended && state.ready.len() == 1 && state.workers.active_drivers() == 1);
        state.ready.reset();
    }
}
