//! Activation functions as values, for the fields of layers.

use dl_nd::{Element, NdExpression, NdLayer, Rank};

/// A pointwise activation function, as a field of a layer selects it. Elsewhere call the method
/// itself, for example `x.relu()`.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::Nd;
/// use dl_nn::Activation;
/// assert_eq!(Activation::Relu.of(Nd::from([-1.0_f32, 2.0])).predict().wait()?, Nd::from([0.0, 2.0]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Activation {
    /// The identity, `x`.
    Identity,
    /// The rectified linear unit, `max(x, 0)`.
    Relu,
    /// The Gaussian error linear unit, `x · Φ(x)`, where Φ is the distribution function of the
    /// standard normal distribution (Hendrycks and Gimpel, 2016).
    Gelu,
    /// The sigmoid linear unit, `x · σ(x)` (Elfwing et al., 2018).
    Silu,
    /// The logistic function `σ(x) = 1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// The hyperbolic tangent, `tanh(x)`.
    Tanh,
}

impl Activation {
    /// Applies the function to each element. The shape stays the same.
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

/// An activation has no weights.
impl dl_core::Module for Activation {
    fn visit(&self, _: &mut dl_core::Visitor) {}

    fn compiled_arguments(&self, arguments: &mut dl_core::bang::Arguments) {
        arguments.plain(self);
    }
}
