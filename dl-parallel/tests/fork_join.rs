//! Fork-join loops on several threads: every piece runs once, in pools of any size, with nested and
//! concurrent loops.

use dl_parallel::{for_each, for_each_mut};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Condvar, Mutex};
use std::thread;
use std::time::Duration;

const MUCH: f64 = 1e9;

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")
}

fn counts(pieces: usize, nanoseconds_each: f64) -> Vec<usize> {
    let counts: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
    for_each(pieces, nanoseconds_each, |piece| {
        counts[piece].fetch_add(1, Ordering::Relaxed);
    });
    counts.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn for_each_runs_every_piece_once() {
    for threads in [1, 2, 4] {
        for pieces in [0, 1, 2, 3, 100] {
            for nanoseconds_each in [0.0, 5_000.0, MUCH, f64::INFINITY, f64::NAN, -1.0] {
                let found = pool(threads).install(|| counts(pieces, nanoseconds_each));
                assert_eq!(found, vec![1; pieces], "{threads} threads, {nanoseconds_each} ns");
            }
        }
    }
    // from outside a pool
    assert_eq!(counts(1000, MUCH), [1; 1000]);
}

/// The pieces wait for one another at a barrier, so all threads of the pool must work.
#[test]
fn for_each_uses_all_threads_of_pool() {
    pool(3).install(|| {
        let all = Barrier::new(3);
        let workers = Mutex::new(HashSet::new());
        for_each(30, MUCH, |_| {
            all.wait();
            workers.lock().unwrap().insert(thread::current().id());
        });
        let workers = workers.into_inner().unwrap();
        assert_eq!(workers.len(), 3);
        assert!(workers.contains(&thread::current().id()));
    });
}

#[test]
fn cheap_work_runs_on_calling_thread() {
    pool(4).install(|| {
        let here = thread::current().id();
        for_each(100, 100.0, |_| assert_eq!(thread::current().id(), here));
    });
    pool(1).install(|| {
        let (here, mut order) = (thread::current().id(), Vec::new());
        let seen = Mutex::new(&mut order);
        for_each(100, MUCH, |piece| {
            assert_eq!(thread::current().id(), here);
            seen.lock().unwrap().push(piece);
        });
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn first_panic_is_propagated_after_all_pieces_end() {
    for threads in [1, 4] {
        pool(threads).install(|| {
            for round in 0..200 {
                let running = AtomicUsize::new(0);
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    for_each(50, MUCH, |piece| {
                        running.fetch_add(1, Ordering::SeqCst);
                        let panics = piece >= 20 && (piece + round) % 3 == 0;
                        running.fetch_sub(1, Ordering::SeqCst);
                        if panics {
                            std::panic::resume_unwind(Box::new(piece));
                        }
                    });
                }));
                assert_eq!(running.into_inner(), 0);
                let first = (20..).find(|piece| (piece + round) % 3 == 0);
                assert_eq!(caught.expect_err("many pieces panic").downcast_ref(), first.as_ref());
            }
        });
    }
    assert_eq!(counts(100, MUCH), [1; 100]);
}

#[test]
fn nested_for_each_runs_every_piece_once() {
    for threads in [1, 2, 4] {
        pool(threads).install(|| {
            let sum = AtomicUsize::new(0);
            for_each(8, MUCH, |i| {
                for_each(8, MUCH, |j| {
                    for_each(8, MUCH, |k| {
                        sum.fetch_add(64 * i + 8 * j + k, Ordering::Relaxed);
                    });
                });
            });
            assert_eq!(sum.into_inner(), 511 * 256);
        });
    }
}

/// A barrier with a timeout: `arrive_and_await` returns whether `many` threads arrived in time.
#[derive(Default)]
struct Arrivals(Mutex<usize>, Condvar);

impl Arrivals {
    fn arrive_and_await(&self, many: usize) -> bool {
        let mut come = self.0.lock().unwrap();
        *come += 1;
        self.1.notify_all();
        !self.1.wait_timeout_while(come, Duration::from_secs(10), |come| *come < many).unwrap().1.timed_out()
    }
}

/// Two threads have a piece each. One finishes its piece; the other divides its own, and the first
/// one must help with that.
#[test]
fn idle_thread_helps_with_nested_region_of_other_piece() {
    pool(2).install(|| {
        let caller = thread::current().id();
        for caller_divides in [true, false] {
            for round in 0..20 {
                let (begun, parts) = (Arrivals::default(), Arrivals::default());
                for_each(2, MUCH, |_| {
                    assert!(begun.arrive_and_await(2), "one thread ran both pieces");
                    if (thread::current().id() == caller) == caller_divides {
                        if round % 2 == 0 {
                            thread::sleep(Duration::from_millis(2)); // by then the other thread sleeps
                        }
                        for_each(2, MUCH, |_| assert!(parts.arrive_and_await(2), "one thread ran all parts"));
                    }
                });
            }
        }
    });
}

/// Of three threads, one waits for the outer region and one for the middle region, while the third
/// starts an inner region. Both waiting threads must help with it.
#[test]
fn thread_waiting_for_outer_region_helps_with_inner_region() {
    pool(3).install(|| {
        for _ in 0..20 {
            let (outer, middle, parts) = (Arrivals::default(), Arrivals::default(), Arrivals::default());
            let (caller, divider) = (thread::current().id(), Mutex::new(None));
            for_each(2, MUCH, |_| {
                assert!(outer.arrive_and_await(2), "one thread ran both pieces");
                if thread::current().id() == caller {
                    return;
                }
                for_each(2, MUCH, |_| {
                    assert!(middle.arrive_and_await(2), "one thread ran both pieces inside");
                    if *divider.lock().unwrap().get_or_insert(thread::current().id()) == thread::current().id() {
                        thread::sleep(Duration::from_millis(2)); // by then the other threads sleep
                        for_each(3, MUCH, |_| assert!(parts.arrive_and_await(3), "not all threads came"));
                    }
                });
            });
        }
    });
}

/// Three nested regions; their threads may wait for each other. A panic in the innermost region is
/// propagated to the caller.
#[test]
fn threads_help_at_any_nesting_depth() {
    for threads in [2, 3] {
        pool(threads).install(|| {
            for round in 0..500 {
                let done: Vec<AtomicUsize> = (0..27).map(|_| AtomicUsize::new(0)).collect();
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    for_each(3, MUCH, |i| {
                        for_each(3, MUCH, |j| {
                            for_each(3, MUCH, |k| {
                                done[9 * i + 3 * j + k].fetch_add(1, Ordering::Relaxed);
                                if round % 2 == 1 && (i, j, k) == (2, 1, 0) {
                                    std::panic::resume_unwind(Box::new("inside"));
                                }
                            });
                        });
                    });
                }));
                let done: Vec<usize> = done.into_iter().map(AtomicUsize::into_inner).collect();
                if round % 2 == 0 {
                    assert_eq!(done, [1; 27]);
                    assert!(caught.is_ok());
                } else {
                    assert!(done.iter().all(|&done| done <= 1));
                    assert_eq!(caught.expect_err("a piece panics").downcast_ref(), Some(&"inside"));
                }
            }
        });
    }
}

