//! L-BFGS: a quasi-Newton method for losses without noise.

mod line_search;
mod point;
mod vector;

use crate::validate::{Allowed, check};
use dl_core::{Data, Differentiable, Do, Error, Number, Result};
use line_search::{LineSearch, Trial};
use point::{Loss, Point};
use std::collections::VecDeque;
use std::sync::Arc;
use vector::{add_scaled, dot, largest};

/// Limited-memory BFGS with a line search by the strong Wolfe conditions: few, expensive steps to a
/// minimum, for a loss that is the same in each evaluation (all data in one batch, no dropout).
///
/// A layer is a recipe, so there is no closure to pass as in PyTorch: each evaluation is a new pass
/// over the loss. The points that a line search tries are snapshots, which no other pass sees; the
/// weights change once in an iteration, all of them or none, and with them the buffers that the
/// accepted evaluation updates.
///
/// It starts with an empty history and the weights as they are. It is not an
/// [`Optimizer`](dl_core::Optimizer): one step takes several evaluations. It reads each gradient
/// into memory in double precision, and keeps two such vectors for each entry of the history.
///
/// Sources: Nocedal, *Updating quasi-Newton matrices with limited storage*, 1980; Nocedal and
/// Wright, *Numerical optimization*, 2006, algorithms 7.4, 3.5 and 3.6. Steps, tolerances and the
/// line search are those of PyTorch's `LBFGS(line_search_fn="strong_wolfe")`.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Lbfgs;
/// let (x, y) = (Weight::new(-1.2_f64), Weight::new(1.0));
/// let rosenbrock = (1.0 - &x).square() + 100.0 * (&y - x.square()).square();
/// let minimum = Lbfgs::new().minimize(&rosenbrock).wait()?;
/// assert!(minimum.loss < 1e-12 && minimum.evaluations < 60);
/// assert!((x.value() - 1.0).abs() < 1e-5 && (y.value() - 1.0).abs() < 1e-5);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Lbfgs {
    history: usize,
    iterations: usize,
    gradient_tolerance: f64,
    change_tolerance: f64,
    seed: Option<u64>,
    search: LineSearch,
}

/// The end of a [minimization](Lbfgs::minimize).
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::{Ending, Lbfgs, Minimum};
/// let w = Weight::new(3.0_f64);
/// let minimum: Minimum = Lbfgs::new().minimize(&w.square()).wait()?;
/// assert_eq!((minimum.ending, w.value()), (Ending::Gradient, 0.0));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Minimum {
    /// The loss at the weights as they are now.
    pub loss: f64,
    /// The largest absolute element of its gradient.
    pub gradient: f64,
    /// The number of iterations: of changes of the weights.
    pub iterations: usize,
    /// The number of evaluations of the loss and its gradient.
    pub evaluations: usize,
    /// The reason for the end.
    pub ending: Ending,
}

/// Why a [minimization](Lbfgs::minimize) ended.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::{Ending, Lbfgs};
/// let w = Weight::new(3.0_f64);
/// assert_eq!(Lbfgs::new().iterations(1).minimize(&w.cosh()).wait()?.ending, Ending::Iterations);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The gradient is within its tolerance.
    Gradient,
    /// The last step or the last change of the loss is within its tolerance, or no step along the
    /// direction of search decreases the loss.
    Change,
    /// The limit of iterations.
    Iterations,
}

impl Lbfgs {
    /// The defaults: a history of 10 steps, 100 iterations, tolerances of 1e-7 for the gradient and
    /// 1e-9 for a change, Wolfe constants of 1e-4 and 0.9.
    ///
    /// ```
    /// let lbfgs = dl_optim::Lbfgs::new();
    /// ```
    pub fn new() -> Self {
        let search = LineSearch { decrease: 1e-4, curvature: 0.9, shortest: 1e-9, evaluations: 25 };
        Lbfgs { history: 10, iterations: 100, gradient_tolerance: 1e-7, change_tolerance: 1e-9, seed: None, search }
    }

    /// The number of steps that the estimate of the Hessian is made from. With 0 it is steepest
    /// descent.
    ///
    /// ```
    /// let lbfgs = dl_optim::Lbfgs::new().history(100);
    /// ```
    #[must_use]
    pub fn history(self, steps: usize) -> Self {
        Lbfgs { history: steps, ..self }
    }

