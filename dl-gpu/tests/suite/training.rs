//! Training on a device gives the weights of the host.

use super::{device, numbers};
use dl_core::{Chunk, Differentiable, Layer, Optimizer, Result, Step, Weight};
use dl_nd::device::Device;
use dl_nd::{Element, MoveModule, Nd, NdLayer, NdWeight, ops::*};
use dl_optim::schedule::Cosine;
use dl_optim::{Adadelta, Adagrad, Adam, AdamW, Groups, Lion, NAdam, OptimizerExt, RAdam, RmsProp, Sgd};
use ndarray::{Ix1, Ix2, IxDyn};
use std::sync::{Arc, Mutex};

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
    fn trained(&self, optimizer: &Arc<dyn Optimizer>, x: &Nd, y: &Nd) -> Result<(Vec<f32>, [Vec<f32>; 3])> {
        let losses = (0..5).map(|_| self.loss(x, y).train(optimizer).wait()).collect::<Result<_>>()?;
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
    let sgd: Arc<dyn Optimizer> = Arc::new(Sgd::new(0.1));
    let expected = on_host.trained(&sgd, &x, &y).unwrap();
    let before = device.counters();
    let found = on_device.trained(&sgd, &moved.0, &moved.1).unwrap();
    let after = device.counters();
    assert!(expected.0[4] < expected.0[0]);
    assert_eq!(found, expected);
    // a number for each step, and three weights
    assert_eq!((after.syncs - before.syncs, after.bytes_up - before.bytes_up), (5 + 3, 0));
}

/// Optimizers with fresh state.
fn optimizers(net: &Net) -> Vec<Arc<dyn Optimizer>> {
    let schedule = || Cosine::new(0.1, 7);
    vec![
        Arc::new(Sgd::new(0.1).momentum(0.9).dampening(0.1)),
        Arc::new(Sgd::new(schedule()).momentum(0.9).nesterov().l1(0.01)),
        Arc::new(Adam::new(0.1).amsgrad().clip_norm(0.5)),
        Arc::new(AdamW::new(schedule()).weight_decay(0.1).clip_value(0.01)),
        Arc::new(Adagrad::new(0.1).initial_accumulator(0.1).lr_decay(0.1)),
        Arc::new(Adadelta::new(1.0).weight_decay(0.01).refuse_non_finite()),
        Arc::new(RmsProp::new(0.01).momentum(0.9).centered()),
        Arc::new(Lion::new(0.01).weight_decay(0.1)),
        Arc::new(NAdam::new(0.01).decoupled_weight_decay(0.1)),
        Arc::new(RAdam::new(0.1).betas(0.9, 0.5)),
        Arc::new(Groups::new(Adam::new(0.1)).with([&net.hidden], Sgd::new(0.1)).ema(0.9).clip_norm(0.1)),
    ]
}

#[test]
fn each_optimizer_gives_weights_and_state_of_host() {
    let Some(device) = device(3) else { return };
    let (x, y) = (matrix([16, 20], 3), matrix([16, 3], 4));
    let moved = (x.to(&device).unwrap(), y.to(&device).unwrap());
    for which in 0..optimizers(&Net::new()).len() {
        let (on_host, on_device) = (Net::new(), Net::new());
        (&on_device.hidden, (&on_device.bias, &on_device.output)).move_to(&device).unwrap();
        let [host, other] = [&on_host, &on_device].map(|net| optimizers(net).swap_remove(which));
        let expected = on_host.trained(&host, &x, &y).unwrap();
        let found = on_device.trained(&other, &moved.0, &moved.1).unwrap();
        assert_eq!(found, expected, "{which}: {}", host.kind());
        let state = |optimizer: &Arc<dyn Optimizer>, net: &Net| {
            let state =
                optimizer.state(&[("w", (&net.hidden).into()), ("b", (&net.bias).into()), ("o", (&net.output).into())]);
            let state = state.unwrap();
            let slot = |(weight, slot): (&str, &str)| match weight {
                "b" => state.slot::<Nd<f32, Ix1>>(weight, slot).unwrap().clone().into_vec(),
                _ => state.slot::<Nd>(weight, slot).unwrap().clone().into_vec(),
            };
            state.slots().map(slot).collect::<Vec<_>>()
        };
        assert_eq!(state(&other, &on_device), state(&host, &on_host), "{which}: {}", host.kind());
    }
}

