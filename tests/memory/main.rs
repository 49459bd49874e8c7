//! What passes leave behind, and what they need at their peak, counted by the allocator.
//!
//! The counts are those of the whole process, so the cases run one after the other, and without the
//! usual harness: it has a thread that allocates, too, when a test takes long.

mod allocator;
mod cases;
mod peak;
mod remat;

use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// The most memory that is held meanwhile, beyond what is held before. Buffers that wait for
/// another use do not count.
fn peak_of<R>(f: impl FnOnce() -> R) -> (R, isize) {
    dl::buffers::release();
    allocator::peak_of(f)
}

/// Whether this is so within some seconds: threads that are told to end take a moment.
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
