//! Comparisons, masks, and selection by a mask.

use crate::device::{Comparison, Program, common_place};
use crate::kernels::{Operand, map_blocks};
use crate::ops::broadcast::sum_to;
use crate::ops::reduce::fill;
use crate::ops::reshape::lift;
use crate::tensor::{Element, Item, Nd, Rank, broadcast_shape, check_size, common_len};
use dl_core::{
    Along, At, BuiltIn, DType, Deltas, Differentiable, Layer, Primitive, Result, Trainable, Weight, buffers,
};
use ndarray::{DimMax, Ix0};
use std::marker::PhantomData;

/// A tensor, or a number as a tensor of one element: an operand of comparisons and of [`where_`].
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, where_};
/// let x = where_(Nd::from([true, false]), Nd::from([1.0, 2.0]), 0.0);
/// assert_eq!(x.predict().wait()?, Nd::from([1.0, 0.0]));
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor of `{A}` nor a number of that type",
    note = "tensors (`Nd`), their weights and layers are, and plain numbers; `f32` and `f64` do not mix"
)]
pub trait Comparand<A: Item> {
    /// The rank of the tensor; 0 for a number.
    type Rank: Rank;

    /// Converts it to a layer.
    #[track_caller]
    fn into_comparand(self) -> Layer<Nd<A, Self::Rank>>;
}

macro_rules! comparands {
    ($($Bound:ident: $($X:ty),*;)*) => {$($(
        impl<A: $Bound, D: Rank> Comparand<A> for $X {
            type Rank = D;

            #[track_caller]
            fn into_comparand(self) -> Layer<Nd<A, D>> {
                self.into_layer()
            }
        }
    )*)*};
}

comparands! {
    Item: Nd<A, D>, &Nd<A, D>, Layer<Nd<A, D>>, &Layer<Nd<A, D>>;
    Element: Weight<Nd<A, D>>, &Weight<Nd<A, D>>;
}

impl<A: Item> Comparand<A> for A {
    type Rank = Ix0;

    #[track_caller]
    fn into_comparand(self) -> Layer<Nd<A, Ix0>> {
        Layer::constant(Nd::full((), self))
    }
}

macro_rules! number_comparands {
    ($($X:ty),*) => {$(
        impl<A: Element> Comparand<A> for $X {
            type Rank = Ix0;

            #[track_caller]
            fn into_comparand(self) -> Layer<Nd<A, Ix0>> {
                fill(&self.into_layer(), Ix0())
            }
        }
    )*};
}

number_comparands!(Layer<A>, &Layer<A>, Weight<A>, &Weight<A>);

type Joint<D, C, A> = <D as DimMax<<C as Comparand<A>>::Rank>>::Output;

macro_rules! comparisons {
    ($($(#[doc = $doc:literal])+ $Op:ident $name:ident $op:tt: $example:literal;)*) => {
        impl Comparison {
            fn name(self) -> &'static str {
                match self {
                    $(Comparison::$Op => stringify!($name),)*
                    Comparison::Both => "logical_and",
                    Comparison::Either => "logical_or",
                }
            }

            #[inline(always)]
            fn compute<A: Item + PartialOrd>(self, a: &[A], b: &[A], to: &mut [bool]) {
                let all = to.iter_mut().zip(a.iter().zip(b));
                match self {
                    $(Comparison::$Op => for (to, (a, b)) in all { *to = a $op b },)*
                    Comparison::Both => for (to, (a, b)) in all { *to = a.order_key() & b.order_key() != 0 },
                    Comparison::Either => for (to, (a, b)) in all { *to = a.order_key() | b.order_key() != 0 },
                }
            }
        }

        /// Elementwise comparisons with a tensor or a number. The operands broadcast. The results
        /// are masks: tensors of `bool`, through which no gradient flows.
        ///
        /// ```
        /// use dl_core::Differentiable;
        /// use dl_nd::{CompareOps, Nd};
        /// assert_eq!(Nd::from([1.0, 2.0]).greater(1.5).predict().wait()?, Nd::from([false, true]));
        /// # dl_core::Result::Ok(())
        /// ```
        pub trait CompareOps<A: Item + PartialOrd, D: Rank>: Differentiable<Data = Nd<A, D>> {
            $(
                $(#[doc = $doc])+
                ///
                #[doc = concat!(
                    "```\n# use dl_core::Differentiable; use dl_nd::{CompareOps, Nd};\n",
                    "assert_eq!(Nd::from([1.0, 2.0, 3.0]).", stringify!($name), "(2.0).predict().wait()?, Nd::from(", $example,
                    "));\n# dl_core::Result::Ok(())\n```"
                )]
                ///
                /// # Errors
                /// A shape error when the shapes do not broadcast.
                #[track_caller]
                fn $name<C: Comparand<A>>(&self, other: C) -> Layer<Nd<bool, Joint<D, C, A>>>
                where
                    D: DimMax<C::Rank>,
                    Joint<D, C, A>: Rank,
                {
                    compare(Comparison::$Op, &self.layer(), &other.into_comparand())
                }
            )*
        }
    };
}

