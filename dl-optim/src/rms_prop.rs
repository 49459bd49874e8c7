//! RMSprop: deltas divided by their running root mean square.

use crate::rule::{Base, Rule, Run, SLOTS, optimizer};
use crate::schedule::Schedule;
use crate::validate::{Allowed, check};
use dl_core::{Number, Result, Slot};

/// RMSprop.
///
/// The formulas are those of PyTorch's `RMSprop`: `v ← alpha · v + (1 − alpha) · d²`,
/// `s = d / (√v + eps)`, `w ← w − lr · s`; with [momentum](RmsProp::momentum)
/// `b ← momentum · b + s`, `w ← w − lr · b`. If it is [centered](RmsProp::centered), `v − g²` takes
/// the place of `v` under the root, with `g ← alpha · g + (1 − alpha) · d`; if rounding makes it
/// negative, it is 0. On a sparse delta it is *lazy*: rows that the delta leaves out, and their
/// state, are not changed.
///
/// Tieleman & Hinton, *Lecture 6.5*, Neural Networks for Machine Learning, 2012; Graves, *Generating
/// sequences with recurrent neural networks*, 2013, for the centered one.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::RmsProp;
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&RmsProp::new(0.1)).wait()?;
/// assert!((w.value() - 2.0).abs() < 1e-6); // the first step is ten learning rates long
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct RmsProp {
    base: Base,
    alpha: f64,
    eps: f64,
    momentum: f64,
    centered: bool,
}

optimizer!(RmsProp);

impl RmsProp {
    /// RMSprop with this learning rate or schedule; `alpha` is 0.99, `eps` is 1e-8.
    ///
    /// ```
    /// assert_eq!(dl_optim::RmsProp::new(0.01).learning_rate()?, 0.01);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(learning_rate: impl Schedule + 'static) -> Self {
        let base = Base::new(learning_rate).with_memory();
        RmsProp { base, alpha: 0.99, eps: 1e-8, momentum: 0.0, centered: false }
    }

    /// How much of the means a step keeps.
    ///
    /// ```
    /// let rms_prop = dl_optim::RmsProp::new(0.01).alpha(0.9);
    /// ```
    #[must_use]
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.alpha = alpha;
        self
    }

    /// The number that is added to the square root in the denominator.
    ///
    /// ```
    /// let rms_prop = dl_optim::RmsProp::new(0.01).eps(1e-6);
    /// ```
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// Adds momentum.
    ///
    /// ```
    /// let rms_prop = dl_optim::RmsProp::new(0.01).momentum(0.9);
    /// ```
    #[must_use]
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
    }

    /// Divides by an estimate of the standard deviation.
    ///
    /// ```
    /// let rms_prop = dl_optim::RmsProp::new(0.01).centered();
    /// ```
    #[must_use]
    pub fn centered(mut self) -> Self {
        self.centered = true;
        self
    }
}

impl Rule for RmsProp {
    fn slots(&self) -> &'static [Slot] {
        const SQUARES: Slot = Slot::zeros("square_avg");
        const MOMENTUM: Slot = Slot::zeros("momentum_buffer");
        const MEANS: Slot = Slot::zeros("grad_avg");
        match (self.momentum != 0.0, self.centered) {
            (false, false) => const { &[SQUARES] },
            (true, false) => const { &[SQUARES, MOMENTUM] },
            (false, true) => const { &[SQUARES, MEANS] },
            (true, true) => const { &[SQUARES, MEANS, MOMENTUM] },
        }
    }

    fn check(&self) -> Result<()> {
        check("alpha", self.alpha, Allowed::UpTo(1.0))?;
        check("eps", self.eps, Allowed::AtLeastZero)?;
        check("the momentum", self.momentum, Allowed::Finite)
    }

    fn apply<A: Number>(&self, rate: f64, Run { values, deltas, slots }: Run<'_, '_, A>, _: u64) {
        let [squares, others @ ..] = slots else { unreachable!("{SLOTS}") };
        let (means, others) = others.split_at_mut(usize::from(self.centered));
        let mut means = means.first_mut().map(|means| means.iter_mut());
        let mut velocities = others.first_mut().map(|velocities| velocities.iter_mut());
        let [rate, kept, new, eps] = [rate, self.alpha, 1.0 - self.alpha, self.eps].map(A::of);
        let momentum = A::of(self.momentum);
        for ((w, &d), v) in values.iter_mut().zip(deltas).zip(squares.iter_mut()) {
            *v = kept * *v + new * d * d;
            let variance = match means.as_mut().and_then(Iterator::next) {
                Some(mean) => {
                    *mean = kept * *mean + new * d;
                    let variance = *v - *mean * *mean;
                    if variance < A::zero() { A::zero() } else { variance }
                }
                None => *v,
            };
            let step = d / (variance.sqrt() + eps);
            let step = match velocities.as_mut().and_then(Iterator::next) {
                Some(velocity) => {
                    *velocity = momentum * *velocity + step;
                    *velocity
                }
                None => step,
            };
            *w = *w - rate * step;
        }
    }
}
