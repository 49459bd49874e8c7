//! The [`Dataset`] trait, and data sets in memory.

use crate::adapters::{Augmented, Mapped, Subset, Zip};
use crate::collate::Collate;
use crate::draw::{Draw, Rng};
use crate::split;
use dl_core::{Error, Result};
use dl_nd::ndarray::{Axis, RemoveAxis};
use dl_nd::{Item, Nd, Rank};
use std::sync::Arc;

/// A finite sequence of samples with access by index.
///
/// Tensors and vectors become data sets by [`InMemory`]; the methods of this trait derive further
/// ones. To add another kind, implement [`len`](Dataset::len) and [`get`](Dataset::get). Read files
/// in `get`: a [`Loader`](crate::Loader) calls it on its prefetch threads.
///
/// ```
/// use dl_core::Result;
/// use dl_data::{Dataset, InMemory};
///
/// struct Squares;
///
/// impl Dataset for Squares {
///     type Item = usize;
///     fn len(&self) -> usize {
///         100
///     }
///     fn get(&self, index: usize) -> Result<usize> {
///         Ok(index * index)
///     }
/// }
///
/// assert_eq!(Squares.zip(InMemory(vec!["a"; 100]))?.get(3)?, (9, "a"));
/// # Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a data set",
    note = "wrap a tensor or a vector in `InMemory(…)`; for your own type, implement `Dataset`"
)]
pub trait Dataset: Send + Sync {
    /// The type of a sample.
    type Item: Send + 'static;

    /// The number of samples.
    fn len(&self) -> usize;

    /// The sample at `index`.
    ///
    /// # Errors
    /// When `index` is out of range, or the sample cannot be read.
    fn get(&self, index: usize) -> Result<Self::Item>;

    /// The sample at `index` as drawn in one epoch. A [`Loader`](crate::Loader) calls this method.
    /// Only data sets with a random part ([`augment`](Dataset::augment)) depend on `draw`. A data
    /// set that wraps another one must pass `draw` on.
    ///
    /// ```
    /// use dl_data::{Dataset, Draw};
    /// use dl_core::Result;
    ///
    /// /// Doubles each sample of another data set.
    /// struct Doubled<D>(D);
    ///
    /// impl<D: Dataset<Item = f32>> Dataset for Doubled<D> {
    ///     type Item = f32;
    ///     fn len(&self) -> usize {
    ///         self.0.len()
    ///     }
    ///     fn get(&self, index: usize) -> Result<f32> {
    ///         Ok(2.0 * self.0.get(index)?)
    ///     }
    ///     fn drawn(&self, index: usize, draw: Draw) -> Result<f32> {
    ///         Ok(2.0 * self.0.drawn(index, draw)?) // passes `draw` to the inner data set
    ///     }
    /// }
    /// # assert_eq!(Doubled(dl_data::InMemory(vec![1.0])).get(0)?, 2.0);
    /// # Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Dataset::get).
    fn drawn(&self, index: usize, _: Draw) -> Result<Self::Item> {
        self.get(index)
    }

    /// Whether the data set has no samples.
    ///
    /// ```
    /// use dl_data::{Dataset, InMemory};
    /// assert!(InMemory(Vec::<f32>::new()).is_empty());
    /// ```
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All samples, in order, as one batch; for a test set, for instance. Random samples are those
    /// of [`get`](Dataset::get).
    ///
    /// ```
    /// use dl_data::{Dataset, InMemory};
    /// use dl_nd::Nd;
    /// let data = InMemory(vec![(0.5_f32, 1_usize), (1.5, 0)]);
    /// assert_eq!(data.all()?, (Nd::from([0.5, 1.5]), Nd::from([1, 0])));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the data set is empty, a sample cannot be read, or the samples cannot be collated.
    fn all(&self) -> Result<<Self::Item as Collate>::Batch>
    where
        Self::Item: Collate,
    {
        let sample = |index| self.get(index).map_err(|error| error.context(format_args!("sample {index}")));
        Collate::collate((0..self.len()).map(sample).collect::<Result<_>>()?)
    }

    /// Pairs of samples of two data sets, such as images and their labels.
    ///
    /// ```
    /// use dl_data::{Dataset, InMemory};
    /// use dl_nd::Nd;
    /// let data = InMemory(Nd::from([[1.0_f32, 2.0], [3.0, 4.0]])).zip(InMemory(vec![0_usize, 1]))?;
    /// assert_eq!(data.get(1)?, (Nd::from([3.0, 4.0]), 1));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the data sets differ in length.
    fn zip<B: Dataset>(self, other: B) -> Result<Zip<Self, B>>
    where
        Self: Sized,
    {
        Zip::new(self, other)
    }

    /// Applies `f` to each sample when the sample is read.
    ///
    /// ```
    /// use dl_data::{Dataset, InMemory};
    /// assert_eq!(InMemory(vec![1, 2]).map(|x| Ok(x * 10)).get(1)?, 20);
    /// # dl_core::Result::Ok(())
    /// ```
    fn map<U: Send + 'static, F: Fn(Self::Item) -> Result<U> + Send + Sync>(self, f: F) -> Mapped<Self, F>
    where
        Self: Sized,
    {
        Mapped::new(self, f)
    }

