//! Helpers to evaluate layers and to compare tensors.

use dl_core::{Data, Differentiable, Layer};
use dl_nd::Nd;
use ndarray::{ArrayD, Axis, IxDyn, Slice};

pub(crate) type Open = Nd<f64, IxDyn>;

pub(crate) fn value<T: Data>(layer: &Layer<T>) -> T {
    layer.predict().wait().unwrap()
}

#[track_caller]
pub(crate) fn close(found: &Open, wanted: &Open, what: &str) {
    assert_eq!(found.shape(), wanted.shape(), "{what}");
    let same = |(a, b): (&f64, &f64)| a == b || (a - b).abs() < 1e-12;
    assert!(found.view().iter().zip(wanted.view()).all(same), "{what}: {found:?} instead of {wanted:?}");
}

/// The last `N` of the settings for three axes.
pub(crate) fn last<const N: usize>(all: [usize; 3]) -> [usize; N] {
    std::array::from_fn(|axis| all[3 - N + axis])
}

/// The same elements with other strides: the axes are stored in reverse order, and every second
/// element of memory is skipped.
pub(crate) fn strided(x: &Open) -> Open {
    let longer: Vec<usize> = x.shape().iter().rev().map(|&length| 2 * length).collect();
    let mut array = ArrayD::from_elem(longer, f64::NAN).into_shared();
    (0..array.ndim()).for_each(|axis| array.slice_axis_inplace(Axis(axis), Slice::from(..).step_by(2)));
    let mut array = array.reversed_axes();
    array.assign(&x.view());
    assert!(x.len() < 2 || !array.is_standard_layout());
    array.into()
}
