//! Workloads on the device and on the host: medians of rounds in turns.

use crate::{Size, matrix};
use dl_core::{Differentiable, Do, Layer, Result, Weight};
use dl_nd::device::Device;
use dl_nd::{MoveModule, Nd, NdLayer, NdWeight, ops::*};
use dl_optim::Adam;
use std::sync::Arc;
use std::time::Instant;

/// A run of a workload, as often as the number says.
type Run<'a> = Box<dyn Fn(usize) -> Result<()> + 'a>;

pub(crate) fn measure(device: &Arc<dyn Device>, size: Size) -> Result<()> {
    let mlp = |place: Option<&Arc<dyn Device>>| mlp(place, size);
    report("mlp: steps", device, mlp(None)?, mlp(Some(device))?, size.of(50, 3))?;
    let tree = |place: Option<&Arc<dyn Device>>| tree(place, size);
    report("tree: steps", device, tree(None)?, tree(Some(device))?, size.of(5, 1))?;
    let exits = |place: Option<&Arc<dyn Device>>| exits_together(place, size);
    report("exits: passes", device, exits(None)?, exits(Some(device))?, size.of(5, 1))?;
    let pointwise = |place: Option<&Arc<dyn Device>>| pointwise(place, size);
    report("pointwise: passes", device, pointwise(None)?, pointwise(Some(device))?, size.of(20, 2))
}

/// Prints how often each runs in a second, with what a run on the device launches and waits for.
fn report(name: &str, device: &Arc<dyn Device>, host: Run<'_>, on_device: Run<'_>, times: usize) -> Result<()> {
    on_device(4)?; // compiles
    let before = device.counters();
    on_device(1)?;
    let after = device.counters();
    let seconds = |run: &Run<'_>| -> Result<f64> {
        let start = Instant::now();
        run(times)?;
        Ok(start.elapsed().as_secs_f64() / times as f64)
    };
    let mut rounds: Vec<[f64; 2]> = Vec::new();
    for _ in 0..7 {
        rounds.push([seconds(&host)?, seconds(&on_device)?]);
    }
    println!(
        "{name} per second: device {:.1}, host {:.1}, ratio {:.2}; launches {}, waits {}, builds {}",
        1.0 / median(&rounds, |round| round[1]),
        1.0 / median(&rounds, |round| round[0]),
        median(&rounds, |round| round[0] / round[1]),
        after.launches - before.launches,
        after.syncs - before.syncs,
        after.builds - before.builds,
    );
    Ok(())
}

pub(crate) fn median<T>(rounds: &[T], of: impl Fn(&T) -> f64) -> f64 {
    let mut all: Vec<f64> = rounds.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn placed(x: Nd, place: Option<&Arc<dyn Device>>) -> Result<Nd> {
    place.map_or(Ok(x.clone()), |device| x.to(device))
}

fn weights<const N: usize>(all: [Nd; N], place: Option<&Arc<dyn Device>>) -> Result<[NdWeight; N]> {
    let all = all.map(Weight::new);
    place.map_or(Ok(()), |device| all.move_to(device))?;
    Ok(all)
}

/// Training of a fully connected network on a batch of 16.
fn mlp(place: Option<&Arc<dyn Device>>, size: Size) -> Result<Run<'static>> {
    let [inputs, hidden] = [size.of(3072, 64), size.of(512, 32)];
    let net = weights(
        [matrix([inputs, hidden], 1, 0.02), matrix([hidden, hidden], 2, 0.05), matrix([hidden, 10], 3, 0.05)],
        place,
    )?;
    let (x, y) = (placed(matrix([16, inputs], 4, 1.0), place)?, placed(matrix([16, 10], 5, 1.0), place)?);
    let adam = Adam::new(1e-3);
    Ok(Box::new(move |times| {
        let hidden = x.matmul(&net[0]).relu().matmul(&net[1]).relu();
        let loss = (hidden.matmul(&net[2]) - y.layer()).square().mean();
        (0..times).try_for_each(|_| loss.train(&adam).wait().map(drop))
    }))
}

/// Training of a recursive cell on 64 binary trees of 15 nodes, in one pass.
fn tree(place: Option<&Arc<dyn Device>>, size: Size) -> Result<Run<'static>> {
    let width = size.of(256, 16);
    let net = weights([matrix([width, width], 1, 0.05), matrix([width, width], 2, 0.05)], place)?;
    let trees = size.of(64, 4);
    let leaves: Vec<Nd> =
        (0..trees * 8).map(|leaf| placed(matrix([1, width], leaf, 1.0), place)).collect::<Result<_>>()?;
    let adam = Adam::new(1e-3);
    Ok(Box::new(move |times| {
        let root = |leaves: &[Nd]| {
            let mut level: Vec<NdLayer> = leaves.iter().map(Differentiable::layer).collect();
            while level.len() > 1 {
                let cell = |pair: &[NdLayer]| {
                    let gate = (pair[0].matmul(&net[0]) + pair[1].matmul(&net[1])).sigmoid();
                    &gate * &pair[0] + (1.0 - &gate) * pair[1].tanh()
                };
                level = level.chunks(2).map(cell).collect();
            }
            level.remove(0).square()
        };
        let sum = leaves.chunks(8).map(root).reduce(|a, b| a + b).expect("there are trees").sum();
        (0..times).try_for_each(|_| sum.train(&adam).wait().map(drop))
    }))
}

/// Samples that decide after each of 8 layers whether they go on.
pub(crate) fn exits(place: Option<&Arc<dyn Device>>, width: usize, samples: usize) -> Result<Vec<Layer<f32>>> {
    let [net] = weights([matrix([width, width], 1, 0.05)], place)?;
    let body = |sample: usize| {
        let (x, net) = (placed(matrix([1, width], sample, 1.0), place)?, net.clone());
        Ok(Layer::dynamic(move || {
            let (mut x, net) = (x.layer(), net.clone());
            async move {
                for _ in 0..8 {
                    x = x.matmul(&net).tanh();
                    if x.square().sum().extract().await? < 0.0 {
                        break;
                    }
                }
                Ok(x.sum())
            }
        }))
    };
    (0..samples).map(body).collect()
}

/// Samples with early exits, in one pass.
fn exits_together(place: Option<&Arc<dyn Device>>, size: Size) -> Result<Run<'static>> {
    let all = exits(place, size.of(512, 16), size.of(64, 8))?;
    Ok(Box::new(move |times| (0..times).try_for_each(|_| Do::predict(all.clone()).wait().map(drop))))
}

/// The value and the gradients of a long expression.
fn pointwise(place: Option<&Arc<dyn Device>>, size: Size) -> Result<Run<'static>> {
    let rows = size.of(1 << 14, 64);
    let of = |seed| Ok(Weight::new(placed(matrix([rows, 1024], seed, 1.0), place)?));
    let [a, b, c]: [NdWeight; 3] = [of(1)?, of(2)?, of(3)?];
    Ok(Box::new(move |times| {
        let loss = ((&a * &b + &c).tanh() * &a - (&b * 0.5).exp()).square().sum();
        let gradients = [loss.gradient(&a), loss.gradient(&b), loss.gradient(&c)].map(|d| d.sum_keepdim(..));
        for _ in 0..times {
            let all = Do::predict((loss.clone(), gradients.to_vec())).wait()?;
            all.1.iter().try_for_each(|sum| sum.to_host().map(drop))?;
        }
        Ok(())
    }))
}
