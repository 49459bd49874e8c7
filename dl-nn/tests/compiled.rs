//! Modules within compiled functions: the bits of ordinary calls.

use dl_core::{Differentiable, Layer, Mode, Weight};
use dl_macros::{Module, differentiable};
use dl_nd::init::{rng, uniform};
use dl_nd::ndarray::{Ix1, Ix2, Ix3, Ix4};
use dl_nd::{Conv, NdLayer, NdWeight, ops::*};
use dl_nn::{
    Activation, BatchNorm, Conv1d, Conv2d, DecoderBlock, Dropout, Embedding, GatedFeedForward, GroupNorm,
    GroupedQueryAttention, GruCell, InstanceNorm, LayerNorm, Linear, LoRA, LstmCell, MixtureOfExperts,
    MultiHeadAttention, RmsNorm, RnnCell, Sequential, TransformerBlock, gru_cell,
};
use dl_optim::Adam;

/// Some steps with a call of a module: losses, and all weights and buffers after each step.
fn trained<M: std::fmt::Debug>(module: &M, mut loss: impl FnMut(&M) -> Layer<f32>) -> Vec<String> {
    let mut found = Vec::new();
    for step in 0..3 {
        let loss = loss(module);
        for mode in [Mode::Train, Mode::Evaluate] {
            found.push(format!("{:?}", loss.predict().mode(mode).seed(step).wait().unwrap()));
        }
        loss.train(&Adam::new(0.1)).seed(step).wait().unwrap();
        found.push(format!("{module:?}"));
    }
    found
}

macro_rules! modules {
    ($($test:ident: $M:ty, $D:ty, $shape:expr, $rng:ident => $new:expr, $module:ident, $x:ident => $of:expr;)*) => {$(
        #[test]
        fn $test() {
            fn ordinary($module: &$M, $x: &NdLayer<$D>) -> NdLayer<$D> {
                $of
            }
            #[differentiable(compiled, crate = dl_core)]
            fn compiled($module: &$M, $x: &NdLayer<$D>) -> NdLayer<$D> {
                $of
            }
            let x = Weight::new(uniform($shape, -1.0, 1.0, &mut rng(7)));
            let results = [compiled, ordinary].map(|function| {
                let $rng = &mut rng(1);
                let module: $M = $new;
                let x = Weight::new(x.value());
                let found = trained(&module, |module| function(module, &x.layer()).square().mean());
                (found, format!("{x:?}"))
            });
            assert_eq!(results[0], results[1]);
        }
    )*};
}

