//! RMSprop: deltas divided by their running root mean square.

use crate::rule::{Base, Rule, SLOTS, optimizer};
use crate::schedule::Schedule;
use crate::validate::{Allowed, check};
use dl_core::{Algebra, Result, Slot, Term};

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

/// The constants of a step.
pub(crate) struct OfStep {
    rate: f64,
    alpha: f64,
    eps: f64,
    momentum: f64,
    centered: bool,
}

impl Rule for RmsProp {
    type Constants = OfStep;

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

    fn constants(&self, rate: f64, _: u64) -> OfStep {
        OfStep { rate, alpha: self.alpha, eps: self.eps, momentum: self.momentum, centered: self.centered }
    }

    #[inline(always)]
    fn formula<A: Algebra>(of_step: &OfStep, w: &Term<A>, d: &Term<A>, state: &mut [Term<A>]) -> Term<A> {
        let &OfStep { rate, alpha, eps, momentum, centered } = of_step;
        let [v, others @ ..] = state else { unreachable!("{SLOTS}") };
        *v = alpha * &*v + (1.0 - alpha) * d * d;
        let (means, velocities) = others.split_at_mut(usize::from(centered));
        let variance = match means {
            [mean] => {
                *mean = alpha * &*mean + (1.0 - alpha) * d;
                (&*v - &*mean * &*mean).relu()
            }
            _ => v.clone(),
        };
        let step = d / (variance.sqrt() + eps);
        match velocities {
            [velocity] => {
                *velocity = momentum * &*velocity + step;
                w - rate * &*velocity
            }
            _ => w - rate * step,
        }
    }
}
