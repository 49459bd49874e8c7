//! Reuse of buffers, fully or partly written.

use dl_parallel::buffers;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static REUSED: AtomicUsize = AtomicUsize::new(0);

const LEN: usize = 10_000;

#[test]
fn returned_buffer_is_reused_with_its_written_part() {
    buffers::on_reuse(|| _ = REUSED.fetch_add(1, Relaxed));
    buffers::release();
    for written in [0, LEN / 2, LEN] {
        let mut room: Vec<f64> = buffers::take(LEN);
        assert!(room.is_empty() && room.capacity() >= LEN);
        room.resize(written, 1.0);
        let place = room.as_ptr();
        buffers::give_back(room);

        let mut filled = buffers::take_filled::<f64>(LEN - 1);
        assert_eq!((filled.len(), filled.as_ptr()), (LEN - 1, place));
        // the part that was never written is zeros; the old contents are determined, too
        let old = written.min(LEN - 1);
        assert!(filled[..old].iter().all(|&number| number == 1.0) && filled[old..].iter().all(|&number| number == 0.0));
        filled.truncate(0);
        buffers::give_back(filled);
    }
    assert_eq!(REUSED.load(Relaxed), 5, "the first of six was new");
    buffers::release();
}
