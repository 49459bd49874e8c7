//! Adam: momentum, relative to the size of the deltas.

use crate::error::Result;
use crate::optimizer::{Chunk, Memory, Optimizer, check};
use crate::rules::Number;

/// Adam.
///
/// The formulas are PyTorch's: in step `t` of a weight, `m ← beta1 · m + (1 − beta1) · d`, `v ← beta2 · v + (1 − beta2) · d²`, and
/// `w ← w − lr · m̂ / (√v̂ + eps)` with `m̂ = m / (1 − beta1ᵗ)` and `v̂ = v / (1 − beta2ᵗ)`.
///
/// On a sparse delta, as that of an embedding, it is *lazy*: rows that the delta leaves out, and their `m` and `v`, stay as they are, whereas
/// a delta of zero would let them move on. `t` counts the steps of the whole weight. This is PyTorch's `SparseAdam`, but for `eps`, which that one
/// adds to `√v` instead of `√v̂`.
///
/// Kingma & Ba, *Adam: a method for stochastic optimization*, 2015.
///
/// ```
/// use dl_core::{Adam, Differentiable, Weight};
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&Adam::new(0.5)).wait()?;
/// assert!((w.value() - 2.5).abs() < 1e-8);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Adam {
    learning_rate: f64,
    betas: [f64; 2],
    eps: f64,
    memory: Memory,
}

impl Adam {
    /// Adam with this learning rate; the betas are 0.9 and 0.999, `eps` is 1e-8.
    ///
    /// ```
    /// assert_eq!(dl_core::Adam::new(0.001).learning_rate(), 0.001);
    /// ```
    pub fn new(learning_rate: f64) -> Self {
        Adam { learning_rate, betas: [0.9, 0.999], eps: 1e-8, memory: Memory::new() }
    }

    /// How much of the mean of the deltas, and of their squares, a step keeps.
    ///
    /// ```
    /// let adam = dl_core::Adam::new(0.001).betas(0.9, 0.98);
    /// ```
    #[must_use]
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Self {
        self.betas = [beta1, beta2];
        self
    }

    /// What is added to the root in the denominator.
    ///
    /// ```
    /// let adam = dl_core::Adam::new(0.001).eps(1e-6);
    /// ```
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// The same optimizer, with the same memory, at another learning rate: for schedules.
    ///
    /// ```
    /// let slower = dl_core::Adam::new(0.1).at_learning_rate(0.01);
    /// assert_eq!(slower.learning_rate(), 0.01);
    /// ```
    #[must_use]
    pub fn at_learning_rate(&self, learning_rate: f64) -> Self {
        Adam { learning_rate, ..self.clone() }
    }

    /// The learning rate.
    pub fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    fn rule<A: Number>(&self, values: &mut [A], deltas: &[A], slots: &mut [&mut [A]], steps: u64) {
        let [means, squares] = slots else { unreachable!("two slots were asked for") };
        let kept = self.betas.map(A::of);
        let new = self.betas.map(|beta| A::of(1.0 - beta));
        let [correction1, correction2] = self.betas.map(|beta| 1.0 - beta.powf(steps as f64));
        let (rate, root, eps) = (A::of(self.learning_rate / correction1), A::of(correction2.sqrt()), A::of(self.eps));
        for (((w, &d), m), v) in values.iter_mut().zip(deltas).zip(means.iter_mut()).zip(squares.iter_mut()) {
            *m = kept[0] * *m + new[0] * d;
            *v = kept[1] * *v + new[1] * d * d;
            *w = *w - rate * *m / (v.sqrt() / root + eps);
        }
    }
}

impl Optimizer for Adam {
    fn slots(&self) -> usize {
        2
    }

    fn memory(&self) -> Option<&Memory> {
        Some(&self.memory)
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        check("the learning rate", self.learning_rate, self.learning_rate.is_finite())?;
        for beta in self.betas {
            check("a beta", beta, (0.0..1.0).contains(&beta))?;
        }
        check("eps", self.eps, self.eps >= 0.0)?;
        match chunk {
            Chunk::F32 { values, deltas, slots } => self.rule(values, deltas, slots, steps),
            Chunk::F64 { values, deltas, slots } => self.rule(values, deltas, slots, steps),
        }
        Ok(())
    }
}
