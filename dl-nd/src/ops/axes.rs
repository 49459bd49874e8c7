//! Arguments that select axes.

use crate::tensor::Rank;
use dl_core::{Error, Result};
use ndarray::{Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6, IxDyn};
use std::ops::RangeFull;

/// One or more axes of a tensor of rank `D`. A negative number counts from the end: −1 is the last
/// axis.
///
/// A function that is generic in the rank requires it as `where isize: Axes<D>`.
///
/// | argument | axes | rank after removal |
/// |---|---|---|
/// | `1` | this axis | one less |
/// | `[0, -1]` | these axes | less by their number |
/// | `..` | all axes | 0 |
/// | a slice or a `Vec` | these axes | `IxDyn` |
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, ReduceOps};
/// let x = Nd::from([[[1.0, 2.0], [3.0, 4.0]]]);
/// assert_eq!(x.sum_axis(-1).predict().wait()?, Nd::from([[3.0, 7.0]]));
/// assert_eq!(x.sum_axis([0, 2]).predict().wait()?, Nd::from([3.0, 7.0]));
/// assert_eq!(x.sum_axis(vec![1]).predict().wait()?.shape(), [1, 2]);
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which axes of a tensor of rank `{D}` are meant",
    note = "write a number, as in `1` or `-1`, an array of no more numbers than there are axes, as in `[0, 2]`, or `..` for all"
)]
pub trait Axes<D: Rank> {
    /// The rank after these axes are removed.
    type Rest: Rank;

    /// The axes in a form that does not depend on the type of the argument.
    fn into_list(self) -> AxisList;
}

macro_rules! axes {
    ($($D:ty: isize => $One:ty $(, $N:literal => $Rest:ty)*;)*) => {$(
        impl Axes<$D> for isize {
            type Rest = $One;

            fn into_list(self) -> AxisList {
                AxisList(AxisSelection::These(Box::new([self])))
            }
        }

        $(impl Axes<$D> for [isize; $N] {
            type Rest = $Rest;

            fn into_list(self) -> AxisList {
                AxisList(AxisSelection::These(Box::new(self)))
            }
        })*
    )*};
}

axes! {
    Ix1: isize => Ix0, 1 => Ix0;
    Ix2: isize => Ix1, 1 => Ix1, 2 => Ix0;
    Ix3: isize => Ix2, 1 => Ix2, 2 => Ix1, 3 => Ix0;
    Ix4: isize => Ix3, 1 => Ix3, 2 => Ix2, 3 => Ix1, 4 => Ix0;
    Ix5: isize => Ix4, 1 => Ix4, 2 => Ix3, 3 => Ix2, 4 => Ix1, 5 => Ix0;
    Ix6: isize => Ix5, 1 => Ix5, 2 => Ix4, 3 => Ix3, 4 => Ix2, 5 => Ix1, 6 => Ix0;
    IxDyn: isize => IxDyn, 1 => IxDyn, 2 => IxDyn, 3 => IxDyn, 4 => IxDyn, 5 => IxDyn, 6 => IxDyn;
}

impl<D: Rank> Axes<D> for RangeFull {
    type Rest = Ix0;

    fn into_list(self) -> AxisList {
        AxisList(AxisSelection::All)
    }
}

impl<D: Rank> Axes<D> for &[isize] {
    type Rest = IxDyn;

    fn into_list(self) -> AxisList {
        AxisList(AxisSelection::These(self.into()))
    }
}

impl<D: Rank> Axes<D> for Vec<isize> {
    type Rest = IxDyn;

    fn into_list(self) -> AxisList {
        AxisList(AxisSelection::These(self.into()))
    }
}