    /// Applies a random function to each sample. The generator is determined by the seed of the
    /// loader, the epoch and the index of the sample. It depends neither on the threads nor on the
    /// order of the samples.
    ///
    /// [`get`](Dataset::get) draws with seed 0 in epoch 0. Both members of a [`zip`](Dataset::zip)
    /// draw the same numbers; nested augmentations draw different ones.
    ///
    /// ```
    /// use dl_data::{Dataset, Draw, InMemory, rand::Rng};
    /// let data = InMemory(vec![1.0_f64; 100]).augment(|x, rng| Ok(x + rng.random_range(-0.1..0.1)));
    /// let (first, second) = (Draw { seed: 1, epoch: 0 }, Draw { seed: 1, epoch: 1 });
    /// assert_eq!(data.drawn(7, first)?, data.drawn(7, first)?);
    /// assert_ne!(data.drawn(7, first)?, data.drawn(7, second)?);
    /// # dl_core::Result::Ok(())
    /// ```
    fn augment<U: Send + 'static, F: Fn(Self::Item, &mut Rng) -> Result<U> + Send + Sync>(
        self,
        f: F,
    ) -> Augmented<Self, F>
    where
        Self: Sized,
    {
        Augmented::new(self, f)
    }

    /// The samples at `indices`, in that order. An index may occur more than once.
    ///
    /// ```
    /// use dl_data::{Dataset, InMemory};
    /// assert_eq!(InMemory(vec!['a', 'b', 'c']).subset(vec![2, 0])?.get(0)?, 'c');
    /// assert!(InMemory(vec!['a']).subset(vec![1]).is_err());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When an index is out of range.
    fn subset(self, indices: Vec<usize>) -> Result<Subset<Self>>
    where
        Self: Sized,
    {
        Subset::new(self, indices)
    }

    /// Random parts of the given sizes, as fractions of the whole: see [`split()`](split::split).
    ///
    /// ```
    /// use dl_data::{Dataset, InMemory};
    /// let [train, test] = InMemory((0..100).collect::<Vec<usize>>()).split([0.8, 0.2], 7)?;
    /// assert_eq!((train.len(), test.len()), (80, 20));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When a fraction is not positive, the fractions sum to more than 1, or a part would be empty.
    fn split<const N: usize>(self, fractions: [f64; N], seed: u64) -> Result<[Subset<Arc<Self>>; N]>
    where
        Self: Sized,
    {
        let parts = split::split(self.len(), fractions, seed)?;
        Ok(split::subsets(self, parts))
    }

    /// As [`split`](Dataset::split), with the same class proportions in each part: see
    /// [`split_by_class`](split::split_by_class).
    ///
    /// ```
    /// use dl_data::{Dataset, InMemory};
    /// let labels: Vec<usize> = (0..100).map(|i| usize::from(i % 10 == 0)).collect();
    /// let [_, test] = InMemory(labels.clone()).split_by_class(&labels, [0.8, 0.2], 7)?;
    /// assert_eq!((0..test.len()).map(|i| test.get(i).unwrap()).sum::<usize>(), 2);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`split`](Dataset::split), and when `labels` does not hold one label per sample.
    fn split_by_class<const N: usize>(
        self,
        labels: &[usize],
        fractions: [f64; N],
        seed: u64,
    ) -> Result<[Subset<Arc<Self>>; N]>
    where
        Self: Sized,
    {
        if labels.len() != self.len() {
            return Err(Error::invalid(format!(
                "{} labels for {} samples: there must be one label per sample",
                labels.len(),
                self.len()
            )));
        }
        let parts = split::split_by_class(labels, fractions, seed)?;
        Ok(split::subsets(self, parts))
    }
}

/// The error for an index out of range.
pub(crate) fn out_of_range(index: usize, len: usize) -> Error {
    Error::invalid(format!("sample {index} is out of range: the data set has {len} samples, numbered from 0"))
}

/// Samples in memory: a vector of samples, or a tensor that is split along its first axis.
///
/// ```
/// use dl_data::{Dataset, InMemory};
/// use dl_nd::Nd;
/// assert_eq!(InMemory(vec!['a', 'b']).get(1)?, 'b');
/// assert_eq!(InMemory(Nd::from([[1.0_f32, 2.0], [3.0, 4.0]])).get(1)?, Nd::from([3.0, 4.0]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct InMemory<T>(pub T);

impl<A: Item, D: Rank + RemoveAxis> Dataset for InMemory<Nd<A, D>>
where
    D::Smaller: Rank,
{
    type Item = Nd<A, D::Smaller>;

    fn len(&self) -> usize {
        self.0.shape().first().copied().unwrap_or(0)
    }

    fn get(&self, index: usize) -> Result<Self::Item> {
        if index >= self.len() {
            return Err(out_of_range(index, self.len()));
        }
        Ok(self.0.view().index_axis_move(Axis(0), index).into())
    }
}

impl<T: Clone + Send + Sync + 'static> Dataset for InMemory<Vec<T>> {
    type Item = T;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Result<T> {
        self.0.get(index).cloned().ok_or_else(|| out_of_range(index, self.0.len()))
    }
}

macro_rules! pointers {
    ($($Pointer:ty),*) => {$(
        impl<D: Dataset + ?Sized> Dataset for $Pointer {
            type Item = D::Item;

            fn len(&self) -> usize {
                (**self).len()
            }

            fn get(&self, index: usize) -> Result<D::Item> {
                (**self).get(index)
            }

            fn drawn(&self, index: usize, draw: Draw) -> Result<D::Item> {
                (**self).drawn(index, draw)
            }
        }
    )*};
}

pointers!(Arc<D>, Box<D>, &D);
