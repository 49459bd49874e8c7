//! Leaks and peak memory of passes, counted by the allocator.
//!
//! Counts are those of the whole process. Therefore the cases run in sequence and without the
//! standard test harness, which has a thread that allocates when a test takes long.

mod allocator;
mod cases;
mod peak;
mod remat;

use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// Runs `f`. Returns the peak of live bytes during the call, relative to the bytes before it. Free
/// buffers are not counted.
fn peak_of<R>(f: impl FnOnce() -> R) -> (R, isize) {
    dl::buffers::release();
    allocator::peak_of(f)
}

/// Runs `f` in a pool of its own. Returns after the workers have ended, which releases the free
/// buffers of their threads: without that, these would be released during a later measurement.
fn in_pool<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
    let mut workers = Vec::new();
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads).spawn_handler(|worker| {
        workers.push(std::thread::spawn(|| worker.run()));
        Ok(())
    });
    let pool = builder.build().unwrap();
    let result = pool.install(f);
    drop(pool);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    result
}

/// Whether the condition holds within some seconds: threads that were asked to end take a moment.
fn soon(so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

fn main() {
    let parts: [(&str, fn()); 4] = [
        ("passes do not leak", cases::run_all),
        ("predict memory is independent of depth", peak::predict_memory_is_independent_of_depth),
        (
            "embedding step memory is independent of table height",
            peak::embedding_step_memory_is_independent_of_table_height,
        ),
        ("checkpoints reduce memory", remat::checkpoints_reduce_memory),
    ];
    for (name, part) in parts {
        println!("{name} ...");
        part();
    }
    println!("test result: ok. {} passed", parts.len());
}
