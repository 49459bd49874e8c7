//! Vectors for words and other things that have a number.

use crate::check::{positive, room};
use dl_core::{Layer, Result, Weight};
use dl_macros::Module;
use dl_nd::ndarray::Dimension;
use dl_nd::{Element, Indices, Nd, Rank, Table, TableOps, init};
use rand::Rng;

/// A vector for each number below a limit: `[…] → […, width]`.
///
/// Its delta is sparse: a training step costs the rows that it reads. See [`Table`].
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
    /// `[number, width]`
    pub weight: Weight<Table<A>>,
}

impl<A: Element> Embedding<A> {
    /// So many vectors of this width, standard normal, PyTorch's default.
    ///
    /// ```
    /// use dl_core::Module;
    /// let words = dl_nn::Embedding::<f32>::new(1000, 16, &mut dl_nd::init::rng(1))?;
    /// assert_eq!(words.parameters(), 16_000);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When a size is 0, or there is no memory.
    #[track_caller]
    pub fn new(number: usize, width: usize, rng: &mut impl Rng) -> Result<Self> {
        positive("Embedding", &[("vectors", number), ("elements of a vector", width)])?;
        room::<A>("Embedding", &[number, width])?;
        Ok(Embedding { weight: Weight::new(Table::from(init::normal([number, width], 0.0, 1.0, rng))) })
    }

    /// `[…] → […, width]`: the vectors with these numbers, which come as a tensor or a list of
    /// `usize`.
    ///
    /// # Errors
    /// When a number is not below the number of vectors.
    #[track_caller]
    pub fn of<I: Indices>(&self, ids: I) -> Layer<Nd<A, <I::Rank as Dimension>::Larger>>
    where
        <I::Rank as Dimension>::Larger: Rank,
    {
        TableOps::embedding(&self.weight, ids)
    }
}