comparisons! {
    /// `self < other`.
    Less less <: "[true, false, false]";
    /// `self ≤ other`.
    LessEqual less_equal <=: "[true, true, false]";
    /// `self > other`.
    Greater greater >: "[false, false, true]";
    /// `self ≥ other`.
    GreaterEqual greater_equal >=: "[false, true, true]";
    /// `self = other`.
    Equal equal ==: "[false, true, false]";
    /// `self ≠ other`.
    NotEqual not_equal !=: "[true, false, true]";
}

impl<X, A: Item + PartialOrd, D: Rank> CompareOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

/// Logical operations on masks. The operands broadcast.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{CompareOps, MaskOps, Nd};
/// let x = Nd::from([-1.0, 1.0, 5.0]);
/// let small = x.greater(0.0).logical_and(x.less(2.0));
/// assert_eq!(small.predict().wait()?, Nd::from([false, true, false]));
/// # dl_core::Result::Ok(())
/// ```
pub trait MaskOps<D: Rank>: Differentiable<Data = Nd<bool, D>> {
    /// True where this mask is false.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MaskOps, Nd};
    /// assert_eq!(Nd::from([true, false]).logical_not().predict().wait()?, Nd::from([false, true]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn logical_not(&self) -> Layer<Nd<bool, D>> {
        is_equal(&self.layer(), false)
    }

    /// True where both masks are true.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MaskOps, Nd};
    /// assert_eq!(Nd::from([true, true]).logical_and(Nd::from([true, false])).predict().wait()?, Nd::from([true, false]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the shapes do not broadcast.
    #[track_caller]
    fn logical_and<M, E>(&self, other: M) -> Layer<Nd<bool, <D as DimMax<E>>::Output>>
    where
        M: Differentiable<Data = Nd<bool, E>>,
        D: DimMax<E>,
        E: Rank,
        <D as DimMax<E>>::Output: Rank,
    {
        compare(Comparison::Both, &self.layer(), &other.layer())
    }

    /// True where at least one of the masks is true.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{MaskOps, Nd};
    /// assert_eq!(Nd::from([false, true]).logical_or(Nd::from([false, false])).predict().wait()?, Nd::from([false, true]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the shapes do not broadcast.
    #[track_caller]
    fn logical_or<M, E>(&self, other: M) -> Layer<Nd<bool, <D as DimMax<E>>::Output>>
    where
        M: Differentiable<Data = Nd<bool, E>>,
        D: DimMax<E>,
        E: Rank,
        <D as DimMax<E>>::Output: Rank,
    {
        compare(Comparison::Either, &self.layer(), &other.layer())
    }
}

impl<X, D: Rank> MaskOps<D> for X where X: Differentiable<Data = Nd<bool, D>> {}

