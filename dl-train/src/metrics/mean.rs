//! Means over samples of what batches have means of.

use super::nothing_added;
use dl_core::{Error, Result};

/// The mean of a number over all samples, from its means over batches: of a loss, for instance.
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
    /// Of no samples yet.
    pub fn new() -> Mean {
        Mean::default()
    }

    /// Adds the mean over so many samples.
    ///
    /// # Errors
    /// When it is not finite, or the sum over all samples is not; then nothing was added.
    pub fn add(&mut self, mean: impl Into<f64>, samples: usize) -> Result<()> {
        let mean = mean.into();
        let sum = self.sum + mean * samples as f64;
        if !sum.is_finite() {
            return Err(Error::not_finite(format!("with a mean of {mean} over {samples} samples the sum is {sum}")));
        }
        self.sum = sum;
        self.samples += samples;
        Ok(())
    }

    /// The mean.
    ///
    /// # Errors
    /// When nothing was added.
    pub fn value(&self) -> Result<f64> {
        if self.samples == 0 { Err(nothing_added()) } else { Ok(self.sum / self.samples as f64) }
    }
}

/// Between how many tokens a model is undecided, on average: the exponential of the mean cross
/// entropy.
///
/// ```
/// let mut perplexity = dl_train::metrics::Perplexity::new();
/// perplexity.add(8_f64.ln(), 100)?; // as good as a guess among 8
/// assert!((perplexity.value()? - 8.0).abs() < 1e-12);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Perplexity(Mean);

impl Perplexity {
    /// Of no tokens yet.
    pub fn new() -> Perplexity {
        Perplexity::default()
    }

    /// Adds the mean cross entropy over so many tokens, in units of e.
    ///
    /// # Errors
    /// When it is not finite, or the sum over all tokens is not; then nothing was added.
    pub fn add(&mut self, cross_entropy: impl Into<f64>, tokens: usize) -> Result<()> {
        self.0.add(cross_entropy, tokens)
    }

    /// The perplexity, from 1 on.
    ///
    /// # Errors
    /// When nothing was added.
    pub fn value(&self) -> Result<f64> {
        self.0.value().map(f64::exp)
    }
}
