//! Peak memory: `predict` needs memory for the width of a network, `train` for its depth, and a
//! step of an embedding for the rows that it reads.

use super::peak_of;
use dl::prelude::*;

/// Large enough that buffers dominate the bookkeeping per node.
const ELEMENTS: usize = 10_000;
const BUFFER: isize = (ELEMENTS * size_of::<f32>()) as isize;

/// A chain of tensor operations that do not fuse, so that each value is in memory.
fn chain(depth: usize, w: &NdWeight<Ix1>) -> NdLayer<Ix1> {
    (0..depth).fold(w.layer(), |x, _| x.flip(0).cumsum(0))
}

pub(crate) fn predict_memory_is_independent_of_depth() {
    let w = Weight::new(Nd::full([ELEMENTS], 1.0_f32));
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let peak = |depth, train| {
            let y = chain(depth, &w);
            let (result, peak) = if train {
                peak_of(|| pool.install(|| y.train(&Sgd::new(0.0)).wait()))
            } else {
                peak_of(|| pool.install(|| y.predict().wait()))
            };
            result.unwrap();
            peak
        };
        peak(400, false); // warm-up: passes reuse their tables
        let (shallow, deep) = (peak(50, false), peak(400, false));
        assert!(deep < shallow + 4 * BUFFER, "{} additional buffers for 8 times the depth", (deep - shallow) / BUFFER);
        assert!(shallow < 12 * BUFFER, "{} buffers for a chain", shallow / BUFFER);
        // one of the two operations of an iteration has a value of its own
        let trained = (peak(100, true) - peak(50, true)) / BUFFER;
        assert!(trained > 45, "values are retained for the backward: {trained}");
        // with other threads, deltas of this size are queued, so that all of them are live at the
        // same time
        assert!(
            threads > 1 || trained < 60,
            "{trained} additional buffers for 50 iterations: each delta must be released after its use"
        );
    }
}

pub(crate) fn embedding_step_memory_is_independent_of_table_height() {
    const WIDTH: usize = 16;
    const ROWS: usize = 32;
    fn peak(height: usize, optimizer: &(impl Optimizer + Clone + 'static)) -> isize {
        let table: Weight<Table> = Weight::new(Table::zeros([height, WIDTH]).unwrap());
        // a snapshot of the table, for which only the updated rows must be copied
        let before = table.value();
        let ids: Vec<usize> = (0..ROWS).map(|at| at * (height / ROWS)).collect();
        let loss = table.embedding(ids).square().sum();
        let step = || loss.train(optimizer).wait().unwrap();
        step();
        let peaks = (0..20).map(|_| peak_of(step).1);
        let peak = peaks.max().unwrap();
        drop(before);
        peak
    }
    let low = [peak(1_000, &Sgd::new(0.1)), peak(1_000, &Adagrad::new(0.1)), peak(1_000, &Adam::new(0.1))];
    let high = [peak(50_000, &Sgd::new(0.1)), peak(50_000, &Adagrad::new(0.1)), peak(50_000, &Adam::new(0.1))];
    for (low, high) in low.into_iter().zip(high) {
        assert!(high < low + 4_000, "{low} bytes for a low table, {high} for a high one");
        assert!(high < 40 * (ROWS * WIDTH * size_of::<f32>()) as isize, "{high} bytes for {ROWS} rows");
    }
}
