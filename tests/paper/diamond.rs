//! `y2` and the figures *diamond* and *reference-counted backpropagation*: every backward runs
//! once, in the order of the figure.

use dl::{At, Differentiable, Layer, Primitive, Result, Sgd, Weight};
use std::sync::{Arc, Mutex};

/// A product that logs its evaluations.
#[derive(Clone)]
struct Multiply(&'static str, Arc<Mutex<Vec<String>>>);

impl Primitive for Multiply {
    type Operands = (Layer<f64>, Layer<f64>);
    type Output = f64;

    fn name(&self) -> &'static str {
        "multiply"
    }

    fn value(&self, (a, b): (&f64, &f64)) -> Result<f64> {
        self.1.lock().unwrap().push(format!("{} forward", self.0));
        Ok(a * b)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>, Option<Layer<f64>>) {
        self.1.lock().unwrap().push(format!("{} backward", self.0));
        let (a, b) = at.operands;
        (Some(at.delta * b), Some(at.delta * a))
    }
}

#[test]
fn diamond_runs_every_backward_once_in_order() {
    let log = Arc::<Mutex<Vec<String>>>::default();
    let multiply =
        |name, a: &Layer<f64>, b: &Layer<f64>| Layer::apply(Multiply(name, log.clone()), (a.clone(), b.clone()));
    let (x, w) = (Layer::constant(3.0), Weight::new(0.5));
    let y0 = multiply("y0", &x, &w.layer());
    let y1 = multiply("y1", &y0, &y0);
    let y2 = multiply("y2", &y1, &y1);
    assert_eq!(y2.train(&Sgd::new(0.01)).wait().unwrap(), 1.5_f64.powi(4));
    assert_eq!(
        *log.lock().unwrap(),
        ["y0 forward", "y1 forward", "y2 forward", "y2 backward", "y1 backward", "y0 backward"]
    );
    let derivative = 4.0 * 1.5_f64.powi(3) * 3.0;
    assert!((w.value() - (0.5 - 0.01 * derivative)).abs() < 1e-12);
}
