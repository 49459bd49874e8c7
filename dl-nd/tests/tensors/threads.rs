//! Training a network gives the same bits for any number of threads.

use dl_core::{Differentiable, Layer, Weight};
use dl_nd::{Nd, NdLayer, NdWeight, init, ops::*};
use dl_optim::Sgd;

/// The losses and final weights of a network with parallel branches that share a weight. The
/// branches are large enough to be offloaded to other threads.
fn trace(threads: usize) -> Vec<u32> {
    let mut rng = init::rng(7);
    let images: Nd = init::normal([16, 64], 0.0, 1.0, &mut rng);
    let labels: Vec<usize> = (0..16).map(|i| i * 7 % 10).collect();
    let shared: NdWeight = Weight::new(init::he_normal([64, 48], &mut rng));
    let heads: Vec<NdWeight> = (0..6).map(|_| Weight::new(init::xavier_uniform([48, 10], &mut rng))).collect();
    let sgd = Sgd::new(0.05).momentum(0.9);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut bits = Vec::new();
        for _ in 0..5 {
            let loss = heads.iter().enumerate().map(|(i, head)| {
                let scores: NdLayer = (&images * (i as f32 + 0.5)).matmul(&shared).tanh().matmul(head);
                scores.cross_entropy(&labels)
            });
            bits.push(loss.sum::<Layer<f32>>().train(&sgd).wait().unwrap().to_bits());
        }
        let weights = heads.iter().chain([&shared]);
        bits.extend(weights.flat_map(|w| w.value().into_array()).map(f32::to_bits));
        bits
    })
}

#[test]
fn training_on_any_thread_count_has_same_bits() {
    let one = trace(1);
    for threads in [1, 2, 4, 8] {
        assert_eq!(trace(threads), one, "{threads} threads");
    }
}