#[test]
fn norm_of_deltas_has_bits_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    fn norm<A: Element>(device: &Arc<dyn Device>, len: usize, scale: f64) {
        let [host, other] = [0, 1].map(|_| Weight::new(numbers::<A>(&[len], 7)));
        other.move_to(device).unwrap();
        let seen = |w: &Weight<Nd<A, IxDyn>>| {
            let norms = Norms::default();
            (w.square() * A::of(scale)).sum().train(&norms).wait().unwrap();
            norms.0.lock().unwrap().clone()
        };
        assert_eq!(seen(&other), seen(&host), "{len} elements times {scale}");
    }
    for len in [1, 5, 128, 129, 4096, 5000, 70_001] {
        norm::<f32>(&device, len, 0.5);
        norm::<f64>(&device, len, 1e200);
    }
    norm::<f64>(&device, 300, 1e-200);
    norm::<f32>(&device, 300, 0.0);
    norm::<f64>(&device, 300, 0.0);
    norm::<f64>(&device, 300, f64::INFINITY);
}

#[test]
fn clipped_side_effects_have_bits_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    fn clipped<A: Element>(device: &Arc<dyn Device>, len: usize) {
        let [host, other] = [0, 1].map(|_| Weight::new(numbers::<A>(&[len], 7)));
        other.move_to(device).unwrap();
        let after = |w: &Weight<Nd<A, IxDyn>>| {
            let effects = (w.exp() * A::of(3.0)).sum().backward().wait().unwrap();
            let norm = effects.norm().wait().unwrap();
            effects.clip_norm(0.5).wait().unwrap().step(&Sgd::new(1.0)).wait().unwrap();
            (norm.to_bits(), w.value().to_host().unwrap().into_vec())
        };
        let (expected, found) = (after(&host), after(&other));
        assert!(expected.0 == found.0 && expected.1 == found.1, "{len} elements");
    }
    for len in [1, 5, 128, 129, 5000] {
        clipped::<f32>(&device, len);
        clipped::<f64>(&device, len);
    }
}

/// Remembers the norms of deltas, as bits, and changes nothing.
#[derive(Clone, Default)]
struct Norms(Arc<Mutex<Vec<u64>>>);

impl Optimizer for Norms {
    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        step.each_norm(&mut |_, norm| {
            self.0.lock().unwrap().push(if norm.is_nan() { 1 } else { norm.to_bits() });
            Ok(())
        })?;
        Ok(Some(Box::new(Sgd::new(0.0))))
    }

    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        unreachable!("another optimizer takes the step")
    }
}

#[test]
fn delta_that_is_not_finite_refuses_the_step_at_its_weight() {
    let Some(device) = device(u32::MAX) else { return };
    let line = line!() + 1;
    let (w, other) = (Weight::new(Nd::<f32, Ix1>::from([1.0, 0.0])), Weight::new(Nd::<f32, Ix1>::from([1.0, 2.0])));
    (&w, &other).move_to(&device).unwrap();
    let adam = Adam::new(0.1).refuse_non_finite();
    let loss = || other.square().sum() + w.ln().sum();
    let error = loss().train(&adam).wait().unwrap_err();
    assert!(error.is_not_finite() && error.to_string().contains("contains"), "{error}");
    assert_eq!(error.place().map(|place| place.line()), Some(line), "{error}");
    let error = loss().train(&Adam::new(0.1).clip_norm(1.0)).wait().unwrap_err();
    assert!(error.is_not_finite(), "{error}");
    assert_eq!(other.value().to_host().unwrap().into_vec(), [1.0, 2.0]);
    other.square().sum().train(&adam).wait().unwrap();
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
