//! Seeded initial values of weights.
//!
//! ```
//! use dl_core::Weight;
//! use dl_nd::{NdWeight, init};
//! let mut rng = init::rng(42);
//! let hidden: NdWeight = Weight::new(init::he_normal([64, 32], &mut rng));
//! let bias: NdWeight<ndarray::Ix1> = Weight::new(init::zeros([32]));
//! # assert_eq!(hidden.value(), init::he_normal([64, 32], &mut init::rng(42)));
//! ```
//!
//! # What a seed determines
//!
//! Each function draws its numbers from the given generator on the calling thread, one after the
//! other in row-major order and in `f64`; `f32` weights are these numbers, rounded. The computation
//! uses only basic arithmetic and the `libm` crate, no mathematical functions of the platform. A
//! seed therefore determines the weights, for every number of threads and on every platform with
//! IEEE 754 arithmetic.
//!
//! If one generator serves a whole model, each weight depends on all earlier draws. [`rng_for`]
//! gives each named part a generator of its own, so that a model can grow without changing its
//! other weights.
//!
//! # Fans
//!
//! Weights of fully connected layers have the shape `[in, out]` (`input.matmul(&weight)`): with two
//! axes, the fan-in is the length of the first and the fan-out the length of the second. With more
//! axes, weights are kernels of convolutions, `[out, in, k…]`, with fan-in `in · Πk` and fan-out
//! `out · Πk`, as in PyTorch.
//!
//! # Gains
//!
//! The gain is a factor of the standard deviation that depends on the activation after the layer
//! (PyTorch's `calculate_gain`): 1 for none and for `sigmoid`, 5/3 for `tanh`, √2 for `relu`,
//! `√(2 / (1 + a²))` for `leaky_relu` with slope `a`.

mod normal;
mod orthogonal;

use crate::tensor::{Element, Nd, Rank};
use dl_core::{Error, Result};
use ndarray::{Dimension, IntoDimension};
use rand::SeedableRng;
use rand::distr::{Distribution, StandardUniform};
use rand_chacha::ChaCha8Rng;

/// The trait of random number generators, for functions that take one: `rng: &mut impl Rng`.
pub use rand::Rng;

/// A random number generator with the same stream on every platform.
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

/// A generator for the named part of a model. Generators of different names are independent.
///
/// ```
/// use dl_nd::{Nd, init};
/// let weight = |name| -> Nd { init::he_normal([2, 2], &mut init::rng_for(1, name)) };
/// assert_eq!(weight("encoder.0"), weight("encoder.0"));
/// assert_ne!(weight("encoder.0"), weight("encoder.1"));
/// ```
pub fn rng_for(seed: u64, name: &str) -> ChaCha8Rng {
    let mut rng = rng(seed);
    // the FNV-1a hash of the name
    let stream = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    rng.set_stream(stream);
    rng
}

/// All zeros, the usual initial value of biases.
///
/// ```
/// assert_eq!(dl_nd::init::zeros::<f32, _>([2]), dl_nd::Nd::from([0.0, 0.0]));
/// ```
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn zeros<A: Element, S: IntoDimension<Dim: Rank>>(shape: S) -> Nd<A, S::Dim> {
    Nd::full(shape.into_dimension(), A::of(0.0))
}

/// All elements equal to `number`.
///
/// ```
/// assert_eq!(dl_nd::init::constant::<f32, _>([2], 0.5), dl_nd::Nd::from([0.5, 0.5]));
/// ```
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn constant<A: Element, S: IntoDimension<Dim: Rank>>(shape: S, number: f64) -> Nd<A, S::Dim> {
    Nd::full(shape.into_dimension(), A::of(number))
}

/// Uniform in `low ≤ x < high`.
///
/// ```
/// let w = dl_nd::init::uniform::<f64, _>([100], -1.0, 1.0, &mut dl_nd::init::rng(1));
/// assert!(w.view().iter().all(|x| x.abs() <= 1.0));
/// ```
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn uniform<A: Element, S: IntoDimension<Dim: Rank>>(
    shape: S,
    low: f64,
    high: f64,
    rng: &mut impl Rng,
) -> Nd<A, S::Dim> {
    let end = A::of(high);
    draw(shape, || {
        let number = low + (high - low) * unit(rng);
        if A::of(number) == end { low } else { number } // a number just below `high` may round to `high`
    })
}

/// Normal with the given mean and standard deviation.
///
/// ```
/// let w = dl_nd::init::normal::<f64, _>([1000], 0.0, 2.0, &mut dl_nd::init::rng(1));
/// assert!((w.view().std(0.0) - 2.0).abs() < 0.2);
/// ```
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn normal<A: Element, S: IntoDimension<Dim: Rank>>(
    shape: S,
    mean: f64,
    std: f64,
    rng: &mut impl Rng,
) -> Nd<A, S::Dim> {
    draw(shape, || mean + std * normal::standard_normal(rng))
}

