//! Compares outputs, gradients and running statistics of all layers with those of PyTorch
//! (`reference/modules.py`).

use dl_core::{Differentiable, Layer, Mode, Module, NewValue, Numbers, Weight};
use dl_nd::ndarray::{Dimension, Ix2, Ix3, Ix4, IxDyn};
use dl_nd::{Attention, Conv, Nd, NdLayer, Rank, RunningStats, init, ops::*};
use dl_nn::{
    Activation, BatchNorm, Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, DecoderBlock, Embedding, GatedFeedForward,
    GroupNorm, GroupedQueryAttention, Gru, GruCell, InstanceNorm, LayerNorm, Linear, LoRA, Lstm, LstmCell,
    MixtureOfExperts, MultiHeadAttention, Recurrent, RecurrentCell, RmsNorm, Rnn, RnnCell, Rotary, TransformerBlock,
};
use dl_optim::Sgd;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

type DynTensor = Nd<f64, IxDyn>;
type Outputs = Vec<NdLayer<IxDyn, f64>>;

static CASES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("reference/modules.json")).expect("the file is JSON"));

fn shape(tensor: &Value) -> Vec<usize> {
    let lengths = tensor["shape"].as_array().unwrap().iter();
    lengths.map(|length| length.as_u64().unwrap() as usize).collect()
}

