//! w9: an encoder in the form of MiniLM. w10: a training step of a decoder in the form of GPT-2.

use crate::common::{Bench, Numbers};
use crate::dense::{dense, uniform};
use dl::nd::ndarray::Ix3;
use dl::nn::{Activation, Embedding, LayerNorm, Linear, MultiHeadAttention, TransformerBlock};
use dl::prelude::*;

/// The width of a head.
const DEPTH: usize = 32;

struct Network {
    words: Embedding,
    positions: Embedding,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
}

impl Network {
    /// A network of so many blocks on so many words. The hidden layers are four times as wide.
    fn new(numbers: &mut Numbers, words: usize, layers: usize, width: usize, norm_first: bool) -> Network {
        let mut table = |rows| Embedding { weight: Weight::new(uniform(numbers, [rows, width], 1.0).into()) };
        let (words, positions) = (table(words), table(256));
        let norm = || LayerNorm::new(width).expect("a width");
        let mut block = || TransformerBlock {
            attention: MultiHeadAttention {
                in_proj_weight: Weight::new(uniform(numbers, [3 * width, width], 1.0 / (width as f32).sqrt())),
                in_proj_bias: Some(Weight::new(Nd::full([3 * width], 0.0))),
                out_proj: dense(numbers, width, width),
                heads: width / DEPTH,
                dropout: 0.0,
                adapters: Default::default(),
            },
            linear1: dense(numbers, width, 4 * width),
            linear2: dense(numbers, 4 * width, width),
            norm1: norm(),
            norm2: norm(),
            dropout: dl::nn::Dropout { p: 0.0 },
            activation: Activation::Gelu,
            norm_first,
        };
        Network { words, positions, blocks: (0..layers).map(|_| block()).collect(), norm: norm() }
    }

    fn embed(&self, ids: &Nd<usize, Ix2>) -> NdLayer<Ix3> {
        let length = ids.shape()[1];
        self.words.of(ids.clone()) + self.positions.of((0..length).collect::<Vec<_>>()).unsqueeze(0)
    }

    fn blocks(&self, x: NdLayer<Ix3>, settings: &Attention<f32>) -> NdLayer<Ix3> {
        self.blocks.iter().fold(x, |x, block| block.of_with(x, settings))
    }
}

/// The words of a batch: place `at` of the text from `start` on has word `17 · at² mod words`.
fn text(batch: usize, length: usize, start: usize, words: usize) -> Nd<usize, Ix2> {
    let ids = (0..batch * length).map(|at| 17 * (start + at) * (start + at) % words).collect();
    Nd::from_vec([batch, length], ids).expect("as many words as places")
}

pub(crate) fn encode(bench: &mut Bench) {
    const WORDS: usize = 1009;
    let net = Network::new(&mut Numbers::new(9), WORDS, 6, 384, false);
    for (batch, length) in [(1, 16), (1, 64), (1, 256), (32, 16), (32, 64), (32, 256)] {
        let variant = format!("encode {batch}x{length}");
        if !bench.wants_variant(&variant) {
            continue;
        }
        let ids = text(batch, length, 0, WORDS);
        let encode = || {
            let states = net.blocks(net.norm.of(net.embed(&ids)), &Attention::new());
            let mean = states.mean_axis(1);
            let norm = mean.square().sum_keepdim(1).sqrt();
            (mean / norm).predict().wait().expect("it succeeds")
        };
        bench.check("w9", &variant, &encode().view().iter().take(4).copied().map(f64::from).collect::<Vec<_>>());
        bench.milliseconds("w9", &variant, || drop(encode()));
    }
}

pub(crate) fn train(bench: &mut Bench) {
    const WORDS: usize = 251;
    const BATCH: usize = 8;
    for (width, length) in [(128, 128), (128, 256), (256, 128), (256, 256)] {
        let variant = format!("gpt {width}x{length}");
        if !bench.wants_variant(&variant) {
            continue;
        }
        let numbers = &mut Numbers::new(10);
        let net = Network::new(numbers, WORDS, 4, width, true);
        let output = Linear { bias: None, ..dense(numbers, width, WORDS) };
        let batches: Vec<_> = (0..4)
            .map(|number| {
                let start = number * BATCH * length;
                let next = text(BATCH, length, start + 1, WORDS).into_vec();
                (text(BATCH, length, start, WORDS), Nd::from(next))
            })
            .collect();
        let (settings, sgd) = (Attention::new().causal(), Sgd::new(0.01));
        let mut turns = batches.iter().cycle();
        bench.training("w10", &variant, || {
            let (ids, next) = turns.next().expect("a cycle does not end");
            let states = net.norm.of(net.blocks(net.embed(ids), &settings));
            let scores = output.of(states).reshape([BATCH * length, WORDS]);
            scores.cross_entropy(next).train(&sgd).wait().expect("it succeeds").into()
        });
    }
}
