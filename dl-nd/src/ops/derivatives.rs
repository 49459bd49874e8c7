//! Jacobian and Hessian matrices.

use crate::ops::join::stack;
use crate::ops::reduce::fill;
use crate::ops::reshape::{MovementOps, ReshapeTarget, reshape};
use crate::tensor::{Element, Nd, Rank, check_size, dim_of};
use dl_core::{Data, Differentiable, Layer};
use ndarray::{DimAdd, Ix0, Ix1};

/// Data of floating point numbers: a number, or a tensor of numbers.
///
/// ```
/// use dl_nd::{Nd, Numeric};
/// assert_eq!(Numeric::lengths(&Nd::from([[1.0, 2.0]])), [1, 2]);
/// assert_eq!(Numeric::lengths(&1.0_f64), [0_usize; 0]);
/// ```
#[diagnostic::on_unimplemented(
    message = "there is no Jacobian or Hessian of, or with respect to, `{Self}`",
    note = "they are defined for numbers and tensors; for several variables together, use `gradients`"
)]
pub trait Numeric: Data<Delta = Self> {
    /// The element type.
    type Element: Element;
    /// The rank: `Ix0` for a number.
    type Rank: Rank;

    /// The shape: `[]` for a number.
    fn lengths(&self) -> Vec<usize>;

    /// Flattens it to a vector.
    #[doc(hidden)]
    fn flat(layer: &Layer<Self>) -> Layer<Nd<Self::Element, Ix1>>;

    /// The unit vector in the shape of this value: 1 at position `place` in row-major order, 0
    /// elsewhere.
    #[doc(hidden)]
    fn unit(&self, place: usize) -> Self;
}

impl<A: Element> Numeric for A {
    type Element = A;
    type Rank = Ix0;

    fn lengths(&self) -> Vec<usize> {
        Vec::new()
    }

    fn flat(layer: &Layer<A>) -> Layer<Nd<A, Ix1>> {
        fill(layer, Ix1(1))
    }

    fn unit(&self, _: usize) -> A {
        A::of(1.0)
    }
}

impl<A: Element, D: Rank> Numeric for Nd<A, D> {
    type Element = A;
    type Rank = D;

    fn lengths(&self) -> Vec<usize> {
        self.shape().to_vec()
    }

    fn flat(layer: &Layer<Self>) -> Layer<Nd<A, Ix1>> {
        layer.flatten()
    }

    fn unit(&self, place: usize) -> Self {
        let mut unit = Nd::full(self.dim(), A::zero()).into_array();
        unit.as_slice_mut().expect("in row-major order")[place] = A::of(1.0);
        unit.into()
    }
}

/// The rank of a tensor with the axes of `Y`, followed by those of `X`.
type Joined<Y, X> = <<Y as Numeric>::Rank as DimAdd<<X as Numeric>::Rank>>::Output;

/// The type of the Jacobian of a `Y` with respect to an `X`.
type Matrix<Y, X> = Nd<<Y as Numeric>::Element, Joined<Y, X>>;

