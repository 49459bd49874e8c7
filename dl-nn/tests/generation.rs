//! Predictions with a cache, the choice of tokens, and generation.

use dl_core::{Differentiable, Do, Layer, Module, Result};
use dl_macros::Module;
use dl_nd::ndarray::{Ix2, Ix3};
use dl_nd::{Nd, NdLayer, init, ops::*};
use dl_nn::{Cache, DecoderBlock, Embedding, Generation, Linear, Past, RmsNorm, Sampling};
use futures::FutureExt;
use std::sync::{Arc, Mutex};

const WORDS: usize = 11;

#[derive(Clone, Module)]
#[module(crate = dl_core)]
struct Decoder {
    words: Embedding,
    blocks: Vec<DecoderBlock>,
    norm: RmsNorm,
    output: Linear,
}

impl Decoder {
    fn new() -> Result<Self> {
        let rng = &mut init::rng(4);
        let blocks = (0..2).map(|_| DecoderBlock::new(16, 4, 2, 24, rng)).collect::<Result<_>>()?;
        let (words, output) = (Embedding::new(WORDS, 16, rng)?, Linear::without_bias(16, WORDS, rng)?);
        Ok(Decoder { words, blocks, norm: RmsNorm::new(16)?, output })
    }

    /// The logits of whole sequences, `[batch, length, words]`.
    fn of(&self, ids: &Nd<usize, Ix2>) -> NdLayer<Ix3> {
        let x = self.blocks.iter().fold(self.words.of(ids), |x, block| block.of(x));
        self.output.of(self.norm.of(x))
    }

    /// The logits of all new tokens.
    fn read(&self, past: &Past) -> NdLayer<Ix3> {
        let blocks = self.blocks.iter().enumerate();
        let x = blocks.fold(self.words.of(past.tokens()), |x, (number, block)| block.of_cached(x, past.layer(number)));
        self.output.of(self.norm.of(x))
    }

    fn next(&self, past: &Past) -> NdLayer<Ix2> {
        past.last(self.read(past))
    }
}

fn text(seed: usize, length: usize) -> Vec<usize> {
    (0..length).map(|i| (i * i + 3 * i + seed) % WORDS).collect()
}

/// The logits of the last token of a sequence, computed from the whole of it.
fn whole(decoder: &Decoder, text: &[usize]) -> Result<Vec<f32>> {
    let logits = decoder.of(&Nd::from_vec([1, text.len()], text.to_vec())?).predict().wait()?;
    Ok(logits.view().index_axis(dl_nd::ndarray::Axis(1), text.len() - 1).iter().copied().collect())
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-5, "{found:?} instead of {expected:?}");
    }
}

#[test]
fn logits_token_by_token_equal_those_of_whole_sequences() -> Result<()> {
    let decoder = Decoder::new()?;
    let texts = [text(1, 40), text(2, 33), text(5, 30)];
    // prompts of different lengths, then tokens one by one, with a gap, and several at a time
    let mut read = [13, 1, 4];
    let cache = Cache::new(64);
    let mut counts = vec![read];
    counts.extend([[1, 1, 1]; 5]);
    counts.extend([[1, 0, 1], [3, 1, 2], [1, 1, 1], [0, 0, 1]]);
    counts.extend([[1, 1, 1]; 4]);
    read = [0; 3];
    for counts in counts {
        let new: Vec<_> = (0..3).map(|i| texts[i][read[i]..read[i] + counts[i]].to_vec()).collect();
        let logits = cache.predict(&new, |past| decoder.next(past)).wait()?;
        (0..3).for_each(|i| read[i] += counts[i]);
        assert_eq!(cache.lengths(), read);
        for i in (0..3).filter(|&i| counts[i] > 0) {
            assert_close(&logits.view().row(i).to_vec(), &whole(&decoder, &texts[i][..read[i]])?);
        }
    }
    Ok(())
}

