//! How good predictions are, batch by batch: plain structs that add up what they are shown.
//!
//! ```
//! use dl_train::metrics::{Accuracy, ConfusionMatrix};
//! let (mut accuracy, mut confusion) = (Accuracy::new(), ConfusionMatrix::new(2)?);
//! for (predicted, labels) in [([0, 1, 1], [0, 1, 0]), ([1, 0, 0], [1, 0, 0])] {
//!     accuracy.add(&predicted, &labels)?;
//!     confusion.add(&predicted, &labels)?;
//! }
//! assert_eq!(accuracy.value()?, 5.0 / 6.0);
//! assert_eq!(confusion.macro_average()?.recall, 0.5 * (3.0 / 4.0 + 2.0 / 2.0));
//! # dl_core::Result::Ok(())
//! ```
//!
//! The definitions are those of scikit-learn. Numbers come as slices, scores row by row: those of a
//! tensor are in `scores.into_vec()`.

mod confusion;
mod mean;
mod top_k;

pub use confusion::{ConfusionMatrix, Scores};
pub use mean::{Mean, Perplexity};
pub use top_k::TopK;

use dl_core::{Error, Result};

/// The share of predictions that are right.
///
/// ```
/// let mut accuracy = dl_train::metrics::Accuracy::new();
/// assert!(accuracy.value().is_err());
/// accuracy.add(&[3, 1, 2, 0], &[3, 1, 2, 2])?;
/// assert_eq!(accuracy.value()?, 0.75);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Accuracy {
    right: usize,
    samples: usize,
}

impl Accuracy {
    /// Of no predictions yet.
    pub fn new() -> Accuracy {
        Accuracy::default()
    }

    /// Adds a batch of predicted classes, beside the right ones.
    ///
    /// # Errors
    /// When they are not as many; then nothing was added.
    pub fn add<C: PartialEq>(&mut self, predicted: &[C], labels: &[C]) -> Result<()> {
        as_many(predicted.len(), labels.len())?;
        self.right += predicted.iter().zip(labels).filter(|(predicted, label)| predicted == label).count();
        self.samples += labels.len();
        Ok(())
    }

    /// The share, from 0 to 1.
    ///
    /// # Errors
    /// When nothing was added.
    pub fn value(&self) -> Result<f64> {
        share(self.right, self.samples)
    }
}

fn as_many(predicted: usize, labels: usize) -> Result<()> {
    if predicted == labels {
        return Ok(());
    }
    Err(Error::shape(format!("{predicted} predictions for {labels} labels")))
}

fn share(part: usize, of: usize) -> Result<f64> {
    if of == 0 { Err(nothing_added()) } else { Ok(part as f64 / of as f64) }
}

fn nothing_added() -> Error {
    Error::invalid("no sample was added: there is nothing to measure")
}

/// An error, unless this is one of so many classes.
fn check_class(what: &str, class: usize, classes: usize, sample: usize) -> Result<()> {
    if class < classes {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} {class} of sample {sample} is not below the number of classes, {classes}")))
}

fn check_classes(classes: usize) -> Result<()> {
    if classes > 0 { Ok(()) } else { Err(Error::invalid("a measure over 0 classes: there has to be at least 1")) }
}