fn tensor(value: &Value) -> DynTensor {
    let numbers = value["data"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    Nd::from_vec(IxDyn(&shape(value)), numbers).unwrap()
}

#[track_caller]
fn assert_close(found: &DynTensor, expected: &Value, what: &str) {
    let expected = tensor(expected);
    assert_eq!(found.shape(), expected.shape(), "{what}");
    for (a, b) in found.view().iter().zip(expected.view()) {
        assert!((a - b).abs() <= 1e-10 * b.abs().max(1.0), "{what}: {found:?} instead of {expected:?}");
    }
}

struct Case {
    name: &'static str,
    case: &'static Value,
    /// The floating-point operands, for which there are reference gradients.
    inputs: BTreeMap<String, Weight<DynTensor>>,
}

impl Case {
    fn of(name: &'static str) -> Case {
        let case = &CASES[name];
        let inputs = case["inputs"].as_object().unwrap_or_else(|| panic!("there is a case {name}")).iter();
        let inputs = inputs.filter(|(_, x)| x["data"][0].is_f64());
        Case { name, case, inputs: inputs.map(|(name, x)| (name.clone(), Weight::new(tensor(x)))).collect() }
    }

    fn input<D: Rank>(&self, name: &str) -> NdLayer<D, f64> {
        self.inputs[name].to_rank()
    }

    /// Sets all weights and buffers to the initial values of the case.
    fn initialize(&self, module: &impl Module) {
        let values = self.case["values"].as_object().unwrap();
        let entries = module.entries();
        assert_eq!(entries.len(), values.len(), "{}: {:?}", self.name, module.names());
        let check = |entry: &dl_core::Entry| {
            let value = &values[entry.path()];
            entry.check(&shape(value), Numbers::F64(tensor(value).into_vec())).unwrap()
        };
        NewValue::set_all(entries.iter().map(check).collect()).unwrap();
    }

    /// The sum of the products of outputs and cotangents.
    fn loss(&self, outputs: &Outputs, cotangents: &[Value]) -> Layer<f64> {
        let terms = outputs.iter().zip(cotangents).map(|(output, cotangent)| (output * tensor(cotangent)).sum());
        terms.sum()
    }

    /// The current values of all weights and operands.
    fn numbers(&self, module: &impl Module) -> BTreeMap<String, DynTensor> {
        let weights = module.weights();
        let weights = weights.iter().map(|entry| (entry.path().to_owned(), entry));
        let inputs = self.inputs.iter().map(|(name, x)| (format!("input.{name}"), x.value()));
        let number = |entry: &dl_core::Entry| match entry.numbers() {
            Numbers::F64(numbers) => Nd::from_vec(IxDyn(&entry.shape()), numbers).unwrap(),
            other => panic!("{other:?}"),
        };
        weights.map(|(path, entry)| (path, number(entry))).chain(inputs).collect()
    }

    fn check_gradients(&self, before: &BTreeMap<String, DynTensor>, after: &BTreeMap<String, DynTensor>) {
        let expected = self.case["gradients"].as_object().unwrap();
        let paths: BTreeSet<&String> = expected.keys().collect();
        assert!(before.keys().eq(paths), "{}: {:?}", self.name, before.keys());
        for (path, expected) in expected {
            // gradient descent with a rate of 1 subtracts the gradient
            let gradient = &before[path].view() - &after[path].view();
            assert_close(&gradient.into(), expected, &format!("{}, gradient of {path}", self.name));
        }
    }

    fn check_buffers(&self, module: &impl Module) {
        let expected = self.case["after"].as_object().unwrap();
        assert_eq!(module.buffers().len(), expected.len());
        for entry in module.buffers() {
            let Numbers::F64(numbers) = entry.numbers() else { panic!("f64") };
            let found = Nd::from_vec(IxDyn(&entry.shape()), numbers).unwrap();
            assert_close(&found, &expected[entry.path()], &format!("{}, {}", self.name, entry.path()));
        }
    }

    fn check_outputs(&self, outputs: &Outputs, expected: &[Value], mode: Mode) {
        assert_eq!(outputs.len(), expected.len(), "{}", self.name);
        for (number, (output, expected)) in outputs.iter().zip(expected).enumerate() {
            let found = output.predict().mode(mode).wait().unwrap();
            assert_close(&found, expected, &format!("{}, output {number}", self.name));
        }
    }

    /// Compares outputs, gradients and buffers with the reference, in training mode.
    fn run<M: Module>(name: &'static str, module: M, of: impl Fn(&M, &Case) -> Outputs) {
        Case::run_in(name, Mode::Train, module, of);
    }

    fn run_in<M: Module>(name: &'static str, mode: Mode, module: M, of: impl Fn(&M, &Case) -> Outputs) {
        let case = Case::of(name);
        case.initialize(&module);
        let outputs = of(&module, &case);
        case.check_outputs(&outputs, case.case["outputs"].as_array().unwrap(), mode);
        let before = case.numbers(&module);
        let loss = case.loss(&outputs, case.case["cotangents"].as_array().unwrap());
        loss.train(&Sgd::new(1.0)).mode(mode).wait().unwrap();
        case.check_gradients(&before, &case.numbers(&module));
        case.check_buffers(&module);
    }
}

/// A list of one output.
fn single<D: Dimension + 'static>(output: NdLayer<D, f64>) -> Outputs {
    vec![output.to_dyn()]
}

fn rng() -> impl rand::Rng {
    init::rng(1)
}

#[test]
fn linear_matches_pytorch() {
    Case::run("linear", Linear::new(3, 4, &mut rng()).unwrap(), |linear, case| {
        single(linear.of(case.input::<Ix3>("x")))
    });
    let without = Linear::without_bias(3, 4, &mut rng()).unwrap();
    Case::run("linear_without_bias", without, |linear, case| single(linear.of(case.input::<Ix2>("x"))));
}

#[test]
fn lora_matches_pytorch() {
    let (base, zeros) = (Linear::new(3, 4, &mut rng()).unwrap(), |shape| Weight::new(Nd::full(shape, 0.0)));
    let net = LoRA { base, a: zeros([3, 2]), b: zeros([2, 4]), scale: 2.0 };
    Case::run("lora", net, |net, case| single(net.of(case.input::<Ix3>("x"))));
}

