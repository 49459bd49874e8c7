//! Dropout as a module.

use dl_macros::Module;
use dl_nd::{DropoutOps, Element, NdExpression, NdLayer, Rank};

/// [Dropout](DropoutOps::dropout) (Srivastava et al., 2014). In training an element becomes 0 with
/// probability `p`, otherwise it is divided by `1 − p`; in evaluation it does not change. A
/// training pass requires a seed unless `p` is 0.
///
/// ```
/// use dl_core::{Differentiable, Mode};
/// use dl_nd::Nd;
/// let x = Nd::from([1.0_f32, 2.0]);
/// let y = dl_nn::Dropout { p: 0.5 }.of(&x);
/// assert_eq!(y.predict().wait()?, x);
/// assert!(y.predict().mode(Mode::Train).seed(1).wait()?.view().iter().all(|&y| y == 0.0 || y >= 2.0));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Module)]
#[module(crate = dl_core)]
pub struct Dropout {
    /// The probability of dropping an element, `0 ≤ p ≤ 1`.
    pub p: f64,
}

impl Dropout {
    /// Applies dropout to each element. The shape stays the same.
    ///
    /// # Errors
    /// Those of [`dropout`](DropoutOps::dropout).
    #[track_caller]
    pub fn of<D: Rank, A: Element>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        x.dropout(self.p)
    }
}
