//! Features brought to one scale.

use dl_core::{Error, Result};
use dl_nd::ndarray::Axis;
use dl_nd::{Element, Nd, Rank};

/// Brings each feature to mean 0 and standard deviation 1: the mean and the deviation are those of
/// the training part, and are then used for all parts.
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
    /// The mean and the standard deviation (that of the whole population) of each feature. Features
    /// are numbered along `axis`: 1 for `[rows, features]` and for
    /// `[images, channels, height, width]`. A feature that is constant is only moved to 0.
    ///
    /// # Errors
    /// When there is no such axis, there are no numbers, or one is not finite.
    pub fn fit<A: Element + Into<f64>, D: Rank>(data: &Nd<A, D>, axis: usize) -> Result<Self> {
        check_axis(data, axis)?;
        if data.is_empty() {
            return Err(Error::invalid(format!(
                "a tensor of shape {:?} has no mean: it holds no numbers",
                data.shape()
            )));
        }
        let (mut mean, mut deviation) = (Vec::new(), Vec::new());
        for (feature, numbers) in data.view().into_dyn().axis_iter(Axis(axis)).enumerate() {
            if let Some(bad) = numbers.iter().find(|x| !x.is_finite()) {
                return Err(Error::not_finite(format!(
                    "feature {feature} holds {bad}: replace such numbers, or leave out the samples that have them"
                )));
            }
            // differences from one of them: of a constant feature nothing is left, not even by
            // rounding
            let (n, origin) = (numbers.len() as f64, numbers.first().map_or(0.0, |&x| x.into()));
            let of_feature = numbers.iter().map(|&x| x.into() - origin).sum::<f64>() / n;
            let variance = numbers.iter().map(|&x| (x.into() - origin - of_feature).powi(2)).sum::<f64>() / n;
            mean.push(origin + of_feature);
            deviation.push(variance.sqrt());
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

    /// The same numbers on the common scale. In a single sample the axis of the features is one
    /// less.
    ///
    /// # Errors
    /// When there are more features along this axis than there were, or fewer.
    pub fn apply<A: Element + Into<f64>, D: Rank>(&self, data: &Nd<A, D>, axis: usize) -> Result<Nd<A, D>> {
        check_axis(data, axis)?;
        if data.shape()[axis] != self.mean.len() {
            let (shape, features) = (data.shape(), self.mean.len());
            return Err(Error::shape(format!("axis {axis} of the shape {shape:?}: there were {features} features")));
        }
        let mut scaled = data.view().into_dyn().to_owned();
        let features = scaled.axis_iter_mut(Axis(axis)).zip(self.mean.iter().zip(&self.deviation));
        for (mut numbers, (mean, deviation)) in features {
            let scale = if *deviation > 0.0 { *deviation } else { 1.0 };
            numbers.mapv_inplace(|x| A::of((x.into() - mean) / scale));
        }
        let scaled = scaled.into_dimensionality().map_err(|error| Error::shape(error.to_string()))?;
        Ok(scaled.into())
    }
}

fn check_axis<A: Element, D: Rank>(data: &Nd<A, D>, axis: usize) -> Result<()> {
    if axis < data.shape().len() {
        return Ok(());
    }
    Err(Error::shape(format!("there is no axis {axis} in the shape {:?}", data.shape())))
}

/// Bytes as numbers between 0 and 1, as images are fed to a network.
///
/// ```
/// use dl_nd::Nd;
/// assert_eq!(dl_data::unit(&Nd::from([0_u8, 51, 255])), Nd::from([0.0, 0.2, 1.0]));
/// ```
pub fn unit<D: Rank>(bytes: &Nd<u8, D>) -> Nd<f32, D> {
    bytes.view().mapv(|byte| f32::from(byte) / 255.0).into()
}
