//! Workers: the loop of drivers and helpers through the ready queue, and invitations to helpers.

use crate::error::Result;
use crate::exec::context::{computing, may_work, polling};
use crate::exec::dispatch::{INLINE_NS, INVITE_NS, TURNS};
use crate::exec::lifetime::{Events, Ticket};
use crate::exec::ready_queue::{Job, Work};
use crate::exec::state::PassState;
use crate::exec::task_waker::{TaskWaker, Wakeable};
use crate::exec::{Pass, body_cost, context, user_code};
use crate::graph::inline_box::InlineFuture;
use crate::graph::node::{NodeOp, Outcome};
use crate::graph::node_ref::help_is_over;
use crate::graph::seed::Position;
use crate::graph::value::Value;
use crate::record::SpanWork;
use dl_parallel::backoff::{round, spin, wait};
use dl_parallel::fork_join::outside_team;
use dl_parallel::injector::offer;
use dl_parallel::sync::{Deadline, MutexGuard, Ordering, current_num_threads, spawn};
use dl_parallel::thresholds::{EVENT_SPINS, IDLE_TIMEOUT};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The future of a dynamic node that waits.
pub(crate) struct Task {
    /// `None` while it is being polled.
    future: Option<InlineFuture<Result<Outcome>>>,
    waker: Wakeable,
    /// The position at which its body continues to build layers.
    position: Position,
}

impl Pass {
    /// Called by a driver before it polls its future.
    pub(crate) fn drive(&self, driver: u32) {
        self.state().drivers.polled(driver, may_work());
    }

    /// Called by a driver whose own future is pending: works through the queue. Returns whether the
    /// future must be polled again now; otherwise the driver's waker will be called.
    ///
    /// A driver inside another pass first asks the workers of that pass for help, so that several
    /// such drivers, joined there, advance in parallel. It wakes itself and then runs the work that
    /// is left. `asked` is the amount of work, in nanoseconds, that it has asked help for.
    pub(crate) fn advance(self: &Arc<Self>, driver: u32, asked: &mut f64, waker: &Waker) -> bool {
        let mut state = self.state();
        if !state.drivers.works(driver) {
            self.share(&mut state, false);
            self.release(state);
            return false;
        }
        if !self.has_work(&state) && state.workers.tickets > 0 {
            let read = self.events.count();
            self.release(state);
            // The helpers usually finish sooner than this thread could park and wake.
            self.driver_spins.store(true, Ordering::Relaxed);
            let heard = linger(&self.events, read, || self.width.working() > 0);
            self.driver_spins.store(false, Ordering::Relaxed);
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
        // Other futures that are polled together with this driver come first.
        waker.wake_by_ref();
        false
    }

    fn ask_for_help(self: &Arc<Self>, with: Ticket, nanoseconds: f64) {
        let mut state = self.state();
        state.ready.push(Work::Help(with), nanoseconds);
        self.share(&mut state, false);
        self.release(state);
    }

    /// Works until the queue is empty or the pass has no driver, and returns true then. Returns
    /// false earlier in three cases: after `turns` polls of bodies that had waited; when more than
    /// `longest` nanoseconds are queued; in a helper, when only local jobs are left and a driver
    /// polls the queue.
    fn work<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, PassState>,
        helps: bool,
        mut turns: usize,
        longest: f64,
    ) -> (MutexGuard<'a, PassState>, bool) {
        let mut spare = None;
        state.workers.active_drivers += usize::from(!helps);
        self.width.works();
        let ended = loop {
            self.share(&mut state, true);
            if state.drivers.is_empty() {
                break true;
            }
            let only_local = state.ready.len() > 0 && state.ready.is_all_local();
            if state.ready.nanoseconds() >= longest || helps && only_local && state.workers.active_drivers > 0 {
                break false;
            }
            if helps && self.leaves_to_driver(&state) {
                self.notify_events();
                break true;
            }
            let job = state.ready.pop(helps);
            let is_local = job.as_ref().is_some_and(|job| job.is_local);
            let leaving = usize::from(!helps && !is_local);
            state.workers.active_drivers -= leaving;
            match job {
                Some(Job { what: Work::Kernel(index), nanoseconds, .. }) => {
                    state = self.run_job(index, nanoseconds, helps, state);
                }
                Some(Job { what: Work::Task(index), .. }) => {
                    turns -= usize::from(state.task(index).is_some());
                    state.workers.running += 1;
                    state = self.poll_task(index, state, &mut spare);
                    state.workers.running -= 1;
                }
                Some(Job { what: Work::Help(ticket), nanoseconds, .. }) => {
                    self.release(state);
                    let enough = worth_asking_again(nanoseconds);
                    let queued = ticket.upgrade().map_or(0.0, |pass| pass.help_for_a_while(enough));
                    state = self.state();
                    if queued >= enough {
                        state.ready.push(Work::Help(ticket), queued);
                    }
                }
                Some(Job { what: Work::Served(served), .. }) => state = self.complete_reads(served, state),
                None => {
                    self.serve_reads(&mut state);
                    // A thread that looks for a region is free for it.
                    self.width.rests();
                    let Some(team) = self.open_region(&state).cloned() else { return (state, true) };
                    // Helps until the next event: there may be no other thread for a new job.
                    let read = self.events.count();
                    self.release(state);
                    team.help(|| self.events.count() == read);
                    state = self.state();
                    self.width.works();
                }
            }
            state.workers.active_drivers += leaving;
            if turns == 0 {
                break false;
            }
        };
        state.workers.active_drivers -= usize::from(!helps);
        self.width.rests();
        (state, ended)
    }

