//! Operations that read tables in layers: embedding lookup, and conversion to a dense tensor.
//!
//! All four operations are linear. Each is the pullback rule of another one, for derivatives of any
//! order:
//!
//! | operation | input | output | pullback |
//! |---|---|---|---|
//! | [`GatherRows`] | table or rows | tensor | [`ScatterRows`] |
//! | [`ScatterRows`] | tensor | rows | [`GatherRows`] |
//! | [`ToNd`] | table or rows | tensor | [`FromNd`] |
//! | [`FromNd`] | tensor | table or rows | [`ToNd`] |

use super::Table;
use super::rows::{Rows, check_ids};
use crate::ops::index::{Indices, without_padding};
use crate::tensor::{Element, Nd, Rank, dim_of};
use dl_core::{Along, At, BuiltIn, Data, Deltas, Differentiable, Layer, Primitive, Result, buffers};
use ndarray::{Dimension, Ix2};
use std::marker::PhantomData;

/// A matrix that can be read row by row: a [`Table`], or its delta, [`Rows`].
///
/// ```
/// use dl_core::Data;
/// fn height<A: dl_nd::Element>(x: &impl dl_nd::ByRow<A>) -> usize {
///     x.height_and_width()[0]
/// }
/// assert_eq!(height(&dl_nd::Table::from([[1.0, 2.0]])), 1);
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` cannot be read by rows: only a `Table` and its delta, `Rows`, can")]
pub trait ByRow<A: Element>: Data<Delta = Rows<A>> {
    /// The shape, `[height, width]`.
    fn height_and_width(&self) -> [usize; 2];

    /// The rows with these ids: `[ids, width]`. All ids must be below the height.
    #[doc(hidden)]
    fn gathered(&self, ids: &[usize]) -> Vec<A>;

    #[doc(hidden)]
    fn whole(&self) -> Nd<A, Ix2>;

    #[doc(hidden)]
    fn of_whole(whole: &Nd<A, Ix2>) -> Self;
}

impl<A: Element> ByRow<A> for Table<A> {
    fn height_and_width(&self) -> [usize; 2] {
        self.shape()
    }

    fn gathered(&self, ids: &[usize]) -> Vec<A> {
        self.version.read(Some(ids), buffers::take(ids.len() * self.shape()[1]))
    }

    fn whole(&self) -> Nd<A, Ix2> {
        let [height, width] = self.shape();
        let elements = self.version.read(None, buffers::take(height * width));
        Nd::from_vec_unaligned([height, width], elements).expect("as many elements as the table")
    }

    fn of_whole(whole: &Nd<A, Ix2>) -> Self {
        whole.clone().into()
    }
}

impl<A: Element> ByRow<A> for Rows<A> {
    fn height_and_width(&self) -> [usize; 2] {
        self.shape()
    }

    fn gathered(&self, ids: &[usize]) -> Vec<A> {
        let width = self.shape()[1];
        let mut elements = buffers::take(ids.len() * width);
        for &id in ids {
            match self.row(id) {
                Some(row) => elements.extend(row),
                None => elements.resize(elements.len() + width, A::of(0.0)),
            }
        }
        elements
    }

    fn whole(&self) -> Nd<A, Ix2> {
        self.to_nd()
    }

    fn of_whole(whole: &Nd<A, Ix2>) -> Self {
        Rows::dense(whole.clone())
    }
}

/// Operations on tables, and on their deltas: on layers, weights and plain values.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// use dl_nd::{ops::*, Table, TableOps};
/// let table: Weight<Table> = Weight::new([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]].into());
/// table.embedding([2, 0]).sum().train(&Sgd::new(0.5)).wait()?;
/// assert_eq!(table.value(), [[0.5, 1.5], [3.0, 4.0], [4.5, 5.5]].into());
/// # dl_core::Result::Ok(())
/// ```
pub trait TableOps<A: Element>: Differentiable<Data: ByRow<A>> {
    /// Looks up rows by ids. The tensor of ids may have any shape: `[…] → […, width]`; ids may
    /// repeat.
    ///
    /// The delta is sparse: the cost of a training step depends on the number of looked-up rows,
    /// not on the height of the table.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Table, TableOps};
    /// let table = Table::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(table.embedding([1, 0, 1]).predict().wait()?, [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]].into());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When an id is not below the height of the table.
    #[track_caller]
    fn embedding<I: Indices>(&self, ids: I) -> Layer<Nd<A, Larger<I::Rank>>>
    where
        Larger<I::Rank>: Rank,
    {
        Layer::apply_built_in(GatherRows(PhantomData), (self.layer(), ids.into_indices()))
    }

