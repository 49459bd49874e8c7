//! Exact counts of whole networks on a device that counts: small versions of the networks of
//! `benches/figures`. A step waits once, for its loss.

use crate::device::spent;
use dl_core::{Differentiable, Layer, Optimizer, Weight};
use dl_nd::device::{Counters, Device, Dry};
use dl_nd::{MoveModule, Nd, NdLayer, NdWeight, ops::*};
use dl_optim::{Adam, Sgd};
use ndarray::Ix1;
use std::sync::Arc;

const BATCH: usize = 4;

/// A dense layer.
struct Dense(NdWeight, Weight<Nd<f32, Ix1>>);

impl Dense {
    fn new(device: &Arc<dyn Device>, inputs: usize, outputs: usize) -> Dense {
        let net = (Weight::new(Nd::full([inputs, outputs], 0.5)), Weight::new(Nd::full(outputs, 0.0)));
        net.move_to(device).expect("a dry device has room");
        Dense(net.0, net.1)
    }

    fn of(&self, x: &NdLayer) -> NdLayer {
        x.linear(&self.0, &self.1)
    }

    fn relu_of(&self, x: &NdLayer) -> NdLayer {
        x.linear_relu(&self.0, &self.1)
    }
}

fn inputs(device: &Arc<dyn Device>, shape: [usize; 2]) -> NdLayer {
    Nd::full(shape, 1.0).to(device).expect("a dry device has room").layer()
}

fn labels(device: &Arc<dyn Device>) -> Nd<usize, Ix1> {
    Nd::from([0_usize; BATCH]).to(device).expect("a dry device has room")
}

/// The launches, waits and bytes of a step, the same for each, and the largest number of bytes in use
/// of three steps. One thread evaluates them.
fn counts(
    build: impl Fn(&Arc<dyn Device>) -> Layer<f32> + Sync,
    optimizer: &(impl Optimizer + Clone + 'static),
) -> ([u64; 4], u64) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("there is room for a thread");
    pool.install(|| {
        let dry = Dry::new();
        let loss = build(&dry);
        let step = || spent(&dry, || loss.train(optimizer).wait());
        let first = step();
        assert!((0..2).all(|_| step() == first), "steps are alike");
        (first, dry.counters().peak_bytes)
    })
}

/// w1: columns of two layers, a coarse classifier, and fine ones of three layers.
fn paper(device: &Arc<dyn Device>, columns: usize, fine: usize) -> Layer<f32> {
    let x = inputs(device, [BATCH, 12]);
    let column = |_| Dense::new(device, 6, 6).relu_of(&Dense::new(device, 12, 6).relu_of(&x));
    let features = (0..columns).map(column).reduce(|sum, column| sum + column).expect("there is a column");
    let labels = labels(device);
    let fine = (0..fine).map(|_| {
        let [first, second, last] = [6, 6, 5].map(|outputs| Dense::new(device, 6, outputs));
        last.of(&second.relu_of(&first.relu_of(&features))).cross_entropy(&labels)
    });
    let fine: Layer<f32> = fine.sum();
    Dense::new(device, 6, 3).of(&features).cross_entropy(&labels) + fine
}

/// w5: a multilayer perceptron.
fn perceptron(device: &Arc<dyn Device>) -> Layer<f32> {
    let hidden = Dense::new(device, 12, 8).relu_of(&inputs(device, [BATCH, 12]));
    let hidden = Dense::new(device, 8, 8).relu_of(&hidden);
    Dense::new(device, 8, 3).of(&hidden).cross_entropy(&labels(device))
}

/// w7: a child-sum tree-LSTM on a balanced tree.
fn tree(device: &Arc<dyn Device>, leaves: usize) -> Layer<f32> {
    const HIDDEN: usize = 4;
    let [leaf, forget, output] = [3 * HIDDEN, HIDDEN, 5].map(|outputs| Dense::new(device, HIDDEN, outputs));
    let inner = Dense::new(device, HIDDEN, 3 * HIDDEN).0;
    let cell = |gates: &NdLayer, remembered: Option<NdLayer>| {
        let gates = gates.chunk(1, 3);
        let new = gates[0].sigmoid() * gates[2].tanh();
        let cell = match remembered {
            Some(remembered) => new + remembered,
            None => new,
        };
        (gates[1].sigmoid() * cell.tanh(), cell)
    };
    let mut level: Vec<(NdLayer, NdLayer)> =
        (0..leaves).map(|_| cell(&leaf.of(&inputs(device, [1, HIDDEN])), None)).collect();
    while level.len() > 1 {
        let node = |pair: &[(NdLayer, NdLayer)]| {
            let gates = (&pair[0].0 + &pair[1].0).linear(&inner, &leaf.1);
            let [left, right] = [&pair[0], &pair[1]].map(|(hidden, cell)| forget.of(hidden).sigmoid() * cell);
            cell(&gates, Some(left + right))
        };
        level = level.chunks(2).map(node).collect();
    }
    let label = Nd::from([0_usize]).to(device).expect("a dry device has room");
    output.of(&level.remove(0).0).cross_entropy(label)
}

#[test]
fn classifiers_of_a_level_are_launched_together() {
    let sgd = Sgd::new(0.01);
    let of = |columns, fine| counts(|device| paper(device, columns, fine), &sgd);
    // the losses of the classifiers are read together
    assert_eq!(of(1, 1), ([47, 1, 0, 8], 4720));
    assert_eq!(of(1, 8), ([48, 1, 0, 36], 19_980));
    assert_eq!(of(4, 1), ([48, 1, 0, 8], 10_192));
}

#[test]
fn steps_of_a_perceptron_have_exact_counts() {
    assert_eq!(counts(perceptron, &Sgd::new(0.01)), ([31, 1, 0, 4], 3476));
    assert_eq!(counts(perceptron, &Adam::new(0.01)), ([29, 1, 0, 4], 6212));
}

#[test]
fn nodes_of_a_level_of_a_tree_are_launched_together() {
    let of = |leaves| counts(|device| tree(device, leaves), &Sgd::new(0.01));
    // 15 or 16 launches for a level more, of twice as many nodes
    assert_eq!([of(4), of(8), of(16)].map(|(counts, _)| counts), [[61, 1, 0, 4], [76, 1, 0, 4], [92, 1, 0, 4]]);
}

#[test]
fn steady_state_builds_nothing_and_needs_no_new_memory() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("there is room for a thread");
    pool.install(|| {
        let dry = Dry::new();
        let loss = tree(&dry, 8);
        let adam = Adam::new(0.01);
        let steps = |count: usize| -> Counters {
            for _ in 0..count {
                loss.train(&adam).wait().expect("a dry device runs everything");
            }
            dry.counters()
        };
        let before = steps(3);
        let after = steps(20);
        let kept = |counters: &Counters| {
            [counters.builds, counters.bytes_in_use, counters.peak_bytes, counters.bytes_reserved, counters.bytes_up]
        };
        assert_eq!(kept(&before), kept(&after));
        assert!(before.builds > 0 && before.bytes_reserved >= before.peak_bytes);
    });
}