    /// Whether a helper should leave the remaining (cheap) jobs to a driver that is spinning for
    /// work. The driver touched the weights in the last step, so it has better cache locality, and
    /// alone it can run them inline. Asked once per spin, because a driver that has not reacted has
    /// probably been preempted.
    fn leaves_to_driver(&self, state: &PassState) -> bool {
        state.ready.len() > 0 && !state.ready.is_worth_sharing() && self.driver_spins.swap(false, Ordering::Relaxed)
    }

    /// Polls the future of a dynamic node, which gets an entry in the task table only if it is
    /// pending.
    fn poll_task<'a>(
        self: &'a Arc<Self>,
        index: u32,
        mut state: MutexGuard<'a, PassState>,
        spare: &mut Option<Wakeable>,
    ) -> MutexGuard<'a, PassState> {
        let rests = state.drivers.rests();
        let node = state.node(index);
        let NodeOp::Dynamic(recipe) = &node.op else { unreachable!("tasks belong to dynamic nodes") };
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
                    // User values in the future are dropped without the lock. A panic there is
                    // reported like any other.
                    drop(future.take());
                }
                step
            })
        };
        let mut poll =
            || polling(self, true, || self.during(SpanWork::Body, Some(&node), || self.traced(index), &mut poll));
        let step = if current_num_threads() > 1 { body_cost::timed(self, node.place, poll) } else { poll() };
        let step = step.unwrap_or_else(|panic| {
            user_code::ignore_panic(|| drop(future.take())); // one panic is reported
            Poll::Ready(Err(panic))
        });
        let step = step.map_err(|error| error.at(node.name(), node.site()));
        drop(body);
        let position = outside.enter();

        let mut state = self.state();
        if state.drivers.rests() != rests {
            // The pass has come to rest meanwhile, which ends this run of the body.
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
                    Ok(Outcome::Layer(layer)) => self.follow(&mut state, index, layer),
                    Ok(Outcome::Tape(value, backward)) => state.complete_tape(index, value, backward),
                    Err(error) => state.complete(index, Err(error)),
                }
            }
        }
        state
    }

    /// Called by a worker of this pass before it parks in a nested wait: other threads may take the
    /// queued jobs.
    pub(super) fn block_begin(self: &Arc<Self>) {
        let mut state = self.state();
        state.workers.blocked += 1;
        self.share(&mut state, false);
        self.release(state);
    }

    pub(super) fn block_end(&self) {
        self.state().workers.blocked -= 1;
    }

    /// A waker of a waiting task was called, on any thread.
    pub(super) fn wake_task(self: &Arc<Self>, woken: &Arc<TaskWaker>) {
        let mut state = self.state();
        // Relaxed: stored before the task was parked, which the waker has observed
        // (`task_waker.rs`).
        let index = woken.index.load(Ordering::Relaxed);
        // If the pass has rested since, the body was restarted or stopped, and this wake-up is
        // void.
        if state.tasks.get(index).is_some_and(|task| Arc::ptr_eq(&task.waker.shared, woken)) {
            state.queue_task(index);
        }
        self.offer(state);
    }

    /// Invites helpers for the queue, and releases the lock.
    pub(super) fn offer(self: &Arc<Self>, mut state: MutexGuard<'_, PassState>) {
        let working = may_work() && crate::exec::is_current(self);
        self.share(&mut state, working);
        self.release(state);
    }

    /// Releases the lock, then drops the discarded values and calls the wakers of completed nodes.
    pub(super) fn release(self: &Arc<Self>, mut state: MutexGuard<'_, PassState>) {
        if state.deferred.is_empty() {
            return;
        }
        let (woken, discarded) = state.deferred.take();
        drop(state);
        if !discarded.is_empty() {
            computing(self, || discarded.into_iter().for_each(|(value, place)| self.discard(value, place)));
        }
        self.notify_events();
        for waker in woken {
            user_code::ignore_panic(|| waker.wake());
        }
    }

    /// Drops a value of the node at this source location. The owner that releases the pass reports
    /// a panic of the destructor.
    pub(super) fn discard(&self, value: Value, place: &'static Location<'static>) {
        if let Err(error) = user_code::run(|| drop(value)) {
            self.state().deferred.set_fault(error.at("destructor of a value", place));
        }
    }

    /// Wakes an idle driver, and invites workers of the rayon pool if that pays off. `working` says
    /// that this thread is going to work through the queue itself.
    ///
    /// The number of pool threads limits all threads that work for the pass, working drivers
    /// included.
    pub(super) fn share(self: &Arc<Self>, state: &mut PassState, working: bool) {
        let mut spare = state.ready.spare(working);
        if spare == 0 || state.drivers.is_empty() {
            return;
        }
        let driver_works = state.drivers.any_works();
        let limit = current_num_threads() - usize::from(driver_works) + state.workers.blocked;
        if limit == 0 && state.workers.tickets == 0 && !state.drivers.any_idle() {
            return; // there is no other thread
        }
        self.notify_events();
        let worth_while = match working {
            true => state.ready.is_worth_sharing(),
            false => state.ready.nanoseconds() >= INVITE_NS,
        };
        // If this thread does not work, all drivers are woken: a run may be held without being
        // polled.
        while (worth_while || !working)
            && let Some(driver) = state.drivers.take_idle()
        {
            state.deferred.wake(driver);
            spare = spare.saturating_sub(1);
            if working {
                break;
            }
        }
        while state.workers.tickets < limit && spare + state.workers.blocked > state.workers.tickets {
            let somebody_comes = working || usize::from(driver_works) + state.workers.tickets > state.workers.blocked;
            if !worth_while && somebody_comes {
                return;
            }
            let ticket = Ticket::of(self);
            let help = move || {
                // Nothing may unwind into the pool.
                user_code::ignore_panic(|| use_ticket(&ticket));
                help_is_over(); // the pass may have been dropped here, with all its nodes
            };
            if somebody_comes {
                if !offer(help) {
                    return;
                }
            } else {
                spawn(help); // no thread is sure to work for the pass
            }
            state.workers.tickets += 1;
        }
    }
}

