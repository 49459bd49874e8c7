//! Configuration of mini-batch loading.

use crate::batches::{Batches, EpochPlan};
use crate::collate::Collate;
use crate::dataset::Dataset;
use crate::draw::Draw;
use crate::order::{Order, Settings};
use dl_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// The largest accepted number of loader threads; a larger one is a mistake.
const MAX_THREADS: usize = 1024;

/// Draws mini-batches from a data set.
///
/// The content of a batch is a function of the data set, the settings, the seed and the epoch. It
/// does not depend on the number of loader threads. An interrupted run can therefore continue with
/// exactly the remaining batches ([`resume`](Loader::resume)). A loader is immutable: each call of
/// [`epoch`](Loader::epoch) returns an independent iterator.
///
/// ```
/// use dl_data::{Dataset, InMemory, Loader};
/// use dl_nd::{Nd, ndarray::{Ix1, Ix2}};
///
/// let images = Nd::full([100, 64], 0.5_f32);
/// let labels: Vec<usize> = (0..100).map(|i| i % 10).collect();
/// let data = InMemory(images).zip(InMemory(labels))?;
/// let loader = Loader::new(data, 32).shuffle(true).seed(7).prefetch(4);
/// for epoch in 0..2 {
///     for batch in loader.epoch(epoch)? {
///         let (images, labels): (Nd<f32, Ix2>, Nd<usize, Ix1>) = batch?;
///         assert_eq!(images.shape()[0], labels.len());
///     }
/// }
/// # dl_core::Result::Ok(())
/// ```
pub struct Loader<D> {
    data: Arc<D>,
    batch_size: usize,
    seed: u64,
    shuffle: bool,
    drop_last: bool,
    labels: Option<Vec<usize>>,
    prefetch: usize,
    threads: usize,
}

/// The position of a run: the next batch to be trained on. Save it in a checkpoint together with
/// the seed.
///
/// ```
/// use dl_data::{InMemory, Loader, Position};
/// let loader = Loader::new(InMemory((0..10_usize).collect::<Vec<_>>()), 4).shuffle(true);
/// let mut batches = loader.epoch(3)?;
/// batches.next();
/// let saved = batches.position();
/// assert_eq!(saved, Position { epoch: 3, batch: 1 });
/// let rest: Vec<_> = batches.collect::<dl_core::Result<_>>()?;
/// assert_eq!(loader.resume(saved)?.collect::<dl_core::Result<Vec<_>>>()?, rest);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The batch in the epoch, from 0. At the end of an epoch it equals the number of batches.
    pub batch: usize,
}

