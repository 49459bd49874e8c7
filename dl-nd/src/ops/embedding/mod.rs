//! Tables: large matrices of which a training step reads and updates only some rows.
//!
//! ```
//! use dl_core::{Differentiable, Weight};
//! use dl_optim::Adagrad;
//! use dl_nd::{ops::*, Table, TableOps};
//! let words: Weight<Table> = Weight::new(Table::zeros([1_000_000, 64])?);
//! let loss = (words.embedding([7, 42, 7]) - 1.0).square().mean();
//! loss.train(&Adagrad::new(0.1)).wait()?; // costs three rows, not a million
//! assert!(words.value().row(42)?[0] > 0.0);
//! # dl_core::Result::Ok(())
//! ```

mod lookup;
mod rows;
mod versions;

pub use lookup::{ByRow, TableOps};
pub use rows::Rows;

use crate::tensor::{Element, Nd, check_size, constant_tape};
use dl_core::{Chunk, Data, Differentiable, Do, Error, Layer, Result, Tape, Trainable};
use ndarray::{Array2, Ix1, Ix2};
use rows::check_ids;
use std::fmt;
use std::sync::Arc;
use versions::Version;

/// A matrix `[height, width]` of `f32` or `f64`. Its delta, [`Rows`], may be sparse.
///
/// Tables are the values of [`Weight`](dl_core::Weight)s for [`embedding`](TableOps::embedding). A
/// training step with a sparse delta costs time and memory for the touched rows only, and the
/// optimizer does not process any other row. Momentum and `Adam` are therefore
/// *lazy*: a row that is not touched is not updated, and its optimizer state does not decay. If the
/// table is also used as a whole, by [`dense`](TableOps::dense), the delta is dense and the step is
/// the same as for a tensor.
///
/// A table is a value with cheap clones. Clones share the storage of their common contents, and
/// later training steps do not change them.
///
/// ```
/// use dl_nd::Table;
/// let table = Table::from([[1.0_f32, 2.0], [3.0, 4.0]]);
/// assert_eq!(table.shape(), [2, 2]);
/// assert_eq!(table.row(1)?, [3.0, 4.0].into());
/// # dl_core::Result::Ok(())
/// ```
pub struct Table<A: Element = f32> {
    version: Arc<Version<A>>,
}

impl<A: Element> Table<A> {
    /// A table of zeros. The system allocates physical memory on the first write.
    ///
    /// ```
    /// assert_eq!(dl_nd::Table::<f32>::zeros([1_000_000, 64])?.shape(), [1_000_000, 64]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the table does not fit into memory.
    pub fn zeros(shape: [usize; 2]) -> Result<Self> {
        check_size::<A>(&shape)?;
        Ok(Self::of_zeros(shape))
    }

    fn of_zeros(shape: [usize; 2]) -> Self {
        Self::of_elements(shape, vec![A::of(0.0); shape[0] * shape[1]])
    }

    fn of_elements(shape: [usize; 2], elements: Vec<A>) -> Self {
        Table { version: Arc::new(Version::new(shape, elements)) }
    }

    /// The shape, `[height, width]`.
    ///
    /// ```
    /// assert_eq!(dl_nd::Table::from([[1.0_f32, 2.0, 3.0]]).shape(), [1, 3]);
    /// ```
    pub fn shape(&self) -> [usize; 2] {
        self.version.shape()
    }

    /// Row `id`, of shape `[width]`.
    ///
    /// ```
    /// assert_eq!(dl_nd::Table::from([[1.0_f32, 2.0], [3.0, 4.0]]).row(1)?, [3.0, 4.0].into());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `id` is not below the height.
    pub fn row(&self, id: usize) -> Result<Nd<A, Ix1>> {
        check_ids(&[id], self.shape()[0])?;
        Ok(self.version.read(Some(&[id]), Vec::new()).into())
    }

    /// The rows with these ids, of shape `[ids, width]`.
    ///
    /// ```
    /// let table = dl_nd::Table::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(table.rows(&[1, 1])?, [[3.0, 4.0], [3.0, 4.0]].into());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When an id is not below the height.
    pub fn rows(&self, ids: &[usize]) -> Result<Nd<A, Ix2>> {
        let [height, width] = self.shape();
        check_ids(ids, height)?;
        Nd::from_vec_unaligned([ids.len(), width], self.version.read(Some(ids), Vec::new()))
    }

