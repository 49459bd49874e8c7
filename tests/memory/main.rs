//! What passes leave behind, and what they need at their peak, counted by the allocator.
//!
//! The counts are those of the whole process, so this is one test, whose cases run one after the other.

mod allocator;
mod cases;
mod peak;
mod remat;

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// The most memory that is held meanwhile, beyond what is held before. Buffers that wait for another use do not count.
fn peak_of<R>(f: impl FnOnce() -> R) -> (R, isize) {
    dl::buffers::release();
    allocator::peak_of(f)
}

#[test]
fn passes_leave_nothing_behind_and_predict_holds_its_width() {
    cases::run_all();
    peak::predict_holds_its_width();
    peak::an_embedding_costs_its_rows();
    remat::marks_save_memory();
}
