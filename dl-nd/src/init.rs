//! Seeded initial values of weights.
//!
//! All draws come from the generator that is passed in, one after the other in row-major order and in double precision: a seed
//! determines the weights, on every platform, and `f32` weights are the rounded `f64` ones. Weights of fully connected layers
//! are `[in, out]` here (`input.matmul(&weight)`): for two axes the fan-in is the length of the first one, the fan-out that of
//! the second one. Tensors with more axes are kernels of convolutions, `[out, in, k…]`, with fan-in `in · Πk` and fan-out
//! `out · Πk`, as in PyTorch.
//!
//! ```
//! use dl_core::Weight;
//! use dl_nd::{NdWeight, init};
//! let mut rng = init::rng(42);
//! let hidden: NdWeight = Weight::new(init::he_normal([64, 32], &mut rng));
//! let bias: NdWeight<ndarray::Ix1> = Weight::new(init::zeros([32]));
//! # assert_eq!(hidden.value(), init::he_normal([64, 32], &mut init::rng(42)));
//! ```

use crate::element::{Element, Rank};
use crate::nd::Nd;
use ndarray::{Array, Dimension, IntoDimension};
use rand::distr::{Distribution, StandardUniform};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

/// A generator whose stream is the same on every platform.
///
/// ```
/// use dl_nd::{Nd, init};
/// let a: Nd = init::normal([2, 2], 0.0, 1.0, &mut init::rng(1));
/// let b: Nd = init::normal([2, 2], 0.0, 1.0, &mut init::rng(1));
/// assert_eq!(a, b);
/// ```
pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Nothing but zeros: what biases start with.
///
/// ```
/// assert_eq!(dl_nd::init::zeros::<f32, _>([2]), dl_nd::Nd::from([0.0, 0.0]));
/// ```
pub fn zeros<A: Element, S: IntoDimension>(shape: S) -> Nd<A, S::Dim>
where
    S::Dim: Rank,
{
    Nd::full(shape.into_dimension(), A::of(0.0))
}

/// Uniform between `low` (included) and `high`.
///
/// ```
/// let w = dl_nd::init::uniform::<f64, _>([100], -1.0, 1.0, &mut dl_nd::init::rng(1));
/// assert!(w.view().iter().all(|x| x.abs() <= 1.0));
/// ```
pub fn uniform<A: Element, S: IntoDimension>(shape: S, low: f64, high: f64, rng: &mut impl Rng) -> Nd<A, S::Dim>
where
    S::Dim: Rank,
{
    draw(shape, || {
        let x: f64 = StandardUniform.sample(rng);
        low + (high - low) * x
    })
}

/// Normal with this mean and standard deviation.
///
/// ```
/// let w = dl_nd::init::normal::<f64, _>([1000], 0.0, 2.0, &mut dl_nd::init::rng(1));
/// assert!((w.view().std(0.0) - 2.0).abs() < 0.2);
/// ```
pub fn normal<A: Element, S: IntoDimension>(shape: S, mean: f64, std: f64, rng: &mut impl Rng) -> Nd<A, S::Dim>
where
    S::Dim: Rank,
{
    draw(shape, || {
        let x: f64 = StandardNormal.sample(rng);
        mean + std * x
    })
}

/// Uniform between `±√(6 / (fan_in + fan_out))`, for `tanh` and `sigmoid`.
///
/// Glorot & Bengio, *Understanding the difficulty of training deep feedforward neural networks*, 2010, formula 16; PyTorch's
/// `xavier_uniform_`.
///
/// ```
/// let w = dl_nd::init::xavier_uniform::<f64, _>([2, 4], &mut dl_nd::init::rng(1));
/// assert!(w.view().iter().all(|x| x.abs() <= 1.0));
/// ```
pub fn xavier_uniform<A: Element, S: IntoDimension>(shape: S, rng: &mut impl Rng) -> Nd<A, S::Dim>
where
    S::Dim: Rank,
{
    let shape = shape.into_dimension();
    let (fan_in, fan_out) = fans(&shape);
    let bound = (6.0 / (fan_in + fan_out)).sqrt();
    uniform(shape, -bound, bound, rng)
}

/// Normal with standard deviation `√(2 / (fan_in + fan_out))`, for `tanh` and `sigmoid`.
///
/// Glorot & Bengio 2010, formula 12; PyTorch's `xavier_normal_`.
///
/// ```
/// let w = dl_nd::init::xavier_normal::<f64, _>([50, 50], &mut dl_nd::init::rng(1));
/// assert!((w.view().std(0.0) - 0.02_f64.sqrt()).abs() < 0.01);
/// ```
pub fn xavier_normal<A: Element, S: IntoDimension>(shape: S, rng: &mut impl Rng) -> Nd<A, S::Dim>
where
    S::Dim: Rank,
{
    let shape = shape.into_dimension();
    let (fan_in, fan_out) = fans(&shape);
    normal(shape, 0.0, (2.0 / (fan_in + fan_out)).sqrt(), rng)
}

/// Uniform between `±√(6 / fan_in)`, for `relu`.
///
/// He, Zhang, Ren & Sun, *Delving deep into rectifiers*, 2015, formula 10, with the bound that has its variance; PyTorch's
/// `kaiming_uniform_(nonlinearity='relu')`.
///
/// ```
/// let w = dl_nd::init::he_uniform::<f64, _>([6, 4], &mut dl_nd::init::rng(1));
/// assert!(w.view().iter().all(|x| x.abs() <= 1.0));
/// ```
pub fn he_uniform<A: Element, S: IntoDimension>(shape: S, rng: &mut impl Rng) -> Nd<A, S::Dim>
where
    S::Dim: Rank,
{
    let shape = shape.into_dimension();
    let bound = (6.0 / fans(&shape).0).sqrt();
    uniform(shape, -bound, bound, rng)
}

/// Normal with standard deviation `√(2 / fan_in)`, for `relu`.
///
/// He, Zhang, Ren & Sun 2015, formula 10; PyTorch's `kaiming_normal_(nonlinearity='relu')`.
///
/// ```
/// let w = dl_nd::init::he_normal::<f64, _>([50, 50], &mut dl_nd::init::rng(1));
/// assert!((w.view().std(0.0) - 0.2).abs() < 0.02);
/// ```
pub fn he_normal<A: Element, S: IntoDimension>(shape: S, rng: &mut impl Rng) -> Nd<A, S::Dim>
where
    S::Dim: Rank,
{
    let shape = shape.into_dimension();
    let std = (2.0 / fans(&shape).0).sqrt();
    normal(shape, 0.0, std, rng)
}

fn draw<A: Element, S: IntoDimension>(shape: S, mut next: impl FnMut() -> f64) -> Nd<A, S::Dim>
where
    S::Dim: Rank,
{
    let shape = shape.into_dimension();
    let elements = (0..shape.size()).map(|_| A::of(next())).collect();
    Array::from_shape_vec(shape, elements).expect("one number for each element").into()
}

/// How many inputs feed an output, and how many outputs an input feeds.
fn fans(shape: &impl Rank) -> (f64, f64) {
    let (fan_in, fan_out) = match *shape.slice() {
        [] => (1, 1),
        [n] => (n, 1),
        [fan_in, fan_out] => (fan_in, fan_out),
        [fan_out, fan_in, ref kernel @ ..] => {
            let field: usize = kernel.iter().product();
            (fan_in * field, fan_out * field)
        }
    };
    (fan_in as f64, fan_out as f64)
}
