//! Random programs on a device: launches are recorded, grouped and reordered, memory is given out
//! again, and every tensor has the bits of the host.

use super::{device, numbers};
use dl_core::{Differentiable, Weight};
use dl_nd::device::Device;
use dl_nd::{Nd, concat, ops::*};
use dl_optim::Sgd;
use ndarray::{Ix1, Ix2};
use std::sync::Arc;

/// A tensor on the host and its copy on the device.
#[derive(Clone)]
struct Pair {
    host: Nd,
    there: Nd,
}

/// Numbers that are not random, but look so.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }
}

const SIDE: usize = 5;

fn check(pair: &Pair, step: usize) {
    let bits = |x: &Nd| x.view().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&pair.there.to_host().unwrap()), bits(&pair.host), "step {step}");
}

/// Applies an operation to both.
fn applied(a: &Pair, b: &Pair, which: usize, at: [&Nd<usize, Ix1>; 2]) -> Pair {
    let run = |a: &Nd, b: &Nd, at: &Nd<usize, Ix1>| {
        let value = match which {
            0 => a.matmul(b) * 0.2,
            1 => (a + b) * 0.5,
            2 => a.tanh() * b.layer(),
            3 => a.t().matmul(b).relu() - 0.5,
            4 => a.sum_keepdim(0) * 0.1 + b.layer(),
            5 => a.softmax(1) - b.sum_keepdim(1) * 0.1,
            6 => concat(0, [a.slice_axis(0, 2..), b.slice_axis(0, ..2)]),
            7 => a.index_select(0, at) + 0.0 * b,
            8 => b.flip(1) + a.t(),
            9 => concat(1, [a.slice_axis(1, 3..), b.slice_axis(1, ..3)]),
            10 => concat(0, [a.slice_axis(0, ..1), b.slice_axis(0, 1..3), a.slice_axis(0, ..1), b.slice_axis(0, 2..3)]),
            _ => a.layer().reshape([SIDE * SIDE, 1]).sum_keepdim(0) * 0.01 + b.layer(),
        };
        value.predict().wait().unwrap()
    };
    Pair { host: run(&a.host, &b.host, at[0]), there: run(&a.there, &b.there, at[1]) }
}

/// Runs operations on a pool of tensors; some are read, others dropped, and a weight is trained on
/// some.
fn run(device: &Arc<dyn Device>, seed: u64, steps: usize) {
    let mut draws = Draws(seed);
    let pair = |host: Nd| Pair { there: host.to(device).unwrap(), host };
    let matrix = |seed| numbers::<f32>(&[SIDE, SIDE], seed).to_rank::<Ix2>().predict().wait().unwrap();
    let mut pool: Vec<Pair> = (0..6).map(|seed| pair(matrix(seed))).collect();
    let rows: Nd<usize, Ix1> = Nd::from([3_usize, 0, 0, 4, 1]);
    let rows_there = rows.to(device).unwrap();
    let weights = [Weight::new(matrix(7)), Weight::new(matrix(7).to(device).unwrap())];
    for step in 0..steps {
        let (a, b) = (draws.below(pool.len()), draws.below(pool.len()));
        match draws.below(20) {
            0 => check(&pool[a], step),
            1 if pool.len() > 4 => drop(pool.swap_remove(a)),
            2 => device.flush().unwrap(),
            3 => {
                let step_on = |w: &Weight<Nd>, x: &Nd| {
                    (x.matmul(w).tanh() - 0.1).square().mean().train(&Sgd::new(0.1)).wait().unwrap().to_bits()
                };
                let losses = [step_on(&weights[0], &pool[a].host), step_on(&weights[1], &pool[a].there)];
                assert_eq!(losses[0], losses[1], "step {step}");
            }
            4 => {
                pool.push(Pair { host: weights[0].value(), there: weights[1].value() });
            }
            5 => {
                let sums = [&pool[a].host, &pool[a].there].map(|x| x.layer().mean().predict().wait().unwrap());
                assert_eq!(sums[0].to_bits(), sums[1].to_bits(), "step {step}");
            }
            _ => {
                let value = applied(&pool[a], &pool[b], draws.below(12), [&rows, &rows_there]);
                if pool.len() < 40 { pool.push(value) } else { pool[b] = value }
            }
        }
    }
    pool.iter().for_each(|pair| check(pair, steps));
    check(&Pair { host: weights[0].value(), there: weights[1].value() }, steps);
}

#[test]
fn random_programs_have_bits_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    (0..20).for_each(|seed| run(&device, seed, 150));
}

/// The programs share the queue and the memory of a device.
#[test]
fn random_programs_of_several_threads_have_bits_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    std::thread::scope(|scope| {
        (100..104).for_each(|seed| {
            let device: &Arc<dyn Device> = &device;
            scope.spawn(move || run(device, seed, 300));
        });
    });
}

#[test]
fn random_programs_on_two_queues_of_a_device_have_bits_of_host() {
    let Some(first) = device(u32::MAX) else { return };
    let second = dl_gpu::open_with(dl_gpu::Settings { compile_from: u32::MAX }).unwrap();
    std::thread::scope(|scope| {
        let first: &Arc<dyn Device> = &first;
        scope.spawn(move || run(first, 200, 200));
        scope.spawn(move || run(&second, 201, 200));
    });
}
