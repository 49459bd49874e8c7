//! Element types and ranks of tensors.

use super::{LazyTensor, Nd, Storage};
use dl_core::parallel::memory::Pooled;
use dl_core::{
    BasicBlock, BlockKernel, ChunkElement, DType, Delta, Differentiable, ElementType, Elements, Layer, Nothing, Number,
    Numbers, Pointwise, Result, StoredElement, Trainable, buffers,
};
use ndarray::{Dimension, Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6, IxDyn};
use std::borrow::Cow;
use std::fmt::Debug;

/// Element types of tensors: `f32` and `f64`; and `bool`, `u8`, `i32`, `i64` and `usize` as plain
/// data (masks, labels, indices).
///
/// ```
/// use dl_nd::Nd;
/// let mask = Nd::from([true, false]);
/// let labels = Nd::from([3_usize, 1]);
/// assert!(mask[0] && labels[1] == 1);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in a tensor",
    note = "tensors hold `f32` or `f64`, or, as plain data, `bool`, `u8`, `i32`, `i64` or `usize`; \
            a type parameter of a weight or a layer has the bound `dl::nd::Element`"
)]
pub trait Item: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// Element type of the delta of such a tensor: a number type, or [`Nothing`].
    type Derivative: Derivative;

    #[doc(hidden)]
    const UNIT: Self::Derivative;

    /// A key that orders elements as `<` does. It is greatest for NaN, and fits into 32 bits for
    /// types that do.
    #[doc(hidden)]
    fn order_key(self) -> u64;

    #[doc(hidden)]
    fn recycle(_: Vec<Self>) {}

    #[doc(hidden)]
    fn copied(elements: &[Self]) -> Vec<Self> {
        elements.to_vec()
    }

    #[doc(hidden)]
    #[allow(private_interfaces, reason = "internal")]
    fn align<D: Rank>(_: &mut Storage<Self, D>) {}

    #[doc(hidden)]
    #[allow(private_interfaces, reason = "internal")]
    fn copy_to_pool<D: Rank>(_: &mut Storage<Self, D>) {}

    #[doc(hidden)]
    #[allow(private_interfaces, reason = "internal")]
    fn compute<D: Rank>(_: &LazyTensor<Self, D>) -> Storage<Self, D> {
        unreachable!("only numbers have lazy expressions")
    }

    #[doc(hidden)]
    #[allow(private_interfaces, reason = "internal")]
    fn compute_on_device<D: Rank>(_: &LazyTensor<Self, D>) -> Result<Storage<Self, D>> {
        unreachable!("only numbers have lazy expressions")
    }

    #[doc(hidden)]
    fn realize<D: Rank>(_: &[&Nd<Self, D>]) {}

    /// The type of the elements on a device; none if they cannot lie there.
    #[doc(hidden)]
    const ON_DEVICE: Option<DType> = None;

    /// The number that programs of a device get for this element.
    #[doc(hidden)]
    fn device_number(self) -> f64 {
        0.0
    }

    /// The elements as numbers, for types that can lie on a device.
    #[doc(hidden)]
    fn to_device_numbers(_: Vec<Self>) -> Option<Numbers> {
        None
    }

    #[doc(hidden)]
    fn of_device_numbers(_: Numbers) -> Result<Vec<Self>> {
        unreachable!("such elements are not on a device")
    }

    /// Ones in the shape of a tensor, on the place of it.
    #[doc(hidden)]
    fn ones_like<D: Rank>(x: &Nd<Self, D>) -> Nd<Self::Derivative, D> {
        Nd::full(x.dim(), Self::UNIT)
    }

    #[doc(hidden)]
    const IN_BLOCKS: Option<ElementType> = None;

    #[doc(hidden)]
    fn elements(_: Cow<'_, [Self]>) -> Option<Elements<'_>> {
        None
    }

    #[doc(hidden)]
    fn compile_block(_: BasicBlock) -> Option<Box<dyn BlockKernel>> {
        None
    }

    #[doc(hidden)]
    fn non_finite(self) -> Option<f64> {
        None
    }
}