/// Normal with the given mean and standard deviation, truncated to the range `low` to `high`.
/// PyTorch's `trunc_normal_`, which has the default bounds -2 and 2.
///
/// The bounds are absolute, not multiples of the standard deviation.
///
/// ```
/// let w = dl_nd::init::truncated_normal::<f64, _>([1000], 0.0, 1.0, -2.0, 2.0, &mut dl_nd::init::rng(1))?;
/// assert!(w.view().iter().all(|x| x.abs() <= 2.0));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When `low < high` does not hold, the standard deviation is not positive and finite, or the mean
/// is not finite.
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn truncated_normal<A: Element, S: IntoDimension<Dim: Rank>>(
    shape: S,
    mean: f64,
    std: f64,
    low: f64,
    high: f64,
    rng: &mut impl Rng,
) -> Result<Nd<A, S::Dim>> {
    let is_valid = low < high && std > 0.0 && std.is_finite() && mean.is_finite();
    if !is_valid {
        return Err(Error::invalid(format!(
            "cannot truncate a normal distribution of mean {mean} and standard deviation {std} to the range {low} to {high}: the standard deviation must be above 0, and the lower bound below the upper one"
        )));
    }
    let bounds = [low, high].map(|bound| (bound - mean) / std);
    // rounding must not move a number beyond a bound
    Ok(draw(shape, || (mean + std * normal::truncated(bounds[0], bounds[1], rng)).clamp(low, high)))
}

/// `gain` times a matrix with orthonormal rows, or with orthonormal columns if it has more rows
/// than columns, drawn from the uniform distribution over these matrices (Saxe, McClelland and
/// Ganguli, *Exact solutions to the nonlinear dynamics of learning in deep linear neural networks*,
/// 2014). All axes but the first are flattened to columns. PyTorch's `orthogonal_`.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, init, ops::*};
/// let w: Nd<f64> = init::orthogonal([2, 3], 1.0, &mut init::rng(1))?;
/// let unit = w.matmul(w.t()).predict().wait()?;
/// assert!((unit[[0, 0]] - 1.0).abs() < 1e-12 && unit[[0, 1]].abs() < 1e-12);
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When there are fewer than two axes, or the gain is not finite.
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn orthogonal<A: Element, S: IntoDimension<Dim: Rank>>(
    shape: S,
    gain: f64,
    rng: &mut impl Rng,
) -> Result<Nd<A, S::Dim>> {
    let shape = shape.into_dimension();
    let [rows, rest @ ..] = shape.slice() else { return Err(no_matrix(&[])) };
    if rest.is_empty() || !gain.is_finite() {
        return Err(if rest.is_empty() {
            no_matrix(shape.slice())
        } else {
            Error::invalid(format!("the gain is {gain}; it must be finite"))
        });
    }
    let (rows, columns) = (*rows, rest.iter().product());
    let (count, length) = if rows <= columns { (rows, columns) } else { (columns, rows) };
    let vectors = orthogonal::orthonormal(count, length, rng);
    let mut place = 0;
    Ok(draw(shape, || {
        let (row, column) = (place / columns, place % columns);
        place += 1;
        gain * if rows <= columns { vectors[row * length + column] } else { vectors[column * length + row] }
    }))
}

fn no_matrix(shape: &[usize]) -> Error {
    Error::shape(format!("an orthogonal tensor needs at least 2 axes, but the shape is {shape:?}"))
}

/// Uniform between `±√(6 / (fan_in + fan_out))`, for `tanh` and `sigmoid`.
///
/// Glorot & Bengio, *Understanding the difficulty of training deep feedforward neural networks*,
/// 2010, formula 16; PyTorch's `xavier_uniform_`.
///
/// ```
/// let w = dl_nd::init::xavier_uniform::<f64, _>([2, 4], &mut dl_nd::init::rng(1));
/// assert!(w.view().iter().all(|x| x.abs() <= 1.0));
/// ```
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn xavier_uniform<A: Element, S: IntoDimension<Dim: Rank>>(shape: S, rng: &mut impl Rng) -> Nd<A, S::Dim> {
    xavier_uniform_with(shape, 1.0, rng)
}

