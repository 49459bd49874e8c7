//! Text from a decoder, token by token.

use crate::cache::{Cache, Past};
use crate::sampling::Sampling;
use dl_core::{Do, Error, Result};
use dl_nd::ndarray::Ix2;
use dl_nd::{Element, Nd, NdLayer, init};
use futures::stream::{self, Stream};
use std::fmt;

/// The tokens that a model writes after some prompts, one sequence for each: an iterator, and with
/// [`stream`](Generation::stream) a stream. An item has the next token of each sequence, `None` of
/// one that has ended. After an error there are no more items.
///
/// `model` returns the logits of the token that follows each sequence, `[batch, vocabulary]`. The
/// generation ends with the stop tokens, after a number of tokens, or when a sequence fills the
/// cache. The tokens of a sequence depend on the seed, its prompt and its number in the batch, not on
/// the number of threads or the other sequences.
///
/// ```
/// use dl_nd::init;
/// use dl_nn::{DecoderBlock, Embedding, Generation, Linear, Past, Sampling};
/// let rng = &mut init::rng(1);
/// let (words, block) = (Embedding::<f32>::new(10, 16, rng)?, DecoderBlock::new(16, 4, 2, 32, rng)?);
/// let output = Linear::new(16, 10, rng)?;
/// let model = |past: &Past| output.of(past.last(block.of_cached(words.of(past.tokens()), past.layer(0))));
///
/// let text = Generation::new(model, vec![vec![1, 2, 3]], 64).sampling(Sampling::new().top_k(5)).seed(7).tokens(20);
/// let tokens: Vec<usize> = text.first().collect::<dl_core::Result<_>>()?;
/// assert_eq!(tokens.len(), 20);
/// # dl_core::Result::Ok(())
/// ```
pub struct Generation<M, A: Element = f32> {
    model: M,
    cache: Cache<A>,
    sampling: Sampling,
    seed: u64,
    stop: Vec<usize>,
    left: usize,
    sequences: Vec<Sequence>,
}

struct Sequence {
    text: Vec<usize>,
    /// The number of tokens of the text that the cache has.
    read: usize,
    ended: bool,
}

impl<M: Fn(&Past<A>) -> NdLayer<Ix2, A>, A: Element> Generation<M, A> {
    /// Text after each of the prompts, drawn from the softmax of the logits. It ends when a prompt
    /// with its text fills a cache of `limit` tokens.
    ///
    /// ```
    /// use dl_core::Layer;
    /// use dl_nd::Nd;
    /// let model = |_: &dl_nn::Past| Layer::constant(Nd::from([[0.0_f32, 9e9]]));
    /// let mut text = dl_nn::Generation::new(model, vec![vec![0]], 3);
    /// assert_eq!(text.next().transpose()?, Some(vec![Some(1)]));
    /// assert_eq!(text.count(), 1); // then the cache is full
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(model: M, prompts: Vec<Vec<usize>>, limit: usize) -> Self {
        let sequences = prompts.into_iter().map(|text| Sequence { text, read: 0, ended: false }).collect();
        let (sampling, stop) = (Sampling::new(), Vec::new());
        Generation { model, cache: Cache::new(limit), sampling, seed: 0, stop, left: usize::MAX, sequences }
    }

    /// Draws tokens in another way.
    ///
    /// ```
    /// # use dl_core::Layer; use dl_nd::Nd; use dl_nn::Sampling;
    /// # let model = |_: &dl_nn::Past| Layer::constant(Nd::from([[0.0_f32, 1.0]]));
    /// let mut text = dl_nn::Generation::new(model, vec![vec![0]], 3).sampling(Sampling::greedy());
    /// assert_eq!(text.next().transpose()?, Some(vec![Some(1)]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[must_use]
    pub fn sampling(self, sampling: Sampling) -> Self {
        Generation { sampling, ..self }
    }

