//! `naiveGatedNet`, `monadicGatedNet`, `applicativeMonadicGatedNet`, `dslGatedNet`: four
//! definitions of one network. Values and gradients are equal. The number of evaluations of the
//! gate differs, and so does parallelism.

use dl::prelude::*;
use dl::{At, Primitive, Result};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The identity, with a count of its evaluations.
struct Watch(Arc<AtomicUsize>);

impl Primitive for Watch {
    type Operands = (NdLayer,);
    type Output = Nd;
    fn name(&self) -> &'static str {
        "watch"
    }
    fn value(&self, (x,): (&Nd,)) -> Result<Nd> {
        self.0.fetch_add(1, SeqCst);
        Ok(x.clone())
    }
    fn pullback(&self, at: &At<'_, Self>) -> (Option<NdLayer>,) {
        (Some(at.delta.clone()),)
    }
}

#[derive(Clone)]
struct Subnet {
    weight: NdWeight,
    built: Arc<AtomicUsize>,
}

impl Subnet {
    fn new(weight: [[f32; 2]; 2]) -> Self {
        Subnet { weight: Weight::new(Nd::from(weight)), built: Arc::default() }
    }

    fn of(&self, input: &NdLayer) -> NdLayer {
        self.built.fetch_add(1, SeqCst);
        input.matmul(&self.weight).tanh()
    }
}

#[derive(Clone)]
struct Net {
    gate: NdWeight,
    gate_evaluations: Arc<AtomicUsize>,
    /// Applied to each score; a test makes two scores wait for each other.
    score: Arc<dyn Fn(Layer<f32>) -> Layer<f32> + Send + Sync>,
    left: Subnet,
    right: Subnet,
}

impl Net {
    fn new() -> Self {
        Net {
            gate: Weight::new(Nd::from([[0.3, -0.4], [0.2, 0.5]])),
            gate_evaluations: Arc::default(),
            score: Arc::new(|score| score),
            left: Subnet::new([[0.1, 0.2], [0.3, 0.4]]),
            right: Subnet::new([[-0.5, 0.6], [0.7, -0.8]]),
        }
    }

    /// The scores of the two sub-networks.
    fn gate(&self, input: &NdLayer) -> (Layer<f32>, Layer<f32>) {
        let watched = Layer::apply(Watch(self.gate_evaluations.clone()), (input.matmul(&self.gate),));
        let scores = watched.softmax(1);
        ((self.score)(scores.at([0, 0])), (self.score)(scores.at([0, 1])))
    }

    fn weights(&self) -> [&NdWeight; 3] {
        [&self.gate, &self.left.weight, &self.right.weight]
    }
}

// naiveGatedNet
fn naive_gated_net(input: &NdLayer, net: &Net) -> Result<NdLayer> {
    let scores = net.gate(input);
    Ok(if scores.0.predict().wait()? > scores.1.predict().wait()? {
        &scores.0 * net.left.of(input)
    } else {
        &scores.1 * net.right.of(input)
    })
}

// monadicGatedNet
fn monadic_gated_net(input: &NdLayer, net: &Net) -> NdLayer {
    let (s0, s1) = net.gate(input);
    let (input, net) = (input.clone(), net.clone());
    Layer::from(s0.forward().flat_map(move |tape0| {
        let (s0, s1, input, net) = (s0.clone(), s1.clone(), input.clone(), net.clone());
        s1.forward().flat_map(move |tape1| {
            if tape0.data() > tape1.data() {
                (&s0 * net.left.of(&input)).forward()
            } else {
                (&s1 * net.right.of(&input)).forward()
            }
        })
    }))
}

// applicativeMonadicGatedNet
fn applicative_monadic_gated_net(input: &NdLayer, net: &Net) -> NdLayer {
    let (s0, s1) = net.gate(input);
    let (input, net) = (input.clone(), net.clone());
    Layer::from(s0.forward().zip(s1.forward()).flat_map(move |(tape0, tape1)| {
        if tape0.data() > tape1.data() {
            (&s0 * net.left.of(&input)).forward()
        } else {
            (&s1 * net.right.of(&input)).forward()
        }
    }))
}

