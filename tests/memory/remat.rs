//! A deep net with marks needs memory for some of its values.

use super::allocator::{alive, peak_of};
use dl::prelude::*;

const LAYERS: usize = 1_000;
const WIDTH: usize = 8;
const BATCH: usize = 512;

type Matrix = Nd<f32, Ix2>;

/// tanh(x·W + b), a thousand times.
struct Mlp {
    layers: Vec<(Weight<Matrix>, Weight<Nd<f32, Ix1>>)>,
    input: Matrix,
}

impl Mlp {
    fn new() -> Mlp {
        let number = |at: usize| (at as f32 * 12.9898).sin();
        let matrix = |rows: usize, seed: usize| {
            Nd::from_vec([rows, WIDTH], (0..rows * WIDTH).map(|at| 0.5 * number(at * 7 + seed)).collect()).unwrap()
        };
        let layers = (0..LAYERS).map(|l| (Weight::new(matrix(WIDTH, l)), Weight::new(Nd::full([WIDTH], 0.1))));
        Mlp { layers: layers.collect(), input: matrix(BATCH, 3) }
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

    /// The most bytes that a step needs, and the weights after it.
    fn step(every: usize, threads: usize) -> (isize, Vec<Matrix>) {
        let net = Mlp::new();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (result, peak) = peak_of(|| pool.install(|| net.loss(every).train(&Sgd::new(0.1)).wait()));
        result.unwrap();
        (peak, net.layers.iter().map(|(w, _)| w.value()).collect())
    }
}

pub(crate) fn marks_save_memory() {
    let activations = (3 * LAYERS * BATCH * WIDTH * size_of::<f32>()) as isize;
    Mlp::step(usize::MAX, 1); // the tables that passes reuse have grown
    let plain = Mlp::step(usize::MAX, 1);
    assert!(plain.0 > activations, "{} bytes without marks", plain.0);
    for threads in [1, 2, 4] {
        let before = alive();
        let marked = Mlp::step(32, threads);
        assert!(marked.0 * 100 < activations * 15, "{} bytes with marks, {activations} in activations", marked.0);
        assert_eq!(marked.1, plain.1);
        drop(marked);
        assert!(alive().bytes < before.bytes + activations / 100, "nothing stays");
    }
}
