//! Fully connected layers.

use crate::check::{positive, room};
use dl_core::{Differentiable, Result, Term, Weight};
use dl_macros::Module;
use dl_nd::ndarray::{Ix1, Ix2};
use dl_nd::{Element, MatMul, NdExpression, NdLayer, NdWeight, Rank, along_last, init, ops::*};
use rand::Rng;

/// `x · weight + bias`, along the last axis: `[…, in] → […, out]`.
///
/// The weight is `[in, out]`, the transpose of PyTorch's.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_nd::Nd;
/// use dl_nn::Linear;
/// let linear = Linear {
///     weight: Weight::new(Nd::from([[1.0, 2.0], [3.0, 4.0]])),
///     bias: Some(Weight::new(Nd::from([0.5, 0.0]))),
/// };
/// assert_eq!(linear.of(Nd::from([[1.0, 10.0]])).predict().wait()?, Nd::from([[31.5, 42.0]]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct Linear<A: Element = f32> {
    /// `[in, out]`
    pub weight: NdWeight<Ix2, A>,
    /// `[out]`, if there is one.
    pub bias: Option<NdWeight<Ix1, A>>,
}

impl<A: Element> Linear<A> {
    /// Weight and bias uniform between `±1 / √in`, PyTorch's default.
    ///
    /// ```
    /// use dl_core::Module;
    /// let linear = dl_nn::Linear::<f32>::new(64, 10, &mut dl_nd::init::rng(1))?;
    /// assert_eq!(linear.parameters(), 650);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When a size is 0, or there is no memory.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, rng: &mut impl Rng) -> Result<Self> {
        let linear = Self::without_bias(inputs, outputs, rng)?;
        let bound = (inputs as f64).sqrt().recip();
        Ok(Linear { bias: Some(Weight::new(init::uniform([outputs], -bound, bound, rng))), ..linear })
    }

    /// The same without a bias.
    ///
    /// ```
    /// use dl_core::Module;
    /// let linear = dl_nn::Linear::<f32>::without_bias(64, 10, &mut dl_nd::init::rng(1))?;
    /// assert_eq!(linear.parameters(), 640);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Linear::new).
    #[track_caller]
    pub fn without_bias(inputs: usize, outputs: usize, rng: &mut impl Rng) -> Result<Self> {
        positive("Linear", &[("inputs", inputs), ("outputs", outputs)])?;
        room::<A>("Linear", &[inputs, outputs])?;
        let bound = (inputs as f64).sqrt().recip();
        Ok(Linear { weight: Weight::new(init::uniform([inputs, outputs], -bound, bound, rng)), bias: None })
    }

    /// `[…, in] → […, out]`.
    ///
    /// # Errors
    /// A shape error when the last axis is not `in`, or there is a bias whose length is not `out`.
    #[track_caller]
    pub fn of<D: MatMul<Ix2, Product = D>>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        linear(x, &self.weight, self.bias.as_ref())
    }

    /// The larger of [`of`](Linear::of) and 0, `max(x · weight + bias, 0)`: to the bit
    /// `linear.of(x).relu()`, as one operation if there is a bias. See
    /// [`linear_relu`](dl_nd::ProductOps::linear_relu).
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// use dl_nd::{Nd, init};
    /// use dl_nn::Linear;
    /// let (hidden, output) = (Linear::new(4, 8, &mut init::rng(1))?, Linear::new(8, 2, &mut init::rng(2))?);
    /// let logits = output.of(hidden.relu_of(Nd::<f32, _>::full([1, 4], 1.0)));
    /// assert_eq!(logits.predict().wait()?.shape(), [1, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`of`](Linear::of).
    #[track_caller]
    pub fn relu_of<D: MatMul<Ix2, Product = D>>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        match &self.bias {
            Some(bias) => x.linear_relu(&self.weight, bias),
            None => x.matmul(&self.weight).relu(),
        }
    }
}

/// `x · weight`, and a bias, if there is one, added to each row.
#[track_caller]
pub(crate) fn linear<A: Element, D: MatMul<Ix2, Product = D>>(
    x: impl NdExpression<D, A>,
    weight: impl NdExpression<Ix2, A>,
    bias: Option<&NdWeight<Ix1, A>>,
) -> NdLayer<D, A> {
    match bias {
        Some(bias) => x.linear(weight, bias),
        None => x.matmul(weight),
    }
}

/// `x` and a vector, if there is one, that runs along its last axis.
#[track_caller]
pub(crate) fn plus<A: Element, D: Rank>(
    name: &'static str,
    x: NdLayer<D, A>,
    bias: Option<&NdWeight<Ix1, A>>,
) -> NdLayer<D, A> {
    match bias {
        Some(bias) => {
            let bias = along_last(name, &bias.layer(), &x);
            (Term(x) + Term(bias)).0
        }
        None => x,
    }
}