/// True where an element equals `number`.
#[track_caller]
pub(crate) fn is_equal<A: Item + PartialOrd, D: Rank>(x: &Layer<Nd<A, D>>, number: A) -> Layer<Nd<bool, D>> {
    compare_with(Comparison::Equal, x, number)
}

/// The comparison of each element with `number`.
#[track_caller]
pub(crate) fn compare_with<A: Item + PartialOrd, D: Rank>(
    op: Comparison,
    x: &Layer<Nd<A, D>>,
    number: A,
) -> Layer<Nd<bool, D>> {
    let number = Layer::constant(Nd::single(number));
    Layer::apply_built_in(Compare { op, types: PhantomData }, (x.clone(), number))
}

#[track_caller]
fn compare<A: Item + PartialOrd, D: Rank + DimMax<E>, E: Rank>(
    op: Comparison,
    a: &Layer<Nd<A, D>>,
    b: &Layer<Nd<A, E>>,
) -> Layer<Nd<bool, <D as DimMax<E>>::Output>>
where
    <D as DimMax<E>>::Output: Rank,
{
    Layer::apply_built_in(Compare { op, types: PhantomData }, (lift(a), lift(b)))
}

/// An operand of a program for a device: a tensor there, or a number on the host.
pub(crate) fn load<A: Item, D: Rank>(program: &mut Program, x: &Nd<A, D>) -> Result<usize> {
    Ok(match x.0.on_device()? {
        Some(view) => program.load(view),
        None => program.number(x.0.first().expect("one element").device_number()),
    })
}

#[derive(Clone)]
struct Compare<A, D> {
    op: Comparison,
    types: PhantomData<(A, D)>,
}

impl<A: Item + PartialOrd, D: Rank> Primitive for Compare<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<A, D>>);
    type Output = Nd<bool, D>;

    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn value(&self, (a, b): (&Nd<A, D>, &Nd<A, D>)) -> Result<Nd<bool, D>> {
        let shape: D = broadcast_shape(a.shape(), b.shape())?;
        check_size::<bool>(shape.slice())?;
        if let Some(device) = common_place([(a.0.device(), a.len()), (b.0.device(), b.len())])? {
            let mut program = Program::new(A::ON_DEVICE.expect("it has been moved"));
            let (a, b) = (load(&mut program, a)?, load(&mut program, b)?);
            program.compare(self.op, a, b);
            return program.run(device, DType::Bool, shape.slice()).map(Nd::from_view);
        }
        let (a, b) = (Operand::of(a, shape.slice()), Operand::of(b, shape.slice()));
        let mask = map_blocks(
            buffers::take_filled(shape.size()),
            (&a, &b, &b),
            #[inline(always)]
            |a, b, _, to| self.op.compute(a, b, to),
        );
        Ok(Nd::from_elements(shape, mask))
    }

    fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
        (None, None)
    }

    fn cost(&self, (a, b): (&Nd<A, D>, &Nd<A, D>)) -> f64 {
        200.0 + common_len(&[a.shape(), b.shape()])
    }
}

impl<A: Item + PartialOrd, D: Rank> BuiltIn for Compare<A, D> {}

/// The element of `a` where the mask is true, the element of `b` where it is false. `a` and `b` may
/// be numbers. All three operands broadcast.
///
/// The element that is not selected does not affect the result, even if it is infinite or NaN, and
/// its delta is 0. A delta of 0 annihilates: it is 0 in the operands of pointwise operations, however
/// steep these are there. In PyTorch it may become NaN.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_nd::{CompareOps, Nd, ReduceOps, where_};
/// let w = Weight::new(Nd::from([-1.0_f64, 4.0]));
/// let root = where_(w.greater(0.0), w.sqrt(), 0.0);
/// assert_eq!(root.predict().wait()?, Nd::from([0.0, 2.0]));
/// assert_eq!(root.sum().gradient(&w).predict().wait()?, Nd::from([0.0, 0.25]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// A shape error when the shapes do not broadcast.
#[track_caller]
pub fn where_<A, M, L, R, D>(mask: M, a: L, b: R) -> Layer<Nd<A, Choice<D, L, R, A>>>
where
    A: Element,
    D: Rank + DimMax<L::Rank>,
    M: Differentiable<Data = Nd<bool, D>>,
    L: Comparand<A>,
    R: Comparand<A>,
    Joint<D, L, A>: DimMax<R::Rank>,
    Choice<D, L, R, A>: Rank,
{
    let (a, b) = (a.into_comparand(), b.into_comparand());
    choose(lift(&mask.into_layer()), lift(&a), lift(&b))
}

