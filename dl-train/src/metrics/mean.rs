//! Means over samples, accumulated from means over batches.

use super::no_samples;
use dl_core::{Error, Result};

/// The mean of a number over all samples, such as a loss, from its means over batches.
///
/// ```
/// let mut loss = dl_train::metrics::Mean::new();
/// loss.add(1.0, 30)?;
/// loss.add(4.0, 10)?; // the last batch is smaller
/// assert_eq!(loss.value()?, 1.75);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Mean {
    sum: f64,
    samples: usize,
}

impl Mean {
    /// A mean without samples.
    pub fn new() -> Mean {
        Mean::default()
    }

    /// Adds the mean over a batch of `samples` samples.
    ///
    /// # Errors
    /// When `mean` or the sum over all samples is not finite; then nothing was added.
    pub fn add(&mut self, mean: impl Into<f64>, samples: usize) -> Result<()> {
        let mean = mean.into();
        let sum = self.sum + mean * samples as f64;
        if !sum.is_finite() {
            return Err(Error::not_finite(format!(
                "adding the mean {mean} over {samples} samples makes the sum {sum}"
            )));
        }
        self.sum = sum;
        self.samples += samples;
        Ok(())
    }

    /// The mean.
    ///
    /// # Errors
    /// When no samples were added.
    pub fn value(&self) -> Result<f64> {
        if self.samples == 0 { Err(no_samples()) } else { Ok(self.sum / self.samples as f64) }
    }
}

/// The perplexity: the exponential of the mean cross entropy.
///
/// ```
/// let mut perplexity = dl_train::metrics::Perplexity::new();
/// perplexity.add(8_f64.ln(), 100)?; // a uniform guess among 8 tokens
/// assert!((perplexity.value()? - 8.0).abs() < 1e-12);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Perplexity(Mean);

impl Perplexity {
    /// A perplexity without tokens.
    pub fn new() -> Perplexity {
        Perplexity::default()
    }

    /// Adds the mean cross entropy, in nats, over a batch of `tokens` tokens.
    ///
    /// # Errors
    /// When `cross_entropy` or the sum over all tokens is not finite; then nothing was added.
    pub fn add(&mut self, cross_entropy: impl Into<f64>, tokens: usize) -> Result<()> {
        self.0.add(cross_entropy, tokens)
    }

    /// The perplexity, at least 1 for a cross entropy of at least 0.
    ///
    /// # Errors
    /// When no samples were added.
    pub fn value(&self) -> Result<f64> {
        self.0.value().map(f64::exp)
    }
}