/// The caller holds a lock that every other worker of the pool waits for: no worker can help, and the
/// caller must finish without help.
#[test]
fn for_each_completes_while_all_other_workers_are_blocked() {
    let pool = pool(3);
    let lock = Mutex::new(());
    let started = Barrier::new(3);
    pool.scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|_| {
                started.wait();
                drop(lock.lock().unwrap());
            });
        }
        let held = lock.lock().unwrap();
        started.wait();
        assert_eq!(counts(100, MUCH), [1; 100]);
        drop(held);
    });
}

#[test]
fn concurrent_callers_get_correct_results() {
    let pool = pool(2);
    thread::scope(|scope| {
        for caller in 0..6_usize {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..300 {
                    let mut numbers = vec![0; 64 + round % 7];
                    let work = |index: usize, number: &mut usize| *number = caller + index * index;
                    if caller % 2 == 0 {
                        for_each_mut(&mut numbers, 10_000.0, work);
                    } else {
                        pool.install(|| for_each_mut(&mut numbers, 10_000.0, work));
                    }
                    assert!(numbers.iter().enumerate().all(|(index, &number)| number == caller + index * index));
                }
            });
        }
    });
}

#[test]
fn for_each_mut_accepts_items_that_are_not_sync() {
    // a `Cell` can be sent, but not shared
    let mut cells = vec![std::cell::Cell::new(1); 100];
    for_each_mut(&mut cells, MUCH, |index, cell| cell.set(cell.get() + index));
    assert!(cells.iter().enumerate().all(|(index, cell)| cell.get() == index + 1));
    for_each_mut(&mut [(); 5], MUCH, |_, ()| ());
}

struct BreaksWhenDropped;

impl Drop for BreaksWhenDropped {
    fn drop(&mut self) {
        panic!("the destructor of a payload panics");
    }
}

/// Only the first panic is propagated. The payloads of the others are dropped, and their destructors
/// may panic: that must not unwind into the pool, which would abort the process.
#[test]
fn panic_payload_with_panicking_destructor_does_not_abort() {
    let pool = pool(2);
    for _ in 0..20 {
        let both = Barrier::new(2);
        let run = || {
            for_each(2, 1e6, |_| {
                both.wait();
                std::panic::panic_any(BreaksWhenDropped);
            });
        };
        let result = pool.install(|| catch_unwind(AssertUnwindSafe(run)));
        let payload = result.expect_err("a piece has panicked");
        assert!(payload.is::<BreaksWhenDropped>());
        std::mem::forget(payload);
    }
}