    /// The largest number of iterations. PyTorch's default is 20.
    ///
    /// ```
    /// let lbfgs = dl_optim::Lbfgs::new().iterations(1000);
    /// ```
    #[must_use]
    pub fn iterations(self, most: usize) -> Self {
        Lbfgs { iterations: most, ..self }
    }

    /// Ends once no element of the gradient is larger than `gradient`, or once no element of a step
    /// is larger, or the loss changes by less, than `change`.
    ///
    /// ```
    /// let lbfgs = dl_optim::Lbfgs::new().tolerances(1e-5, 1e-9);
    /// ```
    #[must_use]
    pub fn tolerances(mut self, gradient: f64, change: f64) -> Self {
        (self.gradient_tolerance, self.change_tolerance, self.search.shortest) = (gradient, change, change);
        self
    }

    /// The strong Wolfe conditions of a step of length t along a direction in which the loss has
    /// the slope m: the loss decreases by at least `decrease · t · |m|`, and the slope there is at
    /// most `curvature · |m|`. The smaller `curvature` is, the more exact is the line search.
    ///
    /// ```
    /// let lbfgs = dl_optim::Lbfgs::new().wolfe(1e-4, 0.1);
    /// ```
    #[must_use]
    pub fn wolfe(mut self, decrease: f64, curvature: f64) -> Self {
        (self.search.decrease, self.search.curvature) = (decrease, curvature);
        self
    }

    /// The largest number of evaluations in one line search; 25 by default.
    ///
    /// ```
    /// let lbfgs = dl_optim::Lbfgs::new().evaluations(50);
    /// ```
    #[must_use]
    pub fn evaluations(mut self, most: usize) -> Self {
        self.search.evaluations = most;
        self
    }

    /// The seed of each evaluation, which then draws the same random numbers.
    ///
    /// ```
    /// let lbfgs = dl_optim::Lbfgs::new().seed(1);
    /// ```
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Lbfgs { seed: Some(seed), ..self }
    }

    /// Minimizes a loss over all weights that it depends on and that are not frozen. An evaluation
    /// is a pass in training mode.
    ///
    /// A loss or gradient that is infinite or NaN at a point of the line search makes the step
    /// shorter.
    ///
    /// # Errors
    /// Those of the loss and its gradient; when a setting is invalid; when the loss or its gradient
    /// is not finite at the start; when another step changes the weights meanwhile, or an
    /// evaluation has other weights than the first one. The weights are then those of the last iteration that
    /// succeeded.
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Lbfgs;
    /// let w = Weight::new(1.0_f64);
    /// // the logarithm of a negative number is NaN: shorter steps are tried
    /// let minimum = Lbfgs::new().minimize(&(&w * 10.0 - w.ln())).wait()?;
    /// assert!((w.value() - 0.1).abs() < 1e-6 && minimum.gradient < 1e-6);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn minimize<A: Number + Data, L: Differentiable<Data = A>>(&self, loss: &L) -> Do<Minimum> {
        let (this, loss) = (self.clone(), loss.value_and_backward());
        let loss = match self.seed {
            Some(seed) => loss.seed(seed),
            None => loss,
        };
        Do::from_fn(move || {
            let (this, loss) = (this.clone(), loss.clone());
            async move { this.run(&loss).await }
        })
    }

    fn check(&self) -> Result<()> {
        check("the gradient tolerance", self.gradient_tolerance, Allowed::AtLeastZero)?;
        check("the change tolerance", self.change_tolerance, Allowed::AtLeastZero)?;
        check("the decrease of the Wolfe conditions", self.search.decrease, Allowed::BelowOne)?;
        check("the curvature of the Wolfe conditions", self.search.curvature, Allowed::BelowOne)?;
        if self.search.decrease > self.search.curvature {
            let LineSearch { decrease, curvature, .. } = self.search;
            return Err(Error::invalid(format!(
                "the decrease of the Wolfe conditions, {decrease}, is above the curvature, {curvature}"
            )));
        }
        match self.search.evaluations {
            0 => Err(Error::invalid("a line search of L-BFGS needs at least one evaluation")),
            _ => Ok(()),
        }
    }

    async fn run<A: Number + dl_core::Data>(&self, loss: &Loss<A>) -> Result<Minimum> {
        self.check()?;
        let mut at = Arc::new(Point::evaluate(loss, None).await?);
        if !at.is_finite() {
            let (loss, slope) = (at.value, &at.gradient);
            let bad = slope.iter().filter(|x| !x.is_finite()).count();
            return Err(Error::not_finite(format!(
                "L-BFGS cannot start: the loss is {loss}, and {bad} of {} elements of its gradient are not finite",
                slope.len()
            )));
        }
        let mut hessian = InverseHessian::new(self.history);
        let (mut iterations, mut evaluations, mut changed) = (0, 1, f64::INFINITY);
        let ending = loop {
            if largest(&at.gradient) <= self.gradient_tolerance {
                break Ending::Gradient;
            }
            if changed <= self.change_tolerance {
                break Ending::Change;
            }
            if iterations == self.iterations {
                break Ending::Iterations;
            }
            let direction: Arc<[f64]> = hessian.direction(&at.gradient).into();
            let slope = dot(&at.gradient, &direction);
            // NaN after an overflow
            if slope.is_nan() || slope >= -self.change_tolerance {
                break Ending::Change;
            }
            let first = match iterations {
                0 => at.gradient.iter().map(|x| x.abs()).sum::<f64>().recip().min(1.0),
                _ => 1.0,
            };
            let start = Trial { length: 0.0, slope, point: at.clone() };
            let (found, tried) = self.search.run(loss, start, &direction, first).await?;
            evaluations += tried;
            if found.length == 0.0 {
                break Ending::Change;
            }
            let next = found.point.commit(&direction, found.length).await?;
            iterations += 1;
            changed = (found.length * largest(&direction)).min((next.value - at.value).abs());
            hessian.learn(&direction, found.length, &at.gradient, &next.gradient);
            at = Arc::new(next);
        };
        let gradient = largest(&at.gradient);
        Ok(Minimum { loss: at.value, gradient, iterations, evaluations, ending })
    }
}

