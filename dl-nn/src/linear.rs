//! Fully connected layers.

use crate::check::{check_allocation, check_positive};
use dl_core::{Differentiable, Result, Term, Weight};
use dl_macros::Module;
use dl_nd::ndarray::{Ix1, Ix2};
use dl_nd::{Element, MatMul, NdExpression, NdLayer, NdWeight, Rank, along_last, init, ops::*};
use rand::Rng;

/// A fully connected layer, `x · weight + bias` along the last axis: `[…, in] → […, out]`.
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
    /// The weight, `[in, out]`.
    #[module(transposed)]
    pub weight: NdWeight<Ix2, A>,
    /// The bias, `[out]`; `None` without a bias.
    pub bias: Option<NdWeight<Ix1, A>>,
}

impl<A: Element> Linear<A> {
    /// A layer with PyTorch's default initialisation: weight and bias are uniform on `±1 / √in`.
    ///
    /// ```
    /// use dl_core::Module;
    /// let linear = dl_nn::Linear::<f32>::new(64, 10, &mut dl_nd::init::rng(1))?;
    /// assert_eq!(linear.parameters(), 650);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If `inputs` or `outputs` is 0, or if the weight is too large to allocate.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, rng: &mut impl Rng) -> Result<Self> {
        let linear = Self::without_bias(inputs, outputs, rng)?;
        let bound = (inputs as f64).sqrt().recip();
        Ok(Linear { bias: Some(Weight::new(init::uniform([outputs], -bound, bound, rng))), ..linear })
    }

    /// [`new`](Linear::new) without a bias.
    ///
    /// ```
    /// use dl_core::Module;
    /// let linear = dl_nn::Linear::<f32>::without_bias(64, 10, &mut dl_nd::init::rng(1))?;
    /// assert_eq!(linear.parameters(), 640);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`new`](Linear::new).
    #[track_caller]
    pub fn without_bias(inputs: usize, outputs: usize, rng: &mut impl Rng) -> Result<Self> {
        check_positive("Linear", &[("inputs", inputs), ("outputs", outputs)])?;
        check_allocation::<A>("Linear", &[inputs, outputs])?;
        let bound = (inputs as f64).sqrt().recip();
        Ok(Linear { weight: Weight::new(init::uniform([inputs, outputs], -bound, bound, rng)), bias: None })
    }

    /// `x · weight + bias`, `[…, in] → […, out]`.
    ///
    /// # Errors
    /// A shape error if the last axis of `x` is not `in`, or if the length of the bias is not
    /// `out`.
    #[track_caller]
    pub fn of<D: MatMul<Ix2, Product = D>>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        linear(x, &self.weight, self.bias.as_ref())
    }

    /// `max(x · weight + bias, 0)`, `[…, in] → […, out]`. The result is bit-identical to
    /// `linear.of(x).relu()`; with a bias it is computed as one fused operation, see
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
    /// Those of [`of`](Linear::of).
    #[track_caller]
    pub fn relu_of<D: MatMul<Ix2, Product = D>>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        match &self.bias {
            Some(bias) => x.linear_relu(&self.weight, bias),
            None => x.matmul(&self.weight).relu(),
        }
    }
}

/// `x · weight`, plus the bias, if any.
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

/// Adds a bias, if any, along the last axis of `x`.
#[track_caller]
pub(crate) fn add_bias<A: Element, D: Rank>(
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
