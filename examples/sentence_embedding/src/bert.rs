//! BERT (Devlin et al., 2018) as an encoder of sentences (Reimers and Gurevych, 2019).

use dl::nd::init;
use dl::nd::ndarray::Ix3;
use dl::nn::{Activation, Block, Embedding, LayerNorm, Linear, LoRA, TransformerBlock};
use dl::prelude::*;
use dl::train::Names;
use rand::Rng;
use serde::Deserialize;

/// The part of `config.json` that decides how the network is built.
#[derive(Clone, Debug, Deserialize)]
pub struct Config {
    pub(crate) model_type: String,
    pub(crate) hidden_act: String,
    pub(crate) vocab_size: usize,
    pub(crate) max_position_embeddings: usize,
    pub(crate) type_vocab_size: usize,
    pub(crate) hidden_size: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) layer_norm_eps: f64,
}

/// The fields have the names of the library `transformers` for PyTorch. `L` is the type of the linear
/// layers in the blocks.
#[derive(Clone, Module)]
pub struct Bert<L = Linear> {
    #[module(torch = "embeddings.word_embeddings")]
    words: Embedding,
    #[module(torch = "embeddings.position_embeddings")]
    positions: Embedding,
    #[module(torch = "embeddings.token_type_embeddings")]
    kinds: Embedding,
    #[module(torch = "embeddings.LayerNorm")]
    norm: LayerNorm,
    layers: Vec<TransformerBlock<f32, L>>,
}

/// The blocks in a file of `transformers`, which has the projections of the attention apart.
pub fn names() -> Names {
    let projections = ["query", "key", "value"].map(|name| format!("encoder.layer.{{i}}.attention.self.{name}.{{p}}"));
    Names::new()
        .stack(&projections, "layers.{i}.attention.in_proj_{p}")
        .rename("encoder.layer.{i}.attention.output.dense", "layers.{i}.attention.out_proj")
        .rename("encoder.layer.{i}.attention.output.LayerNorm", "layers.{i}.norm1")
        .rename("encoder.layer.{i}.intermediate.dense", "layers.{i}.linear1")
        .rename("encoder.layer.{i}.output.dense", "layers.{i}.linear2")
        .rename("encoder.layer.{i}.output.LayerNorm", "layers.{i}.norm2")
}

impl Bert {
    /// A network with random weights.
    pub fn new(config: &Config) -> dl::Result<Bert> {
        let activation = match (&config.model_type[..], &config.hidden_act[..]) {
            ("bert", "gelu") => Activation::Gelu,
            ("bert", "relu") => Activation::Relu,
            (kind, activation) => {
                return Err(Error::invalid(format!("a model `{kind}` with `{activation}` is not supported")));
            }
        };
        let (rng, width, eps) = (&mut init::rng(1), config.hidden_size, config.layer_norm_eps);
        let norm = || Ok(LayerNorm { eps, ..LayerNorm::new(width)? });
        let mut layers = Vec::new();
        for _ in 0..config.num_hidden_layers {
            let block = TransformerBlock::new(width, config.num_attention_heads, config.intermediate_size, rng)?;
            layers.push(TransformerBlock { activation, norm1: norm()?, norm2: norm()?, ..block });
        }
        Ok(Bert {
            words: Embedding::new(config.vocab_size, width, rng)?,
            positions: Embedding::new(config.max_position_embeddings, width, rng)?,
            kinds: Embedding::new(config.type_vocab_size, width, rng)?,
            norm: norm()?,
            layers,
        })
    }

    /// The same network, frozen, with adapters of this rank in its blocks: for the queries and the
    /// values of the attention, and around the linear layers.
    ///
    /// # Errors
    /// If the rank is 0 or an adapter is too large to allocate.
    pub fn adapted(self, rank: usize, rng: &mut impl Rng) -> dl::Result<Bert<LoRA>> {
        self.freeze();
        let alpha = 2.0 * rank as f64;
        self.with_layers(|block| {
            let attention = block.attention.adapted(rank, alpha, rng)?;
            TransformerBlock { attention, ..block }.with_linears(|linear| LoRA::new(linear, rank, alpha, rng))
        })
    }
}

impl Bert<LoRA> {
    /// An ordinary network for inference: the projections of its attention and its linear layers have new
    /// weights, and it shares all others with this one, frozen.
    ///
    /// # Errors
    /// Those of [`LoRA::merged`].
    pub fn merged(&self) -> dl::Result<Bert> {
        self.clone().with_layers(|block| {
            let attention = block.attention.merged()?;
            TransformerBlock { attention, ..block }.with_linears(|linear| linear.merged())
        })
    }
}

impl<L> Bert<L> {
    fn with_layers<M>(
        self,
        replace: impl FnMut(TransformerBlock<f32, L>) -> dl::Result<TransformerBlock<f32, M>>,
    ) -> dl::Result<Bert<M>> {
        let Bert { words, positions, kinds, norm, layers } = self;
        let layers = layers.into_iter().map(replace).collect::<dl::Result<_>>()?;
        Ok(Bert { words, positions, kinds, norm, layers })
    }
}

impl<L: Block<Ix3>> Bert<L> {
    /// The embeddings of sentences, `[batch, width]`, each of length 1: the mean of the last states of
    /// the tokens. The sentences are ids of tokens, padded to one length with any id.
    pub fn of(&self, sentences: &[Vec<usize>]) -> dl::Result<NdLayer> {
        let length = sentences.iter().map(Vec::len).max().unwrap_or(0);
        let shape = [sentences.len(), length];
        let padded = |token: &dyn Fn(&Vec<usize>, usize) -> usize| {
            sentences
                .iter()
                .flat_map(|sentence| (0..length).map(|place| token(sentence, place)).collect::<Vec<_>>())
                .collect()
        };
        let ids =
            Nd::<usize, Ix2>::from_vec(shape, padded(&|sentence, place| sentence.get(place).copied().unwrap_or(0)))?;
        let is_token: Vec<usize> = padded(&|sentence, place| (place < sentence.len()).into());
        let mask = Nd::<bool, Ix4>::from_vec([shape[0], 1, 1, length], is_token.iter().map(|&one| one == 1).collect())?;

        let positions = self.positions.of((0..length).collect::<Vec<_>>()).unsqueeze(0);
        let x = self.words.of(ids) + positions + self.kinds.of([0]).unsqueeze(0);
        let attention = if is_token.contains(&0) { Attention::new().mask(mask) } else { Attention::new() };
        let x = self.layers.iter().fold(self.norm.of(x), |x, block| block.of_with(x, &attention));

        let weights = sentences.iter().zip(is_token.chunks(length.max(1)));
        let weights = weights.flat_map(|(sentence, row)| row.iter().map(|&one| one as f32 / sentence.len() as f32));
        let weights = Nd::<f32, Ix3>::from_vec([shape[0], 1, length], weights.collect())?;
        let mean = weights.matmul(x).squeeze(1);
        let norm = mean.square().sum_keepdim(1).sqrt();
        Ok(mean / max(norm, 1e-12))
    }
}
