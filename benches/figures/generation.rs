//! w11: generation of tokens with a cache, by a decoder in the form of Llama.

use crate::common::{Bench, Numbers};
use crate::dense::{dense, uniform};
use dl::nn::{
    Activation, Cache, DecoderBlock, Embedding, GatedFeedForward, GroupedQueryAttention, Linear, Past, RmsNorm, Rotary,
};
use dl::prelude::*;

const WIDTH: usize = 256;
const HIDDEN: usize = 704;
const HEADS: usize = 8;
const WORDS: usize = 256;
const LAYERS: usize = 6;
const PROMPT: usize = 16;
const TOKENS: usize = 256;

struct Decoder {
    words: Embedding,
    blocks: Vec<DecoderBlock>,
    norm: RmsNorm,
    output: Linear,
}

impl Decoder {
    fn new(numbers: &mut Numbers) -> Decoder {
        let norm = || RmsNorm::new(WIDTH).expect("a width");
        let words = Embedding { weight: Weight::new(uniform(numbers, [WORDS, WIDTH], 1.0).into()) };
        let mut linear = |inputs, outputs| Linear { bias: None, ..dense(numbers, inputs, outputs) };
        let blocks = (0..LAYERS).map(|_| DecoderBlock {
            input_layernorm: norm(),
            self_attn: GroupedQueryAttention {
                adapters: Default::default(),
                q_proj: linear(WIDTH, WIDTH),
                k_proj: linear(WIDTH, WIDTH),
                v_proj: linear(WIDTH, WIDTH),
                o_proj: linear(WIDTH, WIDTH),
                heads: HEADS,
                groups: HEADS,
                rotary: Rotary::default(),
            },
            post_attention_layernorm: norm(),
            mlp: GatedFeedForward {
                gate_proj: linear(WIDTH, HIDDEN),
                up_proj: linear(WIDTH, HIDDEN),
                down_proj: linear(HIDDEN, WIDTH),
                activation: Activation::Silu,
            },
        });
        Decoder { words, blocks: blocks.collect(), norm: norm(), output: linear(WIDTH, WORDS) }
    }

    fn next(&self, past: &Past) -> NdLayer {
        let blocks = self.blocks.iter().enumerate();
        let x = blocks.fold(self.words.of(past.tokens()), |x, (number, block)| block.of_cached(x, past.layer(number)));
        self.output.of(self.norm.of(past.last(x)))
    }

    /// The most probable tokens after a prompt, and the scores of the last.
    fn generate(&self) -> (Vec<usize>, Nd) {
        let cache = Cache::new(PROMPT + TOKENS);
        let (mut unread, mut tokens) = ((0..PROMPT).map(|i| i * 7 % WORDS).collect(), Vec::new());
        loop {
            let scores = cache.predict(&[unread], |past| self.next(past)).wait().expect("it succeeds");
            let best = scores
                .view()
                .iter()
                .enumerate()
                .fold((0, f32::MIN), |best, (at, &score)| if score > best.1 { (at, score) } else { best });
            tokens.push(best.0);
            if tokens.len() == TOKENS {
                return (tokens, scores);
            }
            unread = vec![best.0];
        }
    }

    /// All weights that a token is multiplied with.
    fn products<'a>(&'a self) -> Vec<&'a Linear> {
        let of_block = |block: &'a DecoderBlock| {
            let DecoderBlock { self_attn: attention, mlp, .. } = block;
            let GroupedQueryAttention { q_proj, k_proj, v_proj, o_proj, .. } = attention;
            [q_proj, k_proj, v_proj, o_proj, &mlp.gate_proj, &mlp.up_proj, &mlp.down_proj]
        };
        self.blocks.iter().flat_map(of_block).chain([&self.output]).collect()
    }
}

/// A token, and beside it the products of one row with all weights, one after the other: the
/// arithmetic of a token without attention to the past.
pub(crate) fn measure(bench: &mut Bench) {
    let decoder = Decoder::new(&mut Numbers::new(11));
    let (tokens, scores) = decoder.generate();
    let sum: usize = tokens[..16].iter().sum();
    bench.check("w11", "token", &[sum as f64, scores.view().iter().copied().map(f64::from).sum()]);
    let token = bench.pace.seconds_per_call(|| drop(decoder.generate())) / TOKENS as f64;
    bench.row("w11", "token", token * 1e6, "us");

    let rows: Vec<(Nd, &Linear)> = decoder
        .products()
        .into_iter()
        .map(|linear| (Nd::full([1, linear.weight.value().shape()[0]], 0.5), linear))
        .collect();
    let products = || -> Vec<NdLayer> { rows.iter().map(|(x, linear)| linear.of(x)).collect() };
    let arithmetic = bench.pace.seconds_per_call(|| drop(Do::predict(products()).wait().expect("products")));
    bench.row("w11", "products of a token", arithmetic * 1e6, "us");
}
