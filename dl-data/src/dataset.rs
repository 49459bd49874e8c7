//! What samples are drawn from: [`Dataset`], and the places samples may lie in.

use crate::adapt::{Augmented, Mapped, Subset, Zip};
use crate::collate::Collate;
use crate::draw::{Draw, Rng};
use crate::split;
use dl_core::{Error, Result};
use dl_nd::ndarray::{Axis, RemoveAxis};
use dl_nd::{Item, Nd, Rank};
use std::sync::Arc;

/// A finite sequence of samples, each to be had by its index.
///
/// What is [`InMemory`], and all that the methods here make of other data sets, are data sets. To
/// add another kind, write [`len`](Dataset::len) and [`get`](Dataset::get): reading happens in
/// `get`, so that a [`Loader`](crate::Loader) can do it ahead, on other threads.
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
    note = "a tensor or a vector is one as `InMemory(…)`; for a type of your own write `impl Dataset`"
)]
pub trait Dataset: Send + Sync {
    /// A sample.
    type Item: Send + 'static;

    /// The number of samples.
    fn len(&self) -> usize;

    /// The sample of this index.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    fn get(&self, index: usize) -> Result<Self::Item>;

    /// The sample of this index, as it is drawn in one epoch: what a loader asks for. Only data
    /// sets that are random somewhere ([`augment`](Dataset::augment)) tell epochs apart; a data set
    /// made of others hands the draw on to them.
    ///
    /// ```
    /// use dl_data::{Dataset, Draw};
    /// use dl_core::Result;
    ///
    /// /// A data set of which each sample is read twice as large, in every epoch.
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
    ///         Ok(2.0 * self.0.drawn(index, draw)?) // what is random below stays random
    ///     }
    /// }
    /// # assert_eq!(Doubled(dl_data::InMemory(vec![1.0])).get(0)?, 2.0);
    /// # Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Dataset::get).
    fn drawn(&self, index: usize, _: Draw) -> Result<Self::Item> {
        self.get(index)
    }

    /// Whether there are no samples.
    ///
    /// ```
    /// use dl_data::{Dataset, InMemory};
    /// assert!(InMemory(Vec::<f32>::new()).is_empty());
    /// ```
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All samples in one batch, in their order: a test set, for instance. Samples that are random
    /// are those of [`get`](Dataset::get).
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
    /// When there are no samples, one cannot be read, or they do not fit together.
    fn all(&self) -> Result<<Self::Item as Collate>::Batch>
    where
        Self::Item: Collate,
    {
        let sample = |index| self.get(index).map_err(|error| error.context(format_args!("sample {index}")));
        Collate::collate((0..self.len()).map(sample).collect::<Result<_>>()?)
    }

    /// The samples of both, in pairs: images and their labels, for instance.
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
    /// When one has more samples than the other.
    fn zip<B: Dataset>(self, other: B) -> Result<Zip<Self, B>>
    where
        Self: Sized,
    {
        Zip::new(self, other)
    }

    /// A function of each sample, computed when the sample is asked for.
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

    /// A random function of each sample. Its generator depends on the seed of the loader, the epoch
    /// and the index of the sample alone, so neither on threads nor on the order of the samples.
    ///
    /// [`get`](Dataset::get) is a draw with the seed 0 in epoch 0. Both members of a
    /// [`zip`](Dataset::zip) draw the same numbers; an augmentation of an augmentation draws
    /// others.
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

    /// The samples of these indices, in this order. An index may come more than once.
    ///
    /// ```
    /// use dl_data::{Dataset, InMemory};
    /// assert_eq!(InMemory(vec!['a', 'b', 'c']).subset(vec![2, 0])?.get(0)?, 'c');
    /// assert!(InMemory(vec!['a']).subset(vec![1]).is_err());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such sample.
    fn subset(self, indices: Vec<usize>) -> Result<Subset<Self>>
    where
        Self: Sized,
    {
        Subset::new(self, indices)
    }

    /// Parts of these sizes, as fractions of the whole, drawn with a seed: see
    /// [`split()`](split::split).
    ///
    /// ```
    /// use dl_data::{Dataset, InMemory};
    /// let [train, test] = InMemory((0..100).collect::<Vec<usize>>()).split([0.8, 0.2], 7)?;
    /// assert_eq!((train.len(), test.len()), (80, 20));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the fractions make no sense, or a part would be empty.
    fn split<const N: usize>(self, fractions: [f64; N], seed: u64) -> Result<[Subset<Arc<Self>>; N]>
    where
        Self: Sized,
    {
        let parts = split::split(self.len(), fractions, seed)?;
        Ok(split::subsets(self, parts))
    }

    /// The same, with every class in every part in its fraction: see
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
    /// Those of [`split`](Dataset::split), and when there is not a label for each sample.
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
                "{} labels for {} samples: there must be one for each",
                labels.len(),
                self.len()
            )));
        }
        let parts = split::split_by_class(labels, fractions, seed)?;
        Ok(split::subsets(self, parts))
    }
}

/// That there is no sample of this index.
pub(crate) fn no_sample(index: usize, len: usize) -> Error {
    Error::invalid(format!("there is no sample {index} among {len}, which are numbered from 0"))
}

/// Samples that are in memory: a vector of them, or a tensor, whose samples are its rows, the
/// tensors along its first axis.
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
            return Err(no_sample(index, self.len()));
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
        self.0.get(index).cloned().ok_or_else(|| no_sample(index, self.0.len()))
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