#[test]
fn failed_prediction_leaves_cache_as_it_was() -> Result<()> {
    let decoder = Decoder::new()?;
    let text = text(3, 9);
    let cache = Cache::new(9);
    cache.predict(&[text[..5].to_vec()], |past| decoder.next(past)).wait()?;
    // an id out of range; and an error after all layers have written, with NaN among the numbers
    let line = line!() + 1;
    let error = cache.predict(&[vec![1, WORDS]], |past| decoder.next(past)).wait().expect_err("no such word");
    assert!(error.to_string().contains("11"), "{error}");
    assert!(error.place().is_some_and(|place| place.file().ends_with("generation.rs")), "{error} at {line}");
    let poisoned = |past: &Past| {
        let nan = Layer::constant(Nd::full([1, 1, 1, 3, 4], f32::NAN));
        let heads = [0, 1].map(|_| concat(1, [nan.clone(), nan.clone()]));
        let [keys, values] = heads;
        let (keys, values) = past.layer(0).extend(keys, values);
        keys.sum() + values.sum() + Layer::from(Do::<f32>::fail(dl_core::Error::invalid("later")))
    };
    assert!(cache.predict(&[vec![1, 2, 3]], poisoned).wait().is_err());
    assert_eq!(cache.lengths(), [5]);
    for end in 6..=9 {
        let logits = cache.predict(&[vec![text[end - 1]]], |past| decoder.next(past)).wait()?;
        assert_close(&logits.into_vec(), &whole(&decoder, &text[..end])?);
    }
    Ok(())
}

#[test]
fn layer_of_an_earlier_prediction_is_refused_and_leaves_cache_as_it_was() -> Result<()> {
    let (decoder, text, cache) = (Decoder::new()?, text(3, 9), Cache::new(9));
    let mut kept = None;
    let keep = |past: &Past| {
        let next = decoder.next(past);
        kept = Some(next.clone());
        next
    };
    cache.predict(&[text[..4].to_vec()], keep).wait()?;
    let kept = kept.expect("a layer");
    cache.predict(&[vec![text[4]]], |past| decoder.next(past)).wait()?;
    assert!(kept.predict().wait().unwrap_err().to_string().contains("belongs to one `Cache::predict`"));
    // within another prediction, too
    assert!(cache.predict(&[vec![text[5]]], |past| decoder.next(past) + &kept).wait().is_err());
    let logits = cache.predict(&[text[5..].to_vec()], |past| decoder.next(past)).wait()?;
    assert_close(&logits.into_vec(), &whole(&decoder, &text)?);
    Ok(())
}

#[test]
fn two_blocks_with_one_number_are_refused_in_each_prediction() -> Result<()> {
    let (decoder, cache) = (Decoder::new()?, Cache::new(16));
    let wrong = |past: &Past| {
        let x =
            decoder.blocks.iter().fold(decoder.words.of(past.tokens()), |x, block| block.of_cached(x, past.layer(0)));
        decoder.output.of(decoder.norm.of(past.last(x)))
    };
    for _ in 0..2 {
        let error = cache.predict(&[text(0, 3)], wrong).wait().unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains("each needs a number of its own"), "{error}");
        assert!(error.place().is_some_and(|place| place.file().ends_with("generation.rs")), "{error}");
        assert!(cache.lengths().is_empty());
    }
    cache.predict(&[text(0, 3)], |past| decoder.read(past)).wait()?;
    cache.predict(&[text(1, 2)], |past| decoder.read(past)).wait()?;
    assert_eq!(cache.lengths(), [5]);
    Ok(())
}

#[test]
fn numbers_of_abandoned_prediction_reach_no_shorter_sequence() -> Result<()> {
    let cache = Cache::<f32>::new(9);
    let extend = |past: &Past, x: f32| {
        let shape = [2, 1, 1, past.tokens().shape()[1], 2];
        let (k, v) = past.layer(0).extend(Nd::full(shape, x), Nd::full(shape, x));
        scaled_dot_product_attention_with(Nd::full(shape, 1.0), k, v, past.layer(0).settings())
    };
    cache.predict(&[vec![1, 1], vec![1]], |past| extend(past, 1.0)).wait()?;
    let failing = |past: &Past| extend(past, f32::NAN).refuse_non_finite();
    assert!(cache.predict(&[vec![1; 4], vec![1; 4]], failing).wait().is_err());
    let heads = cache.predict(&[vec![1; 4], vec![1]], |past| extend(past, 1.0)).wait()?;
    assert!(heads.view().slice_move(dl_nd::ndarray::s![1, .., .., 0, ..]).iter().all(|&x| x == 1.0), "{heads:?}");
    Ok(())
}

