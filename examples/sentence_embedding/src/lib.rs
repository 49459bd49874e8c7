//! A pretrained sentence encoder, a search by meaning, and reviews to fine-tune it on.

mod bert;
mod reviews;

pub use bert::{Bert, Config, names};
pub use reviews::{Review, read_reviews};

use dl::prelude::*;
use dl::train::Load;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::Path;
use tokenizers::{Tokenizer, TruncationParams};

/// How many sentences are evaluated in one pass.
pub const BATCH: usize = 32;

/// A network with its tokenizer.
pub struct Encoder {
    bert: Bert,
    tokenizer: Tokenizer,
}

#[derive(serde::Deserialize)]
struct Longest {
    max_seq_length: usize,
}

/// How the states of the tokens become one vector: `1_Pooling/config.json`.
#[derive(serde::Deserialize)]
struct Pooling {
    pooling_mode_mean_tokens: bool,
}

impl Encoder {
    /// Loads `config.json`, `tokenizer.json` and `model.safetensors`, or the index of several such
    /// files, from a folder.
    ///
    /// # Errors
    /// When a file is missing or damaged, or the weights do not fit the configuration.
    pub fn open(folder: &Path) -> dl::Result<Encoder> {
        let config: Config = json(&folder.join("config.json"))?;
        let pooling = folder.join("1_Pooling/config.json");
        if pooling.exists() && !json::<Pooling>(&pooling)?.pooling_mode_mean_tokens {
            let text = "this encoder does not take the mean of its tokens, which is what this program computes";
            return Err(Error::invalid(format!("{}: {text}", pooling.display())));
        }
        let bert = Bert::new(&config)?;
        let index = folder.join("model.safetensors.index.json");
        let weights = if index.exists() { index } else { folder.join("model.safetensors") };
        // The pooler is for other tasks; the ids of the positions are 0, 1, 2 …
        let load = Load::torch().names(&names()).ignore("pooler").ignore("embeddings.position_ids");
        load.weights(&bert, weights)?;

        let path = folder.join("tokenizer.json");
        let to_error = |error| Error::invalid(format!("{}: {error}", path.display()));
        let mut tokenizer = Tokenizer::from_file(&path).map_err(to_error)?;
        let (tokens, words) = (tokenizer.get_vocab_size(true), config.vocab_size);
        if tokens > words {
            let text = format!("{tokens} tokens for a model of {words}: it is the tokenizer of another model");
            return Err(Error::invalid(format!("{}: {text}", path.display())));
        }
        let limits = folder.join("sentence_bert_config.json");
        let limit = if limits.exists() { json::<Longest>(&limits)?.max_seq_length } else { usize::MAX };
        let max_length = limit.min(config.max_position_embeddings);
        tokenizer.with_truncation(Some(TruncationParams { max_length, ..Default::default() })).map_err(to_error)?;
        tokenizer.with_padding(None);
        Ok(Encoder { bert, tokenizer })
    }

    /// The network.
    pub fn bert(&self) -> &Bert {
        &self.bert
    }

    /// The embeddings of sentences, each of length 1, in the same order. Sentences of similar length
    /// are evaluated together, at most `batch` of them.
    ///
    /// # Errors
    /// When a sentence cannot be divided into tokens.
    pub fn embed(&self, sentences: &[impl AsRef<str>], batch: usize) -> dl::Result<Vec<Vec<f32>>> {
        let tokens = sentences.iter().map(|sentence| self.tokens(sentence.as_ref())).collect::<dl::Result<Vec<_>>>()?;
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        order.sort_by_key(|&number| tokens[number].len());
        let mut embeddings = vec![Vec::new(); tokens.len()];
        for numbers in order.chunks(batch.max(1)) {
            let sentences: Vec<Vec<usize>> = numbers.iter().map(|&number| tokens[number].clone()).collect();
            let rows = self.embed_tokens(&sentences).wait()?;
            numbers.iter().zip(rows).for_each(|(&number, row)| embeddings[number] = row);
        }
        Ok(embeddings)
    }

    /// The ids of the tokens of a sentence, truncated to the length that the model reads.
    ///
    /// # Errors
    /// When the sentence cannot be divided into tokens.
    pub fn tokens(&self, sentence: &str) -> dl::Result<Vec<usize>> {
        let encoding = self.tokenizer.encode(sentence, true);
        let encoding = encoding.map_err(|error| Error::invalid(format!("{sentence:?}: {error}")))?;
        Ok(encoding.get_ids().iter().map(|&id| id as usize).collect())
    }

    /// The embeddings of sentences of [`tokens`](Encoder::tokens), in one pass. They fail where a
    /// weight is not finite.
    pub fn embed_tokens(&self, sentences: &[Vec<usize>]) -> Do<Vec<Vec<f32>>> {
        let rows = |rows: Nd| rows.view().rows().into_iter().map(|row| row.to_vec()).collect();
        self.bert.of(sentences).map_or_else(Do::fail, |x| x.refuse_non_finite().predict().map(rows))
    }
}

/// The cosine of the angle between embeddings of length 1.
pub fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// The `k` embeddings nearest to `query`, the nearest first, with their cosines. Of equal ones, the
/// first comes first.
pub fn nearest(query: &[f32], embeddings: &[Vec<f32>], k: usize) -> Vec<(usize, f32)> {
    let mut scores: Vec<(usize, f32)> = embeddings.iter().map(|one| cosine(query, one)).enumerate().collect();
    scores.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    scores.truncate(k);
    scores
}

fn json<T: DeserializeOwned>(path: &Path) -> dl::Result<T> {
    let with_path = |error: String| Error::invalid(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| with_path(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| with_path(error.to_string()))
}
