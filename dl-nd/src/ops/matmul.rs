//! Products of vectors, matrices and batches of matrices: `matmul`, `linear`, `dot`, `outer`.

use crate::device::{self, Factors, View, common_place};
use crate::fusion::is_small;
use crate::gemm::{self, Epilogue, MatrixRef};
use crate::ops::add_n::sum_present;
use crate::ops::broadcast::sum_to;
use crate::ops::linear::linear;
use crate::ops::reduce::total;
use crate::ops::reshape::{ReshapeTarget, as_rank, lift, reshape, reshape_to, transpose};
use crate::tensor::{Element, HasRank, Nd, Rank, Storage, check_size, common_len, common_shape, dim_of};
use dl_core::{Along, At, Binary, BlockOp, BuiltIn, Differentiable, Error, Layer, Pointwise, Primitive, Result};
use ndarray::{Array, ArrayView, ArrayView2, ArrayViewD, Axis, Dimension, Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6, IxDyn};
use std::marker::PhantomData;

/// The rank of a matrix product: `Self` is the rank of the left operand, `R` of the right one.
///
/// | left | right | product |
/// |---|---|---|
/// | `[m, k]` | `[k, n]` | `[m, n]` |
/// | `[m, k]` | `[k]` | `[m]` |
/// | `[k]` | `[k, n]` | `[n]` |
/// | `[k]` | `[k]` | `[]` |
/// | `[…, m, k]` | `[…, k, n]` | `[…, m, n]` |
/// | `[…, m, k]` | `[k]` | `[…, m]` |
/// | `[k]` | `[…, k, n]` | `[…, n]` |
///
/// The axes before the last two are batch axes, and the batch axes of both operands broadcast: a
/// single matrix is multiplied with each matrix of a batch. If either rank is `IxDyn`, the rank of
/// the product is `IxDyn`, and the same table applies at run time.
///
/// A tensor without axes cannot be multiplied with a matrix:
///
/// ```compile_fail,E0277
/// use dl_nd::{Nd, ProductOps};
/// let product = Nd::from([[1.0_f32]]).matmul(Nd::full((), 1.0_f32));
/// ```
///
/// and the compiler checks the rank of the product:
///
/// ```compile_fail,E0308
/// use dl_nd::{Nd, NdLayer, ProductOps};
/// let product: NdLayer = Nd::from([[[1.0_f32]]]).matmul(Nd::from([[1.0_f32]]));
/// ```
///
/// ```
/// use dl_core::Layer;
/// use dl_nd::{Element, MatMul, Nd, ProductOps, Rank};
/// fn product<A: Element, D: MatMul<E>, E: Rank>(a: &Layer<Nd<A, D>>, b: &Layer<Nd<A, E>>) -> Layer<Nd<A, D::Product>> {
///     a.matmul(b)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`matmul` multiplies vectors, matrices and batches of matrices: there is no product of ranks `{Self}` and `{R}`",
    label = "one of them has no axes, or a rank that is not known"
)]
pub trait MatMul<R: Rank>: Rank {
    /// The rank of the product.
    type Product: Rank;
}

macro_rules! ranks {
    ($($L:ty: $($R:ty => $Product:ty),*;)*) => {$($(
        impl MatMul<$R> for $L {
            type Product = $Product;
        }
    )*)*};
}

ranks! {
    Ix1: Ix1 => Ix0, Ix2 => Ix1, Ix3 => Ix2, Ix4 => Ix3, Ix5 => Ix4, Ix6 => Ix5, IxDyn => IxDyn;
    Ix2: Ix1 => Ix1, Ix2 => Ix2, Ix3 => Ix3, Ix4 => Ix4, Ix5 => Ix5, Ix6 => Ix6, IxDyn => IxDyn;
    Ix3: Ix1 => Ix2, Ix2 => Ix3, Ix3 => Ix3, Ix4 => Ix4, Ix5 => Ix5, Ix6 => Ix6, IxDyn => IxDyn;
    Ix4: Ix1 => Ix3, Ix2 => Ix4, Ix3 => Ix4, Ix4 => Ix4, Ix5 => Ix5, Ix6 => Ix6, IxDyn => IxDyn;
    Ix5: Ix1 => Ix4, Ix2 => Ix5, Ix3 => Ix5, Ix4 => Ix5, Ix5 => Ix5, Ix6 => Ix6, IxDyn => IxDyn;
    Ix6: Ix1 => Ix5, Ix2 => Ix6, Ix3 => Ix6, Ix4 => Ix6, Ix5 => Ix6, Ix6 => Ix6, IxDyn => IxDyn;
    IxDyn: Ix1 => IxDyn, Ix2 => IxDyn, Ix3 => IxDyn, Ix4 => IxDyn, Ix5 => IxDyn, Ix6 => IxDyn, IxDyn => IxDyn;
}

