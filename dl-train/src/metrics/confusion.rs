//! The confusion matrix.

use super::{check_class, check_classes, check_same_len, fraction, no_samples};
use dl_core::{Error, Result};
use std::fmt;

/// The largest number of classes; more would make a matrix of gigabytes.
const MAX_CLASSES: usize = 1 << 14;

/// Counts of samples by true and predicted class.
///
/// ```
/// use dl_train::metrics::ConfusionMatrix;
/// let mut matrix = ConfusionMatrix::new(3)?;
/// matrix.add(&[0, 2, 1, 0], &[0, 2, 2, 0])?;
/// assert_eq!(matrix.count(2, 1), 1); // label 2, predicted 1
/// assert_eq!(matrix.accuracy()?, 0.75);
/// let third = matrix.of_class(2)?;
/// assert_eq!((third.precision, third.recall), (1.0, 0.5));
/// println!("{matrix}");
/// # dl_core::Result::Ok(())
/// ```
///
/// A precision or recall of 0 / 0 is 0, as with scikit-learn's `zero_division=0`. Averages include
/// classes without samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfusionMatrix {
    classes: usize,
    /// Row-major, with a row for each true class.
    counts: Vec<usize>,
}

/// Precision, recall and F1 of one class, or averages over classes.
///
/// ```
/// use dl_train::metrics::{ConfusionMatrix, Scores};
/// let mut matrix = ConfusionMatrix::new(2)?;
/// matrix.add(&[1, 1, 0, 0], &[1, 0, 0, 0])?;
/// let Scores { precision, recall, .. } = matrix.of_class(1)?;
/// assert_eq!((precision, recall), (0.5, 1.0));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Scores {
    /// The fraction of samples predicted as the class that belong to it.
    pub precision: f64,
    /// The fraction of samples of the class that are predicted as it.
    pub recall: f64,
    /// The harmonic mean of precision and recall.
    pub f1: f64,
}

impl ConfusionMatrix {
    /// A matrix for `classes` classes, without samples.
    ///
    /// # Errors
    /// When `classes` is 0 or greater than 16384.
    pub fn new(classes: usize) -> Result<ConfusionMatrix> {
        check_classes(classes)?;
        if classes > MAX_CLASSES {
            return Err(Error::invalid(format!(
                "a confusion matrix of {classes} classes: at most {MAX_CLASSES} are supported"
            )));
        }
        Ok(ConfusionMatrix { classes, counts: vec![0; classes * classes] })
    }

    /// Adds a batch of predicted classes and the true labels, one of each per sample.
    ///
    /// # Errors
    /// When the slices differ in length, or a class is out of range; then nothing was added.
    pub fn add(&mut self, predicted: &[usize], labels: &[usize]) -> Result<()> {
        check_same_len(predicted.len(), labels.len())?;
        for (sample, (&predicted, &label)) in predicted.iter().zip(labels).enumerate() {
            check_class("the prediction", predicted, self.classes, sample)?;
            check_class("the label", label, self.classes, sample)?;
        }
        for (predicted, label) in predicted.iter().zip(labels) {
            self.counts[label * self.classes + predicted] += 1;
        }
        Ok(())
    }

    /// The number of samples with this label and this prediction; 0 if a class is out of range.
    pub fn count(&self, label: usize, predicted: usize) -> usize {
        if label.max(predicted) < self.classes { self.counts[label * self.classes + predicted] } else { 0 }
    }

    /// The fraction of samples on the diagonal.
    ///
    /// # Errors
    /// When no samples were added.
    pub fn accuracy(&self) -> Result<f64> {
        fraction((0..self.classes).map(|class| self.count(class, class)).sum(), self.counts.iter().sum())
    }

    /// Precision, recall and F1 of a class.
    ///
    /// # Errors
    /// When `class` is out of range, or no samples were added.
    pub fn of_class(&self, class: usize) -> Result<Scores> {
        if class >= self.classes {
            return Err(Error::invalid(format!("class {class} is out of range for {} classes", self.classes)));
        }
        self.check_not_empty()?;
        Ok(self.scores(class))
    }

    /// The unweighted means of precision, recall and F1 over the classes.
    ///
    /// # Errors
    /// When no samples were added.
    ///
    /// ```
    /// let mut matrix = dl_train::metrics::ConfusionMatrix::new(2)?;
    /// matrix.add(&[0, 0, 0, 0], &[0, 0, 0, 1])?;
    /// assert_eq!(matrix.macro_average()?.recall, 0.5);
    /// assert_eq!(matrix.micro_average()?.recall, 0.75);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn macro_average(&self) -> Result<Scores> {
        self.check_not_empty()?;
        let mean = |part: fn(&Scores) -> f64| {
            (0..self.classes).map(|class| part(&self.scores(class))).sum::<f64>() / self.classes as f64
        };
        Ok(Scores { precision: mean(|s| s.precision), recall: mean(|s| s.recall), f1: mean(|s| s.f1) })
    }

    /// Precision, recall and F1 over all samples. With one label per sample, all three equal the
    /// accuracy.
    ///
    /// ```
    /// let mut matrix = dl_train::metrics::ConfusionMatrix::new(2)?;
    /// matrix.add(&[0, 0, 1, 1], &[0, 0, 0, 1])?;
    /// assert_eq!((matrix.micro_average()?.f1, matrix.accuracy()?), (0.75, 0.75));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When no samples were added.
    pub fn micro_average(&self) -> Result<Scores> {
        let accuracy = self.accuracy()?;
        Ok(Scores { precision: accuracy, recall: accuracy, f1: accuracy })
    }

    fn scores(&self, class: usize) -> Scores {
        let true_positives = self.count(class, class);
        let labelled: usize = (0..self.classes).map(|predicted| self.count(class, predicted)).sum();
        let predicted_as: usize = (0..self.classes).map(|label| self.count(label, class)).sum();
        let or_zero = |part, of| fraction(part, of).unwrap_or(0.0);
        Scores {
            precision: or_zero(true_positives, predicted_as),
            recall: or_zero(true_positives, labelled),
            f1: or_zero(2 * true_positives, labelled + predicted_as),
        }
    }

    fn check_not_empty(&self) -> Result<()> {
        if self.counts.iter().any(|&count| count > 0) { Ok(()) } else { Err(no_samples()) }
    }
}

/// Formats a table with a row for each true class and a column for each predicted one.
impl fmt::Display for ConfusionMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = self.counts.iter().copied().max().unwrap_or(0).max(self.classes);
        let width = largest.to_string().len() + 1;
        let line = |f: &mut fmt::Formatter<'_>, head: &str, numbers: &[usize]| {
            write!(f, "{head:>width$} ")?;
            numbers.iter().try_for_each(|number| write!(f, "{number:>width$}"))
        };
        line(f, "", &(0..self.classes).collect::<Vec<_>>())?;
        for (class, row) in self.counts.chunks(self.classes).enumerate() {
            writeln!(f)?;
            line(f, &class.to_string(), row)?;
        }
        Ok(())
    }
}
