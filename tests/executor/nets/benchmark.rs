//! The network of the paper's benchmark, smaller: columns, a coarse classifier, and fine
//! classifiers of which one is evaluated.

use super::{Net, Witness};
use crate::jitter::Jitter;
use dl::nd::init;
use dl::prelude::*;
use rand_chacha::ChaCha8Rng;

const BATCH: usize = 16;
const INPUTS: usize = 24;
const HIDDEN: usize = 12;
const COLUMNS: usize = 4;
const COARSE: usize = 4;
const FINE: usize = 5;
const BATCHES: usize = 4;

#[derive(Clone)]
struct Dense {
    weight: NdWeight,
    bias: NdWeight<Ix1>,
}

impl Dense {
    fn new(inputs: usize, outputs: usize, random: &mut ChaCha8Rng) -> Self {
        Dense {
            weight: Weight::new(init::xavier_uniform([inputs, outputs], random)),
            bias: Weight::new(init::zeros([outputs])),
        }
    }

    fn of(&self, x: &NdLayer, jitter: &Jitter) -> NdLayer {
        jitter.of(&(x.matmul(&self.weight) + &self.bias))
    }
}

/// Two dense layers with ReLU.
#[derive(Clone)]
struct Column([Dense; 2]);

impl Column {
    fn new(inputs: usize, random: &mut ChaCha8Rng) -> Self {
        Column([Dense::new(inputs, HIDDEN, random), Dense::new(HIDDEN, HIDDEN, random)])
    }

    fn of(&self, x: &NdLayer, jitter: &Jitter) -> NdLayer {
        self.0[1].of(&self.0[0].of(x, jitter).relu(), jitter).relu()
    }
}

#[derive(Clone)]
struct Classifiers {
    coarse: Dense,
    fine: Vec<(Column, Dense)>,
}

/// The coarse classifier selects the fine classifier that is trained.
#[differentiable]
fn loss(
    hidden: &NdLayer,
    coarse_label: usize,
    fine_labels: &[usize],
    net: &Classifiers,
    jitter: &Jitter,
) -> Layer<f32> {
    let coarse = net.coarse.of(hidden, jitter);
    let scores = !coarse;
    let picked = (0..COARSE).max_by(|&a, &b| scores[[0, a]].total_cmp(&scores[[0, b]])).unwrap_or(0);
    let (column, output) = &net.fine[picked];
    let fine = output.of(&column.of(hidden, jitter), jitter);
    coarse.cross_entropy([coarse_label; BATCH]) + fine.cross_entropy(fine_labels)
}

pub(crate) struct Benchmark {
    batches: Vec<NdLayer>,
    columns: Vec<Column>,
    classifiers: Classifiers,
}

impl Net for Benchmark {
    type Loss = f32;
    const STEPS: usize = 24;

    fn new() -> Self {
        let random = &mut init::rng(2);
        Benchmark {
            batches: (0..BATCHES).map(|_| init::uniform([BATCH, INPUTS], -1.0, 1.0, random).layer()).collect(),
            columns: (0..COLUMNS).map(|_| Column::new(INPUTS, random)).collect(),
            classifiers: Classifiers {
                coarse: Dense::new(HIDDEN, COARSE, random),
                fine: (0..COARSE).map(|_| (Column::new(HIDDEN, random), Dense::new(HIDDEN, FINE, random))).collect(),
            },
        }
    }

    fn step(&self, step: usize, jitter: &Jitter, optimizer: &Witness) -> Do<f32> {
        let batch = step % BATCHES;
        let input = jitter.late(&self.batches[batch]);
        let hidden: NdLayer = self.columns.iter().map(|column| column.of(&input, jitter)).sum();
        let fine_labels: Vec<_> = (0..BATCH).map(|sample| (7 * batch + 3 * sample) % FINE).collect();
        loss(&hidden, batch % COARSE, &fine_labels, &self.classifiers, jitter).train(optimizer)
    }
}
