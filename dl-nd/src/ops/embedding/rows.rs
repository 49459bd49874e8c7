//! The delta of a table: all rows, or only some.

use crate::kernels::add_in_halves;
use crate::tensor::{Element, Item, Nd, Rank};
use dl_core::{Along, At, BuiltIn, Data, Delta, Error, Layer, Primitive, Result};
use ndarray::{Array2, ArrayView, ArrayView1, ArrayViewMut, ArrayViewMut1, Ix2};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The delta of a [`Table`](crate::Table): a matrix of the shape of the table. It is *sparse* if it
/// stores only the touched rows, all others being zero, and *dense* otherwise.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_nd::{ops::*, Table, TableOps};
/// let table: Weight<Table> = Weight::new([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]].into());
/// let delta = table.embedding([2, 0, 2]).sum().gradient(&table).predict().wait()?;
/// assert_eq!(delta.touched(), Some(&[0, 2][..]));
/// assert_eq!(*delta.block(), [[1.0, 1.0], [2.0, 2.0]].into());
/// # dl_core::Result::Ok(())
/// ```
pub struct Rows<A: Item = f32> {
    shape: [usize; 2],
    /// The ids of the stored rows, ascending; `None` if all rows are stored.
    touched: Option<Arc<[usize]>>,
    block: Nd<A, Ix2>,
}

impl<A: Element> Rows<A> {
    /// A dense delta.
    ///
    /// ```
    /// let rows = dl_nd::Rows::dense([[1.0, 2.0], [3.0, 4.0]].into());
    /// assert_eq!((rows.shape(), rows.touched()), ([2, 2], None));
    /// ```
    pub fn dense(block: Nd<A, Ix2>) -> Self {
        Rows { shape: [block.shape()[0], block.shape()[1]], touched: None, block }
    }

    /// A sparse delta from rows `[ids, width]` and their ids, for a table of shape
    /// `[height, width]`. Rows with the same id are added, in their order.
    ///
    /// ```
    /// use dl_nd::Rows;
    /// let rows = Rows::sparse([1_000_000, 1], &[7, 3, 7], &[[1.0], [2.0], [3.0]].into())?;
    /// assert_eq!(rows.touched(), Some(&[3, 7][..]));
    /// assert_eq!(*rows.block(), [[2.0], [4.0]].into());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `rows` does not have the shape `[ids, width]`, or an id is not below the height.
    pub fn sparse(shape: [usize; 2], ids: &[usize], rows: &Nd<A, Ix2>) -> Result<Self> {
        check_ids(ids, shape[0])?;
        if rows.shape() != [ids.len(), shape[1]] {
            let (ids, found) = (ids.len(), rows.shape());
            return Err(Error::shape(format!(
                "{ids} rows of a table of shape {shape:?} cannot have the shape {found:?}"
            )));
        }
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by_key(|&at| ids[at]);
        Ok(Self::from_sorted(shape, &order, |at| (ids[at], rows.0.row(at))))
    }

    /// The sum of rows in ascending order of their ids, which may repeat.
    fn from_sorted<'a, P: Copy>(
        shape: [usize; 2],
        order: &[P],
        part: impl Fn(P) -> (usize, ArrayView1<'a, A>),
    ) -> Self {
        let mut touched: Vec<usize> = Vec::with_capacity(order.len());
        let mut block: Vec<A> = dl_core::buffers::take(order.len() * shape[1]);
        for of_one in order.chunk_by(|&a, &b| part(a).0 == part(b).0) {
            let (id, first) = part(of_one[0]);
            let start = block.len();
            touched.push(id);
            block.extend(first);
            add_in_halves(&of_one[1..], &|at| part(at).1, ArrayViewMut1::from(&mut block[start..]));
        }
        let block = Nd::from_vec_unaligned([touched.len(), shape[1]], block).expect("one row for each id");
        Rows { shape, touched: Some(touched.into()), block }
    }