modules! {
    rnn_cell_equals_ordinary_one: RnnCell, Ix2, [3, 4], rng => RnnCell::new(4, 4, rng).unwrap(), m, x => m.of(x, x.tanh());
    gru_cell_equals_ordinary_one: GruCell, Ix2, [3, 4], rng => GruCell::new(4, 4, rng).unwrap(), m, x => m.of(x, x.tanh());
    lstm_cell_equals_ordinary_one: LstmCell, Ix2, [3, 4], rng => LstmCell::new(4, 4, rng).unwrap(), m, x => {
        let (h, c) = m.of(x, (x.tanh(), x));
        h + c
    };
    linear_equals_ordinary_one: Linear, Ix3, [2, 3, 4], rng => Linear::new(4, 5, rng).unwrap(), m, x => m.of(x);
    linear_relu_equals_ordinary_one: Linear, Ix2, [3, 4], rng => Linear::new(4, 5, rng).unwrap(), m, x => m.relu_of(x);
    lora_equals_ordinary_one: LoRA, Ix2, [3, 4], rng =>
        LoRA::new(Linear::new(4, 4, rng).unwrap(), 2, 4.0, rng).unwrap(), m, x => m.of(x);
    layer_norm_equals_ordinary_one: LayerNorm, Ix3, [2, 3, 4], _rng => LayerNorm::new(4).unwrap(), m, x => m.of(x);
    rms_norm_equals_ordinary_one: RmsNorm, Ix2, [3, 4], _rng => RmsNorm::new(4).unwrap(), m, x => m.of(x);
    group_norm_equals_ordinary_one: GroupNorm, Ix3, [2, 4, 3], _rng => GroupNorm::new(2, 4).unwrap(), m, x => m.of(x);
    batch_norm_equals_ordinary_one: BatchNorm, Ix4, [2, 4, 3, 3], _rng => BatchNorm::new(4).unwrap(), m, x => m.of(x);
    instance_norm_equals_ordinary_one: InstanceNorm, Ix3, [2, 4, 3], _rng =>
        InstanceNorm::affine(4).unwrap(), m, x => m.of(x);
    gated_feed_forward_equals_ordinary_one: GatedFeedForward, Ix3, [2, 3, 4], rng =>
        GatedFeedForward::new(4, 6, rng).unwrap(), m, x => m.of(x);
    grouped_query_attention_equals_ordinary_one: GroupedQueryAttention, Ix3, [2, 3, 8], rng =>
        GroupedQueryAttention::new(8, 4, 2, rng).unwrap(), m, x => m.of(x);
    adapted_attention_equals_ordinary_one: MultiHeadAttention, Ix3, [2, 3, 8], rng =>
        MultiHeadAttention::new(8, 2, rng).unwrap().adapted(2, 4.0, rng).unwrap(), m, x => m.of(x);
    multi_head_attention_equals_ordinary_one: MultiHeadAttention, Ix3, [2, 3, 8], rng =>
        MultiHeadAttention { dropout: 0.25, ..MultiHeadAttention::new(8, 2, rng).unwrap() }, m, x => m.of(x);
    transformer_block_equals_ordinary_one: TransformerBlock, Ix3, [2, 3, 8], rng => TransformerBlock {
        norm_first: true,
        dropout: Dropout { p: 0.25 },
        ..TransformerBlock::new(8, 2, 12, rng).unwrap()
    }, m, x => m.of(x);
    decoder_block_equals_ordinary_one: DecoderBlock, Ix3, [2, 3, 8], rng =>
        DecoderBlock::new(8, 4, 2, 12, rng).unwrap(), m, x => m.of(x);
    conv1d_equals_ordinary_one: Conv1d, Ix3, [2, 3, 6], rng =>
        Conv1d::new(3, 4, 3, Conv::new().padding(1), rng).unwrap(), m, x => m.of(x);
    conv2d_equals_ordinary_one: Conv2d, Ix4, [2, 3, 5, 5], rng =>
        Conv2d::new(3, 4, 3, Conv::new().padding(1), rng).unwrap(), m, x => m.of(x);
    sequential_equals_ordinary_one: Sequential, Ix2, [3, 4], rng => Sequential::new()
        .then(Linear::new(4, 6, rng).unwrap())
        .then(BatchNorm::new(6).unwrap())
        .then(Activation::Gelu)
        .then(Dropout { p: 0.5 })
        .then(Linear::new(6, 4, rng).unwrap()), m, x => m.of(x);
}

#[test]
fn embedding_equals_ordinary_one() {
    #[differentiable(compiled, crate = dl_core)]
    fn compiled(embedding: &Embedding, words: &[usize]) -> NdLayer {
        embedding.of(words)
    }
    let results = [true, false].map(|is_compiled| {
        let embedding: Embedding = Embedding::new(6, 3, &mut rng(1)).unwrap();
        trained(&embedding, |embedding| {
            let words = [4, 1, 4, 0];
            if is_compiled { compiled(embedding, &words) } else { embedding.of(words) }.square().mean()
        })
    });
    assert_eq!(results[0], results[1]);
}

#[test]
fn attention_of_several_widths_has_one_plan() {
    #[differentiable(compiled, crate = dl_core)]
    fn attended(attention: &MultiHeadAttention, x: &NdLayer<Ix3>) -> NdLayer<Ix3> {
        attention.of(x)
    }
    for width in [8, 4, 16, 8] {
        let attention = MultiHeadAttention::<f32>::new(width, 2, &mut rng(1)).unwrap();
        let x = uniform([2, 3, width], -1.0, 1.0, &mut rng(7)).into_layer();
        let [compiled, ordinary] = [attended(&attention, &x), attention.of(&x)];
        let gradients = [&compiled, &ordinary].map(|y| y.square().mean().gradient(&attention.in_proj_weight));
        let [a, b] = gradients.map(|gradient| gradient.predict().wait().unwrap());
        assert_eq!(a, b);
        assert_eq!(compiled.predict().wait().unwrap(), ordinary.predict().wait().unwrap());
    }
    let plans = dl_core::compiled_functions().into_iter().find(|function| function.name() == "attended").unwrap();
    assert_eq!((plans.built(), plans.reused()), (1, 3));
}