/// An order of the axes of a tensor of rank `D`: all of them, each once. A negative number counts
/// from the end, as in [`Axes`].
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{MovementOps, Nd, Permutation, ndarray::Ix3};
/// fn shape(order: impl Permutation<Ix3>) -> dl_core::Result<Vec<usize>> {
///     Ok(Nd::<f32, Ix3>::full([2, 3, 4], 0.0).permute(order).predict().wait()?.shape().to_vec())
/// }
/// assert_eq!(shape([2, 0, 1])?, [4, 2, 3]);
/// assert_eq!(shape(vec![-1, 0, 1])?, [4, 2, 3]);
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an order of the axes of a tensor of rank `{D}`",
    note = "write an array with each axis once, as in `[1, 0]` or `[-1, 0, 1]`; numbers in variables are `isize`"
)]
pub trait Permutation<D: Rank> {
    /// The axes in their order.
    fn into_order(self) -> Vec<isize>;
}

macro_rules! permutations {
    ($([$($generics:tt)*] $T:ty, $D:ty;)*) => {$(
        impl<$($generics)*> Permutation<$D> for $T {
            fn into_order(self) -> Vec<isize> {
                self.into()
            }
        }
    )*};
}

permutations! {
    [] [isize; 1], Ix1;
    [] [isize; 2], Ix2;
    [] [isize; 3], Ix3;
    [] [isize; 4], Ix4;
    [] [isize; 5], Ix5;
    [] [isize; 6], Ix6;
    [const N: usize] [isize; N], IxDyn;
    [D: Rank] &[isize], D;
    [D: Rank] Vec<isize>, D;
}

/// A list of axes, which is resolved when the shape is known.
///
/// ```
/// use dl_nd::{Axes, AxisList, ndarray::Ix2};
/// let last: AxisList = Axes::<Ix2>::into_list(-1);
/// ```
#[derive(Clone, Debug)]
pub struct AxisList(AxisSelection);

#[derive(Clone, Debug)]
enum AxisSelection {
    All,
    These(Box<[isize]>),
    /// All axes but this one.
    AllBut(isize),
    /// The last axes, as many as given; at least one.
    Last(usize),
}

impl AxisList {
    pub(crate) fn one(axis: isize) -> Self {
        AxisList(AxisSelection::These(Box::new([axis])))
    }

    pub(crate) fn all_but(axis: isize) -> Self {
        AxisList(AxisSelection::AllBut(axis))
    }

    pub(crate) fn last(count: usize) -> Self {
        AxisList(AxisSelection::Last(count))
    }

    /// The axes as indices from the first axis, ascending.
    pub(crate) fn of(&self, shape: &[usize]) -> Result<Vec<usize>> {
        let rank = shape.len();
        let axes = match &self.0 {
            AxisSelection::All => return Ok((0..rank).collect()),
            AxisSelection::AllBut(axis) => {
                let axis = axis_of(*axis, shape)?;
                return Ok((0..rank).filter(|&other| other != axis).collect());
            }
            AxisSelection::Last(count) if (1..=rank).contains(count) => return Ok((rank - count..rank).collect()),
            AxisSelection::Last(count) => {
                return Err(Error::invalid(format!(
                    "the last {count} axes of a tensor of shape {shape:?}: their number must be 1 to {rank}"
                )));
            }
            AxisSelection::These(axes) => axes,
        };
        let mut found = axes.iter().map(|&axis| axis_of(axis, shape)).collect::<Result<Vec<usize>>>()?;
        found.sort_unstable();
        match found.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(Error::invalid(format!("{axes:?} names axis {} of a tensor of shape {shape:?} twice", pair[0])))
            }
            None => Ok(found),
        }
    }
}

/// The index of an axis, counted from the first.
pub(crate) fn axis_of(axis: isize, shape: &[usize]) -> Result<usize> {
    position_of(axis, shape.len()).ok_or_else(|| {
        Error::invalid(format!("axis {axis} of a tensor of shape {shape:?}, which has {} axes", shape.len()))
    })
}

/// The index, counted from the first, of a position that may be counted from the end; `count` is
/// the number of positions.
pub(crate) fn position_of(position: isize, count: usize) -> Option<usize> {
    let from_start = if position < 0 { position.checked_add_unsigned(count)? } else { position };
    usize::try_from(from_start).ok().filter(|&position| position < count)
}