// dslGatedNet
#[differentiable]
fn dsl_gated_net(input: &NdLayer, net: &Net) -> NdLayer {
    let scores = net.gate(input);
    let (left, right) = !scores;
    if left > right { scores.0 * net.left.of(input) } else { scores.1 * net.right.of(input) }
}

type Build = fn(&NdLayer, &Net) -> NdLayer;

const ALL: [(&str, Build, usize); 4] = [
    ("naive", |input, net| naive_gated_net(input, net).unwrap(), 3),
    ("monadic", monadic_gated_net, 1),
    ("applicative", applicative_monadic_gated_net, 1),
    ("dsl", dsl_gated_net, 1),
];

const INPUTS: [[f32; 2]; 3] = [[1.0, 0.5], [-0.3, 2.0], [0.7, -1.1]];

fn image(pixels: [f32; 2]) -> NdLayer {
    Nd::from([pixels]).layer()
}

#[test]
fn all_definitions_have_equal_values_and_gradients() {
    let (mut lefts, mut rights) = (0, 0);
    for pixels in INPUTS {
        let results = ALL.map(|(_, build, _)| {
            let net = Net::new();
            let y = build(&image(pixels), &net);
            let value = y.predict().wait().unwrap();
            let trained = y.train(&Sgd::new(0.1)).wait().unwrap();
            assert_eq!(value, trained);
            lefts += net.left.built.load(SeqCst);
            rights += net.right.built.load(SeqCst);
            (value, net.weights().map(|weight| weight.value()))
        });
        for result in &results[1..] {
            assert_eq!(*result, results[0], "results must be bit-identical");
        }
    }
    assert!(lefts > 0 && rights > 0, "the inputs must select both sub-networks");
}

#[test]
fn gate_evaluations_depend_on_definition() {
    for (name, build, evaluations) in ALL {
        let net = Net::new();
        build(&image(INPUTS[0]), &net).predict().wait().unwrap();
        assert_eq!(net.gate_evaluations.load(SeqCst), evaluations, "{name}");
    }
}

#[test]
fn unselected_sub_network_is_not_built() {
    for (name, build, _) in ALL {
        for pixels in INPUTS {
            let net = Net::new();
            build(&image(pixels), &net).predict().wait().unwrap();
            let mut built = [net.left.built.load(SeqCst), net.right.built.load(SeqCst)];
            built.sort_unstable();
            assert_eq!(built, [0, 1], "{name}");
        }
    }
}

/// The identity. Its kernel waits until another one runs, or fails after a timeout.
struct Meet(Arc<(Mutex<usize>, Condvar)>, Duration);

impl Primitive for Meet {
    type Operands = (Layer<f32>,);
    type Output = f32;
    fn name(&self) -> &'static str {
        "meet"
    }
    fn value(&self, (score,): (&f32,)) -> Result<f32> {
        let (count, changed) = &*self.0;
        let mut count = count.lock().unwrap();
        *count += 1;
        changed.notify_all();
        let (_count, late) = changed.wait_timeout_while(count, self.1, |count| *count < 2).unwrap();
        if late.timed_out() { Err(dl::Error::invalid("the scores were computed in sequence")) } else { Ok(*score) }
    }
    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f32>>,) {
        (Some(at.delta.clone()),)
    }
    fn cost(&self, _: (&f32,)) -> f64 {
        1e6
    }
}

#[test]
fn applicative_definitions_compute_scores_in_parallel() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let parallel = ALL[1..].iter().map(|(_, build, _)| {
        let here = Arc::<(Mutex<usize>, Condvar)>::default();
        let patience = Duration::from_millis(700);
        let score: Arc<dyn Fn(Layer<f32>) -> Layer<f32> + Send + Sync> =
            Arc::new(move |score| Layer::apply(Meet(here.clone(), patience), (score,)));
        let net = Net { score, ..Net::new() };
        pool.install(|| build(&image(INPUTS[0]), &net).predict().wait()).is_ok()
    });
    assert_eq!(parallel.collect::<Vec<_>>(), [false, true, true], "monadic, applicative, dsl");
}
