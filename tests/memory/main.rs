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
        ("passes leave nothing behind", cases::run_all),
        ("predict holds its width", peak::predict_holds_its_width),
        ("an embedding costs its rows", peak::an_embedding_costs_its_rows),
        ("marks save memory", remat::marks_save_memory),
    ];
    for (name, part) in parts {
        println!("{name} ...");
        part();
    }
    println!("test result: ok. {} passed", parts.len());
}
