//! A cost model of bodies: a poll of a body is estimated to take as long as earlier polls of bodies
//! at the same source location.
//!
//! A body has no cost estimate of its own. A body that only decides takes less than a microsecond,
//! and handing it to another thread takes several; a body that reads a file is worth a hand-over.
//! So each thread records the times of the bodies that it polls, by source location. The estimate
//! decides which thread polls a body, never its value.
//!
//! A small network that a body extracts is evaluated inline, as part of its pass (see `inline.rs`),
//! by one thread at a time. A second thread would not make it faster, so this time is excluded.

use crate::exec::Pass;
use crate::exec::dispatch::{INLINE_NS, REMEASURE_POLLS, UNKNOWN_NS};
use dl_parallel::sync::thread_local;
use std::cell::Cell;
use std::panic::Location;
use std::time::{Duration, Instant};

const PLACES: usize = 128;

#[derive(Clone, Copy)]
struct CostSample {
    place: Option<&'static Location<'static>>,
    nanoseconds: f64,
    /// The number of polls since the last measurement.
    polls: u8,
}

/// A poll that is being timed.
#[derive(Clone, Copy)]
struct Timed {
    pass: *const Pass,
    /// The excluded time.
    apart: Duration,
}

thread_local! {
    /// A direct-mapped cache: one line for each hash of a location.
    static SEEN: [Cell<CostSample>; PLACES] = const { [const { Cell::new(CostSample { place: None, nanoseconds: 0.0, polls: 0 }) }; PLACES] };
}

thread_local! {
    static TIMED: Cell<Option<Timed>> = const { Cell::new(None) };
}

/// The estimated cost of a poll of a body at this location; 0 if a hand-over does not pay off.
pub(super) fn guess(place: &'static Location<'static>) -> f64 {
    match seen(place) {
        None => UNKNOWN_NS,
        Some(seen) if seen.is_small() => 0.0,
        Some(seen) => seen.nanoseconds,
    }
}

/// Polls a body at this location of this pass, and records the time.
pub(super) fn timed<R>(pass: &Pass, place: &'static Location<'static>, poll: impl FnOnce() -> R) -> R {
    let before = seen(place);
    if let Some(seen) = before.filter(|seen| seen.is_small() && seen.polls < REMEASURE_POLLS) {
        remember(place, CostSample { polls: seen.polls + 1, ..seen });
        return poll();
    }
    // A nested poll of another body is part of the outer one.
    let around = TIMED.replace(Some(Timed { pass, apart: Duration::ZERO }));
    let begun = Instant::now();
    let polled = poll();
    let all = begun.elapsed();
    let apart = TIMED.replace(around).map_or(Duration::ZERO, |timed| timed.apart);
    let now = all.saturating_sub(apart).as_nanos() as f64;
    // A single poll may have taken long because the thread was preempted.
    let nanoseconds = before.map_or(now, |seen| seen.nanoseconds + (now - seen.nanoseconds) / 4.0);
    remember(place, CostSample { place: Some(place), nanoseconds, polls: 0 });
    polled
}

/// Runs work that is excluded from the time of a body of this pass, if this thread polls one.
pub(super) fn apart<R>(pass: &Pass, work: impl FnOnce() -> R) -> R {
    if !TIMED.get().is_some_and(|timed| std::ptr::eq(timed.pass, pass)) {
        return work();
    }
    let begun = Instant::now();
    let done = work();
    TIMED.set(TIMED.get().map(|timed| Timed { apart: timed.apart + begun.elapsed(), ..timed }));
    done
}

impl CostSample {
    fn is_small(&self) -> bool {
        self.nanoseconds < INLINE_NS
    }
}

fn seen(place: &'static Location<'static>) -> Option<CostSample> {
    let seen = SEEN.try_with(|seats| seats[seat(place)].get()).ok()?;
    seen.place.is_some_and(|seen| std::ptr::eq(seen, place)).then_some(seen)
}

fn remember(place: &'static Location<'static>, seen: CostSample) {
    let _ = SEEN.try_with(|seats| seats[seat(place)].set(seen)); // a thread that is ending remembers nothing
}