/// Products of tensors. See also [`einsum`](crate::einsum).
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, ProductOps};
/// let a = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(a.matmul(&a).predict().wait()?, Nd::from([[7.0, 10.0], [15.0, 22.0]]));
/// # dl_core::Result::Ok(())
/// ```
pub trait ProductOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// The product of vectors, matrices and batches of matrices: `[m, k] · [k, n] → [m, n]`,
    /// `[…, m, k] · […, k, n] → […, m, n]`, where the batch axes `…` broadcast. A vector is a row
    /// on the left and a column on the right. See [`MatMul`].
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ProductOps};
    /// let a = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(a.matmul(Nd::from([1.0, 1.0])).predict().wait()?, Nd::from([3.0, 7.0]));
    /// let batch = Nd::<f64, _>::full([5, 1, 2], 1.0);
    /// assert_eq!(batch.matmul(&a).predict().wait()?.shape(), [5, 1, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the inner lengths differ or the batch axes do not broadcast.
    #[track_caller]
    fn matmul<R: Differentiable<Data = Nd<A, E>>, E: Rank>(&self, right: R) -> Layer<Nd<A, D::Product>>
    where
        D: MatMul<E>,
    {
        matmul("matmul", self.layer(), right.into_layer())
    }

    /// The fully connected layer `x · W + b`: `[…, k] → […, n]` with a weight `[k, n]` and a bias
    /// `[n]`. It is one operation, which is faster for small layers than the three of
    /// `x.matmul(w) + b`. For `k > 512` the two may be rounded differently.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ProductOps};
    /// let (weight, bias) = (Nd::from([[1.0, 2.0], [3.0, 4.0]]), Nd::from([0.5, 0.0]));
    /// assert_eq!(Nd::from([[1.0, 10.0]]).linear(weight, bias).predict().wait()?, Nd::from([[31.5, 42.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the length of the last axis is not `k`, or the length of the bias is not
    /// `n`.
    #[track_caller]
    fn linear<W, B>(&self, weight: W, bias: B) -> Layer<Nd<A, D>>
    where
        W: Differentiable<Data = Nd<A, Ix2>>,
        B: Differentiable<Data = Nd<A, Ix1>>,
        D: MatMul<Ix2, Product = D>,
    {
        linear(self.layer(), weight.into_layer(), bias.into_layer(), false)
    }

    /// [`linear`](ProductOps::linear) followed by a ReLU, `max(x · W + b, 0)`: `[…, k] → […, n]`.
    /// The result has the bits of `x.linear(w, b).relu()`. It is one operation: the ReLU is applied
    /// as the product is stored, and the pre-activation is not kept. The derivative is that of
    /// `relu`, 0 where the result is 0.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ProductOps};
    /// let (weight, bias) = (Nd::from([[1.0, 2.0], [3.0, 4.0]]), Nd::from([-9.0, -9.0]));
    /// assert_eq!(Nd::from([[1.0, 1.0]]).linear_relu(weight, bias).predict().wait()?, Nd::from([[0.0, 0.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`linear`](ProductOps::linear).
    #[track_caller]
    fn linear_relu<W, B>(&self, weight: W, bias: B) -> Layer<Nd<A, D>>
    where
        W: Differentiable<Data = Nd<A, Ix2>>,
        B: Differentiable<Data = Nd<A, Ix1>>,
        D: MatMul<Ix2, Product = D>,
    {
        linear(self.layer(), weight.into_layer(), bias.into_layer(), true)
    }

    /// The inner product of two vectors of the same length, a number: `Σᵢ xᵢ·yᵢ`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ProductOps};
    /// assert_eq!(Nd::from([1.0, 2.0]).dot(Nd::from([3.0, 4.0])).predict().wait()?, 11.0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// Matrices are rejected by the compiler:
    ///
    /// ```compile_fail,E0277
    /// # use dl_nd::{Nd, ProductOps};
    /// let number = Nd::from([1.0_f32]).dot(Nd::from([[1.0_f32]]));
    /// ```
    ///
    /// # Errors
    /// A shape error when the lengths differ.
    #[track_caller]
    fn dot<R: Differentiable<Data = Nd<A, E>>, E: HasRank<1>>(&self, right: R) -> Layer<A>
    where
        D: HasRank<1>,
    {
        total(matmul("dot", as_vector(&self.layer()), as_vector(&right.into_layer())))
    }

    /// The outer product of vectors of shape `[m]` and `[n]`, a matrix `[m, n]`: `zᵢⱼ = xᵢ·yⱼ`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ProductOps};
    /// let z = Nd::from([1.0, 2.0]).outer(Nd::from([3.0, 4.0, 5.0]));
    /// assert_eq!(z.predict().wait()?, Nd::from([[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn outer<R: Differentiable<Data = Nd<A, E>>, E: HasRank<1>>(&self, right: R) -> Layer<Nd<A, Ix2>>
    where
        D: HasRank<1>,
    {
        let column = reshape(&as_vector(&self.layer()), ReshapeTarget::Insert(-1));
        Nd::binary(Binary::Mul, &column, &lift(&as_vector(&right.into_layer())))
    }
}