#[test]
fn mixture_of_experts_is_an_error_that_says_why() {
    #[derive(Clone, Debug, Module)]
    #[module(crate = dl_core)]
    struct Net {
        mixture: MixtureOfExperts<Linear>,
    }
    #[differentiable(compiled, crate = dl_core)]
    fn mixed(net: &Net, x: &NdLayer) -> NdLayer {
        net.mixture.of(x)
    }
    let mut rng = rng(1);
    let experts = vec![Linear::new(4, 4, &mut rng).unwrap(), Linear::new(4, 4, &mut rng).unwrap()];
    let net = Net { mixture: MixtureOfExperts::new(experts, 4, 1, &mut rng).unwrap() };
    let error = mixed(&net, &uniform([3, 4], -1.0, 1.0, &mut rng).into_layer()).predict().wait().unwrap_err();
    assert!(error.to_string().contains("decides by a value"), "{error}");
}

/// The input of each of five steps.
fn inputs() -> [NdLayer; 5] {
    std::array::from_fn(|step| uniform([3, 4], -1.0, 1.0, &mut rng(10 + step as u64)).into_layer())
}

type Gates = [NdLayer; 2];

/// The contributions of the input and of the state to the gates of a cell.
fn gates(x: &NdLayer, h: &NdLayer, [ih, hh]: [&NdWeight; 2], [bias_ih, bias_hh]: [&NdWeight<Ix1>; 2]) -> Gates {
    [x.linear(ih.t(), bias_ih), h.linear(hh.t(), bias_hh)]
}

fn ordinary_gru([x, h]: Gates, state: &NdLayer) -> NdLayer {
    let ([x, h], state) = ([x.chunk(1, 3), h.chunk(1, 3)], state);
    let r = (&x[0] + &h[0]).sigmoid();
    let z = (&x[1] + &h[1]).sigmoid();
    let n = (&x[2] + r * &h[2]).tanh();
    (1.0 - &z) * n + z * state
}

fn ordinary_lstm([x, h]: Gates, c: &NdLayer) -> (NdLayer, NdLayer) {
    let gates = (x + h).chunk(1, 4);
    let c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh();
    (gates[3].sigmoid() * c.tanh(), c)
}

/// The gates of a cell are one compiled function. The products with its weights are not part of it,
/// because the deltas of the steps would be added in another order.
#[test]
fn cells_in_a_sequence_have_bits_of_ordinary_operations() {
    let results = [true, false].map(|is_compiled| {
        let cell: GruCell = GruCell::new(4, 4, &mut rng(1)).unwrap();
        trained(&cell, |cell| {
            let mut h = uniform([3, 4], -1.0, 1.0, &mut rng(7)).into_layer();
            for x in inputs() {
                h = if is_compiled {
                    cell.of(x, &h)
                } else {
                    let biases = [&cell.bias_ih, &cell.bias_hh].map(|bias| bias.as_ref().unwrap());
                    ordinary_gru(gates(&x, &h, [&cell.weight_ih, &cell.weight_hh], biases), &h)
                };
            }
            h.square().mean()
        })
    });
    assert_eq!(results[0], results[1]);
    let results = [true, false].map(|is_compiled| {
        let cell: LstmCell = LstmCell::new(4, 4, &mut rng(1)).unwrap();
        trained(&cell, |cell| {
            let [mut h, mut c] = [7, 8].map(|seed| uniform([3, 4], -1.0, 1.0, &mut rng(seed)).into_layer());
            for x in inputs() {
                (h, c) = if is_compiled {
                    cell.of(x, (&h, &c))
                } else {
                    let biases = [&cell.bias_ih, &cell.bias_hh].map(|bias| bias.as_ref().unwrap());
                    ordinary_lstm(gates(&x, &h, [&cell.weight_ih, &cell.weight_hh], biases), &c)
                };
            }
            (h + c).square().mean()
        })
    });
    assert_eq!(results[0], results[1]);
}

#[test]
fn cell_with_wrong_shape_fails_at_the_line_of_each_call() {
    let [right, wrong]: [NdLayer; 2] = [12, 9].map(|width| uniform([2, width], -1.0, 1.0, &mut rng(1)).into_layer());
    let h = uniform([2, 4], -1.0, 1.0, &mut rng(2)).into_layer();
    gru_cell(&right, &right, &h).predict().wait().unwrap();
    for _ in 0..2 {
        let (first, first_line) = (gru_cell(&right, &wrong, &h), line!());
        let (second, second_line) = (gru_cell(&right, &wrong, &h), line!());
        for (failing, line) in [(first, first_line), (second, second_line)] {
            let error = failing.predict().wait().unwrap_err();
            assert_eq!(error.place().map(|place| (place.file(), place.line())), Some((file!(), line)));
            assert!(error.to_string().starts_with("gru_cell: shapes [2, 12] and [2, 9] differ"), "{error}");
        }
    }
}