#[test]
fn convolutions_match_pytorch() {
    let settings = Conv::new().stride(2).padding(1).dilation(2).groups(2);
    let conv = Conv1d::new(4, 6, 3, settings, &mut rng()).unwrap();
    Case::run("conv1d", conv, |conv, case| single(conv.of(case.input::<Ix3>("x"))));
    let conv = Conv1d::new(4, 6, 4, Conv::new().same_padding().dilation(3).groups(2), &mut rng()).unwrap();
    Case::run("conv1d_same", conv, |conv, case| single(conv.of(case.input::<Ix3>("x"))));
    let conv = Conv2d::new(2, 3, [2, 3], Conv::new().same_padding(), &mut rng()).unwrap();
    Case::run("conv2d_same", conv, |conv, case| single(conv.of(case.input::<Ix4>("x"))));
    let conv = Conv2d::new(2, 3, [3, 2], Conv::new().padding([1, 0]), &mut rng()).unwrap();
    Case::run("conv2d", conv, |conv, case| single(conv.of(case.input::<Ix4>("x"))));
}

#[test]
fn transposed_convolutions_match_pytorch() {
    let settings = Conv::new().stride(2).padding(1).groups(2).output_padding(1);
    let conv = ConvTranspose1d::new(4, 6, 3, settings, &mut rng()).unwrap();
    Case::run("conv_transpose1d", conv, |conv, case| single(conv.of(case.input::<Ix3>("x"))));
    let conv = ConvTranspose2d::new(2, 3, [3, 2], Conv::<2>::new().padding([1, 0]).into(), &mut rng()).unwrap();
    Case::run("conv_transpose2d", conv, |conv, case| single(conv.of(case.input::<Ix4>("x"))));
}

#[test]
fn embedding_matches_pytorch() {
    let ids = &CASES["embedding"]["inputs"]["ids"];
    let numbers = ids["data"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as usize).collect();
    let ids = Nd::from_vec([2, 3], numbers).unwrap();
    let embedding = Embedding::new(6, 3, &mut rng()).unwrap();
    Case::run("embedding", embedding, |embedding, _| single(embedding.of(&ids)));
}

#[test]
fn normalisations_match_pytorch() {
    Case::run("layer_norm", LayerNorm::new(5).unwrap(), |norm, case| single(norm.of(case.input::<Ix3>("x"))));
    Case::run("rms_norm", RmsNorm::new(5).unwrap(), |norm, case| single(norm.of(case.input::<Ix3>("x"))));
    Case::run("instance_norm", InstanceNorm::new(3).unwrap(), |norm, case| single(norm.of(case.input::<Ix3>("x"))));
    let affine = InstanceNorm::affine(3).unwrap();
    Case::run("instance_norm_affine", affine, |norm, case| single(norm.of(case.input::<Ix4>("x"))));
    Case::run("group_norm", GroupNorm::new(2, 6).unwrap(), |norm, case| single(norm.of(case.input::<Ix3>("x"))));
}

#[test]
fn batch_norm_matches_pytorch_in_training_and_evaluation() {
    for name in ["batch_norm_train", "batch_norm_used"] {
        Case::run(name, BatchNorm::new(3).unwrap(), |norm, case| single(norm.of(case.input::<Ix3>("x"))));
    }
    let norm = BatchNorm::new(3).unwrap();
    Case::run_in("batch_norm_evaluate", Mode::Evaluate, norm, |norm, case| single(norm.of(case.input::<Ix3>("x"))));
}

#[test]
fn running_statistics_match_pytorch_after_three_steps() {
    let (norm, case) = (BatchNorm::<f64>::new(3).unwrap(), Case::of("batch_norm_steps"));
    case.initialize(&norm);
    let before = case.numbers(&norm);
    let (weight, bias) = (norm.weight.value(), norm.bias.value());
    let mut after = before.clone();
    for step in 0..3 {
        let output = single(norm.of(case.input::<Ix3>(&format!("x{step}"))));
        case.check_outputs(&output, &case.case["outputs"].as_array().unwrap()[step..=step], Mode::Train);
        let loss = case.loss(&output, &case.case["cotangents"].as_array().unwrap()[step..]);
        loss.train(&Sgd::new(1.0)).wait().unwrap();
        for (path, now) in case.numbers(&norm) {
            let moved = now.into_array() - before[&path].view();
            // the operands of the other steps do not change in this one
            let moves = !path.starts_with("input.") || path == format!("input.x{step}");
            if moves {
                let sum = after[&path].view().to_owned() + moved;
                after.insert(path, sum.into());
            }
        }
        norm.weight.set(weight.clone());
        norm.bias.set(bias.clone());
    }
    case.check_gradients(&before, &after);
    case.check_buffers(&norm);
}