    /// [`embedding`](TableOps::embedding) where no gradient flows to row `padding`, whose id fills
    /// up sequences of different lengths. PyTorch's `padding_idx`.
    ///
    /// ```
    /// # use dl_core::{Differentiable, Weight}; use dl_nd::{Table, TableOps, ops::ReduceOps};
    /// # use dl_optim::Sgd;
    /// let table: Weight<Table> = Weight::new([[0.0], [2.0]].into());
    /// table.embedding_padded([0, 1, 0], 0).sum().train(&Sgd::new(1.0)).wait()?;
    /// assert_eq!(table.value(), [[0.0], [1.0]].into());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When an id is not below the height of the table.
    #[track_caller]
    fn embedding_padded<I: Indices>(&self, ids: I, padding: usize) -> Layer<Nd<A, Larger<I::Rank>>>
    where
        Larger<I::Rank>: Rank,
    {
        let ids = ids.into_indices();
        without_padding(Layer::apply_built_in(GatherRows(PhantomData), (self.layer(), ids.clone())), &ids, padding)
    }

    /// The whole table as a tensor `[height, width]`, for instance for matrix products. Its delta
    /// is dense.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ops::*, Table, TableOps};
    /// let table = Table::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let scores = table.embedding([1]).matmul(table.dense().t());
    /// assert_eq!(scores.predict().wait()?, [[11.0, 25.0]].into());
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn dense(&self) -> Layer<Nd<A, Ix2>> {
        to_nd(self.layer())
    }
}

impl<X, A: Element> TableOps<A> for X where X: Differentiable<Data: ByRow<A>> {}

#[track_caller]
pub(super) fn to_nd<S: ByRow<A>, A: Element>(x: Layer<S>) -> Layer<Nd<A, Ix2>> {
    Layer::apply_built_in(ToNd(PhantomData), (x,))
}

#[track_caller]
pub(super) fn from_nd<S: ByRow<A>, A: Element>(x: Layer<Nd<A, Ix2>>) -> Layer<S> {
    Layer::apply_built_in(FromNd(PhantomData), (x,))
}

/// Estimated time in nanoseconds to look up and copy rows.
fn cost(rows: usize, width: usize) -> f64 {
    200.0 + rows as f64 * (50.0 + width as f64)
}

type Larger<E> = <E as Dimension>::Larger;

/// Rows by ids.
#[derive(Clone)]
struct GatherRows<S, A, E>(PhantomData<(S, A, E)>);

