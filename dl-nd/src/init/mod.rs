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
//! All draws come from the generator that is passed in, one after the other in row-major order and
//! in double precision, on the thread that calls; `f32` weights are the rounded `f64` ones. Nothing
//! but the basic operations and the crate `libm` is computed, no function of the platform. So a
//! seed determines the weights, for every number of threads and on every platform whose arithmetic
//! is that of IEEE 754.
//!
//! With one generator for a whole net, weights depend on all that was drawn before them.
//! [`rng_for`] gives each part a generator of its own, by its name: then a net can grow without a
//! change of its other weights.
//!
//! # Fans
//!
//! Weights of fully connected layers are `[in, out]` here (`input.matmul(&weight)`): for two axes
//! the fan-in is the length of the first one, the fan-out that of the second one. Tensors with more
//! axes are kernels of convolutions, `[out, in, k…]`, with fan-in `in · Πk` and fan-out `out · Πk`,
//! as in PyTorch.
//!
//! # Gains
//!
//! By what the standard deviation is multiplied because of what follows (PyTorch's
//! `calculate_gain`): 1 for nothing and for `sigmoid`, 5/3 for `tanh`, √2 for `relu`,
//! `√(2 / (1 + a²))` for `leaky_relu` with slope `a`.

mod normal;
mod orthogonal;

use crate::tensor::{Element, Nd, Rank};
use dl_core::{Error, Result};
use ndarray::{Dimension, IntoDimension};
use rand::distr::{Distribution, StandardUniform};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

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

/// A generator for the part of a net that has this name, independent of those of all other names.
///
/// ```
/// use dl_nd::{Nd, init};
/// let weight = |name| -> Nd { init::he_normal([2, 2], &mut init::rng_for(1, name)) };
/// assert_eq!(weight("encoder.0"), weight("encoder.0"));
/// assert_ne!(weight("encoder.0"), weight("encoder.1"));
/// ```
pub fn rng_for(seed: u64, name: &str) -> ChaCha8Rng {
    let mut rng = rng(seed);
    // FNV-1a
    let stream = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    rng.set_stream(stream);
    rng
}

/// Nothing but zeros: what biases start with.
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

/// Nothing but this number.
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

/// Uniform between `low` (included) and `high`.
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
        if A::of(number) == end { low } else { number } // what is just below may be rounded to it
    })
}

/// Normal with this mean and standard deviation.
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

/// Normal with this mean and standard deviation, but never outside of `low` to `high`: PyTorch's
/// `trunc_normal_`, whose bounds are -2 and 2 if not said otherwise.
///
/// The bounds are those of the numbers, not multiples of the standard deviation.
///
/// ```
/// let w = dl_nd::init::truncated_normal::<f64, _>([1000], 0.0, 1.0, -2.0, 2.0, &mut dl_nd::init::rng(1))?;
/// assert!(w.view().iter().all(|x| x.abs() <= 2.0));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When `low` is not below `high`, or the standard deviation not above 0.
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
    let sensible = low < high && std > 0.0 && std.is_finite() && mean.is_finite();
    if !sensible {
        return Err(Error::invalid(format!(
            "no normal numbers of mean {mean} and standard deviation {std} lie between {low} and {high}: the deviation must be above 0, and the bounds in order"
        )));
    }
    let bounds = [low, high].map(|bound| (bound - mean) / std);
    // rounding must not carry a number over a bound
    Ok(draw(shape, || (mean + std * normal::truncated(bounds[0], bounds[1], rng)).clamp(low, high)))
}

/// `gain` times a matrix whose rows are orthonormal, or its columns if it is higher than wide;
/// evenly distributed over all of these (Saxe, McClelland and Ganguli, *Exact solutions to the
/// nonlinear dynamics of learning in deep linear neural networks*, 2014). All axes but the first
/// count as columns. PyTorch's `orthogonal_`.
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
/// When there are less than two axes, or the gain is not finite.
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
            Error::invalid(format!("the gain is {gain}"))
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
    Error::shape(format!("a tensor of shape {shape:?} has no rows and columns that could be orthogonal"))
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

/// [`xavier_uniform`] with another [gain](self#gains) than 1.
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

/// [`xavier_normal`] with another [gain](self#gains) than 1.
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
/// He, Zhang, Ren & Sun, *Delving deep into rectifiers*, 2015, formula 10, with the bound that has
/// its variance; PyTorch's `kaiming_uniform_(nonlinearity='relu')`.
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

/// [`he_uniform`] with a choice of the fan and of the [gain](self#gains), which is √2 otherwise:
/// uniform between `±gain · √(3 / fan)`. PyTorch's `kaiming_uniform_(mode=…)`.
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

/// [`he_normal`] with a choice of the fan and of the [gain](self#gains), which is √2 otherwise:
/// standard deviation `gain / √fan`. PyTorch's `kaiming_normal_(mode=…)`.
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

/// Which [fan](self#fans) keeps its variance: that of the values on the way forward, or that of the
/// derivatives on the way back.
///
/// ```
/// use dl_nd::Nd;
/// use dl_nd::init::{self, Fan};
/// let w: Nd = init::he_uniform_with([100, 4], Fan::In, 1.0, &mut init::rng(1));
/// assert!(w.view().iter().all(|x| x.abs() <= 3_f32.sqrt() / 10.0)); // 100 inputs
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// How many inputs feed an output: forward.
    In,
    /// How many outputs an input feeds: backward.
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

/// Uniform between 0 (included) and 1.
fn unit(rng: &mut impl Rng) -> f64 {
    StandardUniform.sample(rng)
}

fn draw<A: Element, S: IntoDimension<Dim: Rank>>(shape: S, mut next: impl FnMut() -> f64) -> Nd<A, S::Dim> {
    let shape = shape.into_dimension();
    let elements = (0..shape.size()).map(|_| A::of(next())).collect();
    Nd::from_elements(shape, elements)
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