fn seat(place: &'static Location<'static>) -> usize {
    // Locations in one file are close to each other.
    std::ptr::from_ref(place).addr() / size_of::<Location<'_>>() % PLACES
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use crate::exec::inline::tests::{Probe, on_threads};
    use crate::{Differentiable, Do, Layer};
    use std::collections::HashSet;
    use std::sync::{Arc, Condvar, Mutex};
    use std::thread;

    /// A body that asks for a number, and turns out to be the layer that is made of it.
    fn decides(on: Layer<f64>, then: impl Fn(f64) -> Layer<f64> + Send + Sync + 'static) -> Layer<f64> {
        let then = Arc::new(then);
        Layer::dynamic(move || {
            let (on, then) = (on.clone(), then.clone());
            async move { Ok(then(on.extract().await?)) }
        })
    }

    /// Where two threads wait for one another, again and again.
    #[derive(Clone, Default)]
    struct Meeting(Arc<(Mutex<usize>, Condvar)>);

    impl Meeting {
        fn meet(&self) {
            let (arrived, changed) = &*self.0;
            let mut here = arrived.lock().expect("nobody panics");
            *here += 1;
            changed.notify_all();
            let last = here.next_multiple_of(2);
            let waited = changed.wait_timeout_while(here, Duration::from_secs(10), |here| *here < last);
            assert!(!waited.expect("nobody panics").1.timed_out(), "nobody came");
        }
    }

    #[test]
    fn known_cheap_bodies_stay_on_one_thread() {
        let threads = Arc::<Mutex<HashSet<_>>>::default();
        let body = |x: u32| {
            let threads = threads.clone();
            let slow = move |_: &Arc<Pass>| {
                threads.lock().expect("nobody panics").insert(thread::current().id());
                thread::sleep(Duration::from_micros(200)); // time for others to come
            };
            decides(Layer::apply_built_in(Probe::new(1_000.0, slow), (Layer::constant(f64::from(x)),)), Layer::constant)
        };
        let few: Vec<_> = (1..REMEASURE_POLLS.into()).map(body).collect();
        let values = on_threads(2, || {
            let place = few[0].any().place;
            remember(place, CostSample { place: Some(place), nanoseconds: 1_000.0, polls: 0 });
            Do::predict(few).wait()
        });
        assert!(values.expect("it succeeds").into_iter().eq((2..=REMEASURE_POLLS).map(f64::from)));
        assert_eq!(threads.lock().expect("nobody panics").len(), 1);
    }

    #[test]
    fn body_cost_excludes_work_of_its_pass() {
        let place = Location::caller();
        let pass = Pass::new(crate::exec::Purpose::Predict, &crate::exec::Settings::default());
        let other = Pass::new(crate::exec::Purpose::Predict, &crate::exec::Settings::default());
        let nap = || thread::sleep(Duration::from_millis(20));
        assert_eq!(guess(place), UNKNOWN_NS);
        timed(&pass, place, || apart(&other, nap));
        assert!(guess(place) >= 2e7);
        // A poll without its naps takes no time, unless the thread is preempted.
        let guess_falls = |_| {
            let before = guess(place);
            timed(&pass, place, || apart(&pass, nap));
            guess(place) < 0.95 * before
        };
        assert!((0..10).any(guess_falls));
        let polls = (0..1_000).position(|_| {
            timed(&pass, place, || ());
            guess(place) == 0.0
        });
        assert!(polls.is_some_and(|polls| polls > 10), "each poll counts a little");
        (0..=REMEASURE_POLLS).for_each(|_| timed(&pass, place, nap));
        assert!(guess(place) >= 5e6, "it has grown");
    }

    #[test]
    fn known_expensive_bodies_are_shared() {
        let meeting = Meeting::default();
        let body = || {
            let meeting = meeting.clone();
            decides(Layer::constant(1.0), move |x| {
                meeting.meet();
                thread::sleep(Duration::from_millis(1));
                Layer::constant(x)
            })
        };
        on_threads(2, || {
            for _ in 0..10 {
                assert_eq!((body() + body()).predict().wait().expect("it succeeds"), 2.0);
            }
        });
    }

    /// Each of them decides in no time, and has a dear operation for an answer.
    #[test]
    fn joined_predictions_with_cheap_bodies_run_in_parallel() {
        let meeting = Meeting::default();
        let prediction = |x| {
            let meeting = meeting.clone();
            let dear = move |x| {
                let meeting = meeting.clone();
                Layer::apply_built_in(Probe::new(1e6, move |_| meeting.meet()), (Layer::constant(x),))
            };
            decides(Layer::constant(x), dear).predict()
        };
        on_threads(2, || {
            for _ in 0..300 {
                assert_eq!(Do::join([prediction(1.0), prediction(2.0)]).wait().expect("it succeeds"), [2.0, 3.0]);
            }
        });
    }
}