#[test]
fn attention_matches_pytorch() {
    let attention = MultiHeadAttention::new(6, 3, &mut rng()).unwrap();
    Case::run("attention_of_itself", attention, |attention, case| single(attention.of(case.input("x"))));
    let mask = &CASES["attention_masked"]["inputs"]["mask"];
    let visible = mask["data"].as_array().unwrap().iter().map(|x| x.as_bool().unwrap()).collect();
    let visible = Nd::<bool, Ix2>::from_vec([4, 5], visible).unwrap();
    let attention = MultiHeadAttention::new(6, 2, &mut rng()).unwrap();
    Case::run("attention_masked", attention, |attention, case| {
        let settings = Attention::new().mask(&visible);
        single(attention.attend(case.input("q"), case.input("k"), case.input("v"), &settings))
    });
}

#[test]
fn transformer_block_matches_pytorch() {
    let block = TransformerBlock::new(6, 2, 10, &mut rng()).unwrap();
    Case::run("transformer_post", block.clone(), |block, case| single(block.of(case.input("x"))));
    let block = TransformerBlock { norm_first: true, ..block };
    Case::run("transformer_causal", block.clone(), |block, case| {
        single(block.of_with(case.input("x"), &Attention::new().causal()))
    });
    let block = TransformerBlock { activation: Activation::Gelu, ..block };
    Case::run("transformer_pre", block, |block, case| single(block.of(case.input("x"))));
}

#[test]
fn decoder_of_llama_matches_pytorch() {
    let rotary = Rotary { base: 100.0 };
    Case::run("rotary", rotary, |rotary, case| single(rotary.of(case.input::<Ix4>("x"))));
    let attention = GroupedQueryAttention::new(8, 4, 2, &mut rng()).unwrap();
    Case::run("grouped_query_attention", attention, |attention, case| single(attention.of(case.input("x"))));
    let attention = GroupedQueryAttention::new(8, 2, 1, &mut rng()).unwrap();
    Case::run("multi_query_attention", attention, |attention, case| single(attention.of(case.input("x"))));
    let net = GatedFeedForward::new(4, 6, &mut rng()).unwrap();
    Case::run("gated_feed_forward", net, |net, case| single(net.of(case.input::<Ix3>("x"))));
    let block = DecoderBlock::new(8, 4, 2, 10, &mut rng()).unwrap();
    Case::run("decoder_block", block, |block, case| single(block.of(case.input("x"))));
}

/// The state after each of three steps.
fn unroll(case: &Case, next: impl Fn(NdLayer<Ix2, f64>, NdLayer<Ix2, f64>) -> NdLayer<Ix2, f64>) -> Outputs {
    let mut h = case.input("h");
    let mut outputs = Vec::new();
    for x in ["x0", "x1", "x2"] {
        h = next(case.input(x), h);
        outputs.push(h.to_dyn());
    }
    outputs
}