#[test]
fn invalid_tokens_of_cache_are_refused_at_the_call() -> Result<()> {
    let (decoder, cache) = (Decoder::new()?, Cache::new(4));
    let next = |past: &Past| decoder.next(past);
    let refused = |tokens: &[Vec<usize>], part: &str| {
        let error = cache.predict(tokens, next).wait().expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().contains("generation.rs"), "{error}");
    };
    refused(&[vec![1; 5]], "sequence 0 would have 0 + 5 tokens; the limit of the cache is 4");
    refused(&[vec![1], vec![]], "the prompt of sequence 1 is empty");
    refused(&[], "tokens of 0 sequences for a cache of 1");
    assert!(cache.lengths().is_empty());
    cache.predict(&[vec![1, 2, 3]], next).wait()?;
    refused(&[vec![1, 2]], "sequence 0 would have 3 + 2 tokens");
    refused(&[vec![1], vec![1]], "tokens of 2 sequences for a cache of 1");
    refused(&[vec![]], "no sequence has a new token");
    let late = cache.predict(&[vec![4]], next);
    cache.truncate(0, 2)?;
    assert!(late.wait().expect_err("another length").to_string().contains("has changed"));
    assert!(cache.truncate(0, 3).is_err() && cache.truncate(1, 0).is_err());
    assert_eq!(cache.lengths(), [2]);
    // the tokens after the first two are forgotten
    let logits = cache.predict(&[vec![7]], next).wait()?;
    assert_close(&logits.into_vec(), &whole(&decoder, &[1, 2, 7])?);
    Ok(())
}

/// A value that is kept shares its elements with the cache, so the next prediction must copy them.
#[test]
fn kept_keys_do_not_change_with_the_cache() -> Result<()> {
    let cache = Cache::<f32>::new(8);
    let extend =
        |past: &Past, x: f32| past.layer(0).extend(Nd::full([1, 1, 1, 1, 1], x), Nd::full([1, 1, 1, 1, 1], x)).0;
    let first = cache.predict(&[vec![0]], |past| extend(past, 1.0)).wait()?;
    cache.truncate(0, 0)?;
    let second = cache.predict(&[vec![0]], |past| extend(past, 2.0)).wait()?;
    assert_eq!((first.into_vec(), second.into_vec()), (vec![1.0], vec![2.0]));
    Ok(())
}

#[test]
fn generation_is_deterministic_and_independent_of_its_batch() -> Result<()> {
    let decoder = Decoder::new()?;
    let sampling = Sampling::new().temperature(0.9).top_k(8).top_p(0.95).repetition_penalty(1.1);
    let run = |prompts: Vec<Vec<usize>>, seed| {
        let text = Generation::new(|past: &Past| decoder.next(past), prompts, 32).sampling(sampling).seed(seed);
        text.tokens(12).collect::<Result<Vec<_>>>()
    };
    let (one, both) = (run(vec![text(1, 5)], 3)?, run(vec![text(1, 5), text(2, 2)], 3)?);
    assert_eq!(both, run(vec![text(1, 5), text(2, 2)], 3)?);
    assert_ne!(both, run(vec![text(1, 5), text(2, 2)], 4)?);
    assert_eq!(one.concat(), both.iter().map(|tokens| tokens[0]).collect::<Vec<_>>());
    // greedy tokens are those of whole sequences
    let greedy = Generation::new(|past: &Past| decoder.next(past), vec![text(1, 5)], 12).sampling(Sampling::greedy());
    let mut written = text(1, 5);
    for token in greedy.first() {
        let logits = whole(&decoder, &written)?;
        let best = (0..WORDS).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).expect("a word");
        assert_eq!(token?, best);
        written.push(best);
    }
    assert_eq!(written.len(), 12);
    Ok(())
}

