//! Losses, and the labels that they compare with.

use crate::element::{Element, HasRank};
use crate::nd::Nd;
use crate::reduce::spread;
use crate::softmax::{exp_sum, softmax};
use dl_core::{At, Binary, Error, Layer, Pointwise, Primitive, Result};
use ndarray::{Array, Ix2};
use std::marker::PhantomData;
use std::sync::Arc;

/// The classes that the rows of a batch belong to, each a number from 0.
///
/// Made from `usize`s in an array, a slice or a `Vec`, or from a single one.
///
/// ```
/// use dl_nd::Labels;
/// assert_eq!(Labels::from([3, 1]), Labels::from(vec![3, 1]));
/// assert_eq!(Labels::from(&[3, 1][..]).as_slice(), [3, 1]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels(Arc<[usize]>);

impl Labels {
    /// The numbers of the classes.
    ///
    /// ```
    /// assert_eq!(dl_nd::Labels::from(7).as_slice(), [7]);
    /// ```
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    fn check(&self, classes: usize) -> Result<()> {
        match self.0.iter().enumerate().find(|&(_, &label)| label >= classes) {
            None => Ok(()),
            Some((index, label)) => Err(Error::invalid(format!(
                "label {label} at index {index} is not below the number of classes, {classes}"
            ))),
        }
    }
}

impl From<usize> for Labels {
    fn from(label: usize) -> Self {
        Labels(Arc::new([label]))
    }
}

impl From<&[usize]> for Labels {
    fn from(labels: &[usize]) -> Self {
        Labels(labels.into())
    }
}

impl<const N: usize> From<[usize; N]> for Labels {
    fn from(labels: [usize; N]) -> Self {
        Labels(Arc::new(labels))
    }
}

impl<const N: usize> From<&[usize; N]> for Labels {
    fn from(labels: &[usize; N]) -> Self {
        Labels(Arc::new(*labels))
    }
}

impl From<Vec<usize>> for Labels {
    fn from(labels: Vec<usize>) -> Self {
        Labels(labels.into())
    }
}

impl From<&Vec<usize>> for Labels {
    fn from(labels: &Vec<usize>) -> Self {
        Labels(labels.as_slice().into())
    }
}

impl From<&Labels> for Labels {
    fn from(labels: &Labels) -> Self {
        labels.clone()
    }
}

/// Labels as a tensor of shape `[labels, classes]`: 1 at the label of each row, 0 elsewhere.
///
/// ```
/// use dl_nd::{Nd, one_hot};
/// assert_eq!(one_hot::<f32>([2, 0], 3)?, Nd::from([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When a label is not below `classes`.
pub fn one_hot<A: Element>(labels: impl Into<Labels>, classes: usize) -> Result<Nd<A, Ix2>> {
    let labels = labels.into();
    labels.check(classes)?;
    let mut array = Array::from_elem((labels.0.len(), classes), A::of(0.0));
    for (row, &label) in labels.0.iter().enumerate() {
        array[[row, label]] = A::of(1.0);
    }
    Ok(array.into())
}

#[track_caller]
pub(crate) fn cross_entropy<A: Element, D: HasRank<2>>(logits: Layer<Nd<A, D>>, labels: Labels) -> Layer<A> {
    Layer::apply(CrossEntropy { labels, types: PhantomData }, (logits,))
}

struct CrossEntropy<A, D> {
    labels: Labels,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: HasRank<2>> Primitive for CrossEntropy<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = A;

    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn value(&self, (logits,): (&Nd<A, D>,)) -> Result<A> {
        let (labels, shape) = (&self.labels.0, logits.shape());
        let Ok(matrix) = logits.0.view().into_dimensionality::<Ix2>() else {
            return Err(Error::shape(format!("logits of shape {shape:?} instead of [batch, classes]")));
        };
        if labels.len() != shape[0] {
            let (labels, rows) = (labels.len(), shape[0]);
            return Err(Error::shape(format!("{labels} labels for logits of shape {shape:?}, which have {rows} rows")));
        }
        if labels.is_empty() {
            return Err(Error::shape(format!("the mean over an empty batch, of shape {shape:?}")));
        }
        self.labels.check(shape[1])?;
        let losses = matrix.rows().into_iter().zip(labels.iter()).map(|(row, &label)| {
            let (max, sum) = exp_sum(row, |_, _| ());
            sum.ln() + max - row[label]
        });
        Ok(losses.fold(A::of(0.0), |total, loss| total + loss) / A::of(labels.len() as f64))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        // (softmax − one_hot) · d / batch
        let [batch, classes] = [at.values.0.shape()[0], at.values.0.shape()[1]];
        let target = one_hot(&self.labels, classes).expect("the labels were looked at");
        let target = target.0.into_dimensionality().expect("a matrix").into();
        let excess = Nd::binary(Binary::Sub, &softmax(at.operands.0.clone(), 1), &Layer::constant(target));
        let each = A::with_number(Binary::Div, at.delta, batch as f64, false);
        (Some(Nd::binary(Binary::Mul, &excess, &spread(&each))),)
    }

    fn cost(&self, (logits,): (&Nd<A, D>,)) -> f64 {
        200.0 + 5.0 * logits.len() as f64
    }
}
