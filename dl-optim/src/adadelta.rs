//! Adadelta: steps scaled by the root mean square of previous steps.

use crate::rule::{Base, Rule, SLOTS, optimizer};
use crate::schedule::Schedule;
use crate::validate::{Allowed, check};
use dl_core::{Algebra, Result, Slot, Term};

/// Adadelta.
///
/// The formulas are those of PyTorch's `Adadelta`: `v ← rho · v + (1 − rho) · d²`,
/// `s = d · √(u + eps) / √(v + eps)`, `u ← rho · u + (1 − rho) · s²`, `w ← w − lr · s`; the usual
/// learning rate is 1. On a sparse delta it is *lazy*: rows that the delta leaves out, and their
/// state, are not changed.
///
/// Zeiler, *ADADELTA: an adaptive learning rate method*, 2012.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Adadelta;
/// let w = Weight::new(3.0_f64);
/// (&w * 2.0).train(&Adadelta::new(1.0)).wait()?;
/// assert!(w.value() < 3.0);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Adadelta {
    base: Base,
    rho: f64,
    eps: f64,
}

optimizer!(Adadelta);

impl Adadelta {
    /// Adadelta with this learning rate or schedule; `rho` is 0.9, `eps` is 1e-6.
    ///
    /// ```
    /// assert_eq!(dl_optim::Adadelta::new(1.0).learning_rate()?, 1.0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn new(learning_rate: impl Schedule + 'static) -> Self {
        Adadelta { base: Base::new(learning_rate).with_memory(), rho: 0.9, eps: 1e-6 }
    }

    /// The decay rate of the running means.
    ///
    /// ```
    /// let adadelta = dl_optim::Adadelta::new(1.0).rho(0.95);
    /// ```
    #[must_use]
    pub fn rho(mut self, rho: f64) -> Self {
        self.rho = rho;
        self
    }

    /// The number that is added under both square roots.
    ///
    /// ```
    /// let adadelta = dl_optim::Adadelta::new(1.0).eps(1e-8);
    /// ```
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }
}

impl Rule for Adadelta {
    type Constants = [f64; 3];

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::zeros("square_avg"), Slot::zeros("acc_delta")] }
    }

    fn check(&self) -> Result<()> {
        check("rho", self.rho, Allowed::UpTo(1.0))?;
        check("eps", self.eps, Allowed::AtLeastZero)
    }

    fn constants(&self, rate: f64, _: u64) -> [f64; 3] {
        [rate, self.rho, self.eps]
    }

    #[inline(always)]
    fn formula<A: Algebra>(&[rate, rho, eps]: &[f64; 3], w: &Term<A>, d: &Term<A>, state: &mut [Term<A>]) -> Term<A> {
        let [v, u] = state else { unreachable!("{SLOTS}") };
        *v = rho * &*v + (1.0 - rho) * d * d;
        let step = &((&*u + eps).sqrt() / (&*v + eps).sqrt() * d);
        *u = rho * &*u + (1.0 - rho) * step * step;
        w - rate * step
    }
}
