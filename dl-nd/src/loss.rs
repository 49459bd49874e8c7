//! Losses.

use crate::element::{Element, HasRank, Nothing, Rank};
use crate::index::Indices;
use crate::nd::Nd;
use crate::reduce::spread;
use crate::softmax::{exp_sum, softmax};
use dl_core::{At, Binary, Differentiable, Error, Layer, Pointwise, Primitive, Result};
use ndarray::{Array, Ix1, Ix2};
use std::marker::PhantomData;

/// Losses: how far a tensor is from what it should be.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{LossOps, Nd};
/// let loss = Nd::from([[0.0_f64, 0.0]]).cross_entropy([1]);
/// assert_eq!(loss.predict().wait()?, 2.0_f64.ln());
/// # dl_core::Result::Ok(())
/// ```
pub trait LossOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// The mean over a batch of `−ln softmax(logits)[label]`: logits of shape `[batch, classes]`, one label for each row.
    /// This is PyTorch's `cross_entropy` with its default settings.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, LossOps};
    /// let logits = Nd::from([[0.0_f64, 0.0], [0.0, 0.0]]);
    /// assert_eq!(logits.cross_entropy([0, 1]).predict().wait()?, 2.0_f64.ln());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there are more or fewer labels than rows, the batch is empty, or a label is not below the number of classes.
    #[track_caller]
    fn cross_entropy(&self, labels: impl Indices<Rank = Ix1>) -> Layer<A>
    where
        D: HasRank<2>,
    {
        cross_entropy(self.layer(), labels.into_indices())
    }
}

impl<X, A: Element, D: Rank> LossOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

fn check_labels<'a>(labels: impl IntoIterator<Item = &'a usize>, classes: usize) -> Result<()> {
    match labels.into_iter().enumerate().find(|&(_, &label)| label >= classes) {
        None => Ok(()),
        Some((index, label)) => {
            Err(Error::invalid(format!("label {label} at index {index} is not below the number of classes, {classes}")))
        }
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
pub fn one_hot<A: Element>(labels: impl IntoIterator<Item = usize>, classes: usize) -> Result<Nd<A, Ix2>> {
    let labels: Vec<usize> = labels.into_iter().collect();
    check_labels(&labels, classes)?;
    let mut array = Array::from_elem((labels.len(), classes), A::of(0.0));
    for (row, &label) in labels.iter().enumerate() {
        array[[row, label]] = A::of(1.0);
    }
    Ok(array.into())
}

#[track_caller]
pub(crate) fn cross_entropy<A: Element, D: HasRank<2>>(
    logits: Layer<Nd<A, D>>,
    labels: Layer<Nd<usize, Ix1>>,
) -> Layer<A> {
    Layer::apply(CrossEntropy(PhantomData), (logits, labels))
}

struct CrossEntropy<A, D>(PhantomData<(A, D)>);

impl<A: Element, D: HasRank<2>> Primitive for CrossEntropy<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<usize, Ix1>>);
    type Output = A;

    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn value(&self, (logits, labels): (&Nd<A, D>, &Nd<usize, Ix1>)) -> Result<A> {
        let (labels, shape) = (&labels.0, logits.shape());
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
        check_labels(labels, shape[1])?;
        let losses = matrix.rows().into_iter().zip(labels.iter()).map(|(row, &label)| {
            let (max, sum) = exp_sum(row, |_, _| ());
            sum.ln() + max - row[label]
        });
        Ok(losses.fold(A::of(0.0), |total, loss| total + loss) / A::of(labels.len() as f64))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<Nothing, Ix1>>>) {
        // (softmax − one_hot) · d / batch
        let [batch, classes] = [at.values.0.shape()[0], at.values.0.shape()[1]];
        let target = one_hot(at.values.1.0.iter().copied(), classes).expect("the labels were looked at");
        let target = target.0.into_dimensionality().expect("a matrix").into();
        let excess = Nd::binary(Binary::Sub, &softmax(at.operands.0.clone(), 1), &Layer::constant(target));
        let each = A::with_number(Binary::Div, at.delta, batch as f64, false);
        (Some(Nd::binary(Binary::Mul, &excess, &spread(&each))), None)
    }

    fn cost(&self, (logits, _): (&Nd<A, D>, &Nd<usize, Ix1>)) -> f64 {
        200.0 + 5.0 * logits.len() as f64
    }
}