    /// A copy of the whole table as a tensor, `[height, width]`.
    ///
    /// ```
    /// assert_eq!(dl_nd::Table::from([[1.0_f32, 2.0]]).to_nd(), [[1.0, 2.0]].into());
    /// ```
    pub fn to_nd(&self) -> Nd<A, Ix2> {
        self.whole()
    }
}

impl<A: Element> Clone for Table<A> {
    fn clone(&self) -> Self {
        Table { version: self.version.clone() }
    }
}

/// Prints the shape only, since a table is large.
impl<A: Element> fmt::Debug for Table<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [height, width] = self.shape();
        write!(f, "Table([{height}, {width}])")
    }
}

/// Elementwise.
impl<A: Element> PartialEq for Table<A> {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && self.to_nd() == other.to_nd()
    }
}

impl<A: Element> From<Nd<A, Ix2>> for Table<A> {
    fn from(matrix: Nd<A, Ix2>) -> Self {
        matrix.into_array().into()
    }
}

impl<A: Element> From<Array2<A>> for Table<A> {
    fn from(matrix: Array2<A>) -> Self {
        let (height, width) = matrix.dim();
        let mut elements = Nd::from(matrix).into_vec();
        elements.shrink_to_fit();
        Self::of_elements([height, width], elements)
    }
}

impl<A: Element, const M: usize, const N: usize> From<[[A; N]; M]> for Table<A> {
    fn from(rows: [[A; N]; M]) -> Self {
        Self::of_elements([M, N], rows.into_iter().flatten().collect())
    }
}

impl<A: Element> Differentiable for Table<A> {
    type Data = Table<A>;
    type Delta = Rows<A>;

    fn forward(&self) -> Do<Tape<Self, Rows<A>>> {
        constant_tape(self.clone())
    }

    #[track_caller]
    fn layer(&self) -> Layer<Self> {
        Layer::constant(self.clone())
    }
}

impl<A: Element> Data for Table<A> {
    type Delta = Rows<A>;

    fn one(&self) -> Rows<A> {
        Rows::dense(Nd::full(self.shape(), A::of(1.0)))
    }

    fn push_shape(&self, shape: &mut dl_core::ShapeList) -> bool {
        shape.extend(&self.shape());
        true
    }

    fn check_delta(&self, delta: &Rows<A>) -> Result<()> {
        let (shape, found) = (self.shape(), delta.shape());
        if found == shape {
            return Ok(());
        }
        Err(Error::shape(format!("a table of shape {shape:?} has a delta of shape {found:?}")))
    }

    fn non_finite(&self) -> Option<f64> {
        self.to_nd().non_finite()
    }

    fn bytes(&self) -> usize {
        let [height, width] = self.shape();
        height * width * size_of::<A>()
    }

    fn describe(&self) -> String {
        format!("{}{:?} table", std::any::type_name::<A>(), self.shape())
    }
}

impl<A: Element> Trainable for Table<A> {
    fn zeros_like(&self) -> Self {
        Self::of_zeros(self.shape())
    }

    /// `rule` is called once, with the touched rows in ascending order as one contiguous slice.
    fn update(
        &mut self,
        delta: &Rows<A>,
        slots: &mut [Self],
        rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()> {
        self.check_delta(delta)?;
        let shape = self.shape();
        if let Some(slot) = slots.iter().find(|slot| slot.shape() != shape) {
            let slot = slot.shape();
            return Err(Error::shape(format!(
                "a table of shape {shape:?} has state of shape {slot:?}: it was set to another shape"
            )));
        }
        let rows = delta.touched();
        if rows.is_some_and(<[usize]>::is_empty) {
            return Ok(());
        }
        let deltas = delta.block().0.as_standard_layout();
        let deltas = deltas.as_slice().expect("in standard layout");
        // works on copies: the rule is user code and may fail
        let mut values = self.version.read(rows, Vec::new());
        let mut states: Vec<Vec<A>> = slots.iter().map(|slot| slot.version.read(rows, Vec::new())).collect();
        let mut lent: Vec<&mut [A]> = states.iter_mut().map(Vec::as_mut_slice).collect();
        rule(A::chunk(&mut values, deltas, &mut lent))?;
        self.version = Arc::new(self.version.changed(rows, values));
        for (slot, state) in slots.iter_mut().zip(states) {
            slot.version = Arc::new(slot.version.changed(rows, state));
        }
        Ok(())
    }
}