/// [`xavier_uniform`] with a [gain](self#gains); the default is 1.
///
/// ```
/// let w = dl_nd::init::xavier_uniform_with::<f64, _>([2, 4], 5.0 / 3.0, &mut dl_nd::init::rng(1));
/// assert!(w.view().iter().all(|x| x.abs() <= 5.0 / 3.0));
/// ```
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn xavier_uniform_with<A: Element, S: IntoDimension<Dim: Rank>>(
    shape: S,
    gain: f64,
    rng: &mut impl Rng,
) -> Nd<A, S::Dim> {
    let shape = shape.into_dimension();
    let (fan_in, fan_out) = fans(&shape);
    let bound = gain * (6.0 / (fan_in + fan_out)).sqrt();
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
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn xavier_normal<A: Element, S: IntoDimension<Dim: Rank>>(shape: S, rng: &mut impl Rng) -> Nd<A, S::Dim> {
    xavier_normal_with(shape, 1.0, rng)
}

/// [`xavier_normal`] with a [gain](self#gains); the default is 1.
///
/// ```
/// let w = dl_nd::init::xavier_normal_with::<f64, _>([50, 50], 2.0, &mut dl_nd::init::rng(1));
/// assert!((w.view().std(0.0) - 0.08_f64.sqrt()).abs() < 0.02);
/// ```
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn xavier_normal_with<A: Element, S: IntoDimension<Dim: Rank>>(
    shape: S,
    gain: f64,
    rng: &mut impl Rng,
) -> Nd<A, S::Dim> {
    let shape = shape.into_dimension();
    let (fan_in, fan_out) = fans(&shape);
    normal(shape, 0.0, gain * (2.0 / (fan_in + fan_out)).sqrt(), rng)
}

/// Uniform between `±√(6 / fan_in)`, for `relu`.
///
/// He, Zhang, Ren & Sun, *Delving deep into rectifiers*, 2015, formula 10; the bound gives the
/// uniform distribution the same variance. PyTorch's `kaiming_uniform_(nonlinearity='relu')`.
///
/// ```
/// let w = dl_nd::init::he_uniform::<f64, _>([6, 4], &mut dl_nd::init::rng(1));
/// assert!(w.view().iter().all(|x| x.abs() <= 1.0));
/// ```
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn he_uniform<A: Element, S: IntoDimension<Dim: Rank>>(shape: S, rng: &mut impl Rng) -> Nd<A, S::Dim> {
    he_uniform_with(shape, Fan::In, 2_f64.sqrt(), rng)
}

/// [`he_uniform`] with a fan and a [gain](self#gains); the defaults are the fan-in and √2. Uniform
/// between `±gain · √(3 / fan)`. PyTorch's `kaiming_uniform_(mode=…)`.
///
/// ```
/// use dl_nd::init::{self, Fan};
/// let w = init::he_uniform_with::<f64, _>([4, 3], Fan::Out, 1.0, &mut init::rng(1));
/// assert!(w.view().iter().all(|x| x.abs() <= 1.0));
/// ```
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn he_uniform_with<A: Element, S: IntoDimension<Dim: Rank>>(
    shape: S,
    fan: Fan,
    gain: f64,
    rng: &mut impl Rng,
) -> Nd<A, S::Dim> {
    let shape = shape.into_dimension();
    let bound = gain * (3.0 / fan.of(&shape)).sqrt();
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
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn he_normal<A: Element, S: IntoDimension<Dim: Rank>>(shape: S, rng: &mut impl Rng) -> Nd<A, S::Dim> {
    he_normal_with(shape, Fan::In, 2_f64.sqrt(), rng)
}

/// [`he_normal`] with a fan and a [gain](self#gains); the defaults are the fan-in and √2. The
/// standard deviation is `gain / √fan`. PyTorch's `kaiming_normal_(mode=…)`.
///
/// ```
/// use dl_nd::init::{self, Fan};
/// let w = init::he_normal_with::<f64, _>([50, 25], Fan::Out, 1.0, &mut init::rng(1));
/// assert!((w.view().std(0.0) - 0.2).abs() < 0.02);
/// ```
///
/// # Panics
/// When there is no memory for a tensor of this shape.
pub fn he_normal_with<A: Element, S: IntoDimension<Dim: Rank>>(
    shape: S,
    fan: Fan,
    gain: f64,
    rng: &mut impl Rng,
) -> Nd<A, S::Dim> {
    let shape = shape.into_dimension();
    let std = gain * fan.of(&shape).sqrt().recip();
    normal(shape, 0.0, std, rng)
}

/// Selects the [fan](self#fans) that determines the variance of a weight, and so whether the
/// variance of the activations or that of the deltas is preserved.
///
/// ```
/// use dl_nd::Nd;
/// use dl_nd::init::{self, Fan};
/// let w: Nd = init::he_uniform_with([100, 4], Fan::In, 1.0, &mut init::rng(1));
/// assert!(w.view().iter().all(|x| x.abs() <= 3_f32.sqrt() / 10.0)); // 100 inputs
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// Number of inputs of each output: preserves the variance in the forward pass.
    In,
    /// Number of outputs of each input: preserves the variance in the backward pass.
    Out,
}

impl Fan {
    fn of(self, shape: &impl Rank) -> f64 {
        let (fan_in, fan_out) = fans(shape);
        match self {
            Fan::In => fan_in,
            Fan::Out => fan_out,
        }
    }
}

/// Uniform in `0 ≤ x < 1`.
fn unit(rng: &mut impl Rng) -> f64 {
    StandardUniform.sample(rng)
}

fn draw<A: Element, S: IntoDimension<Dim: Rank>>(shape: S, mut next: impl FnMut() -> f64) -> Nd<A, S::Dim> {
    let shape = shape.into_dimension();
    let elements = (0..shape.size()).map(|_| A::of(next())).collect();
    Nd::from_elements(shape, elements)
}

/// The fan-in and the fan-out of a weight.
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
