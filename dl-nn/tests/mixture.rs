//! Routing, sparse evaluation and argument checks of mixtures of experts.

use dl_core::{Differentiable, Error, Layer, Module, Numbers, Weight};
use dl_macros::Module;
use dl_nd::ndarray::{Ix2, Ix3};
use dl_nd::{Nd, NdLayer, init, ops::*};
use dl_nn::{Block, Cache, DecoderBlock, GatedFeedForward, Linear, MixtureOfExperts};
use dl_optim::Sgd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// An expert that adds its number and records the batches it evaluates.
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
struct RecordingExpert {
    number: f64,
    factor: Weight<f64>,
    #[module(skip)]
    seen: Arc<Mutex<Vec<Vec<f64>>>>,
    #[module(skip)]
    built: Arc<AtomicUsize>,
}

impl RecordingExpert {
    fn new(number: f64) -> Self {
        RecordingExpert { number, factor: Weight::new(1.0), seen: Arc::default(), built: Arc::default() }
    }
}

impl Block<Ix2, f64> for RecordingExpert {
    fn of(&self, x: &NdLayer<Ix2, f64>) -> NdLayer<Ix2, f64> {
        self.built.fetch_add(1, Ordering::SeqCst);
        let (x, seen) = (x.clone(), self.seen.clone());
        let (number, factor) = (self.number, self.factor.layer());
        Layer::dynamic(move || {
            let (x, seen, factor) = (x.clone(), seen.clone(), factor.clone());
            async move {
                let batch = x.extract().await?;
                seen.lock().unwrap().push(batch.view().column(0).to_vec());
                Ok((x + number) * factor)
            }
        })
    }
}

/// A mixture whose gate is the identity: a sample selects the expert at its largest input.
fn net(experts: usize, k: usize) -> MixtureOfExperts<RecordingExpert, f64> {
    let eye = (0..experts * experts).map(|i| f64::from(u8::from(i % (experts + 1) == 0))).collect();
    let gate = Linear { weight: Weight::new(Nd::from_vec([experts, experts], eye).unwrap()), bias: None };
    let experts = (0..experts).map(|number| RecordingExpert::new(100.0 * number as f64)).collect();
    MixtureOfExperts { gate, experts, k, renormalized: k > 1 }
}

const BATCH: [[f64; 4]; 3] = [[1.0, 9.0, 0.0, 0.0], [2.0, 0.0, 0.0, 9.0], [3.0, 9.0, 0.0, 0.0]];

#[test]
fn mixture_evaluates_only_selected_experts() {
    let net = net(4, 1);
    let mixed = net.mix(Nd::from(BATCH));
    assert_eq!(net.experts.iter().map(|expert| expert.built.load(Ordering::SeqCst)).sum::<usize>(), 0);

    let output = mixed.output.predict().wait().unwrap();
    let seen = |expert: usize| net.experts[expert].seen.lock().unwrap().clone();
    assert_eq!(seen(1), [[1.0, 3.0]]);
    assert_eq!(seen(3), [[2.0]]);
    for unused in [0, 2] {
        assert_eq!(net.experts[unused].built.load(Ordering::SeqCst), 0, "expert {unused} was built");
    }
    let gates = net.gate.of(Nd::from(BATCH)).softmax(1).predict().wait().unwrap();
    assert_eq!(output[[0, 0]], 101.0 * gates[[0, 1]]);
    assert_eq!(output[[1, 0]], 302.0 * gates[[1, 3]]);
}

#[test]
fn mixture_outputs_share_one_evaluation() {
    let net = net(4, 1);
    let mixed = net.mix(Nd::from(BATCH));
    let loss = mixed.output.sum() + &mixed.balance + (&mixed.output * 2.0).mean();
    loss.train(&Sgd::new(0.01)).wait().unwrap();
    assert_eq!(net.experts[1].built.load(Ordering::SeqCst), 1);
    assert_eq!(net.experts[1].seen.lock().unwrap().len(), 1);
    let moved = |expert: usize| net.experts[expert].factor.value() != 1.0;
    assert_eq!([0, 1, 2, 3].map(moved), [false, true, false, true]);
}

#[test]
fn shares_and_balance_have_expected_values() {
    let mixed = net(4, 1).mix(Nd::from(BATCH));
    let shares = mixed.shares.predict().wait().unwrap();
    assert_eq!(shares, Nd::from([0.0, 2.0 / 3.0, 0.0, 1.0 / 3.0]));
    // all samples select one expert with certainty: the loss is the number of experts
    let all = net(4, 1).mix(Nd::from([[900.0, 0.0, 0.0, 0.0]; 3]));
    assert_eq!(all.balance.predict().wait().unwrap(), 4.0);
    // equal gate values: the first experts are selected, and the loss is 1
    let none = net(4, 2).mix(Nd::from([[0.0; 4]; 3]));
    assert_eq!(none.balance.predict().wait().unwrap(), 1.0);
    assert_eq!(none.shares.predict().wait().unwrap(), Nd::from([0.5, 0.5, 0.0, 0.0]));
    assert_eq!(none.output.predict().wait().unwrap(), Nd::from([[50.0; 4]; 3]));
}