impl<D: Dataset + 'static> Loader<D>
where
    D::Item: Collate,
{
    /// Batches of `batch_size` samples in the order of the data, loaded on demand. The last batch
    /// of an epoch may be smaller.
    ///
    /// ```
    /// use dl_data::{InMemory, Loader};
    /// let sizes: Vec<usize> = Loader::new(InMemory(vec![1.0_f32; 10]), 4).epoch(0)?.map(|batch| Ok(batch?.len())).collect::<dl_core::Result<_>>()?;
    /// assert_eq!(sizes, [4, 4, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(data: D, batch_size: usize) -> Self {
        let data = Arc::new(data);
        Loader { data, batch_size, seed: 0, shuffle: false, drop_last: false, labels: None, prefetch: 0, threads: 1 }
    }

    /// The seed of the order and of augmentations; 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whether samples are shuffled, differently in each epoch; off by default.
    ///
    /// ```
    /// use dl_data::{InMemory, Loader};
    /// let loader = Loader::new(InMemory((0..100_usize).collect::<Vec<_>>()), 100).shuffle(true);
    /// let first = |epoch| loader.epoch(epoch)?.next().expect("there is one");
    /// assert_eq!(first(0)?, first(0)?);
    /// assert_ne!(first(0)?, first(1)?);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// Whether an incomplete last batch is dropped; off by default. With
    /// [`by_class`](Loader::by_class) this applies to the last batch of each class.
    ///
    /// ```
    /// assert_eq!(dl_data::Loader::new(dl_data::InMemory(vec![1.0_f32; 10]), 4).drop_last(true).epoch(0)?.len(), 2);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// Groups the batches by class: each batch holds samples of one class only. `labels` holds the
    /// class of each sample, in the order of the data. This suits a network with a control flow
    /// that depends on the class. With [`shuffle`](Loader::shuffle) the batches of different
    /// classes are interleaved.
    ///
    /// ```
    /// use dl_data::{InMemory, Loader};
    /// let classes = vec![0_usize, 1, 0, 1, 0];
    /// for batch in Loader::new(InMemory(classes.clone()), 2).by_class(classes).shuffle(true).epoch(0)? {
    ///     let classes = batch?.into_vec();
    ///     assert!(classes.iter().all(|class| *class == classes[0]));
    /// }
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn by_class(mut self, labels: impl Into<Vec<usize>>) -> Self {
        self.labels = Some(labels.into());
        self
    }

    /// The number of batches to prefetch in the background. With 0, the default, a batch is loaded
    /// on demand.
    ///
    /// Prefetching uses threads of the loader, which may block on files without occupying the
    /// threads that compute. At most `batches` batches are in progress or ready at any time. Their
    /// order and content are bit-identical to loading on demand.
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches;
        self
    }

    /// The number of prefetch threads; 1 by default. At most [`prefetch`](Loader::prefetch) threads
    /// are used.
    ///
    /// ```
    /// use dl_data::{InMemory, Loader};
    /// let load = |threads| Loader::new(InMemory(vec![1.0_f32; 10]), 4).prefetch(3).threads(threads).epoch(0)?.collect::<dl_core::Result<Vec<_>>>();
    /// assert_eq!(load(1)?, load(3)?);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The data set.
    pub fn data(&self) -> &D {
        &self.data
    }

    /// The batches of an epoch.
    ///
    /// # Errors
    /// When a setting is invalid (batch size 0, too few or too many threads, not one label per
    /// sample), or a prefetch thread cannot be started.
    pub fn epoch(&self, epoch: u64) -> Result<Batches<D>> {
        self.resume(Position { epoch, batch: 0 })
    }

    /// The batches of an epoch from `position` on, identical to those of an uninterrupted run.
    ///
    /// ```
    /// use dl_data::{InMemory, Loader, Position};
    /// let loader = Loader::new(InMemory(vec![1.0_f32; 10]), 4);
    /// assert_eq!(loader.resume(Position { epoch: 0, batch: 2 })?.len(), 1);
    /// assert!(loader.resume(Position { epoch: 0, batch: 9 }).is_err());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`epoch`](Loader::epoch), and when the batch of `position` is past the end of the epoch.
    pub fn resume(&self, position: Position) -> Result<Batches<D>> {
        let order = self.order(position.epoch)?;
        if position.batch > order.len() {
            return Err(Error::invalid(format!(
                "there is no batch {} in an epoch of {} batches: the position was saved with other data or settings",
                position.batch,
                order.len()
            )));
        }
        let plan = EpochPlan { data: self.data.clone(), order, draw: Draw { seed: self.seed, epoch: position.epoch } };
        Batches::start(plan, position.batch, self.prefetch, self.threads.min(self.prefetch))
    }

    fn order(&self, epoch: u64) -> Result<Order> {
        let len = self.data.len();
        if self.batch_size == 0 {
            return Err(Error::invalid("the batch size is 0: a batch must hold at least 1 sample"));
        }
        if self.threads == 0 || self.threads > MAX_THREADS {
            let threads = self.threads;
            return Err(Error::invalid(format!("{threads} loader threads: the number must be 1 to {MAX_THREADS}")));
        }
        if let Some(labels) = self.labels.as_ref().filter(|labels| labels.len() != len) {
            let labels = labels.len();
            return Err(Error::invalid(format!(
                "{labels} labels for {len} samples: `by_class` needs one label per sample"
            )));
        }
        let settings = Settings {
            len,
            batch_size: self.batch_size,
            shuffle: self.shuffle,
            drop_last: self.drop_last,
            labels: self.labels.as_deref(),
        };
        Ok(Order::new(&settings, Draw { seed: self.seed, epoch }))
    }
}

impl<D> Clone for Loader<D> {
    fn clone(&self) -> Self {
        Loader { data: self.data.clone(), labels: self.labels.clone(), ..*self }
    }
}

impl<D> fmt::Debug for Loader<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("batch_size", &self.batch_size)
            .field("seed", &self.seed)
            .field("shuffle", &self.shuffle)
            .field("drop_last", &self.drop_last)
            .field("by_class", &self.labels.is_some())
            .field("prefetch", &self.prefetch)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
