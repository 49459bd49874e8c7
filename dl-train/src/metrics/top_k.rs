//! Top-k accuracy.

use super::{check_class, check_classes, fraction};
use dl_core::{Error, Result};

/// The fraction of samples with the true class among the `k` highest scores. Of equal scores, the
/// one of the lower class index ranks higher.
///
/// ```
/// let mut top = dl_train::metrics::TopK::new(2, 3)?;
/// top.add(&[0.1, 0.7, 0.2, 0.6, 0.3, 0.1], &[2, 2])?; // two samples, three scores for each
/// assert_eq!(top.value()?, 0.5);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct TopK {
    k: usize,
    classes: usize,
    right: usize,
    samples: usize,
}

impl TopK {
    /// A top-`k` accuracy over `classes` classes, without samples.
    ///
    /// # Errors
    /// When `k` is 0 or greater than `classes`.
    pub fn new(k: usize, classes: usize) -> Result<TopK> {
        check_classes(classes)?;
        if k == 0 || k > classes {
            return Err(Error::invalid(format!("top {k} of {classes} classes: k must be 1 to {classes}")));
        }
        Ok(TopK { k, classes, right: 0, samples: 0 })
    }

    /// Adds a batch of scores `[samples, classes]`, row-major, and the true labels, one per sample.
    ///
    /// # Errors
    /// When the number of scores is not `labels.len() * classes`, a label is out of range, or a
    /// score is NaN; then nothing was added.
    pub fn add<A: Copy + Into<f64>>(&mut self, scores: &[A], labels: &[usize]) -> Result<()> {
        if labels.len().checked_mul(self.classes) != Some(scores.len()) {
            let (scores, labels, classes) = (scores.len(), labels.len(), self.classes);
            return Err(Error::shape(format!(
                "{scores} scores for {labels} labels: each label needs {classes} scores"
            )));
        }
        let mut right = 0;
        for (sample, (row, &label)) in scores.chunks(self.classes).zip(labels).enumerate() {
            check_class("the label", label, self.classes, sample)?;
            let row: Vec<f64> = row.iter().map(|&score| score.into()).collect();
            if let Some(class) = row.iter().position(|score| score.is_nan()) {
                return Err(Error::not_finite(format!("the score of class {class} of sample {sample} is NaN")));
            }
            let score = row[label];
            let better = |&(class, &other): &(usize, &f64)| other > score || other == score && class < label;
            right += usize::from(row.iter().enumerate().filter(better).count() < self.k);
        }
        self.right += right;
        self.samples += labels.len();
        Ok(())
    }

    /// The top-k accuracy, from 0 to 1.
    ///
    /// # Errors
    /// When no samples were added.
    pub fn value(&self) -> Result<f64> {
        fraction(self.right, self.samples)
    }
}
