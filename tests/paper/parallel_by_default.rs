//! `parallelByDefault`: `a * b` and `c * d` overlap in time, forward and backward.

use dl::{At, Differentiable, Error, Layer, Primitive, Result, Sgd, Weight};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// An expensive product. Its kernel waits until another one runs.
#[derive(Clone)]
struct Multiply {
    here: Arc<(Mutex<usize>, Condvar)>,
    there: Arc<(Mutex<usize>, Condvar)>,
}

impl Primitive for Multiply {
    type Operands = (Layer<f64>, Layer<f64>);
    type Output = f64;

    fn name(&self) -> &'static str {
        "multiply"
    }

    fn value(&self, (a, b): (&f64, &f64)) -> Result<f64> {
        let (count, changed) = &*self.here;
        let mut count = count.lock().unwrap();
        *count += 1;
        changed.notify_all();
        let (count, late) = changed.wait_timeout_while(count, Duration::from_secs(5), |count| *count < 2).unwrap();
        drop(count);
        if late.timed_out() { Err(Error::invalid("the other product never ran")) } else { Ok(a * b) }
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>, Option<Layer<f64>>) {
        let (_, b) = at.operands;
        let back = Multiply { here: self.there.clone(), there: self.there.clone() };
        (Some(Layer::apply(back, (at.delta.clone(), b.clone()))), None)
    }

    fn cost(&self, _: (&f64, &f64)) -> f64 {
        1e6
    }
}

fn parallel_by_default(multiply: &Multiply, [a, b, c, d]: [Layer<f64>; 4]) -> Layer<f64> {
    Layer::apply(multiply.clone(), (a, b)) + Layer::apply(multiply.clone(), (c, d))
}

#[test]
fn products_overlap_forward_and_backward() {
    let multiply = Multiply { here: Arc::default(), there: Arc::default() };
    let (a, c) = (Weight::new(2.0), Weight::new(3.0));
    let operands = [a.layer(), Layer::constant(5.0), c.layer(), Layer::constant(7.0)];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let y = pool.install(|| parallel_by_default(&multiply, operands).train(&Sgd::new(1.0)).wait()).unwrap();
    assert_eq!((y, a.value(), c.value()), (31.0, -3.0, -4.0));
}