/// A helper: works through the queue, and spins for more jobs, because waking a thread costs more
/// than a short spin. It does not hold the pass while it spins.
///
/// Before the helper returns the ticket, it needs the state lock. In a training step another thread
/// may hold the lock for a whole backward and change weights afterwards, and the helper must not
/// keep the pass alive then. So it only tries the lock, for [a while](IDLE_TIMEOUT), and does not
/// hold the pass between the tries. In other passes it waits for the lock.
fn use_ticket(ticket: &Ticket) {
    let events = ticket.events();
    let mut read = events.count();
    let mut goes: Option<Deadline> = None;
    while let Some(pass) = ticket.upgrade() {
        let may_wait = !pass.steps || goes.as_ref().is_none_or(|since| !since.lasts(IDLE_TIMEOUT));
        let Some(state) = (if may_wait { Some(pass.state()) } else { pass.try_state() }) else {
            drop(pass);
            if round(|| events.count() != read) {
                goes = None;
            }
            continue;
        };
        let (mut state, ended) = outside_team(|| pass.work(state, true, usize::MAX, f64::INFINITY));
        let latest = events.count();
        // No helper is invited for local jobs; for other jobs there will be a new ticket.
        if latest == read || !ended {
            state.workers.tickets -= 1;
            pass.release(state);
            return;
        }
        read = latest;
        pass.release(state);
        drop(pass);
        goes = (!spin(EVENT_SPINS, || events.count() != read)).then(Deadline::new);
    }
}

impl Pass {
    /// Works for a limited number of turns. Returns the estimated cost of the queue, in
    /// nanoseconds.
    fn help_for_a_while(self: &Arc<Self>, longest: f64) -> f64 {
        let (state, _) = self.work(self.state(), true, TURNS, longest);
        let queued = state.ready.nanoseconds();
        self.release(state);
        queued
    }
}

/// The cost of the queue at which a driver asks for help again, after it has asked with `asked`
/// nanoseconds. After a small request helpers may not have come, and the queue may grow much: a
/// body may resolve to a large network.
fn worth_asking_again(asked: f64) -> f64 {
    match asked {
        0.0 => INLINE_NS,
        ..INVITE_NS => INVITE_NS,
        _ => f64::INFINITY,
    }
}

/// Spins for an event, for a limited time and as long as other threads work. Returns whether there
/// was one.
fn linger(events: &Events, read: usize, goes_on: impl Fn() -> bool) -> bool {
    let has_event = || events.count() != read;
    spin(EVENT_SPINS, has_event) || goes_on() && wait(|| has_event() || !goes_on()) && has_event()
}

impl Task {
    /// Whether the future is available. If not, the thread that polls it will find that the pass
    /// rests.
    pub(super) fn waits(&self) -> bool {
        self.future.is_some()
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use crate::exec::{Purpose, Settings};

    #[test]
    fn helper_leaves_local_job_to_active_driver() {
        let pass = Pass::new(Purpose::Step, &Settings::default());
        let mut state = pass.state();
        let driver = state.drivers.arrive();
        state.drivers.polled(driver, true);
        state.ready.push_local(0, 1_000.0);
        state.workers.active_drivers = 1;
        let (mut state, ended) = pass.work(state, true, usize::MAX, f64::INFINITY);
        assert!(!ended && state.ready.len() == 1 && state.workers.active_drivers == 1);
        state.ready.reset();
    }
}