    /// The seed of the random numbers, 0 by default. Each sequence has numbers of its own.
    ///
    /// ```
    /// # use dl_core::Layer; use dl_nd::Nd;
    /// # let model = |_: &dl_nn::Past| Layer::constant(Nd::from([[0.0_f32, 1.0]]));
    /// let text = |seed| dl_nn::Generation::new(model, vec![vec![0]], 30).seed(seed).first().collect::<dl_core::Result<Vec<_>>>();
    /// assert_eq!(text(1)?, text(1)?);
    /// assert_ne!(text(1)?, text(2)?);
    /// # dl_core::Result::Ok(())
    /// ```
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Generation { seed, ..self }
    }

    /// Ends a sequence at any of these tokens, which does not become an item.
    ///
    /// ```
    /// # use dl_core::Layer; use dl_nd::Nd;
    /// let model = |_: &dl_nn::Past| Layer::constant(Nd::from([[0.0_f32, 9e9]]));
    /// assert_eq!(dl_nn::Generation::new(model, vec![vec![0]], 30).stop_at([1]).count(), 0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[must_use]
    pub fn stop_at(self, tokens: impl Into<Vec<usize>>) -> Self {
        Generation { stop: tokens.into(), ..self }
    }

    /// Ends after this number of tokens.
    ///
    /// ```
    /// # use dl_core::Layer; use dl_nd::Nd;
    /// let model = |_: &dl_nn::Past| Layer::constant(Nd::from([[0.0_f32, 1.0]]));
    /// assert_eq!(dl_nn::Generation::new(model, vec![vec![0]], 30).tokens(5).count(), 5);
    /// # dl_core::Result::Ok(())
    /// ```
    #[must_use]
    pub fn tokens(self, number: usize) -> Self {
        Generation { left: number, ..self }
    }

    /// The tokens of the first sequence alone.
    ///
    /// ```
    /// # use dl_core::Layer; use dl_nd::Nd;
    /// let model = |_: &dl_nn::Past| Layer::constant(Nd::from([[0.0_f32, 9e9]]));
    /// let text = dl_nn::Generation::new(model, vec![vec![0]], 4).first();
    /// assert_eq!(text.collect::<dl_core::Result<Vec<_>>>()?, [1, 1, 1]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn first(self) -> impl Iterator<Item = Result<usize>> {
        self.map_while(|step| step.map(|tokens| tokens[0]).transpose())
    }

    /// The items as a stream, for a program that waits for other things as well.
    ///
    /// ```
    /// # use dl_core::Layer; use dl_nd::Nd;
    /// use futures::{TryStreamExt, executor::block_on};
    /// let model = |_: &dl_nn::Past| Layer::constant(Nd::from([[0.0_f32, 9e9]; 2]));
    /// let text = dl_nn::Generation::new(model, vec![vec![0], vec![1]], 4).tokens(2).stream();
    /// assert_eq!(block_on(text.try_collect::<Vec<_>>())?, [[Some(1); 2]; 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn stream(self) -> impl Stream<Item = Result<Vec<Option<usize>>>> {
        stream::unfold(self, |mut this| async {
            let logits = this.logits()?.await;
            let item = logits.and_then(|logits| this.draw(&logits));
            this.end_after(item).map(|item| (item, this))
        })
    }

    /// The logits of the next token; `None` at the end.
    #[track_caller]
    fn logits(&self) -> Option<Do<Nd<A, Ix2>>> {
        if self.left == 0 || !self.sequences.is_empty() && self.sequences.iter().all(|sequence| sequence.ended) {
            return None;
        }
        let unread = |sequence: &Sequence| match sequence.ended {
            false => sequence.text[sequence.read..].to_vec(),
            true => Vec::new(),
        };
        let unread: Vec<_> = self.sequences.iter().map(unread).collect();
        Some(self.cache.predict(&unread, &self.model))
    }

    fn draw(&mut self, logits: &Nd<A, Ix2>) -> Result<Vec<Option<usize>>> {
        let rows = logits.view();
        if rows.nrows() != self.sequences.len() {
            let (rows, sequences) = (rows.nrows(), self.sequences.len());
            return Err(Error::shape(format!("logits of {rows} sequences; the generation has {sequences}")));
        }
        let limit = self.cache.limit();
        let each = self.sequences.iter_mut().zip(rows.outer_iter()).enumerate();
        let tokens = each.map(|(number, (sequence, logits))| {
            if sequence.ended {
                return Ok(None);
            }
            sequence.read = sequence.text.len();
            // a generator for each token: the numbers do not depend on the other sequences
            let rng = &mut init::rng_for(self.seed, &format!("{number}.{}", sequence.read));
            let token = self.sampling.draw(&logits.to_vec(), &sequence.text, rng)?;
            sequence.ended = self.stop.contains(&token);
            if sequence.ended {
                return Ok(None);
            }
            sequence.text.push(token);
            sequence.ended = sequence.text.len() >= limit;
            Ok(Some(token))
        });
        tokens.collect()
    }

    /// An item; `None` at the end. The last item has no successor.
    fn end_after(&mut self, item: Result<Vec<Option<usize>>>) -> Option<Result<Vec<Option<usize>>>> {
        self.left = if item.is_ok() { self.left.saturating_sub(1) } else { 0 };
        match item {
            Ok(tokens) if tokens.iter().all(Option::is_none) => None,
            item => Some(item),
        }
    }
}

impl<M: Fn(&Past<A>) -> NdLayer<Ix2, A>, A: Element> Iterator for Generation<M, A> {
    type Item = Result<Vec<Option<usize>>>;

    #[track_caller]
    fn next(&mut self) -> Option<Self::Item> {
        let item = self.logits()?.wait().and_then(|logits| self.draw(&logits));
        self.end_after(item)
    }
}

impl<M, A: Element> fmt::Debug for Generation<M, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation")
            .field("cache", &self.cache)
            .field("sampling", &self.sampling)
            .finish_non_exhaustive()
    }
}
