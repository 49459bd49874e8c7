//! Newton's method with conjugate gradients for softmax regression.

#[path = "../common/digits.rs"]
pub(crate) mod digits;

use dl::Result;
use dl::prelude::*;

/// The factor of the penalty on the weights.
pub(crate) const LAMBDA: f64 = 0.01;

type Images = Nd<f64, Ix2>;
type Labels = Nd<usize, Ix1>;

/// `softmax(images · weights + bias)`.
#[derive(Variables)]
pub(crate) struct Softmax {
    weights: NdWeight<Ix2, f64>,
    bias: NdWeight<Ix1, f64>,
}

/// A point, a gradient or a direction: values for the weights and for the bias.
type Vector = (Nd<f64, Ix2>, Nd<f64, Ix1>);

impl Softmax {
    pub(crate) fn zeros() -> Self {
        Softmax { weights: Weight::new(Nd::full([64, 10], 0.0)), bias: Weight::new(Nd::full([10], 0.0)) }
    }

    fn logits(&self, images: &Images) -> NdLayer<Ix2, f64> {
        images.matmul(&self.weights) + &self.bias
    }

    /// The mean cross entropy, plus the penalty.
    pub(crate) fn loss(&self, images: &Images, labels: &Labels) -> Layer<f64> {
        self.logits(images).cross_entropy(labels) + LAMBDA / 2.0 * self.weights.square().sum()
    }

    #[allow(dead_code, reason = "unused by the tests")]
    pub(crate) fn accuracy(&self, images: &Images, labels: &Labels) -> Do<f64> {
        self.logits(images).argmax(-1).equal(labels).to_floats::<f64>().mean().predict()
    }

    fn point(&self) -> Vector {
        (self.weights.value(), self.bias.value())
    }

    fn set(&self, (weights, bias): Vector) {
        self.weights.set(weights);
        self.bias.set(bias);
    }
}

/// The state at the beginning of a step, and its cost.
pub(crate) struct Step {
    pub(crate) loss: f64,
    /// The norm of the gradient.
    pub(crate) norm: f64,
    /// The number of Hessian-vector products in the step before.
    pub(crate) products: usize,
}

/// Minimises the loss to this norm of the gradient, in at most a hundred steps.
pub(crate) fn minimise(
    net: &Softmax,
    loss: &Layer<f64>,
    tolerance: f64,
    mut report: impl FnMut(usize, &Step),
) -> Result<Vec<Step>> {
    let (mut steps, mut products) = (Vec::new(), 0);
    for number in 0..=100 {
        let (value, slope) = loss.value_and_gradients(net);
        let (value, gradient) = Do::predict((value, (slope.weights, slope.bias))).wait()?;
        let norm = dot(&gradient, &gradient).sqrt();
        let step = Step { loss: value, norm, products };
        report(number, &step);
        steps.push(step);
        if norm <= tolerance {
            break;
        }
        let direction;
        (direction, products) = conjugate_gradients(loss, net, &gradient, 1e-3_f64.min(norm))?;
        // Backtracking line search with the Armijo condition.
        let (start, slope, mut length) = (net.point(), dot(&gradient, &direction), 1.0);
        loop {
            net.set(add_scaled(&start, length, &direction));
            if loss.predict().wait()? <= value + 1e-4 * length * slope || length < 1e-6 {
                break;
            }
            length /= 2.0;
        }
    }
    Ok(steps)
}

/// Solves `H · direction = −gradient` to a residual of `share` times the gradient. Returns the
/// direction and the number of products.
fn conjugate_gradients(loss: &Layer<f64>, net: &Softmax, gradient: &Vector, share: f64) -> Result<(Vector, usize)> {
    let mut solution = add_scaled(gradient, -1.0, gradient);
    let mut rest = add_scaled(&solution, -1.0, gradient);
    let mut direction = rest.clone();
    let mut square = dot(&rest, &rest);
    let enough = share * share * square;
    let mut products = 0;
    while square > enough && products < 1000 {
        let curved = product(loss, net, &direction).wait()?;
        let length = square / dot(&direction, &curved);
        solution = add_scaled(&solution, length, &direction);
        rest = add_scaled(&rest, -length, &curved);
        let next = dot(&rest, &rest);
        direction = add_scaled(&rest, next / square, &direction);
        square = next;
        products += 1;
    }
    Ok((solution, products))
}

/// The product of the Hessian with a direction.
fn product(loss: &Layer<f64>, net: &Softmax, direction: &Vector) -> Do<Vector> {
    let direction = SoftmaxGradients { weights: direction.0.layer(), bias: direction.1.layer() };
    let product = loss.hvp(net, &direction);
    Do::predict((product.weights, product.bias))
}

fn dot(a: &Vector, b: &Vector) -> f64 {
    (&a.0.view() * &b.0.view()).sum() + (&a.1.view() * &b.1.view()).sum()
}

/// `a + factor · b`.
fn add_scaled(a: &Vector, factor: f64, b: &Vector) -> Vector {
    ((&a.0.view() + &(&b.0.view() * factor)).into(), (&a.1.view() + &(&b.1.view() * factor)).into())
}
