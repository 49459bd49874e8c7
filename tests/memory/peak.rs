//! `predict` needs memory for the width of a net, `train` for its depth.

use super::allocator::peak_of;
use dl::prelude::*;

/// Many, so that buffers count, and not what a pass notes down for each node.
const ELEMENTS: usize = 10_000;
const BUFFER: isize = (ELEMENTS * size_of::<f32>()) as isize;

/// A chain of tensors, two operations a link.
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
        let (shallow, deep) = (peak(50, false), peak(400, false));
        assert!(deep < shallow + 4 * BUFFER, "{} buffers more for 8 times the depth", (deep - shallow) / BUFFER);
        assert!(shallow < 12 * BUFFER, "{} buffers for a chain", shallow / BUFFER);
        let trained = peak(100, true) - peak(50, true);
        assert!(trained > 75 * BUFFER, "values are kept for the backward, and this test sees it");
    }
}