#[test]
fn gate_with_k_of_one_receives_gradient_unless_renormalized() {
    let moved = |renormalized| {
        let net = MixtureOfExperts { renormalized, ..net(4, 1) };
        let before = net.gate.weight.value();
        net.of(Nd::from(BATCH)).sum().train(&Sgd::new(0.01)).wait().unwrap();
        let change = net.gate.weight.value().into_array() - before.view();
        change.iter().fold(0.0, |most: f64, x| most.max(x.abs()))
    };
    assert!(moved(false) > 1e-6);
    assert!(moved(true) < 1e-12, "p / p has no derivative");
}

#[test]
fn mixture_accepts_experts_of_different_types() {
    let mut rng = init::rng(1);
    let experts: Vec<Arc<dyn Block>> =
        vec![Arc::new(Linear::new(2, 2, &mut rng).unwrap()), Arc::new(dl_nn::Activation::Relu)];
    let net: MixtureOfExperts<Arc<dyn Block>> = MixtureOfExperts::new(experts, 2, 1, &mut rng).unwrap();
    assert_eq!(net.of(Nd::from([[1.0, 2.0]; 5])).predict().wait().unwrap().shape(), [5, 2]);
    assert_eq!(net.names(), ["gate.weight", "gate.bias", "experts.0.weight", "experts.0.bias"]);
}

#[test]
fn mixture_with_invalid_arguments_returns_error() {
    let wrong = |k| {
        MixtureOfExperts::<_, f64>::new(vec![RecordingExpert::new(0.0)], 2, k, &mut init::rng(1))
            .expect_err("no mixture")
    };
    assert!(wrong(0).is_invalid() && wrong(2).to_string().contains("k is 2 with 1 experts"));
    let error = |x: Nd<f64, Ix2>, net: MixtureOfExperts<RecordingExpert, f64>| -> Error {
        net.of(x).predict().wait().expect_err("invalid arguments")
    };
    assert!(error(Nd::full([0, 4], 0.0), net(4, 1)).to_string().contains("empty"));
    assert!(error(Nd::full([1, 4], f64::NAN), net(4, 1)).is_not_finite());
    let fewer = MixtureOfExperts { experts: vec![RecordingExpert::new(0.0); 3], ..net(4, 1) };
    assert!(error(Nd::from(BATCH), fewer).to_string().contains("4 outputs for 3 experts"));
    assert!(error(Nd::from(BATCH), MixtureOfExperts { k: 5, ..net(4, 1) }).is_invalid());
}

/// The weights after five training steps.
fn trained() -> Vec<Numbers> {
    let mut rng = init::rng(3);
    let experts = (0..5).map(|_| Linear::new(4, 3, &mut rng)).collect::<dl_core::Result<Vec<_>>>().unwrap();
    let net: MixtureOfExperts<Linear> = MixtureOfExperts::new(experts, 4, 2, &mut rng).unwrap();
    let x: Nd = init::normal([64, 4], 0.0, 1.0, &mut rng);
    let labels: Vec<usize> = (0..64).map(|i| i % 3).collect();
    for _ in 0..5 {
        let mixed = net.mix(&x);
        let loss = mixed.output.cross_entropy(&labels) + 0.01_f32 * &mixed.balance;
        loss.train(&Sgd::new(0.1)).wait().unwrap();
    }
    net.weights().iter().map(|weight| weight.numbers()).collect()
}

#[test]
fn training_is_bit_identical_for_any_number_of_threads() {
    let on = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(trained);
    assert_eq!(on(1), on(4));
}

type Experts = MixtureOfExperts<GatedFeedForward<f64>, f64>;

/// A decoder layer of width 8 whose tokens select two of six experts.
fn block() -> DecoderBlock<f64, Experts> {
    let rng = &mut init::rng(5);
    let experts = (0..6).map(|_| GatedFeedForward::new(8, 12, rng)).collect::<dl_core::Result<_>>().unwrap();
    DecoderBlock::with_mlp(8, 4, 2, MixtureOfExperts::new(experts, 8, 2, rng).unwrap(), rng).unwrap()
}

