//! A deep network with checkpoint boundaries retains only a part of its activations.

use super::cases::alive_at_rest;
use super::{in_pool, peak_of, soon};
use dl::prelude::*;

const LAYERS: usize = 1_000;
const WIDTH: usize = 4;
const BATCH: usize = 512;

type Matrix = Nd<f32, Ix2>;

/// tanh(x·W + b), a thousand times.
struct Mlp {
    layers: Vec<(NdWeight, NdWeight<Ix1>)>,
    input: Matrix,
}

impl Mlp {
    fn new(batch: usize) -> Mlp {
        let number = |at: usize| (at as f32 * 12.9898).sin();
        let matrix = |rows: usize, seed: usize| {
            Nd::from_vec([rows, WIDTH], (0..rows * WIDTH).map(|at| 0.5 * number(at * 7 + seed)).collect()).unwrap()
        };
        let layers = (0..LAYERS).map(|l| (Weight::new(matrix(WIDTH, l)), Weight::new(Nd::full([WIDTH], 0.1))));
        Mlp { layers: layers.collect(), input: matrix(batch, 3) }
    }

    fn loss(&self, every: usize) -> Layer<f32> {
        let mut h = Layer::constant(self.input.clone());
        for (number, (w, b)) in self.layers.iter().enumerate() {
            h = (h.matmul(w) + b).tanh();
            if (number + 1) % every == 0 {
                h = h.checkpoint();
            }
        }
        h.square().mean()
    }

    /// The peak memory of a step, and the weights after it.
    fn step(batch: usize, every: usize, threads: usize) -> (isize, Vec<Matrix>) {
        let net = Mlp::new(batch);
        let step = || net.loss(every).train(&Sgd::new(0.1)).wait();
        let (result, peak) = in_pool(threads, || peak_of(step));
        result.unwrap();
        (peak, net.layers.iter().map(|(w, _)| w.value()).collect())
    }
}

pub(crate) fn checkpoints_reduce_memory() {
    // of x·W, of the sum with b, and of its tanh
    let activations = (3 * LAYERS * BATCH * WIDTH * size_of::<f32>()) as isize;
    let plain = Mlp::step(BATCH, usize::MAX, 1);
    assert!(plain.0 > activations, "{} bytes without checkpoints", plain.0);
    for threads in [1, 2] {
        // nodes, weights and tables of the pass
        let rest = Mlp::step(1, 32, threads).0;
        let before = alive_at_rest();
        let marked = Mlp::step(BATCH, 32, threads);
        let values = marked.0 - rest;
        assert!(values * 100 < activations * 15, "{values} bytes with checkpoints, {activations} in activations");
        assert_eq!(marked.1, plain.1);
        drop(marked);
        assert!(soon(|| alive_at_rest().bytes < before.bytes + activations / 100), "all values must be released");
    }
}
