//! Metrics that are accumulated batch by batch.
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
//! The definitions are those of scikit-learn. Inputs are slices; scores are in row-major order, as
//! returned by `scores.into_vec()` for a tensor `[samples, classes]`.

mod confusion;
mod mean;
mod top_k;

pub use confusion::{ConfusionMatrix, Scores};
pub use mean::{Mean, Perplexity};
pub use top_k::TopK;

use dl_core::{Error, Result};

/// The fraction of correct predictions.
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
    /// An accuracy without samples.
    pub fn new() -> Accuracy {
        Accuracy::default()
    }

    /// Adds a batch of predicted classes and the true labels, one of each per sample.
    ///
    /// # Errors
    /// When the slices differ in length; then nothing was added.
    pub fn add<C: PartialEq>(&mut self, predicted: &[C], labels: &[C]) -> Result<()> {
        check_same_len(predicted.len(), labels.len())?;
        self.right += predicted.iter().zip(labels).filter(|(predicted, label)| predicted == label).count();
        self.samples += labels.len();
        Ok(())
    }

    /// The accuracy, from 0 to 1.
    ///
    /// # Errors
    /// When no samples were added.
    pub fn value(&self) -> Result<f64> {
        fraction(self.right, self.samples)
    }
}

fn check_same_len(predicted: usize, labels: usize) -> Result<()> {
    if predicted == labels {
        return Ok(());
    }
    Err(Error::shape(format!("{predicted} predictions for {labels} labels: there must be one per label")))
}

fn fraction(part: usize, of: usize) -> Result<f64> {
    if of == 0 { Err(no_samples()) } else { Ok(part as f64 / of as f64) }
}

fn no_samples() -> Error {
    Error::invalid("no sample was added: there is nothing to measure")
}

/// Checks that `class` is below `classes`.
fn check_class(what: &str, class: usize, classes: usize, sample: usize) -> Result<()> {
    if class < classes {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} {class} of sample {sample} is out of range for {classes} classes")))
}

fn check_classes(classes: usize) -> Result<()> {
    if classes > 0 { Ok(()) } else { Err(Error::invalid("the number of classes is 0: it must be at least 1")) }
}
