//! Embeddings: a vector for each id.

use crate::check::{check_allocation, check_positive};
use dl_core::{Layer, Result, Weight};
use dl_macros::Module;
use dl_nd::ndarray::Dimension;
use dl_nd::{Element, Indices, Nd, Rank, Table, TableOps, init};
use rand::Rng;

/// A table with a vector for each id: `[…] → […, width]`.
///
/// The gradient of the table is sparse: a training step touches only the rows it reads. See
/// [`Table`].
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_nd::{Nd, Table};
/// use dl_nn::Embedding;
/// let words = Embedding { weight: Weight::new(Table::from([[0.0, 1.0], [2.0, 3.0]])) };
/// assert_eq!(words.of([1, 0, 1]).predict().wait()?, Nd::from([[2.0, 3.0], [0.0, 1.0], [2.0, 3.0]]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct Embedding<A: Element = f32> {
    /// The vectors, `[number, width]`.
    pub weight: Weight<Table<A>>,
}

impl<A: Element> Embedding<A> {
    /// A table of `number` vectors of length `width`, drawn from the standard normal distribution,
    /// PyTorch's default.
    ///
    /// ```
    /// use dl_core::Module;
    /// let words = dl_nn::Embedding::<f32>::new(1000, 16, &mut dl_nd::init::rng(1))?;
    /// assert_eq!(words.parameters(), 16_000);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If `number` or `width` is 0, or if the table is too large to allocate.
    #[track_caller]
    pub fn new(number: usize, width: usize, rng: &mut impl Rng) -> Result<Self> {
        check_positive("Embedding", &[("vectors", number), ("elements of a vector", width)])?;
        check_allocation::<A>("Embedding", &[number, width])?;
        Ok(Embedding { weight: Weight::new(Table::from(init::normal([number, width], 0.0, 1.0, rng))) })
    }

    /// The vectors of the given ids, `[…] → […, width]`. The ids are a tensor or a list of `usize`.
    ///
    /// # Errors
    /// If an id is not below the number of vectors.
    #[track_caller]
    pub fn of<I: Indices>(&self, ids: I) -> Layer<Nd<A, <I::Rank as Dimension>::Larger>>
    where
        <I::Rank as Dimension>::Larger: Rank,
    {
        TableOps::embedding(&self.weight, ids)
    }

    /// [`of`](Embedding::of) where no gradient flows to the vector of the id `padding`. PyTorch's
    /// `padding_idx`; in contrast to it, the initial vector is not 0.
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// let words = dl_nn::Embedding::<f32>::new(10, 4, &mut dl_nd::init::rng(1))?;
    /// assert_eq!(words.of_padded([3, 0, 0], 0).predict().wait()?.shape(), [3, 4]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If an id is not below the number of vectors.
    #[track_caller]
    pub fn of_padded<I: Indices>(&self, ids: I, padding: usize) -> Layer<Nd<A, <I::Rank as Dimension>::Larger>>
    where
        <I::Rank as Dimension>::Larger: Rank,
    {
        TableOps::embedding_padded(&self.weight, ids, padding)
    }
}
