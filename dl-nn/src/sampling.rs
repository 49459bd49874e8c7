//! The choice of the next token.

use dl_core::{Error, Result};
use dl_nd::Element;
use rand::Rng;
use std::collections::HashSet;

/// How the next token is drawn from logits. [`new`](Sampling::new) draws from their softmax;
/// settings change the logits in the order repetition penalty, temperature, `top_k`, `top_p`.
///
/// ```
/// use dl_nd::init;
/// use dl_nn::Sampling;
/// let (logits, rng) = ([0.0, 3.0, 1.0, 2.9], &mut init::rng(1));
/// assert_eq!(Sampling::greedy().draw(&logits, &[], rng)?, 1);
/// assert_eq!(Sampling::greedy().repetition_penalty(1.2).draw(&logits, &[1], rng)?, 3);
/// let nucleus = Sampling::new().temperature(0.8).top_k(3).top_p(0.9);
/// assert!((0..100).all(|_| [1, 3].contains(&nucleus.draw(&logits, &[], rng).unwrap())));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    temperature: f64,
    top_k: usize,
    top_p: f64,
    repetition_penalty: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling::new()
    }
}

impl Sampling {
    /// Draws from the softmax of the logits.
    ///
    /// ```
    /// let sampling = dl_nn::Sampling::new();
    /// ```
    pub fn new() -> Self {
        Sampling { temperature: 1.0, top_k: usize::MAX, top_p: 1.0, repetition_penalty: 1.0 }
    }

    /// Takes the token with the largest logit, of equal ones the first.
    ///
    /// ```
    /// let sampling = dl_nn::Sampling::greedy();
    /// ```
    pub fn greedy() -> Self {
        Sampling::new().temperature(0.0)
    }

    /// Divides the logits by a number. One below 1 sharpens the distribution; 0 is
    /// [`greedy`](Sampling::greedy).
    ///
    /// ```
    /// let sampling = dl_nn::Sampling::new().temperature(0.7);
    /// ```
    #[must_use]
    pub fn temperature(self, temperature: f64) -> Self {
        Sampling { temperature, ..self }
    }

    /// Draws from the `k` most likely tokens only.
    ///
    /// ```
    /// let sampling = dl_nn::Sampling::new().top_k(40);
    /// ```
    #[must_use]
    pub fn top_k(self, k: usize) -> Self {
        Sampling { top_k: k, ..self }
    }

    /// Draws from the *nucleus* only, the fewest most likely tokens whose probabilities sum to at
    /// least `p` (Holtzman et al., *The curious case of neural text degeneration*, 2020).
    ///
    /// ```
    /// let sampling = dl_nn::Sampling::new().top_p(0.95);
    /// ```
    #[must_use]
    pub fn top_p(self, p: f64) -> Self {
        Sampling { top_p: p, ..self }
    }

    /// Makes tokens that occur in the text less likely: a positive logit is divided by the penalty,
    /// a negative one multiplied (Keskar et al., *CTRL*, 2019).
    ///
    /// ```
    /// let sampling = dl_nn::Sampling::new().repetition_penalty(1.2);
    /// ```
    #[must_use]
    pub fn repetition_penalty(self, penalty: f64) -> Self {
        Sampling { repetition_penalty: penalty, ..self }
    }

    /// Draws a token from logits, given the tokens of the text so far.
    ///
    /// ```
    /// let token = dl_nn::Sampling::new().draw(&[0.0_f32, f32::NEG_INFINITY], &[], &mut dl_nd::init::rng(1))?;
    /// assert_eq!(token, 0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If a setting is out of range (a temperature below 0, `top_k` of 0, `top_p` outside (0, 1], a
    /// penalty of at most 0), if there are no logits, if one is NaN or +∞, or if all are −∞.
    pub fn draw<A: Element>(&self, logits: &[A], text: &[usize], rng: &mut impl Rng) -> Result<usize> {
        self.check()?;
        let mut logits: Vec<f64> = logits.iter().map(|logit| logit.to_f64().expect("a number")).collect();
        if let Some(token) = logits.iter().position(|logit| logit.is_nan() || *logit == f64::INFINITY) {
            return Err(Error::not_finite(format!("the logit of token {token} is {}", logits[token])));
        }
        if self.repetition_penalty != 1.0 {
            for token in text.iter().collect::<HashSet<_>>() {
                if let Some(logit) = logits.get_mut(*token) {
                    *logit *= if *logit > 0.0 { 1.0 / self.repetition_penalty } else { self.repetition_penalty };
                }
            }
        }
        let mut tokens: Vec<usize> = (0..logits.len()).collect();
        tokens.retain(|&token| logits[token] > f64::NEG_INFINITY);
        // stable: of equal logits the first comes first
        tokens.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        let Some(&first) = tokens.first() else {
            return Err(Error::invalid("there is no token to draw: no logit is above −∞"));
        };
        if self.temperature == 0.0 {
            return Ok(first);
        }
        tokens.truncate(self.top_k);
        let largest = logits[first];
        let chance = |&token: &usize| ((logits[token] - largest) / self.temperature).exp();
        let mut chances: Vec<f64> = tokens.iter().map(chance).collect();
        let all: f64 = chances.iter().sum();
        let mut sum = 0.0;
        let nucleus = chances.iter().position(|chance| {
            sum += chance;
            sum >= self.top_p * all
        });
        chances.truncate(nucleus.map_or(usize::MAX, |last| last + 1));
        let mut rest = rng.random::<f64>() * chances.iter().sum::<f64>();
        let drawn = chances.iter().position(|chance| {
            rest -= chance;
            rest < 0.0
        });
        Ok(tokens[drawn.unwrap_or(chances.len() - 1)])
    }

    fn check(&self) -> Result<()> {
        let Sampling { temperature, top_k, top_p, repetition_penalty } = *self;
        let refuse = |message: String| Err(Error::invalid(message));
        if !(0.0..f64::INFINITY).contains(&temperature) {
            return refuse(format!("a temperature of {temperature}; it must be finite and not negative"));
        }
        if top_k == 0 {
            return refuse("a top_k of 0; it must be at least 1".to_owned());
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return refuse(format!("a top_p of {top_p}; it must be positive and at most 1"));
        }
        if !(repetition_penalty > 0.0 && repetition_penalty.is_finite()) {
            return refuse(format!("a repetition penalty of {repetition_penalty}; it must be positive and finite"));
        }
        Ok(())
    }
}