#[test]
fn generation_ends_at_stop_tokens_limits_and_errors() -> Result<()> {
    // the token after `i` is `i + 1`
    let count = |past: &Past| {
        let last = past
            .tokens()
            .view()
            .rows()
            .into_iter()
            .map(|row| row.iter().copied().max().unwrap_or(0))
            .collect::<Vec<_>>();
        let logits = last.iter().flat_map(|&last| (0..8).map(move |id| if id == last + 1 { 9e9 } else { 0.0 }));
        Layer::constant(Nd::from_vec([last.len(), 8], logits.collect::<Vec<f32>>()).expect("as many numbers"))
    };
    let run = |prompts: &[Vec<usize>]| {
        Generation::new(count, prompts.to_vec(), 5).stop_at([4, 7]).collect::<Result<Vec<_>>>()
    };
    let items = run(&[vec![1, 2], vec![5], vec![0, 0, 0]])?;
    // the first stops before 4, the second before 7, the third when it has five tokens
    assert_eq!(items, [vec![Some(3), Some(6), Some(1)], vec![None, None, Some(2)]]);
    for (prompts, part) in [(vec![vec![]], "empty"), (vec![vec![0; 6]], "limit"), (vec![], "0 sequences")] {
        let mut text = Generation::new(count, prompts, 5);
        assert!(text.next().expect("an item").expect_err(part).to_string().contains(part));
        assert!(text.next().is_none());
    }
    Ok(())
}

