//! `predict` needs memory for the width of a net, `train` for its depth.

use super::allocator::peak_of;
use dl::prelude::*;

const ELEMENTS: usize = 4000;
const BUFFER: isize = (ELEMENTS * size_of::<f32>()) as isize;

/// A chain of tensors; the ways up and down do not count, only the pass.
fn chain(depth: usize, w: &NdWeight<Ix1>) -> NdLayer<Ix1> {
    (0..depth).fold(w.layer(), |x, _| (x * 0.5).tanh())
}

pub(crate) fn predict_holds_its_width() {
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
        peak(400, false); // the tables that passes reuse have grown
        let (shallow, deep) = (peak(25, false), peak(200, false));
        assert!(deep < shallow + 4 * BUFFER, "{} buffers more for 8 times the depth", (deep - shallow) / BUFFER);
        assert!(shallow < 12 * BUFFER, "{} buffers for a chain", shallow / BUFFER);
        let trained = peak(200, true) - peak(25, true);
        assert!(trained > 300 * BUFFER, "values are kept for the backward, and this test sees it");
    }
}