#[test]
fn recurrent_cells_match_pytorch_over_three_steps() {
    let cell = RnnCell::new(3, 4, &mut rng()).unwrap();
    Case::run("rnn_cell", cell.clone(), |cell, case| unroll(case, |x, h| cell.of(x, h)));
    let cell = RnnCell { activation: Activation::Relu, ..cell };
    Case::run("rnn_cell_relu", cell, |cell, case| unroll(case, |x, h| cell.of(x, h)));
    let cell = GruCell::new(3, 4, &mut rng()).unwrap();
    Case::run("gru_cell", cell, |cell, case| unroll(case, |x, h| cell.of(x, h)));
    Case::run("lstm_cell", LstmCell::new(3, 4, &mut rng()).unwrap(), |cell, case| {
        let (mut h, mut c) = (case.input("h"), case.input("c"));
        let mut outputs = Vec::new();
        for x in ["x0", "x1", "x2"] {
            (h, c) = cell.of(case.input(x), (h, c));
            outputs.push(h.to_dyn());
        }
        outputs.push(c.to_dyn());
        outputs
    });
}

/// The outputs of a recurrent network and its last states, stacked as in PyTorch.
fn recurrent<C: RecurrentCell<Element = f64>, const N: usize>(
    net: &Recurrent<C>,
    case: &Case,
    names: [&str; N],
    state: impl Fn([NdLayer<Ix2, f64>; N]) -> C::State,
    parts: impl Fn(C::State) -> [NdLayer<Ix2, f64>; N],
) -> Outputs {
    let first = names.map(|name| case.input::<Ix3>(name));
    let cells = net.forward.len() + net.reverse.len();
    let states = (0..cells as isize).map(|cell| state(first.each_ref().map(|states| states.row(cell)))).collect();
    let steps = ["x0", "x1", "x2"].map(|name| case.input::<Ix2>(name));
    let (outputs, last) = net.of(&steps, states).unwrap();
    assert_eq!(last.len(), cells);
    let last: Vec<_> = last.into_iter().map(parts).collect();
    let stacked = (0..N).map(|part| stack(0, last.iter().map(|state| state[part].clone())).to_dyn());
    outputs.iter().map(|output| output.to_dyn()).chain(stacked).collect()
}

#[test]
fn recurrent_networks_match_pytorch() {
    let one = |[h]: [_; 1]| h;
    Case::run("rnn", Rnn::new(3, 4, &mut rng()).unwrap(), |net, case| recurrent(net, case, ["h"], one, |h| [h]));
    let net = Gru::with_layers(3, 4, 2, false, &mut rng()).unwrap();
    Case::run("gru_deep", net, |net, case| recurrent(net, case, ["h"], one, |h| [h]));
    let net = Lstm::with_layers(3, 4, 2, true, &mut rng()).unwrap();
    Case::run("lstm_deep_both_ways", net.clone(), |net, case| {
        recurrent(net, case, ["h", "c"], |[h, c]| (h, c), |(h, c)| [h, c])
    });
    assert!(net.of(&[Nd::full([2, 3], 1.0)], Vec::new()).err().unwrap().to_string().contains("0 states"));
    assert!(Lstm::<f64>::with_layers(3, 4, 0, true, &mut rng()).is_err());
    assert_eq!(net.initial(2).len(), 4);
}

#[test]
fn mixture_of_experts_matches_dense_reference() {
    for (name, experts, k) in
        [("mixture_of_one", 4, 1), ("mixture_of_two", 4, 2), ("mixture_of_all", 3, 3), ("mixture_unused", 9, 1)]
    {
        let experts = (0..experts).map(|_| Linear::<f64>::new(3, 2, &mut rng()).unwrap()).collect();
        let net = MixtureOfExperts::new(experts, 3, k, &mut rng()).unwrap();
        Case::run(name, net, |net, case| {
            let mixed = net.mix::<Ix2>(case.input("x"));
            let balance: Layer<Nd<f64, IxDyn>> = (Nd::full(IxDyn(&[]), 1.0) * mixed.balance).to_dyn();
            vec![mixed.output.to_dyn(), balance, mixed.shares.to_dyn()]
        });
    }
}

#[test]
fn running_stats_names_mean_and_variance() {
    assert_eq!(RunningStats::<f64>::new(2).names(), ["mean", "variance"]);
}
