//! Functions between layers, as settings.

use dl_nd::{Element, NdExpression, NdLayer, Rank};

/// A pointwise function that a layer can be told to use. In code of your own write the method:
/// `x.relu()`.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::Nd;
/// use dl_nn::Activation;
/// assert_eq!(Activation::Relu.of(Nd::from([-1.0_f32, 2.0])).predict().wait()?, Nd::from([0.0, 2.0]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    /// `x` itself.
    Identity,
    /// The larger one of `x` and 0.
    Relu,
    /// `x · Φ(x)`, with the normal distribution Φ.
    Gelu,
    /// `x · σ(x)`.
    Silu,
    /// The logistic function σ.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// Of any shape.
    #[track_caller]
    pub fn of<D: Rank, A: Element>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        let x = x.into_layer();
        match self {
            Activation::Identity => x,
            Activation::Relu => x.relu(),
            Activation::Gelu => x.gelu(),
            Activation::Silu => x.silu(),
            Activation::Sigmoid => x.sigmoid(),
            Activation::Tanh => x.tanh(),
        }
    }
}

/// A setting: it has no weights.
impl dl_core::Module for Activation {
    fn visit(&self, _: &mut dl_core::Visitor) {}
}