impl<S: ByRow<A>, A: Element, E: Rank> Primitive for GatherRows<S, A, E>
where
    Larger<E>: Rank,
{
    type Operands = (Layer<S>, Layer<Nd<usize, E>>);
    type Output = Nd<A, Larger<E>>;

    fn name(&self) -> &'static str {
        "embedding"
    }

    fn value(&self, (x, ids): (&S, &Nd<usize, E>)) -> Result<Nd<A, Larger<E>>> {
        let [height, width] = x.height_and_width();
        let shape: Larger<E> = dim_of(&[ids.shape(), &[width]].concat());
        let ids = ids.0.as_standard_layout();
        let ids = ids.as_slice().expect("in standard layout");
        check_ids(ids, height)?;
        Nd::from_vec_unaligned(shape, x.gathered(ids))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let scatter = ScatterRows { shape: at.values.0.height_and_width(), types: PhantomData };
        (Some(Layer::apply_built_in(scatter, (at.delta.clone(), at.operands.1.clone()))), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, Larger<E>>>> {
        Some(Layer::apply_built_in(GatherRows(PhantomData), (along.tangents.0.clone()?, along.operands.1.clone())))
    }

    fn cost(&self, (x, ids): (&S, &Nd<usize, E>)) -> f64 {
        cost(ids.len(), x.height_and_width()[1])
    }
}

impl<S: ByRow<A>, A: Element, E: Rank> BuiltIn for GatherRows<S, A, E> where Larger<E>: Rank {}

/// The adjoint of [`GatherRows`]: a sparse delta from rows and their ids.
#[derive(Clone)]
struct ScatterRows<A, E> {
    shape: [usize; 2],
    types: PhantomData<(A, E)>,
}

impl<A: Element, E: Rank> Primitive for ScatterRows<A, E>
where
    Larger<E>: Rank,
{
    type Operands = (Layer<Nd<A, Larger<E>>>, Layer<Nd<usize, E>>);
    type Output = Rows<A>;

    fn name(&self) -> &'static str {
        "put_back"
    }

    fn value(&self, (rows, ids): (&Nd<A, Larger<E>>, &Nd<usize, E>)) -> Result<Rows<A>> {
        let ids = ids.0.as_standard_layout();
        let ids = ids.as_slice().expect("in standard layout");
        let rows = rows.array().into_shape_clone([ids.len(), self.shape[1]]).expect("a row for each id");
        Rows::sparse(self.shape, ids, &Nd::from(rows))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(Layer::apply_built_in(GatherRows(PhantomData), (at.delta.clone(), at.operands.1.clone()))), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Rows<A>>> {
        Some(Layer::apply_built_in(self.clone(), (along.tangents.0.clone()?, along.operands.1.clone())))
    }

    fn cost(&self, (_, ids): (&Nd<A, Larger<E>>, &Nd<usize, E>)) -> f64 {
        cost(ids.len(), self.shape[1])
    }
}

impl<A: Element, E: Rank> BuiltIn for ScatterRows<A, E> where Larger<E>: Rank {}

/// All rows as a tensor.
#[derive(Clone)]
struct ToNd<S, A>(PhantomData<(S, A)>);

impl<S: ByRow<A>, A: Element> Primitive for ToNd<S, A> {
    type Operands = (Layer<S>,);
    type Output = Nd<A, Ix2>;

    fn name(&self) -> &'static str {
        "dense"
    }

    fn value(&self, (x,): (&S,)) -> Result<Nd<A, Ix2>> {
        Ok(x.whole())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Rows<A>>>,) {
        (Some(from_nd(at.delta.clone())),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, Ix2>>> {
        Some(to_nd(along.tangents.0.clone()?))
    }

    fn cost(&self, (x,): (&S,)) -> f64 {
        let [height, width] = x.height_and_width();
        200.0 + 0.5 * (height * width) as f64
    }
}

impl<S: ByRow<A>, A: Element> BuiltIn for ToNd<S, A> {}

/// The inverse of [`ToNd`].
#[derive(Clone)]
struct FromNd<S, A>(PhantomData<(S, A)>);

impl<S: ByRow<A>, A: Element> Primitive for FromNd<S, A> {
    type Operands = (Layer<Nd<A, Ix2>>,);
    type Output = S;

    fn name(&self) -> &'static str {
        "from_dense"
    }

    fn value(&self, (x,): (&Nd<A, Ix2>,)) -> Result<S> {
        Ok(S::of_whole(x))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, Ix2>>>,) {
        (Some(at.delta.dense()),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Rows<A>>> {
        Some(from_nd(along.tangents.0.clone()?))
    }

    fn cost(&self, (x,): (&Nd<A, Ix2>,)) -> f64 {
        200.0 + 0.5 * x.len() as f64
    }
}

impl<S: ByRow<A>, A: Element> BuiltIn for FromNd<S, A> {}
