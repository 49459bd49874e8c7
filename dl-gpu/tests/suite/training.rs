//! Training on a device gives the weights of the host.

use super::{device, numbers};
use dl_core::{Differentiable, Layer, Result, Weight};
use dl_nd::{MoveModule, Nd, NdLayer, NdWeight, ops::*};
use dl_optim::Sgd;
use ndarray::{Ix1, Ix2};

fn matrix(shape: [usize; 2], seed: usize) -> Nd {
    let x = numbers::<f32>(&shape, seed).to_rank::<Ix2>().predict().wait().expect("a matrix");
    (x.layer() * 0.3).predict().wait().expect("a matrix")
}

struct Net {
    hidden: NdWeight,
    bias: NdWeight<Ix1>,
    output: NdWeight,
}

impl Net {
    fn new() -> Self {
        let (hidden, output) = (Weight::new(matrix([20, 40], 1)), Weight::new(matrix([40, 3], 2)));
        Net { hidden, bias: Weight::new(Nd::full(40, 0.1)), output }
    }

    fn loss(&self, x: &Nd, y: &Nd) -> Layer<f32> {
        let scores: NdLayer = x.linear(&self.hidden, &self.bias).tanh().matmul(&self.output);
        (scores - y.layer()).square().mean()
    }

    /// The losses of some steps, and the weights after them.
    fn trained(&self, x: &Nd, y: &Nd) -> Result<(Vec<f32>, [Vec<f32>; 3])> {
        let losses = (0..5).map(|_| self.loss(x, y).train(&Sgd::new(0.1)).wait()).collect::<Result<_>>()?;
        let hidden = self.hidden.value().to_host()?.into_vec();
        Ok((losses, [hidden, self.bias.value().to_host()?.into_vec(), self.output.value().to_host()?.into_vec()]))
    }
}

#[test]
fn steps_on_device_give_weights_of_host() {
    let Some(device) = device(3) else { return };
    let (x, y) = (matrix([16, 20], 3), matrix([16, 3], 4));
    let (on_host, on_device) = (Net::new(), Net::new());
    (&on_device.hidden, (&on_device.bias, &on_device.output)).move_to(&device).unwrap();
    let moved = (x.to(&device).unwrap(), y.to(&device).unwrap());
    let expected = on_host.trained(&x, &y).unwrap();
    let before = device.counters();
    let found = on_device.trained(&moved.0, &moved.1).unwrap();
    let after = device.counters();
    assert!(expected.0[4] < expected.0[0]);
    assert_eq!(found, expected);
    // a number for each step, and three weights
    assert_eq!((after.syncs - before.syncs, after.bytes_up - before.bytes_up), (5 + 3, 0));
}

#[test]
fn second_derivative_on_device_has_bits_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    let value = |w: &NdWeight, x: &Nd| {
        let loss = x.matmul(w).tanh().square().sum();
        let gradient: NdLayer = loss.gradient(w);
        gradient.square().sum().gradient(w).predict().wait().unwrap().to_host().unwrap()
    };
    let (w, x) = (Weight::new(matrix([6, 5], 1)), matrix([7, 6], 2));
    let expected = value(&w, &x);
    w.move_to(&device).unwrap();
    assert_eq!(value(&w, &x.to(&device).unwrap()), expected);
}