/// Element types that can be differentiated: `f32` and `f64`. No other type can implement it.
///
/// ```
/// fn zero<A: dl_nd::Element>() -> A {
///     A::of(0.0)
/// }
/// assert_eq!(zero::<f32>(), 0.0);
/// ```
///
/// It is the only bound that the operators need. A plain number of type `A` can stand on the right
/// of an operator; on the left, it has to be a layer.
///
/// ```
/// use dl_core::{Differentiable, Layer};
/// use dl_nd::{Element, Nd, NdLayer, Rank};
/// /// 1 / (1 + x²)
/// fn bell<A: Element, D: Rank>(x: &NdLayer<D, A>) -> NdLayer<D, A> {
///     Layer::constant(A::of(1.0)) / (x * x + A::of(1.0))
/// }
/// let x = Layer::constant(Nd::from([0.0_f32, 1.0]));
/// assert_eq!(bell(&x).predict().wait()?, Nd::from([1.0, 0.5]));
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the element of a differentiable tensor",
    note = "the elements are `f32` or `f64`; integers and `bool` are plain data: `to_floats` converts them to numbers"
)]
pub trait Element:
    Derivative
    + Differentiable<Data = Self, Delta = Self>
    + Number
    + Pooled
    + ChunkElement
    + Delta
    + Pointwise
    + Trainable
    + StoredElement
{
    #[doc(hidden)]
    fn per_element<T: PerElement>(table: T) -> T::For<Self>;
}

/// A value that exists once for each [`Element`] type, such as a table of kernels. It is
/// monomorphized in this crate instead of in its dependents.
pub trait PerElement {
    type For<A: 'static>;

    fn f32(self) -> Self::For<f32>;

    fn f64(self) -> Self::For<f64>;
}

/// Integers and `bool`: data without derivatives.
///
/// ```
/// fn count<A: dl_nd::Discrete>(labels: &[A]) -> f64 {
///     labels.iter().map(|label| label.to_f64()).sum()
/// }
/// assert_eq!(count(&[true, false, true]), 2.0);
/// ```
pub trait Discrete: Item<Derivative = Nothing> {
    /// The number as `f64`; `true` is 1 and `false` is 0.
    fn to_f64(self) -> f64;

    /// The number as an index, or `None` if it is negative or too large.
    ///
    /// ```
    /// use dl_nd::Discrete;
    /// assert_eq!((7_i64.to_index(), (-1_i64).to_index()), (Some(7), None));
    /// ```
    fn to_index(self) -> Option<usize>;
}

/// Elements of a type of stored numbers on a device.
macro_rules! on_device {
    (|$x:ident| $number:expr) => {
        const ON_DEVICE: Option<dl_core::DType> = Some(<Self as dl_core::StoredElement>::ELEMENT);

        fn device_number(self) -> f64 {
            let $x = self;
            $number
        }

        fn to_device_numbers(elements: Vec<Self>) -> Option<dl_core::Numbers> {
            Some(dl_core::StoredElement::into_numbers(elements))
        }

        fn of_device_numbers(numbers: dl_core::Numbers) -> dl_core::Result<Vec<Self>> {
            dl_core::StoredElement::row_of(numbers)
        }
    };
}
pub(crate) use on_device;

macro_rules! without_derivative {
    ($($A:ty: |$x:ident| $key:expr $(, $number:expr)? $(=> $recycle:path)?;)*) => {$(
        impl Item for $A {
            type Derivative = Nothing;

            const UNIT: Nothing = Nothing;

            #[inline]
            fn order_key(self) -> u64 {
                let $x = self;
                $key
            }

            $(fn recycle(elements: Vec<$A>) {
                $recycle(elements);
            })?

            $(on_device!(|$x| $number);)?
        }
    )*};
}

without_derivative! {
    bool: |x| x.into(), f64::from(u8::from(x)) => buffers::give_back;
    u8: |x| x.into(), x.into();
    // programs of a device compute in `i64`
    usize: |x| x as u64, x as i64 as f64 => buffers::give_back;
    i32: |x| (x as u32 ^ 1 << 31).into(), x.into();
    i64: |x| x as u64 ^ 1 << 63, x as f64;
    Nothing: |_x| 0;
}

