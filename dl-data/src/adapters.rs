//! Data sets derived from other data sets. Each must pass the [`Draw`] on to its inner data sets.

use crate::dataset::{Dataset, out_of_range};
use crate::draw::{Draw, Rng};
use dl_core::{Error, Result};
use std::fmt;

/// Pairs of samples of two data sets: see [`Dataset::zip`].
///
/// ```
/// use dl_data::{Dataset, InMemory};
/// let data = InMemory(vec![0.5]).zip(InMemory(vec![1]))?;
/// assert_eq!(data.parts().1, &InMemory(vec![1]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Zip<A, B> {
    left: A,
    right: B,
}

impl<A: Dataset, B: Dataset> Zip<A, B> {
    pub(crate) fn new(left: A, right: B) -> Result<Self> {
        if left.len() != right.len() {
            let (left, right) = (left.len(), right.len());
            return Err(Error::invalid(format!(
                "{left} samples cannot be paired with {right}: both data sets must have the same length"
            )));
        }
        Ok(Zip { left, right })
    }
}

impl<A, B> Zip<A, B> {
    /// Both data sets.
    pub fn parts(&self) -> (&A, &B) {
        (&self.left, &self.right)
    }
}

impl<A: Dataset, B: Dataset> Dataset for Zip<A, B> {
    type Item = (A::Item, B::Item);

    fn len(&self) -> usize {
        self.left.len()
    }

    fn get(&self, index: usize) -> Result<Self::Item> {
        Ok((self.left.get(index)?, self.right.get(index)?))
    }

    fn drawn(&self, index: usize, draw: Draw) -> Result<Self::Item> {
        Ok((self.left.drawn(index, draw)?, self.right.drawn(index, draw)?))
    }
}

/// A function applied to each sample: see [`Dataset::map`].
///
/// ```
/// use dl_data::{Dataset, InMemory};
/// assert_eq!(InMemory(vec![1, 2]).map(|x| Ok(x + 1)).len(), 2);
/// ```
#[derive(Clone)]
pub struct Mapped<D, F> {
    data: D,
    f: F,
}

impl<D, F> Mapped<D, F> {
    pub(crate) fn new(data: D, f: F) -> Self {
        Mapped { data, f }
    }
}

impl<D: Dataset, U: Send + 'static, F: Fn(D::Item) -> Result<U> + Send + Sync> Dataset for Mapped<D, F> {
    type Item = U;

    fn len(&self) -> usize {
        self.data.len()
    }

    fn get(&self, index: usize) -> Result<U> {
        (self.f)(self.data.get(index)?)
    }

    fn drawn(&self, index: usize, draw: Draw) -> Result<U> {
        (self.f)(self.data.drawn(index, draw)?)
    }
}

/// A random function applied to each sample: see [`Dataset::augment`].
///
/// ```
/// use dl_data::{Dataset, InMemory};
/// assert_eq!(InMemory(vec![1, 2]).augment(|x, _| Ok(x)).get(0)?, 1);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Augmented<D, F> {
    data: D,
    f: F,
}

impl<D, F> Augmented<D, F> {
    pub(crate) fn new(data: D, f: F) -> Self {
        Augmented { data, f }
    }
}

impl<D: Dataset, U: Send + 'static, F: Fn(D::Item, &mut Rng) -> Result<U> + Send + Sync> Dataset for Augmented<D, F> {
    type Item = U;

    fn len(&self) -> usize {
        self.data.len()
    }

    fn get(&self, index: usize) -> Result<U> {
        self.drawn(index, Draw::default())
    }

    fn drawn(&self, index: usize, draw: Draw) -> Result<U> {
        (self.f)(self.data.drawn(index, draw.inner())?, &mut draw.rng(index))
    }
}

macro_rules! debug {
    ($($Adapter:ident),*) => {$(
        impl<D: fmt::Debug, F> fmt::Debug for $Adapter<D, F> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($Adapter)).field("data", &self.data).finish_non_exhaustive()
            }
        }
    )*};
}

debug!(Mapped, Augmented);

/// Selected samples of a data set: see [`Dataset::subset`].
///
/// ```
/// use dl_data::{Dataset, InMemory};
/// assert_eq!(InMemory(vec!['a', 'b']).subset(vec![1])?.indices(), [1]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Subset<D> {
    data: D,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    pub(crate) fn new(data: D, indices: Vec<usize>) -> Result<Self> {
        match indices.iter().find(|&&index| index >= data.len()) {
            Some(&index) => Err(out_of_range(index, data.len())),
            None => Ok(Subset { data, indices }),
        }
    }
}

impl<D> Subset<D> {
    /// The indices must be within the data set.
    pub(crate) fn new_unchecked(data: D, indices: Vec<usize>) -> Self {
        Subset { data, indices }
    }

    /// The indices of the samples in the underlying data set.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    fn index(&self, index: usize) -> Result<usize> {
        self.indices.get(index).copied().ok_or_else(|| out_of_range(index, self.indices.len()))
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.indices.len()
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        self.data.get(self.index(index)?)
    }

    fn drawn(&self, index: usize, draw: Draw) -> Result<D::Item> {
        self.data.drawn(self.index(index)?, draw)
    }
}

/// Concatenated data sets: see [`concat()`].
///
/// ```
/// use dl_data::{Dataset, InMemory};
/// assert_eq!(dl_data::concat([vec![1], vec![2, 3]].map(InMemory)).len(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Concat<D> {
    parts: Vec<D>,
}

/// Concatenates data sets: the samples of the first, then those of the second, and so on. To mix
/// types, box the parts as `Box<dyn Dataset<Item = …>>`.
///
/// ```
/// use dl_data::{Dataset, InMemory, concat};
/// assert_eq!(concat([vec![1], vec![2, 3]].map(InMemory)).get(2)?, 3);
/// let either: [Box<dyn Dataset<Item = i32>>; 2] = [Box::new(InMemory(vec![1])), Box::new(InMemory(vec![2]).map(|x| Ok(x * x)))];
/// assert_eq!(concat(either).get(1)?, 4);
/// # dl_core::Result::Ok(())
/// ```
pub fn concat<D: Dataset>(parts: impl IntoIterator<Item = D>) -> Concat<D> {
    Concat { parts: parts.into_iter().collect() }
}

impl<D: Dataset> Concat<D> {
    /// The part that holds the sample, and the index within that part.
    fn part(&self, index: usize) -> Result<(&D, usize)> {
        let mut rest = index;
        for part in &self.parts {
            match rest.checked_sub(part.len()) {
                None => return Ok((part, rest)),
                Some(further) => rest = further,
            }
        }
        Err(out_of_range(index, self.len()))
    }
}

impl<D: Dataset> Dataset for Concat<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.parts.iter().map(D::len).sum()
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        let (part, index) = self.part(index)?;
        part.get(index)
    }

    fn drawn(&self, index: usize, draw: Draw) -> Result<D::Item> {
        let (part, index) = self.part(index)?;
        part.drawn(index, draw)
    }
}
