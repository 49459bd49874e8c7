//! Networks with and without checkpoint boundaries, and the bits of their weights after training.

use dl::prelude::*;
use dl::{At, Primitive, Result};
use std::sync::{Arc, Mutex};

pub(crate) use test_support::on_threads;

pub(crate) type Row = Nd<f64, Ix2>;

/// Whether to insert a checkpoint boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checkpoints {
    With,
    Without,
}

impl Checkpoints {
    #[track_caller]
    pub(crate) fn at<T: dl::Data>(self, x: Layer<T>) -> Layer<T> {
        match self {
            Checkpoints::With => x.checkpoint(),
            Checkpoints::Without => x,
        }
    }
}

/// Pseudo-random numbers, a function of the seed.
pub(crate) fn numbers(rows: usize, columns: usize, seed: u64) -> Row {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64 - 0.5
    };
    Nd::from_vec([rows, columns], (0..rows * columns).map(|_| next()).collect()).unwrap()
}

pub(crate) fn weights(count: usize) -> Vec<Weight<Row>> {
    (0..count).map(|number| Weight::new(numbers(4, 4, number as u64 + 1))).collect()
}

/// The bits of the losses and of the weights after two steps.
pub(crate) fn bits(
    count: usize,
    optimizer: &(impl Optimizer + Clone + 'static),
    net: impl Fn(&[Weight<Row>]) -> Layer<f64>,
) -> Vec<u64> {
    let weights = weights(count);
    let mut bits = Vec::new();
    for step in 0..2 {
        let loss = net(&weights).train(optimizer).seed(step).wait().unwrap();
        bits.push(loss.to_bits());
    }
    bits.extend(weights.iter().flat_map(|w| w.value().into_vec()).map(f64::to_bits));
    bits
}

/// x ↦ x; logs its name at each forward evaluation, and with a dash at each evaluation of its
/// delta.
#[derive(Clone)]
pub(crate) struct Logged {
    pub(crate) name: String,
    pub(crate) log: Log,
    /// The declared cost, in nanoseconds.
    pub(crate) cost: f64,
}

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    #[track_caller]
    pub(crate) fn of(&self, name: &str, x: &Layer<Row>) -> Layer<Row> {
        Layer::apply(Logged { name: name.into(), log: self.clone(), cost: 100.0 }, (x.clone(),))
    }

    pub(crate) fn say(&self, name: String) {
        self.0.lock().unwrap().push(name);
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|said| *said == name).count()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

impl Primitive for Logged {
    type Operands = (Layer<Row>,);
    type Output = Row;

    fn name(&self) -> &'static str {
        "logged"
    }

    fn value(&self, (x,): (&Row,)) -> Result<Row> {
        self.log.say(self.name.clone());
        Ok(x.clone())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Row>>,) {
        let delta = Logged { name: format!("{}-", self.name), ..self.clone() };
        (Some(Layer::apply(delta, (at.delta.clone(),))),)
    }

    fn cost(&self, _: (&Row,)) -> f64 {
        self.cost
    }
}