    /// The shape of the table: `[height, width]`.
    ///
    /// ```
    /// assert_eq!(dl_nd::Rows::dense([[1.0, 2.0]].into()).shape(), [1, 2]);
    /// ```
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The ids of the stored rows, ascending; `None` if the delta is dense.
    ///
    /// ```
    /// assert_eq!(dl_nd::Rows::dense([[1.0, 2.0]].into()).touched(), None);
    /// ```
    pub fn touched(&self) -> Option<&[usize]> {
        self.touched.as_deref()
    }

    /// The stored rows: `[touched, width]`.
    ///
    /// ```
    /// assert_eq!(*dl_nd::Rows::dense([[1.0, 2.0]].into()).block(), [[1.0, 2.0]].into());
    /// ```
    pub fn block(&self) -> &Nd<A, Ix2> {
        &self.block
    }

    /// The delta as a dense matrix: `[height, width]`.
    ///
    /// ```
    /// let rows = dl_nd::Rows::sparse([3, 1], &[1], &[[5.0]].into())?;
    /// assert_eq!(rows.to_nd(), [[0.0], [5.0], [0.0]].into());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn to_nd(&self) -> Nd<A, Ix2> {
        match self.touched {
            None => self.block.clone(),
            Some(_) => {
                let mut whole = Array2::from_elem(self.shape, A::of(0.0));
                self.add_to(&mut whole);
                whole.into()
            }
        }
    }

    /// Row `id`, or `None` if it is not stored.
    pub(super) fn row(&self, id: usize) -> Option<ArrayView1<'_, A>> {
        let place = match &self.touched {
            None => id,
            Some(touched) => touched.binary_search(&id).ok()?,
        };
        Some(self.block.0.row(place))
    }

    fn add_to(&self, sum: &mut Array2<A>) {
        match &self.touched {
            None => add(sum.view_mut(), self.block.view()),
            Some(touched) => {
                for (&row, part) in touched.iter().zip(self.block.0.rows()) {
                    add(sum.row_mut(row), part);
                }
            }
        }
    }

    /// The same row ids with other contents.
    fn with(&self, block: Nd<A, Ix2>) -> Self {
        Rows { shape: self.shape, touched: self.touched.clone(), block }
    }
}

fn add<A: Element, D: Rank>(mut sum: ArrayViewMut<'_, A, D>, part: ArrayView<'_, A, D>) {
    sum.zip_mut_with(&part, |sum, &part| *sum = *sum + part);
}

/// Checks that all ids are below the height of the table.
pub(super) fn check_ids(ids: &[usize], height: usize) -> Result<()> {
    match ids.iter().position(|&id| id >= height) {
        Some(at) => Err(Error::invalid(format!(
            "id {} (number {at} of the list) is out of range for a table of height {height}",
            ids[at]
        ))),
        None => Ok(()),
    }
}

impl<A: Item> Clone for Rows<A> {
    fn clone(&self) -> Self {
        Rows { shape: self.shape, touched: self.touched.clone(), block: self.block.clone() }
    }
}

impl<A: Item> fmt::Debug for Rows<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rows { shape, touched, block } = self;
        f.debug_struct("Rows").field("shape", shape).field("touched", touched).field("block", block).finish()
    }
}

impl<A: Element> Data for Rows<A> {
    type Delta = Self;

    /// Ones in the stored rows: rows that are not stored are not variables.
    fn one(&self) -> Self {
        self.with(self.block.one())
    }

    fn check_delta(&self, delta: &Self) -> Result<()> {
        if delta.shape == self.shape {
            return Ok(());
        }
        Err(Error::shape(format!(
            "a derivative of shape {:?} for rows of a table of shape {:?}",
            delta.shape, self.shape
        )))
    }

    fn non_finite(&self) -> Option<f64> {
        self.block.non_finite()
    }