impl<X, A: Element, D: Rank> ProductOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[track_caller]
fn as_vector<A: Element, D: HasRank<1>>(x: &Layer<Nd<A, D>>) -> Layer<Nd<A, Ix1>> {
    as_rank(x)
}

#[track_caller]
pub(crate) fn matmul<A: Element, D: MatMul<E>, E: Rank>(
    name: &'static str,
    a: Layer<Nd<A, D>>,
    b: Layer<Nd<A, E>>,
) -> Layer<Nd<A, D::Product>> {
    Layer::apply_built_in(MatMulOp { name, transposed: [false; 2], types: PhantomData }, (a, b))
}

/// A product of operands that may be transposed: their last two axes are exchanged first.
#[derive(Clone)]
struct MatMulOp<A, D, E> {
    name: &'static str,
    transposed: [bool; 2],
    types: PhantomData<(A, D, E)>,
}

fn transposed_shape<D: Rank>(mut shape: D, transposed: bool) -> D {
    if transposed {
        let axes = shape.ndim();
        shape.slice_mut().swap(axes - 2, axes - 1);
    }
    shape
}

fn transposed_view<A, D: Rank>(mut x: ArrayView<'_, A, D>, transposed: bool) -> ArrayView<'_, A, D> {
    if transposed {
        let axes = x.ndim();
        x.swap_axes(axes - 2, axes - 1);
    }
    x
}

#[track_caller]
fn transpose_if<A: Element, D: Rank>(x: &Layer<Nd<A, D>>, transposed: bool) -> Layer<Nd<A, D>> {
    if transposed { transpose(x, -2, -1) } else { x.clone() }
}

/// The batch axes of the product of tensors of these shapes.
pub(crate) fn batch_of(left: &[usize], right: &[usize]) -> Result<IxDyn> {
    if left.is_empty() || right.is_empty() {
        return Err(Error::shape(format!("{left:?} and {right:?}: each operand must have at least one axis")));
    }
    let (inner_left, inner_right) = (left.len() - 1, right.len().saturating_sub(2));
    if left[inner_left] != right[inner_right] {
        return Err(Error::shape(format!(
            "{left:?} and {right:?} do not fit: axis {inner_left} of the left one has length {}, axis {inner_right} of the right one {}",
            left[inner_left], right[inner_right],
        )));
    }
    let [batch_left, batch_right] = [left, right].map(|shape| &shape[..shape.len().saturating_sub(2)]);
    common_shape(batch_left, batch_right).map_err(|axis| {
        let [left_axis, right_axis] = [left, right].map(|shape| shape.len() - axis - 2);
        Error::shape(format!(
            "the batch axes of {left:?} and {right:?} do not broadcast: axis {left_axis} of the left one has length {}, axis \
             {right_axis} of the right one {}",
            left[left_axis], right[right_axis],
        ))
    })
}

impl<A: Element, D: MatMul<E>, E: Rank> Primitive for MatMulOp<A, D, E> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<A, E>>);
    type Output = Nd<A, D::Product>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (a, b): (&Nd<A, D>, &Nd<A, E>)) -> Result<Nd<A, D::Product>> {
        if common_place([(a.0.device(), usize::MAX), (b.0.device(), usize::MAX)])?.is_some() {
            return self.on_device(a, b);
        }
        let (a, b) = (transposed_view(a.view(), self.transposed[0]), transposed_view(b.view(), self.transposed[1]));
        let batch = batch_of(a.shape(), b.shape())?;
        Ok(product::<A, D, E, D::Product>(a, b, batch.slice())?.into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<A, E>>>) {
        let [left, right] = self.transposed;
        let operands = (transpose_if(&at.operands.0, left), transpose_if(&at.operands.1, right));
        let shapes = (transposed_shape(at.values.0.dim(), left), transposed_shape(at.values.1.dim(), right));
        let (da, db) = pull_back(operands, shapes, at.value.shape(), at.delta);
        (Some(transpose_if(&da, left)), Some(transpose_if(&db, right)))
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D::Product>>> {
        let ((a, b), (da, db)) = (along.operands, along.tangents);
        let product = |a: &Layer<_>, b: &Layer<_>| {
            Layer::apply_built_in(MatMulOp { types: PhantomData, ..*self }, (a.clone(), b.clone()))
        };
        sum_present([da.as_ref().map(|da| product(da, b)), db.as_ref().map(|db| product(a, db))])
    }

    fn cost(&self, (a, b): (&Nd<A, D>, &Nd<A, E>)) -> f64 {
        let (left, right) =
            (transposed_shape(a.dim(), self.transposed[0]), transposed_shape(b.dim(), self.transposed[1]));
        let rows = left.slice().iter().rev().nth(1).map_or(1, |&rows| rows);
        let depth = left.slice().last().map_or(1, |&depth| depth);
        let columns = right.slice().get(1..).and_then(<[usize]>::last).map_or(1, |&columns| columns);
        let batch = |shape: &[usize]| shape.len().saturating_sub(2);
        let [left, right] = [left.slice(), right.slice()].map(|shape| &shape[..batch(shape)]);
        let pairs = common_len(&[left, right]);
        let pending = a.nanoseconds_to_compute() + b.nanoseconds_to_compute();
        150.0 + pending + pairs * gemm::nanoseconds::<A>(rows, depth, columns)
    }
}

impl<A: Element, D: MatMul<E>, E: Rank> MatMulOp<A, D, E> {
    fn on_device(&self, a: &Nd<A, D>, b: &Nd<A, E>) -> Result<Nd<A, D::Product>> {
        fn matrix<A: Element, D: Rank>(x: &Nd<A, D>, transposed: bool) -> Result<View> {
            let view = x.0.on_device()?.expect("it lies on the device");
            let mut order: Vec<usize> = (0..view.shape.len()).collect();
            if transposed {
                let axes = order.len();
                order.swap(axes - 2, axes - 1);
            }
            Ok(view.permuted(&order))
        }
        let (a, b) = (matrix(a, self.transposed[0])?, matrix(b, self.transposed[1])?);
        let batch = batch_of(&a.shape, &b.shape)?;
        let (row, column) = (a.shape.len() == 1, b.shape.len() == 1);
        let a = if row { a.inserted(0) } else { a };
        let b = if column { b.inserted(1) } else { b };
        let [rows, depth] = [a.shape.len() - 2, a.shape.len() - 1].map(|axis| a.shape[axis]);
        let columns = b.shape[b.shape.len() - 1];
        let mut shape = batch.slice().to_vec();
        shape.extend((!row).then_some(rows).into_iter().chain((!column).then_some(columns)));
        check_size::<A>(&shape)?;
        // as on the host: pairs that share the right matrix are one product
        let shares = b.shape[..b.shape.len() - 2].iter().all(|&length| length == 1);
        let whole = a.clone().broadcast(&[batch.slice(), &[rows, depth]].concat());
        let (a, b) = match shares && whole.is_contiguous() {
            true => (whole.reshaped(&[batch.size() * rows, depth])?, b.last_two()),
            false => (whole, b.broadcast(&[batch.slice(), &[depth, columns]].concat())),
        };
        let accumulators = gemm::accumulators::<A>();
        device::product(Factors { a, b, row: None, relu: false, accumulators }, &shape)
            .map(|view| Nd(Storage::from_view(view)))
    }
}

impl<A: Element, D: MatMul<E>, E: Rank> BuiltIn for MatMulOp<A, D, E> {
    const IS_PURE: bool = true;
    const ACCUMULATES: bool = true;

    /// The rows of the left matrix, or its batch, if all are multiplied by one right matrix.
    fn is_by_rows(&self, has_rows: &[bool], (a, b): (&Nd<A, D>, &Nd<A, E>), _: &Nd<A, D::Product>) -> bool {
        let (left, right) = (a.shape().len(), b.shape().len());
        has_rows == [true, false] && right <= 2 && (left > 2 || left == 2 && !self.transposed[0])
    }

    fn block_op(&self, (a, b): (&Nd<A, D>, &Nd<A, E>), value: &Nd<A, D::Product>) -> Option<BlockOp> {
        let [left, right] = self.transposed;
        let (&[rows, depth], &[columns, _]) = (a.shape(), b.shape()) else { return None };
        let [rows, depth] = if left { [depth, rows] } else { [rows, depth] };
        let columns = if right { columns } else { b.shape()[1] };
        product_op((a, b), [rows, depth, columns], self.transposed, false, value)
    }

    fn can_accumulate(&self, (a, b): (&Nd<A, D>, &Nd<A, E>), to: &Nd<A, D::Product>) -> bool {
        if a.0.device().or(b.0.device()).or(to.0.device()).is_some() {
            return false;
        }
        let (a, b) = (transposed_shape(a.dim(), self.transposed[0]), transposed_shape(b.dim(), self.transposed[1]));
        match (a.slice(), b.slice(), to.shape()) {
            // a single accumulation chain: adding in place has the bits of computing the product
            // first
            ([m, k], [depth, n], [rows, columns]) => {
                [m, k, n] == [rows, depth, columns] && gemm::is_single_chain(*m, *k, *n)
            }
            _ => false,
        }
    }

    fn accumulate(&self, (a, b): (&Nd<A, D>, &Nd<A, E>), factor: f64, to: &mut Nd<A, D::Product>) {
        fn matrix<A, D: Rank>(x: ArrayView<'_, A, D>) -> ArrayView2<'_, A> {
            x.into_dimensionality().expect("the shapes were checked")
        }
        to.0.align_for_write();
        let to = to.0.array_mut().view_mut().into_dimensionality();
        gemm::product_into(
            A::of(factor),
            matrix(transposed_view(a.view(), self.transposed[0])),
            matrix(transposed_view(b.view(), self.transposed[1])),
            A::of(1.0),
            &mut to.expect("the shapes were checked"),
        );
    }

    fn sum_of_values(terms: &[ProductTerm<'_, A, D, E>]) -> Option<Nd<A, D::Product>> {
        let RowProducts { shape, .. } = RowProducts::of(terms)?;
        let factors = terms.iter().map(|(_, (a, b))| Some((a.0.as_slice()?, b.0.as_slice()?)));
        let factors: Vec<(&[A], &[A])> = factors.collect::<Option<_>>()?;
        Some(Nd::from_elements(dim_of(&shape), gemm::sum_of_row_products(&factors, shape)))
    }

    fn cost_of_sum(terms: &[ProductTerm<'_, A, D, E>]) -> Option<f64> {
        let RowProducts { shape: [rows, columns], count } = RowProducts::of(terms)?;
        let pending = |(_, (a, b)): &ProductTerm<'_, A, D, E>| a.nanoseconds_to_compute() + b.nanoseconds_to_compute();
        let pending: f64 = terms.iter().map(pending).sum();
        Some(150.0 + pending + gemm::nanoseconds_of_row_products::<A>(count, rows, columns))
    }
}

/// A small product of matrices in row-major order.
pub(crate) fn product_op<A: Element, D: Rank, E: Rank, P: Rank>(
    (a, b): (&Nd<A, D>, &Nd<A, E>),
    shape: [usize; 3],
    transposed: [bool; 2],
    relu: bool,
    value: &Nd<A, P>,
) -> Option<BlockOp> {
    let is_small = is_small(value) && a.0.as_slice().is_some() && b.0.as_slice().is_some();
    is_small.then_some(BlockOp::Product { shape, transposed, relu })
}

/// Products `xᵀ·δ` of one shape and of few rows each, as in the delta of a weight that is applied
/// to one sample, or to a few, at a time.
struct RowProducts {
    shape: [usize; 2],
    /// The number of rows of all.
    count: usize,
}

/// With more rows, a product is computed by tiles. So are products with right factors that do not
/// stay in L1, as each row of the sum reads them.
const MOST_ROWS: usize = 16;
const MOST_RIGHT_BYTES: usize = 1 << 15;

impl RowProducts {
    /// `None` if these are other products. Does not compute any lazy operand.
    fn of<A: Element, D: Rank, E: Rank>(terms: &[ProductTerm<'_, A, D, E>]) -> Option<RowProducts> {
        fn matrix<A: Element, D: Rank>(x: &Nd<A, D>) -> Option<[usize; 2]> {
            let in_one_piece = x.0.device().is_none() && (x.lazy().is_some() || x.0.as_slice().is_some());
            match x.shape() {
                &[rows, columns] if in_one_piece => Some([rows, columns]),
                _ => None,
            }
        }
        let shapes = |(op, (a, b)): &ProductTerm<'_, A, D, E>| match op.transposed {
            [true, false] => matrix(a).zip(matrix(b)).filter(|(a, b)| a[0] == b[0]),
            _ => None,
        };
        let ([_, rows], [_, columns]) = shapes(terms.first()?)?;
        let (mut count, mut most) = (0, 0);
        for term in terms {
            let (a, b) = shapes(term)?;
            if [a[1], b[1]] != [rows, columns] {
                return None;
            }
            count += a[0];
            most = most.max(a[0]);
        }
        let is_few = most <= 1 || most <= MOST_ROWS && count * columns * size_of::<A>() <= MOST_RIGHT_BYTES;
        (is_few && gemm::is_single_chain(rows, most, columns)).then_some(RowProducts { shape: [rows, columns], count })
    }
}

/// A product and the values of its operands.
type ProductTerm<'a, A, D, E> = (&'a MatMulOp<A, D, E>, (&'a Nd<A, D>, &'a Nd<A, E>));

/// A left and a right operand.
type Pair<A, D, E> = (Layer<Nd<A, D>>, Layer<Nd<A, E>>);

/// The deltas of the operands, from the delta `d` of their product, which has shape `product`.
#[track_caller]
pub(crate) fn pull_back<A: Element, D: MatMul<E>, E: Rank>(
    (a, b): Pair<A, D, E>,
    (shape_a, shape_b): (D, E),
    product: &[usize],
    d: &Layer<Nd<A, D::Product>>,
) -> Pair<A, D, E> {
    let (left, right) = (shape_a.slice(), shape_b.slice());
    if let [k] | [k, _] = *right {
        // a product of two matrices: all axes of the left one but the last count as rows
        let (rows, n) = (left[..left.len() - 1].iter().product(), right.get(1).map_or(1, |&n| n));
        let [left, right, whole] = [[rows, k], [k, n], [rows, n]].map(ndarray::Dim);
        // the product of a batch and a vector can have rank 2 as well, but another shape
        let d = if product == whole.slice() { reshape_to(d, whole) } else { reshape(d, ReshapeTarget::Shape(whole)) };
        let (a, b) = (reshape_to(&a, left), reshape_to(&b, right));
        let [da, db] = deltas::<A, Ix2>(a, b, d, [left, right], &[]);
        return (reshape_to(&da, shape_a), reshape_to(&db, shape_b));
    }
    let batch = batch_of(left, right).expect("the shapes were checked");
    let right = IxDyn(right);
    let (a, d, left) = if let [k] = *left {
        let row = IxDyn(&[1, k]);
        let n = right[right.ndim() - 1];
        (reshape_to(&a, row.clone()), reshape_to(d, IxDyn(&[batch.slice(), &[1, n]].concat())), row)
    } else {
        (lift(&a), lift(d), IxDyn(left))
    };
    let [da, db] = deltas::<A, IxDyn>(a, lift(&b), d, [left, right], batch.slice());
    (reshape_to(&da, shape_a), reshape_to(&db, shape_b))
}

/// The delta of a right operand `[depth, columns]`, from the delta `d` of the product. All axes of
/// `a` and `d` but the last count as rows.
#[track_caller]
pub(crate) fn delta_of_right<A: Element, D: Rank>(
    a: &Layer<Nd<A, D>>,
    [rows, depth, columns]: [usize; 3],
    d: &Layer<Nd<A, D>>,
) -> Layer<Nd<A, Ix2>> {
    let (a, d) = (reshape_to(a, Ix2(rows, depth)), reshape_to(d, Ix2(rows, columns)));
    Layer::apply_built_in(MatMulOp { name: "matmul", transposed: [true, false], types: PhantomData }, (a, d))
}

/// The delta `[rows, depth]` of a left operand, from the delta `d` of the product with `b`. All axes
/// of `d` but the last count as rows.
#[track_caller]
pub(crate) fn delta_of_left<A: Element, D: Rank>(
    b: &Layer<Nd<A, Ix2>>,
    [rows, columns]: [usize; 2],
    d: &Layer<Nd<A, D>>,
) -> Layer<Nd<A, Ix2>> {
    let d = reshape_to(d, Ix2(rows, columns));
    Layer::apply_built_in(MatMulOp { name: "matmul", transposed: [false, true], types: PhantomData }, (d, b.clone()))
}

/// dA = d · Bᵀ, dB = Aᵀ · d, each summed over the batch axes along which its operand was broadcast.
#[track_caller]
fn deltas<A: Element, D: MatMul<D, Product = D>>(
    a: Layer<Nd<A, D>>,
    b: Layer<Nd<A, D>>,
    d: Layer<Nd<A, D>>,
    shapes: [D; 2],
    batch: &[usize],
) -> [Layer<Nd<A, D>>; 2] {
    let sum = |delta, to: D| {
        let (own, matrix) = to.slice().split_at(to.ndim() - 2);
        if own == batch { delta } else { sum_to(delta, &[batch, matrix].concat(), to) }
    };
    let [left, right] = shapes;
    let product =
        |a, b, transposed| Layer::apply_built_in(MatMulOp { name: "matmul", transposed, types: PhantomData }, (a, b));
    let da = product(d.clone(), b, [false, true]);
    let db = product(a, d, [true, false]);
    [sum(da, left), sum(db, right)]
}

/// The product of two arrays. The inner lengths must match, and the batch axes broadcast to
/// `batch`.
pub(crate) fn product<A: Element, D: Rank, E: Rank, P: Rank>(
    a: ArrayView<'_, A, D>,
    b: ArrayView<'_, A, E>,
    batch: &[usize],
) -> Result<Array<A, P>> {
    // a vector counts as a row on the left and as a column on the right
    let (row, column) = (a.ndim() == 1, b.ndim() == 1);
    let m = if row { 1 } else { a.shape()[a.ndim() - 2] };
    let n = if column { 1 } else { b.shape()[b.ndim() - 1] };
    let mut shape = P::zeros(batch.len() + usize::from(!row) + usize::from(!column));
    let lengths = batch.iter().copied().chain((!row).then_some(m)).chain((!column).then_some(n));
    shape.slice_mut().iter_mut().zip(lengths).for_each(|(to, length)| *to = length);
    check_size::<A>(shape.slice())?;
    if a.ndim() <= 2 && b.ndim() <= 2 {
        return Ok(gemm::product(MatrixRef::row(&a), MatrixRef::column(&b), None, Epilogue::None, shape));
    }
    batched_products(a, b, batch, shape)
}

/// The products of all pairs of matrices of a batch, as an array of shape `shape`.
fn batched_products<A: Element, D: Rank, E: Rank, P: Rank>(
    a: ArrayView<'_, A, D>,
    b: ArrayView<'_, A, E>,
    batch: &[usize],
    shape: P,
) -> Result<Array<A, P>> {
    let a = if a.ndim() == 1 { a.into_dyn().insert_axis(Axis(0)) } else { a.into_dyn() };
    let b = if b.ndim() == 1 { b.into_dyn().insert_axis(Axis(1)) } else { b.into_dyn() };
    let [m, k] = [a.shape()[a.ndim() - 2], a.shape()[a.ndim() - 1]];
    let n = b.shape()[b.ndim() - 1];
    let [left, right] = [[m, k], [k, n]].map(|matrix| [batch, &matrix].concat());
    check_size::<A>(&left).and(check_size::<A>(&right))?;
    let whole = b.shape()[..b.ndim() - 2].iter().all(|&length| length == 1);
    let (a, b) = (a.broadcast(left), b.broadcast(right));
    let (a, b) = (a.expect("the batches broadcast"), b.expect("the batches broadcast"));
    if whole && !b.is_empty() {
        // all pairs share the right matrix: if the left ones are contiguous, their rows form one
        // matrix, and one product suffices
        let rows = batch.iter().product::<usize>() * m;
        if let Ok(a) = a.view().into_shape_with_order([rows, k]) {
            let b = batch.iter().fold(b, |b, _| b.index_axis_move(Axis(0), 0));
            return Ok(gemm::product(MatrixRef::row(&a), MatrixRef::column(&b), None, Epilogue::None, shape));
        }
    }
    let mut pairs = Vec::with_capacity(batch.iter().product());
    each_pair(a, b, &mut |a, b| pairs.push((a, b)));
    Ok(Array::from_shape_vec(shape, gemm::products(&pairs)).expect("one element each"))
}

/// Calls `each` with the pairs of matrices of two batches of the same shape.
fn each_pair<'a, A: Element>(
    a: ArrayViewD<'a, A>,
    b: ArrayViewD<'a, A>,
    each: &mut impl FnMut(MatrixRef<'a, A>, MatrixRef<'a, A>),
) {
    if a.ndim() == 2 {
        return each(MatrixRef::row(&a), MatrixRef::column(&b));
    }
    if a.ndim() == 3 {
        // without dynamic shapes, which take longer than a small product
        let [a, b] = [a, b].map(|x| x.into_dimensionality::<Ix3>().expect("three axes"));
        for index in 0..a.shape()[0] {
            let [a, b] = [a, b].map(|x| x.index_axis_move(Axis(0), index));
            each(MatrixRef::row(&a), MatrixRef::column(&b));
        }
        return;
    }
    for index in 0..a.shape()[0] {
        // an outer iterator would not outlive this view
        let [a, b] = [&a, &b].map(|x| x.clone().index_axis_move(Axis(0), index));
        each_pair(a, b, each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::pointwise::binary;
    use crate::ops::reduce::ReduceOps;
    use crate::tensor::aligned::is_aligned;
    use dl_core::Weight;
    use dl_optim::Sgd;

    type OfRows = MatMulOp<f64, Ix2, Ix2>;

    fn row(len: usize) -> Nd<f64, Ix2> {
        Nd::from(Array::from_shape_fn([1, len], |(_, i)| i as f64))
    }

    /// Whether the sum of these products has a cost estimate. It must have one exactly if
    /// `sum_of_values` returns a sum.
    fn has_estimate(pairs: &[[&Nd<f64, Ix2>; 2]], transposed: [bool; 2]) -> bool {
        let op = OfRows { name: "matmul", transposed, types: PhantomData };
        let terms: Vec<_> = pairs.iter().map(|&[a, b]| (&op, (a, b))).collect();
        let estimate = OfRows::cost_of_sum(&terms);
        assert!(pairs.iter().all(|[a, _]| a.len() < 4096 || a.lazy().is_some()), "no lazy operand is computed");
        assert_eq!(OfRows::sum_of_values(&terms).is_some(), estimate.is_some());
        estimate.is_some()
    }

    #[test]
    fn only_sum_of_products_of_few_rows_has_estimate() {
        let (a, b) = (row(3), row(4));
        assert!(has_estimate(&[[&a, &b], [&a, &b]], [true, false]));
        assert!(!has_estimate(&[], [true, false]));
        assert!(!has_estimate(&[[&a, &b], [&b, &a]], [true, false]), "terms of two shapes");
        assert!(!has_estimate(&[[&a, &a]], [false, true]), "a row times a column");
        let rows = |count: usize| Nd::from(Array::zeros([count, 4]));
        assert!(has_estimate(&[[&rows(2), &rows(2)], [&rows(1), &rows(1)]], [true, false]));
        assert!(!has_estimate(&[[&rows(2), &rows(1)]], [true, false]), "not a product");
        assert!(!has_estimate(&[[&rows(MOST_ROWS + 1), &rows(MOST_ROWS + 1)]], [true, false]), "many rows");
        let strided: Nd<f64, Ix2> = Nd::from(Array::zeros([4, 2]).reversed_axes().slice_move(ndarray::s![..1, ..]));
        assert!(strided.0.as_slice().is_none() && !has_estimate(&[[&a, &strided]], [true, false]), "not contiguous");
        let long = row(1 << 12);
        let lazy = binary(Binary::Add, &long, &long).expect("the shapes are equal");
        assert!(lazy.lazy().is_some() && has_estimate(&[[&lazy, &b]], [true, false]));
    }

    #[test]
    fn stepped_weight_is_aligned_to_cache_line() -> Result<()> {
        let elements = vec![3.0_f32; 100 * 70 + 1];
        let start = usize::from(is_aligned(elements.as_ptr()));
        let unaligned = Array::from_vec(elements).slice_move(ndarray::s![start..start + 100 * 70]);
        let weight = Weight::new(Nd::from(unaligned.into_shape_with_order([100, 70]).expect("as many elements")));
        let x = Nd::<f32, Ix2>::full([2, 100], 1.0);
        x.matmul(&weight).sum().train(&Sgd::new(0.5)).wait()?;
        let stepped = weight.value();
        assert!(is_aligned(stepped.view().as_ptr()) && stepped.view().iter().all(|&x| x == 2.0));
        Ok(())
    }

    #[test]
    fn large_product_is_aligned_to_cache_line() -> dl_core::Result<()> {
        let [a, b] = [[90, 3], [3, 80]].map(|shape| Nd::<f64, Ix2>::full(shape, 2.0));
        let product = a.matmul(&b).predict().wait()?;
        assert!(is_aligned(product.view().as_ptr()) && product.view().iter().all(|&x| x == 12.0));
        Ok(())
    }
}