#[test]
fn sampling_draws_from_softmax_of_changed_logits() -> Result<()> {
    let (logits, rng) = ([1.0, 3.0, 2.0, -1.0, f64::NEG_INFINITY], &mut init::rng(6));
    let mut shares = |sampling: Sampling, text: &[usize]| {
        let mut counts = [0.0; 5];
        (0..20_000).for_each(|_| counts[sampling.draw(&logits, text, rng).unwrap()] += 1.0 / 20_000.0);
        counts
    };
    let softmax = |logits: [f64; 5]| {
        let all: f64 = logits.iter().map(|x| x.exp()).sum();
        logits.map(|x| x.exp() / all)
    };
    let gone = f64::NEG_INFINITY;
    // PyTorch: torch.softmax of the logits that the warpers of transformers leave
    for (sampling, text, expected) in [
        (Sampling::new(), &[][..], softmax(logits)),
        (Sampling::new().temperature(2.0), &[], softmax(logits.map(|x| x / 2.0))),
        (Sampling::new().top_k(2), &[], softmax([gone, 3.0, 2.0, gone, gone])),
        (Sampling::new().top_p(0.7), &[], softmax([gone, 3.0, 2.0, gone, gone])),
        (Sampling::new().top_p(0.5), &[], softmax([gone, 3.0, gone, gone, gone])),
        (Sampling::new().repetition_penalty(2.0), &[1, 3, 1], softmax([1.0, 1.5, 2.0, -2.0, gone])),
    ] {
        for (found, expected) in shares(sampling, text).into_iter().zip(expected) {
            assert!((found - expected).abs() < 0.012, "{sampling:?}: {found} instead of {expected}");
        }
    }
    for (sampling, logits, part) in [
        (Sampling::new().temperature(-1.0), &[0.0][..], "temperature"),
        (Sampling::new().temperature(f64::NAN), &[0.0], "temperature"),
        (Sampling::new().top_k(0), &[0.0], "top_k"),
        (Sampling::new().top_p(0.0), &[0.0], "top_p"),
        (Sampling::new().top_p(1.5), &[0.0], "top_p"),
        (Sampling::new().repetition_penalty(0.0), &[0.0], "penalty"),
        (Sampling::new(), &[0.0, f64::NAN], "token 1 is NaN"),
        (Sampling::new(), &[f64::NEG_INFINITY], "no token"),
        (Sampling::greedy(), &[], "no token"),
    ] {
        let error = sampling.draw(logits, &[], &mut init::rng(1)).expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(Decoder::new()?.names().len(), 1 + 2 * 9 + 2);
    Ok(())
}

/// The address of the keys changes only when the cache takes memory for more tokens: a copy is made
/// while the original is alive, and so has another address.
#[test]
fn past_is_not_copied_at_each_token() -> Result<()> {
    let (cache, addresses) = (Cache::<f32>::new(128), Arc::new(Mutex::new(Vec::new())));
    let next = |past: &Past| {
        let new = Nd::full([1, 2, 1, 1, 4], 0.5);
        let (keys, values) = past.layer(0).extend(&new, &new);
        let heads = scaled_dot_product_attention_with(&new, &keys, &values, past.layer(0).settings());
        let seen = addresses.clone();
        let watched: Layer<f32> = Layer::dynamic(move || {
            let (keys, heads, seen) = (keys.clone(), heads.clone(), seen.clone());
            async move {
                let keys = keys.extract().await?;
                seen.lock().unwrap().push(keys.view().as_ptr() as usize);
                Ok(heads.sum())
            }
        });
        watched
    };
    for _ in 0..128 {
        cache.predict(&[vec![1]], next).wait()?;
    }
    let addresses = addresses.lock().unwrap();
    let moved: Vec<_> = (1..128).filter(|&token| addresses[token] != addresses[token - 1]).collect();
    // the capacity is 16 at first, then 32, 64 and 128
    assert_eq!(moved, [16, 32, 64]);
    Ok(())
}

#[test]
fn dropped_prediction_releases_the_cache() -> Result<()> {
    let decoder = Decoder::new()?;
    let text = text(2, 7);
    let cache = Cache::new(16);
    cache.predict(&[text[..5].to_vec()], |past| decoder.next(past)).wait()?;
    // the layers write their keys and values, then the prediction waits forever
    let endless = |past: &Past| decoder.next(past).sum() + Layer::from(Do::<f32>::from_future(std::future::pending()));
    for _ in 0..2 {
        let mut run = cache.predict(&[vec![1, 2, 3]], endless).run();
        assert!((&mut run).now_or_never().is_none());
        let other = cache.predict(&[vec![text[5]]], |past| decoder.next(past)).wait().expect_err("a busy cache");
        assert!(other.to_string().contains("another prediction is writing"), "{other}");
        assert!(cache.truncate(0, 1).is_err());
        drop(run);
        assert_eq!(cache.lengths(), [5]);
    }
    drop(cache.predict(&[vec![1]], |past| decoder.next(past))); // never run
    for end in 6..=7 {
        let logits = cache.predict(&[vec![text[end - 1]]], |past| decoder.next(past)).wait()?;
        assert_close(&logits.into_vec(), &whole(&decoder, &text[..end])?);
    }
    cache.truncate(0, 1)
}

#[test]
fn generation_with_invalid_prompts_or_weights_ends_with_an_error() -> Result<()> {
    let decoder = Decoder::new()?;
    let error = |prompts: &[Vec<usize>], sampling, part: &str| {
        let mut text = Generation::new(|past: &Past| decoder.next(past), prompts.to_vec(), 8).sampling(sampling);
        let error = text.next().expect("an item").expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
        assert!(text.next().is_none(), "an item after an error");
        error
    };
    for sampling in [Sampling::greedy(), Sampling::new(), Sampling::new().top_k(3)] {
        error(&[vec![1; 9]], sampling, "sequence 0 would have 0 + 9 tokens; the limit of the cache is 8");
        error(&[vec![1], vec![]], sampling, "the prompt of sequence 1 is empty");
        error(&[], sampling, "tokens of 0 sequences");
        assert!(error(&[vec![1, WORDS, 2]], sampling, "11").place().is_some());
    }
    let weights =
        [&decoder.output.weight, &decoder.blocks[1].self_attn.k_proj.weight, &decoder.blocks[0].mlp.up_proj.weight];
    for weight in weights {
        let finite = weight.value();
        let mut damaged = finite.clone().into_array();
        damaged[[1, 1]] = f32::NAN;
        weight.set(Nd::from(damaged));
        for sampling in [Sampling::greedy(), Sampling::new(), Sampling::new().top_k(3)] {
            assert!(error(&[vec![1, 2, 3]], sampling, "is NaN").is_not_finite());
        }
        weight.set(finite);
    }
    let text = Generation::new(|past: &Past| decoder.next(past), vec![vec![1, 2, 3]], 8);
    assert_eq!(text.collect::<Result<Vec<_>>>()?.len(), 5);
    Ok(())
}
