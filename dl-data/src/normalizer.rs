//! Standardization of features.

use dl_core::{Error, Result};
use dl_nd::ndarray::Axis;
use dl_nd::{Element, Nd, Rank};

/// Scales each feature to mean 0 and standard deviation 1. Fit it on the training part and apply it
/// to all parts.
///
/// ```
/// use dl_data::Normalizer;
/// use dl_nd::Nd;
/// let (train, test) = (Nd::from([[1.0_f32, 10.0], [3.0, 30.0]]), Nd::from([[2.0_f32, 40.0]]));
/// let normalizer = Normalizer::fit(&train, 1)?;
/// assert_eq!(normalizer.apply(&train, 1)?, Nd::from([[-1.0, -1.0], [1.0, 1.0]]));
/// assert_eq!(normalizer.apply(&test, 1)?, Nd::from([[0.0, 2.0]]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Normalizer {
    mean: Vec<f64>,
    deviation: Vec<f64>,
}

impl Normalizer {
    /// Computes the mean and the population standard deviation of each feature. `axis` is the axis
    /// of the features: 1 for `[rows, features]` and for `[images, channels, height, width]`. A
    /// negative axis counts from the last one. A
    /// constant feature has deviation 0 and is only shifted.
    ///
    /// # Errors
    /// When `axis` is out of range, the tensor is empty, or an element is not finite.
    pub fn fit<A: Element + Into<f64>, D: Rank>(data: &Nd<A, D>, axis: isize) -> Result<Self> {
        let axis = checked_axis(data, axis)?;
        if data.is_empty() {
            return Err(Error::invalid(format!(
                "a tensor of shape {:?} has no mean: it has no elements",
                data.shape()
            )));
        }
        let (mut mean, mut deviation) = (Vec::new(), Vec::new());
        for (feature, numbers) in data.view().into_dyn().axis_iter(Axis(axis)).enumerate() {
            if let Some(bad) = numbers.iter().find(|x| !x.is_finite()) {
                return Err(Error::not_finite(format!(
                    "feature {feature} has the element {bad}: replace such elements, or leave out their samples"
                )));
            }
            // In units of the largest magnitude if a square would overflow or underflow. Sums of
            // differences from the first element: for a constant feature they are exactly 0.
            let most = numbers.iter().fold(0.0, |most: f64, &x| most.max(x.into().abs()));
            let unit = if (1e-150..=1e150).contains(&most) { 1.0 } else { f64::max(most, f64::MIN_POSITIVE) };
            let (n, origin) = (numbers.len() as f64, numbers.first().map_or(0.0, |&x| x.into()) / unit);
            let mean_difference = numbers.iter().map(|&x| x.into() / unit - origin).sum::<f64>() / n;
            let variance =
                numbers.iter().map(|&x| (x.into() / unit - origin - mean_difference).powi(2)).sum::<f64>() / n;
            mean.push((origin + mean_difference) * unit);
            deviation.push(variance.sqrt() * unit);
        }
        Ok(Normalizer { mean, deviation })
    }

    /// The mean of each feature.
    ///
    /// ```
    /// let normalizer = dl_data::Normalizer::fit(&dl_nd::Nd::from([[1.0_f32], [3.0]]), 1)?;
    /// assert_eq!((normalizer.mean(), normalizer.deviation()), (&[2.0][..], &[1.0][..]));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The standard deviation of each feature.
    ///
    /// ```
    /// let normalizer = dl_data::Normalizer::fit(&dl_nd::Nd::from([[1.0_f32], [3.0]]), 1)?;
    /// assert_eq!(normalizer.deviation(), [1.0]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn deviation(&self) -> &[f64] {
        &self.deviation
    }

    /// Scales `data`. `axis` is the axis of the features; in a single sample it is one less than in
    /// a batch.
    ///
    /// # Errors
    /// When `axis` is out of range, or its length differs from the number of fitted features.
    pub fn apply<A: Element + Into<f64>, D: Rank>(&self, data: &Nd<A, D>, axis: isize) -> Result<Nd<A, D>> {
        let axis = checked_axis(data, axis)?;
        if data.shape()[axis] != self.mean.len() {
            let (shape, features) = (data.shape(), self.mean.len());
            return Err(Error::shape(format!(
                "axis {axis} of shape {shape:?} must have {features} features, as when fitted"
            )));
        }
        let mut scaled = data.view().into_dyn().to_owned();
        let features = scaled.axis_iter_mut(Axis(axis)).zip(self.mean.iter().zip(&self.deviation));
        for (mut numbers, (mean, deviation)) in features {
            let scale = if *deviation > 0.0 { *deviation } else { 1.0 };
            numbers.mapv_inplace(|x| {
                let difference: f64 = x.into() - mean;
                A::of(if difference.is_finite() { difference / scale } else { x.into() / scale - mean / scale })
            });
        }
        Ok(scaled.into_dimensionality().expect("the same rank").into())
    }
}

/// The axis, counted from the first.
fn checked_axis<A: Element, D: Rank>(data: &Nd<A, D>, axis: isize) -> Result<usize> {
    let axes = data.shape().len();
    let from_first = if axis < 0 { axis.checked_add_unsigned(axes) } else { Some(axis) };
    from_first
        .and_then(|axis| usize::try_from(axis).ok())
        .filter(|&axis| axis < axes)
        .ok_or_else(|| Error::shape(format!("axis {axis} is out of range for shape {:?}", data.shape())))
}

/// Maps bytes to numbers from 0 to 1, for images. The shape stays the same.
///
/// ```
/// use dl_nd::Nd;
/// assert_eq!(dl_data::unit(&Nd::from([0_u8, 51, 255])), Nd::from([0.0, 0.2, 1.0]));
/// ```
pub fn unit<D: Rank>(bytes: &Nd<u8, D>) -> Nd<f32, D> {
    bytes.view().mapv(|byte| f32::from(byte) / 255.0).into()
}
