//! The product of matrices and vectors.

use crate::element::{Element, Rank};
use crate::movement::{reshape_to, reverse};
use crate::nd::Nd;
use dl_core::{At, Differentiable, Error, Layer, Primitive, Result};
use ndarray::linalg::Dot;
use ndarray::{ArrayBase, ArrayD, ArrayViewD, Dimension, Ix0, Ix1, Ix2, IxDyn, ViewRepr};
use std::marker::PhantomData;

/// Ranks whose product is known: `Self` on the left, `R` on the right.
///
/// | left | right | product |
/// |---|---|---|
/// | `[m, k]` | `[k, n]` | `[m, n]` |
/// | `[m, k]` | `[k]` | `[m]` |
/// | `[k]` | `[k, n]` | `[n]` |
/// | `[k]` | `[k]` | `[]` |
///
/// With `IxDyn` on both sides the same table is read when it runs. There is no other pair of ranks:
///
/// ```compile_fail,E0277
/// use dl_nd::{Nd, ProductOps};
/// let product = Nd::from([[[1.0_f32]]]).matmul(Nd::from([1.0_f32]));
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
    message = "`matmul` multiplies matrices and vectors: there is no product of ranks `{Self}` and `{R}`",
    label = "not a matrix or a vector, or only one side of rank `IxDyn`"
)]
pub trait MatMul<R: Rank>: Rank {
    /// The rank of the product.
    type Product: Rank;
}

macro_rules! ranks {
    ($($L:ty, $R:ty => $Product:ty;)*) => {$(
        impl MatMul<$R> for $L {
            type Product = $Product;
        }
    )*};
}

ranks! { Ix2, Ix2 => Ix2; Ix2, Ix1 => Ix1; Ix1, Ix2 => Ix1; Ix1, Ix1 => Ix0; IxDyn, IxDyn => IxDyn; }

/// Products of tensors.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, ProductOps};
/// let a = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(a.matmul(&a).predict().wait()?, Nd::from([[7.0, 10.0], [15.0, 22.0]]));
/// # dl_core::Result::Ok(())
/// ```
pub trait ProductOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// The product of matrices and vectors: `[m, k] · [k, n] → [m, n]`, `[m, k] · [k] → [m]`, `[k] · [k, n] → [n]`,
    /// `[k] · [k] → []`. See [`MatMul`].
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ProductOps};
    /// let a = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(a.matmul(Nd::from([1.0, 1.0])).predict().wait()?, Nd::from([3.0, 7.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the inner lengths differ.
    #[track_caller]
    fn matmul<R, E>(&self, right: R) -> Layer<Nd<A, D::Product>>
    where
        R: Differentiable<Data = Nd<A, E>>,
        E: Rank,
        D: MatMul<E>,
    {
        matmul(self.layer(), right.into_layer())
    }
}

impl<X, A: Element, D: Rank> ProductOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[track_caller]
pub(crate) fn matmul<A, D, E>(a: Layer<Nd<A, D>>, b: Layer<Nd<A, E>>) -> Layer<Nd<A, D::Product>>
where
    A: Element,
    D: MatMul<E>,
    E: Rank,
{
    Layer::apply(Product { types: PhantomData }, (a, b))
}

struct Product<A, D, E> {
    types: PhantomData<(A, D, E)>,
}

/// How a vector counts: as a row on the left, as a column on the right.
fn as_matrices(a: &[usize], b: &[usize]) -> (Ix2, Ix2) {
    let left = if let [k] = *a { [1, k] } else { [a[0], a[1]] };
    let right = if let [k] = *b { [k, 1] } else { [b[0], b[1]] };
    (ndarray::Dim(left), ndarray::Dim(right))
}

impl<A: Element, D: MatMul<E>, E: Rank> Primitive for Product<A, D, E> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<A, E>>);
    type Output = Nd<A, D::Product>;

    fn name(&self) -> &'static str {
        "matmul"
    }

    fn value(&self, (a, b): (&Nd<A, D>, &Nd<A, E>)) -> Result<Nd<A, D::Product>> {
        let (left, right) = (a.shape(), b.shape());
        if !matches!((left.len(), right.len()), (1 | 2, 1 | 2)) {
            return Err(Error::shape(format!("{left:?} and {right:?}: only matrices and vectors have a product")));
        }
        let inner = left.len() - 1;
        if left[inner] != right[0] {
            return Err(Error::shape(format!(
                "{left:?} and {right:?} do not fit: axis {inner} of the left one has length {}, axis 0 of the right one {}",
                left[inner], right[0],
            )));
        }
        let (a, b) = (a.0.view().into_dyn(), b.0.view().into_dyn());
        let product: ArrayD<A> = match (a.ndim(), b.ndim()) {
            (2, 2) => dot::<A, Ix2, Ix2, _>(a, b, |product: ndarray::Array2<A>| product.into_dyn()),
            (2, _) => dot::<A, Ix2, Ix1, _>(a, b, |product: ndarray::Array1<A>| product.into_dyn()),
            (_, 2) => dot::<A, Ix1, Ix2, _>(a, b, |product: ndarray::Array1<A>| product.into_dyn()),
            _ => dot::<A, Ix1, Ix1, _>(a, b, |product: A| ndarray::arr0(product).into_dyn()),
        };
        Ok(product.into_dimensionality().expect("the rank of a product").into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<A, E>>>) {
        // as matrices: dA = d · Bᵀ, dB = Aᵀ · d
        let (left, right) = as_matrices(at.values.0.shape(), at.values.1.shape());
        let a: Layer<Nd<A, Ix2>> = reshape_to(&at.operands.0, left);
        let b: Layer<Nd<A, Ix2>> = reshape_to(&at.operands.1, right);
        let d: Layer<Nd<A, Ix2>> = reshape_to(at.delta, ndarray::Dim([left[0], right[1]]));
        let (da, db) = (matmul(d.clone(), reverse(&b)), matmul(reverse(&a), d));
        (Some(reshape_to(&da, at.values.0.dim())), Some(reshape_to(&db, at.values.1.dim())))
    }

    fn cost(&self, (a, b): (&Nd<A, D>, &Nd<A, E>)) -> f64 {
        // 2·m·n·k operations at some 20 per nanosecond
        let columns = if b.shape().len() > 1 { b.shape()[1] } else { 1 };
        200.0 + 0.1 * a.len() as f64 * columns as f64
    }
}

type View<'a, A, D> = ArrayBase<ViewRepr<&'a A>, D>;

fn dot<'a, A, D, E, P>(a: ArrayViewD<'a, A>, b: ArrayViewD<'a, A>, into_dyn: impl FnOnce(P) -> ArrayD<A>) -> ArrayD<A>
where
    D: Dimension,
    E: Dimension,
    View<'a, A, D>: Dot<View<'a, A, E>, Output = P>,
{
    let (a, b) = (a.into_dimensionality::<D>(), b.into_dimensionality::<E>());
    into_dyn(a.expect("the rank was looked at").dot(&b.expect("the rank was looked at")))
}