macro_rules! discrete {
    ($($A:ty: |$x:ident| $number:expr),*) => {$(
        impl Discrete for $A {
            #[inline]
            fn to_f64(self) -> f64 {
                let $x = self;
                $number
            }

            fn to_index(self) -> Option<usize> {
                usize::try_from(self).ok()
            }
        }
    )*};
}

discrete!(bool: |x| f64::from(u8::from(x)), u8: |x| f64::from(x), i32: |x| f64::from(x), i64: |x| x as f64, usize: |x| x as f64);

/// Element types of deltas: `f32`, `f64`, and [`Nothing`], which is never computed.
///
/// ```
/// fn length<A: dl_nd::Derivative>(delta: &dl_nd::Nd<A, ndarray::Ix1>) -> f64 {
///     dl_core::Delta::squared_norm(delta).sqrt()
/// }
/// assert_eq!(length(&dl_nd::Nd::from([3.0, 4.0])), 5.0);
/// ```
pub trait Derivative: Item<Derivative = Self> {
    #[doc(hidden)]
    #[track_caller]
    fn sum_of_tensors<D: Rank>(terms: Vec<Layer<Nd<Self, D>>>) -> Layer<Nd<Self, D>>;

    #[doc(hidden)]
    fn add_in_place<D: Rank>(_: &mut Nd<Self, D>, _: &Nd<Self, D>) -> bool {
        false
    }

    #[doc(hidden)]
    #[track_caller]
    fn scaled_tensor<D: Rank>(layer: &Layer<Nd<Self, D>>, factor: f64) -> Layer<Nd<Self, D>>;

    #[doc(hidden)]
    fn squared_norm<D: Rank>(tensor: &Nd<Self, D>) -> f64;
}

impl Derivative for Nothing {
    fn sum_of_tensors<D: Rank>(mut terms: Vec<Layer<Nd<Nothing, D>>>) -> Layer<Nd<Nothing, D>> {
        terms.swap_remove(0)
    }

    fn scaled_tensor<D: Rank>(layer: &Layer<Nd<Nothing, D>>, _: f64) -> Layer<Nd<Nothing, D>> {
        layer.clone()
    }

    fn squared_norm<D: Rank>(_: &Nd<Nothing, D>) -> f64 {
        0.0
    }
}

/// The rank of a tensor as a type: `Ix0` to `Ix6`, or `IxDyn` for a rank known at run time only.
///
/// ```
/// fn axes<D: dl_nd::Rank>() -> Option<usize> {
///     D::NDIM
/// }
/// assert_eq!(axes::<ndarray::Ix2>(), Some(2));
/// assert_eq!(axes::<ndarray::IxDyn>(), None);
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not the rank of a tensor: those are `Ix0` to `Ix6` and `IxDyn`")]
pub trait Rank: Dimension + 'static {}

impl<D: Dimension + 'static> Rank for D {}

/// Ranks that can be `N`: the rank of `N` axes, and `IxDyn`, which is checked at run time.
///
/// ```
/// use dl_core::Layer;
/// use dl_nd::{Element, HasRank, LossOps, Nd};
/// fn loss<A: Element, D: HasRank<2>>(logits: &Layer<Nd<A, D>>) -> Layer<A> {
///     logits.cross_entropy([0])
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "expected a tensor with {N} axes, but the rank is `{Self}`",
    note = "`unsqueeze` adds an axis of length 1, `reshape` gives another shape"
)]
pub trait HasRank<const N: usize>: Rank {}

macro_rules! ranks {
    ($($N:literal $D:ty),*) => {$(
        impl HasRank<$N> for $D {}
        impl HasRank<$N> for IxDyn {}
    )*};
}

ranks!(0 Ix0, 1 Ix1, 2 Ix2, 3 Ix3, 4 Ix4, 5 Ix5, 6 Ix6);