/// [`where_`] for three operands of the same rank.
#[track_caller]
pub(crate) fn choose<A: Element, D: Rank>(
    mask: Layer<Nd<bool, D>>,
    a: Layer<Nd<A, D>>,
    b: Layer<Nd<A, D>>,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Where(PhantomData), (mask, a, b))
}

type Choice<D, L, R, A> = <Joint<D, L, A> as DimMax<<R as Comparand<A>>::Rank>>::Output;

#[derive(Clone)]
struct Where<A, D>(PhantomData<(A, D)>);

impl<A: Element, D: Rank> Primitive for Where<A, D> {
    type Operands = (Layer<Nd<bool, D>>, Layer<Nd<A, D>>, Layer<Nd<A, D>>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "where"
    }

    fn value(&self, (mask, a, b): (&Nd<bool, D>, &Nd<A, D>, &Nd<A, D>)) -> Result<Nd<A, D>> {
        let shape: D = broadcast_shape(a.shape(), b.shape())?;
        let shape: D = broadcast_shape(mask.shape(), shape.slice())?;
        check_size::<A>(shape.slice())?;
        let places = [(mask.0.device(), mask.len()), (a.0.device(), a.len()), (b.0.device(), b.len())];
        if let Some(device) = common_place(places)? {
            let mut program = Program::new(A::ELEMENT);
            let mask = load(&mut program, mask)?;
            let (a, b) = (load(&mut program, a)?, load(&mut program, b)?);
            program.select(mask, a, b);
            return program.run(device, A::ELEMENT, shape.slice()).map(Nd::from_view);
        }
        let (a, b) = (Operand::of(a, shape.slice()), Operand::of(b, shape.slice()));
        let mask = Operand::of(mask, shape.slice());
        let choice = map_blocks(
            buffers::take_filled(shape.size()),
            (&mask, &a, &b),
            #[inline(always)]
            |mask, a, b, to| {
                for (to, (&mask, (&a, &b))) in to.iter_mut().zip(mask.iter().zip(a.iter().zip(b))) {
                    *to = if mask { a } else { b };
                }
            },
        );
        Ok(Nd::from_elements(shape, choice))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let (mask, zero) = (&at.operands.0, Layer::constant(Nd::single(A::zero())));
        let chosen = |a: &Layer<Nd<A, D>>, b: &Layer<Nd<A, D>>, to: D| {
            let delta = choose(mask.clone(), a.clone(), b.clone());
            Some(sum_to(delta, at.value.shape(), to))
        };
        (None, chosen(at.delta, &zero, at.values.1.dim()), chosen(&zero, at.delta, at.values.2.dim()))
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let (_, a, b) = along.tangents;
        let or_zero = |tangent: &Option<Layer<_>>, x: &Nd<A, D>| {
            tangent.clone().unwrap_or_else(|| Layer::constant(x.zeros_like()))
        };
        Some(choose(along.operands.0.clone(), or_zero(a, along.values.1), or_zero(b, along.values.2)))
    }

    fn cost(&self, (mask, a, b): (&Nd<bool, D>, &Nd<A, D>, &Nd<A, D>)) -> f64 {
        200.0 + common_len(&[mask.shape(), a.shape(), b.shape()])
    }
}

impl<A: Element, D: Rank> BuiltIn for Where<A, D> {
    const IS_PURE: bool = true;
}
