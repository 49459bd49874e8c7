//! Which classes are taken for which.

use super::{as_many, check_class, check_classes, nothing_added, share};
use dl_core::{Error, Result};
use std::fmt;

/// More classes than this would make a matrix of gigabytes.
const MOST_CLASSES: usize = 1 << 14;

/// How many samples of each class were taken for which.
///
/// ```
/// use dl_train::metrics::ConfusionMatrix;
/// let mut matrix = ConfusionMatrix::new(3)?;
/// matrix.add(&[0, 2, 1, 0], &[0, 2, 2, 0])?;
/// assert_eq!(matrix.count(2, 1), 1); // of class 2, taken for class 1
/// assert_eq!(matrix.accuracy()?, 0.75);
/// let third = matrix.of_class(2)?;
/// assert_eq!((third.precision, third.recall), (1.0, 0.5));
/// println!("{matrix}");
/// # dl_core::Result::Ok(())
/// ```
///
/// Where a precision or a recall divides nothing by nothing, it is 0, as with scikit-learn's
/// `zero_division=0`. Averages are over all classes, those without samples included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfusionMatrix {
    classes: usize,
    /// Row by row, a row for each right class.
    counts: Vec<usize>,
}

/// How well a class is recognised, or all of them on average.
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
    /// The share of those taken for the class that are of it.
    pub precision: f64,
    /// The share of those of the class that are taken for it.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
}

impl ConfusionMatrix {
    /// Of so many classes, without samples.
    ///
    /// # Errors
    /// When there is none, or so many that the matrix would not fit into memory.
    pub fn new(classes: usize) -> Result<ConfusionMatrix> {
        check_classes(classes)?;
        if classes > MOST_CLASSES {
            return Err(Error::invalid(format!("a confusion matrix of {classes} classes: at most {MOST_CLASSES}")));
        }
        Ok(ConfusionMatrix { classes, counts: vec![0; classes * classes] })
    }

    /// Adds a batch of predicted classes, beside the right ones.
    ///
    /// # Errors
    /// When they are not as many, or a class is not there; then nothing was added.
    pub fn add(&mut self, predicted: &[usize], labels: &[usize]) -> Result<()> {
        as_many(predicted.len(), labels.len())?;
        for (sample, (&predicted, &label)) in predicted.iter().zip(labels).enumerate() {
            check_class("the prediction", predicted, self.classes, sample)?;
            check_class("the label", label, self.classes, sample)?;
        }
        for (predicted, label) in predicted.iter().zip(labels) {
            self.counts[label * self.classes + predicted] += 1;
        }
        Ok(())
    }

    /// How many samples of a class were taken for another, or for itself; 0 of classes that are not
    /// there.
    pub fn count(&self, label: usize, predicted: usize) -> usize {
        if label.max(predicted) < self.classes { self.counts[label * self.classes + predicted] } else { 0 }
    }

    /// The share of samples that are on the diagonal.
    ///
    /// # Errors
    /// When nothing was added.
    pub fn accuracy(&self) -> Result<f64> {
        share((0..self.classes).map(|class| self.count(class, class)).sum(), self.counts.iter().sum())
    }

    /// Precision, recall and F1 of a class.
    ///
    /// # Errors
    /// When there is no such class, or nothing was added.
    pub fn of_class(&self, class: usize) -> Result<Scores> {
        if class >= self.classes {
            return Err(Error::invalid(format!("class {class} of {}", self.classes)));
        }
        self.not_empty()?;
        Ok(self.scores(class))
    }

    /// Their means over the classes, each of which counts the same.
    ///
    /// # Errors
    /// When nothing was added.
    ///
    /// ```
    /// let mut matrix = dl_train::metrics::ConfusionMatrix::new(2)?;
    /// matrix.add(&[0, 0, 0, 0], &[0, 0, 0, 1])?;
    /// assert_eq!(matrix.macro_average()?.recall, 0.5);
    /// assert_eq!(matrix.micro_average()?.recall, 0.75);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn macro_average(&self) -> Result<Scores> {
        self.not_empty()?;
        let mean = |part: fn(&Scores) -> f64| {
            (0..self.classes).map(|class| part(&self.scores(class))).sum::<f64>() / self.classes as f64
        };
        Ok(Scores { precision: mean(|s| s.precision), recall: mean(|s| s.recall), f1: mean(|s| s.f1) })
    }

    /// The same over all samples, each of which counts the same: with one label for each, all three
    /// are the accuracy.
    ///
    /// ```
    /// let mut matrix = dl_train::metrics::ConfusionMatrix::new(2)?;
    /// matrix.add(&[0, 0, 1, 1], &[0, 0, 0, 1])?;
    /// assert_eq!((matrix.micro_average()?.f1, matrix.accuracy()?), (0.75, 0.75));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When nothing was added.
    pub fn micro_average(&self) -> Result<Scores> {
        let accuracy = self.accuracy()?;
        Ok(Scores { precision: accuracy, recall: accuracy, f1: accuracy })
    }

    fn scores(&self, class: usize) -> Scores {
        let both = self.count(class, class);
        let of_it: usize = (0..self.classes).map(|predicted| self.count(class, predicted)).sum();
        let taken_for_it: usize = (0..self.classes).map(|label| self.count(label, class)).sum();
        let or_zero = |part, of| share(part, of).unwrap_or(0.0);
        Scores {
            precision: or_zero(both, taken_for_it),
            recall: or_zero(both, of_it),
            f1: or_zero(2 * both, of_it + taken_for_it),
        }
    }

    fn not_empty(&self) -> Result<()> {
        if self.counts.iter().any(|&count| count > 0) { Ok(()) } else { Err(nothing_added()) }
    }
}

/// A table: a row for each right class, a column for each predicted one.
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
