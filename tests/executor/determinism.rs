//! Losses, weights and optimizer state are bit-identical for any number of threads, any schedule
//! and any executor.

use super::jitter::Jitter;
use super::nets::{Benchmark, Digits, Net, Random, Witness};
use super::support::{on_threads, on_tokio, sweep, watched};
use dl::nd::{init, ops::*};
use dl::prelude::*;
use dl::record::Recorder;
use std::sync::Arc;

/// How training steps are run.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// `wait()` in a pool of this number of threads.
    Wait(usize),
    /// `.await` in a task of a tokio runtime with this number of workers, or on the calling thread.
    Await(Option<usize>),
    /// `.await` in a task that the only thread of a pool polls.
    AwaitOnWorker,
}

const WAYS: [Way; 9] = [
    Way::Wait(1),
    Way::Wait(2),
    Way::Wait(3),
    Way::Wait(4),
    Way::Wait(8),
    Way::Await(None),
    Way::Await(Some(1)),
    Way::Await(Some(3)),
    Way::AwaitOnWorker,
];

async fn awaited<N: Net>(net: Arc<N>, jitter: Jitter, witness: Witness) -> Vec<u64> {
    let mut losses = Vec::new();
    for step in 0..N::STEPS {
        losses.push(net.step(step, &jitter, &witness).await.unwrap().into().to_bits());
    }
    losses
}

/// The bits of all losses, then of each weight and its momentum after each step, then of the
/// outcome.
fn trace<N: Net>(way: Way, jitter: Jitter) -> Vec<u64> {
    watched(&format!("{way:?}"), move || {
        let (net, witness) = (Arc::new(N::new()), Witness::new(0.05));
        let losses = match way {
            Way::Wait(threads) => on_threads(threads, || {
                (0..N::STEPS).map(|step| net.step(step, &jitter, &witness).wait().unwrap().into().to_bits()).collect()
            }),
            Way::Await(workers) => on_tokio(workers, awaited(net.clone(), jitter, witness.clone())),
            Way::AwaitOnWorker => on_threads(1, || on_tokio(None, awaited(net.clone(), jitter, witness.clone()))),
        };
        [losses, witness.take_bits(), net.outcome()].concat()
    })
}

fn same_everywhere<N: Net>() {
    let expected = trace::<N>(Way::Wait(1), Jitter::none());
    let losses = expected[..N::STEPS].iter().map(|&bits| f64::from_bits(bits)).collect::<Vec<_>>();
    assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
    assert!(losses.windows(2).all(|pair| pair[0] != pair[1]), "each step must change the loss: {losses:?}");
    assert!(expected.len() >= 3 * N::STEPS, "weights must be updated");
    for seed in 0..if sweep() { 20 } else { 1 } {
        for way in WAYS {
            let found = trace::<N>(way, Jitter::seeded(seed));
            assert_eq!(found.len(), expected.len(), "{way:?}, seed {seed}");
            let different = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            assert_eq!(different, None, "{way:?}, seed {seed}: index of the first difference, of {}", expected.len());
        }
    }
}

#[test]
fn gated_net_is_bit_identical_under_all_schedules() {
    same_everywhere::<Digits>();
}

#[test]
fn benchmark_net_is_bit_identical_under_all_schedules() {
    same_everywhere::<Benchmark>();
}

#[test]
fn random_nets_are_bit_identical_under_all_schedules() {
    same_everywhere::<Random>();
}

/// Overlapping slices of a tensor; the pullback of one of them returns its delta as it is. The
/// order of summation must not depend on the values that are already computed, which are more on
/// one thread.
#[test]
fn deltas_of_overlapping_slices_are_summed_in_fixed_order() {
    let numbers = |seed: u64, len: usize| -> Nd<f32, Ix1> { init::uniform([len], -1.0, 1.0, &mut init::rng(seed)) };
    for len in [30, 3_000] {
        let step = |recorded: bool| {
            let w = Weight::new(numbers(1, len));
            let x = &w + 1.0;
            let loss = (x.slice_axis(0, 0..len - 1) * numbers(2, len - 1)).sum()
                + (x.slice_axis(0, 1..len) * numbers(3, len - 1)).sum()
                + (w.slice_axis(0, 0..len) * numbers(4, len)).sum();
            let step = loss.train(&Sgd::new(0.1));
            let step = if recorded { step.recorded(&Recorder::new()) } else { step };
            step.wait().unwrap();
            w.value()
        };
        let bits = |w: Nd<f32, Ix1>| w.view().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let one = bits(on_threads(1, || step(false)));
        for threads in [2, 3] {
            assert_eq!(bits(on_threads(threads, || step(false))), one, "{len} numbers, {threads} threads");
        }
        assert_eq!(bits(on_threads(1, || step(true))), one, "{len} numbers, recorded");
    }
}