/// The layer computed with every expert for every token, weighted by 0 where it is not selected.
fn dense(block: &DecoderBlock<f64, Experts>, x: &NdLayer<Ix3, f64>) -> NdLayer<Ix3, f64> {
    let x = x + block.self_attn.of(block.input_layernorm.of(x));
    let normed = block.post_attention_layernorm.of(&x);
    let gates = block.mlp.gate.of(&normed).softmax(-1);
    let least = gates.topk(-1, 2).0.amin_keepdim(-1);
    let selected = gates.greater_equal(&least).to_floats::<f64>() * &gates;
    let weights = &selected / selected.sum_keepdim(-1);
    let outputs = block.mlp.experts.iter().enumerate();
    let outputs = outputs.map(|(number, expert)| {
        let at = number as isize;
        expert.of(&normed) * weights.slice_axis(-1, at..at + 1)
    });
    x + outputs.sum::<NdLayer<Ix3, f64>>()
}

#[track_caller]
fn assert_close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?} instead of {b:?}");
}

#[test]
fn decoder_block_with_experts_equals_dense_formula_with_gradients() {
    let (block, x) = (block(), Weight::new(init::normal::<f64, _>([3, 7, 8], 0.0, 1.0, &mut init::rng(9))));
    let (sparse, dense) = (block.of(&x), dense(&block, &x.layer()));
    assert_close(&sparse.predict().wait().unwrap().into_vec(), &dense.predict().wait().unwrap().into_vec());
    let loss = |y: &NdLayer<Ix3, f64>| (y * y.sin()).sum();
    for weight in [&block.mlp.gate.weight, &block.mlp.experts[0].up_proj.weight, &block.self_attn.q_proj.weight] {
        let [a, b] = [&sparse, &dense].map(|y| loss(y).gradient(weight).predict().wait().unwrap().into_vec());
        assert_close(&a, &b);
        assert!(a.iter().any(|x| x.abs() > 1e-6));
    }
    let [a, b] = [&sparse, &dense].map(|y| loss(y).gradient(&x).predict().wait().unwrap().into_vec());
    assert_close(&a, &b);
    let mixed = block.mix(&x);
    assert_eq!(mixed.output.predict().wait().unwrap(), sparse.predict().wait().unwrap());
    let shares = mixed.shares.predict().wait().unwrap();
    assert!((shares.view().sum() - 1.0).abs() < 1e-12 && mixed.balance.predict().wait().unwrap() >= 1.0);
}

#[test]
fn tokens_with_a_cache_select_the_experts_of_the_whole_sequence() {
    let block = block();
    let x: Nd<f64, Ix3> = init::normal([1, 9, 8], 0.0, 1.0, &mut init::rng(2));
    let whole = block.of(&x).predict().wait().unwrap().into_vec();
    let (cache, mut found) = (Cache::<f64>::new(16), Vec::new());
    for (start, count) in [(0_usize, 4_usize), (4, 1), (5, 3), (8, 1)] {
        let new = x.slice_axis(1, start as isize..(start + count) as isize);
        let y = cache.predict(&[vec![0; count]], |past| block.of_cached(&new, past.layer(0)));
        found.extend(y.wait().unwrap().into_vec());
    }
    assert_close(&found, &whole);
}

/// The operations that a pass evaluates, by the number of experts that its tokens select.
#[test]
fn pass_evaluates_operations_of_selected_experts_only() {
    let one = |experts: usize| -> MixtureOfExperts<Linear<f64>, f64> {
        let eye = (0..experts * experts).map(|i| f64::from(u8::from(i % (experts + 1) == 0))).collect();
        let gate = Linear { weight: Weight::new(Nd::from_vec([experts, experts], eye).unwrap()), bias: None };
        let linear = |_| Linear::without_bias(experts, experts, &mut init::rng(1)).unwrap();
        MixtureOfExperts { gate, experts: (0..experts).map(linear).collect(), k: 1, renormalized: false }
    };
    let tokens = |selected: &[usize], experts: usize| -> Nd<f64, Ix3> {
        let one_hot = |&number: &usize| (0..experts).map(move |i| if i == number { 9.0 } else { 0.0 });
        Nd::from_vec([2, selected.len() / 2, experts], selected.iter().flat_map(one_hot).collect()).unwrap()
    };
    let evaluations = |selected: &[usize], experts| {
        let y = one(experts).of(tokens(selected, experts));
        y.predict().counted().wait().unwrap().1.evaluations
    };
    let [a, b, c] = [&[1; 8][..], &[1, 1, 1, 1, 2, 2, 2, 2], &[1, 3, 1, 1, 2, 2, 2, 2]].map(|s| evaluations(s, 8));
    assert!(a < b && c - b == b - a, "{a}, {b}, {c} operations for one, two, three experts");
    // neither more tokens of an expert nor more experts that no token selects
    assert_eq!(evaluations(&[1, 3, 1, 3, 1, 2, 2, 3, 2, 2, 2, 2], 8), c);
    assert_eq!(evaluations(&[1, 3, 1, 1, 2, 2, 2, 2], 64), c);
}