/// Jacobian and Hessian matrices.
///
/// They are defined for one tensor or number as variable. For several variables, apply `gradients`
/// to the `gradients`; the result has their structure:
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// let variables = [2.0_f64, 3.0].map(Weight::new);
/// let [x, y] = &variables;
/// let hessian = (x * x * y).gradients(&variables).map(|slope| slope.gradients(&variables));
/// let [[xx, xy], [_, yy]] = hessian;
/// assert_eq!((xx.predict().wait()?, xy.predict().wait()?, yy.predict().wait()?), (6.0, 4.0, 0.0));
/// # dl_core::Result::Ok(())
/// ```
pub trait DerivativeOps: Differentiable<Data: Numeric> {
    /// The Jacobian: the derivative of each element of this with respect to each element of the
    /// weight or layer `x`. Its shape is the shape of this, followed by the shape of `x`.
    ///
    /// It computes one forward-mode derivative for each element of `x`, or one reverse-mode
    /// derivative for each element of this, whichever are fewer; the forward values are shared. If
    /// only a product with the Jacobian is required, use [`jvp`](Layer::jvp) or
    /// [`vjp`](Layer::vjp), which compute one derivative.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_nd::{DerivativeOps, Nd, ProductOps};
    /// let a = Nd::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// let x = Weight::new(Nd::from([7.0, 8.0]));
    /// assert_eq!(a.matmul(&x).jacobian(&x).predict().wait()?, a);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of this layer and of its derivatives; a shape error when the matrix is too large.
    #[track_caller]
    fn jacobian<X, T>(&self, x: &X) -> Layer<Matrix<Self::Data, T>>
    where
        X: Differentiable<Data = T, Delta = T> + ?Sized,
        T: Numeric<Element = <Self::Data as Numeric>::Element>,
        <Self::Data as Numeric>::Rank: DimAdd<T::Rank>,
        Joined<Self::Data, T>: Rank,
    {
        jacobian(self.layer(), x.layer())
    }

    /// The Hessian of a number: its second derivatives with respect to all pairs of elements of the
    /// weight or layer `x`. Its shape is the shape of `x`, twice.
    ///
    /// It computes one derivative of the gradient for each element of `x`. If only a product with
    /// the Hessian is required, use [`hvp`](Layer::hvp), which computes one.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_nd::{DerivativeOps, Nd, ReduceOps};
    /// let x = Weight::new(Nd::from([1.0, 2.0]));
    /// let cubes = (&x * &x * &x).sum();
    /// assert_eq!(cubes.hessian(&x).predict().wait()?, Nd::from([[6.0, 0.0], [0.0, 12.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of this layer and of its derivatives; a shape error when the matrix is too large.
    #[track_caller]
    fn hessian<X, T>(&self, x: &X) -> Layer<Matrix<T, T>>
    where
        Self::Data: Element,
        X: Differentiable<Data = T, Delta = T> + ?Sized,
        T: Numeric<Element = Self::Data>,
        T::Rank: DimAdd<T::Rank>,
        Joined<T, T>: Rank,
    {
        let x = x.layer();
        jacobian(self.layer().gradient(&x), x)
    }
}

impl<Y> DerivativeOps for Y where Y: Differentiable<Data: Numeric> {}

#[track_caller]
fn jacobian<A, Y, X>(y: Layer<Y>, x: Layer<X>) -> Layer<Matrix<Y, X>>
where
    A: Element,
    Y: Numeric<Element = A>,
    X: Numeric<Element = A>,
    Y::Rank: DimAdd<X::Rank>,
    Joined<Y, X>: Rank,
{
    let matrix = Layer::dynamic(move || {
        let (y, x) = (y.clone(), x.clone());
        async move {
            let (at_y, at_x) = (y.extract().await?, x.extract().await?);
            let lengths = [at_y.lengths(), at_x.lengths()].concat();
            check_size::<A>(&lengths)?;
            let shape: Joined<Y, X> = dim_of(&lengths);
            let [rows, columns]: [usize; 2] = [at_y.lengths(), at_x.lengths()].map(|lengths| lengths.iter().product());
            if rows == 0 || columns == 0 {
                return Ok(Layer::constant(Nd::full(shape, A::zero())));
            }
            let matrix = if columns <= rows {
                let along = y.linearize(&x);
                let column = |place| Y::flat(&along(&Layer::constant(at_x.unit(place))));
                stack(0, (0..columns).map(column)).t()
            } else {
                let row = |place| X::flat(&y.vjp(&x, &Layer::constant(at_y.unit(place))));
                stack(0, (0..rows).map(row))
            };
            Ok(reshape(&matrix, ReshapeTarget::Shape(shape)))
        }
    });
    matrix.keeping_values()
}