impl Default for Lbfgs {
    fn default() -> Self {
        Lbfgs::new()
    }
}

/// An estimate of the inverse of the Hessian, from the last steps and the changes of the gradient.
struct InverseHessian {
    most: usize,
    pairs: VecDeque<Pair>,
    /// The estimate before any step of the history is this multiple of the identity.
    scale: f64,
}

struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    /// 1 / (step · change)
    inverse: f64,
}

impl InverseHessian {
    fn new(most: usize) -> Self {
        InverseHessian { most, pairs: VecDeque::new(), scale: 1.0 }
    }

    /// Minus the product with a gradient, by two loops.
    fn direction(&self, gradient: &[f64]) -> Vec<f64> {
        let mut result: Vec<f64> = gradient.iter().map(|x| -x).collect();
        let mut factors = Vec::with_capacity(self.pairs.len());
        for Pair { step, change, inverse } in self.pairs.iter().rev() {
            let factor = inverse * dot(step, &result);
            add_scaled(&mut result, -factor, change);
            factors.push(factor);
        }
        result.iter_mut().for_each(|x| *x *= self.scale);
        for (Pair { step, change, inverse }, factor) in self.pairs.iter().zip(factors.iter().rev()) {
            let correction = factor - inverse * dot(change, &result);
            add_scaled(&mut result, correction, step);
        }
        result
    }

    /// Takes a step into account, unless the loss is not convex along it.
    fn learn(&mut self, direction: &[f64], length: f64, before: &[f64], after: &[f64]) {
        let step: Vec<f64> = direction.iter().map(|x| length * x).collect();
        let change: Vec<f64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        let product = dot(&step, &change);
        if product <= 1e-10 {
            return;
        }
        self.scale = product / dot(&change, &change);
        if self.pairs.len() == self.most {
            self.pairs.pop_front();
        }
        if self.most > 0 {
            self.pairs.push_back(Pair { step, change, inverse: product.recip() });
        }
    }
}
