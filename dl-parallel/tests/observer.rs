//! The hooks through which an executor learns of regions, and empties its pools.

use dl_parallel::concurrency::Width;
use dl_parallel::for_each;
use dl_parallel::fork_join::{RegionObserver, Team, observe};
use dl_parallel::memory::{on_release, release};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

/// An observer whose own thread, outside of the pool, finds the regions.
#[derive(Default)]
struct Executor {
    width: Width,
    open: Mutex<Vec<Arc<Team>>>,
    announced: AtomicUsize,
    helpers: AtomicUsize,
    /// Whether it would have to wait for a lock.
    is_busy: bool,
}

impl RegionObserver for Executor {
    fn width(&self) -> &Width {
        &self.width
    }

    fn announce(&self, region: &Arc<Team>, _: usize) -> bool {
        self.announced.fetch_add(1, SeqCst);
        if !self.is_busy {
            self.open.lock().unwrap().push(region.clone());
        }
        !self.is_busy
    }

    fn retire(&self, region: &Arc<Team>) {
        self.open.lock().unwrap().retain(|other| !Arc::ptr_eq(other, region));
    }

    fn enter_helper(&self, help: &mut dyn FnMut()) {
        self.helpers.fetch_add(1, SeqCst);
        help();
    }
}

thread_local! {
    static EXECUTOR: Cell<Option<&'static Executor>> = const { Cell::new(None) };
}

/// Runs `divide` as a kernel of a new executor. Returns the executor.
fn observed(is_busy: bool, divide: impl FnOnce(&'static Executor)) -> &'static Executor {
    observe(|divide| divide(EXECUTOR.get().map(|executor| executor as _)));
    let executor: &'static Executor = Box::leak(Box::new(Executor { is_busy, ..Default::default() }));
    EXECUTOR.set(Some(executor));
    executor.width.works();
    divide(executor);
    executor.width.rests();
    EXECUTOR.set(None);
    executor
}

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")
}

/// The second worker of the pool is blocked, so only a thread that finds the region in the executor
/// can take the second chunk.
#[test]
fn announced_region_is_helped_by_thread_outside_pool() {
    let (pool, is_blocked, is_over) = (pool(2), Barrier::new(2), Barrier::new(2));
    pool.in_place_scope(|scope| {
        scope.spawn(|_| {
            is_blocked.wait();
            is_over.wait();
        });
        is_blocked.wait();
        pool.install(|| {
            let executor = observed(false, |executor| {
                let helper = thread::spawn(move || {
                    let region = loop {
                        if let Some(region) = executor.open.lock().unwrap().first().cloned() {
                            break region;
                        }
                        thread::yield_now();
                    };
                    region.help(|| true);
                });
                let both = Barrier::new(2);
                for_each(2, 1e6, |_| _ = both.wait());
                helper.join().unwrap();
            });
            assert_eq!((executor.announced.load(SeqCst), executor.helpers.load(SeqCst)), (1, 1));
            assert!(executor.open.lock().unwrap().is_empty(), "the region was retired");
            assert_eq!((executor.width.working(), executor.width.most()), (0, 2));
        });
        is_over.wait();
    });
}

/// An observer that cannot announce a region now is asked again before each chunk.
#[test]
fn busy_observer_is_asked_before_each_chunk() {
    pool(2).install(|| {
        let (caller, by_caller) = (thread::current().id(), AtomicUsize::new(0));
        let executor = observed(true, |_| {
            for_each(10, 1e6, |_| {
                by_caller.fetch_add(usize::from(thread::current().id() == caller), SeqCst);
            });
        });
        assert!(executor.announced.load(SeqCst) > by_caller.into_inner());
    });
}

#[test]
fn cheap_work_is_not_announced() {
    let executor = observed(false, |_| for_each(2, 100.0, |_| ()));
    assert_eq!(executor.announced.load(SeqCst), 0);
}

#[test]
fn release_empties_registered_pools() {
    static EMPTIED: AtomicUsize = AtomicUsize::new(0);
    let before = EMPTIED.load(SeqCst);
    on_release(|| _ = EMPTIED.fetch_add(1, SeqCst));
    release();
    assert_eq!(EMPTIED.load(SeqCst), before + 1);
}