    fn bytes(&self) -> usize {
        self.block.bytes() + self.touched().map_or(0, size_of_val)
    }

    fn describe(&self) -> String {
        let (element, shape) = (std::any::type_name::<A>(), self.shape);
        match self.touched() {
            Some(rows) => format!("{} rows of {element}{shape:?}", rows.len()),
            None => format!("{element}{shape:?}"),
        }
    }
}

impl<A: Element> Delta for Rows<A> {
    #[track_caller]
    fn sum(mut terms: Vec<Layer<Self>>) -> Layer<Self> {
        if terms.len() == 1 { terms.remove(0) } else { Layer::apply_built_in(SumRows(PhantomData), terms) }
    }

    #[track_caller]
    fn scale(layer: &Layer<Self>, factor: f64) -> Layer<Self> {
        Layer::apply_built_in(ScaleRows { factor, element: PhantomData }, (layer.clone(),))
    }

    fn squared_norm(&self) -> f64 {
        self.block.squared_norm()
    }
}

/// The sum of deltas, accumulated from the first to the last. It is sparse if all terms are sparse.
#[derive(Clone)]
struct SumRows<A>(PhantomData<A>);

impl<A: Element> Primitive for SumRows<A> {
    type Operands = Vec<Layer<Rows<A>>>;
    type Output = Rows<A>;

    fn name(&self) -> &'static str {
        "sum"
    }

    fn value(&self, terms: Vec<&Rows<A>>) -> Result<Rows<A>> {
        let Some(first) = terms.first() else { return Err(Error::invalid("the sum of no deltas has no shape")) };
        if let Some(other) = terms.iter().find(|term| term.shape != first.shape) {
            let (first, other) = (first.shape, other.shape);
            return Err(Error::shape(format!("deltas of tables of shapes {first:?} and {other:?} cannot be summed")));
        }
        if terms.iter().any(|term| term.touched.is_none()) {
            let mut sum = first.to_nd().into_array();
            terms[1..].iter().for_each(|term| term.add_to(&mut sum));
            return Ok(Rows::dense(sum.into()));
        }
        let mut parts = Vec::new();
        for term in &terms {
            parts.extend(term.touched().unwrap_or_default().iter().copied().zip(term.block.0.rows()));
        }
        // stable: the parts of a row stay in the order of the terms
        parts.sort_by_key(|(row, _)| *row);
        Ok(Rows::from_sorted(first.shape, &parts, |part| part))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Rows<A>>>> {
        vec![Some(at.delta.clone()); at.operands.len()]
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Rows<A>>> {
        Some(Rows::sum(along.tangents.iter().flatten().cloned().collect()))
    }

    fn cost(&self, terms: Vec<&Rows<A>>) -> f64 {
        200.0 + terms.iter().map(|term| term.block.len() as f64 + 50.0 * term.block.shape()[0] as f64).sum::<f64>()
    }
}

impl<A: Element> BuiltIn for SumRows<A> {}

#[derive(Clone)]
struct ScaleRows<A> {
    factor: f64,
    element: PhantomData<A>,
}

impl<A: Element> Primitive for ScaleRows<A> {
    type Operands = (Layer<Rows<A>>,);
    type Output = Rows<A>;

    fn name(&self) -> &'static str {
        "scale"
    }

    fn value(&self, (x,): (&Rows<A>,)) -> Result<Rows<A>> {
        let factor = A::of(self.factor);
        Ok(x.with(x.block.0.mapv(|number| number * factor).into()))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Rows<A>>>,) {
        (Some(Rows::scale(at.delta, self.factor)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Rows<A>>> {
        Some(Rows::scale(along.tangents.0.as_ref()?, self.factor))
    }

    fn cost(&self, (x,): (&Rows<A>,)) -> f64 {
        200.0 + 0.5 * x.block.len() as f64
    }
}

impl<A: Element> BuiltIn for ScaleRows<A> {}
