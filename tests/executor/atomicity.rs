//! A failed step changes neither weights nor optimizer state.
//!
//! Faults are injected at every site in turn: forward and backward evaluations, rules, bodies, a
//! hand-written backward, and each weight of the commit. After each failed step, a successful step
//! must have the same result as in a twin network without failures.

use super::fault_injection::{Fault, FaultInjector, FaultyOptimizer, Site};
use super::nets::Witness;
use super::panicking::{Break, MakeFragile};
use super::support::{on_threads, sweep, tokio_runtime, watched};
use dl::nd::{init, ops::*};
use dl::prelude::*;
use dl::{At, Chunk, Data, Deltas, Primitive, Result, Run, Trainable};
use futures::FutureExt;
use std::collections::BTreeSet;

/// A network of scalars and tensors, with a dynamic node and a hand-written backward.
#[derive(Clone)]
struct Net {
    a: Weight<f64>,
    b: Weight<f64>,
    table: NdWeight<Ix2, f64>,
    bias: NdWeight<Ix1, f64>,
    witness: Witness,
}

#[differentiable]
fn decided(x: &Layer<f64>, net: &Net, injector: &FaultInjector) -> Layer<f64> {
    injector.reach_body().await?;
    let y = injector.of(x);
    if !y > 0.0 {
        injector.reach_body().await?;
        y * &net.a
    } else {
        y - &net.b
    }
}

/// 2x, with a hand-written backward.
fn twice(x: &Layer<f64>, injector: &FaultInjector) -> Layer<f64> {
    let injector = injector.clone();
    Layer::from(x.forward().map(move |tape| {
        let injector = injector.clone();
        Tape::new(2.0 * tape.data(), move |delta: Do<f64>| {
            injector.reach_hand_written();
            tape.backward(delta.map(|delta| 2.0 * delta))
        })
    }))
}

impl Net {
    /// A network after three steps, with optimizer state.
    fn new() -> Self {
        let random = &mut init::rng(7);
        let net = Net {
            a: Weight::new(0.7),
            b: Weight::new(0.4),
            table: Weight::new(init::uniform([3, 4], -1.0, 1.0, random)),
            bias: Weight::new(init::uniform([4], -1.0, 1.0, random)),
            witness: Witness::new(0.001),
        };
        for _ in 0..3 {
            net.step(&FaultInjector::default()).wait().unwrap();
        }
        net
    }

    fn step(&self, injector: &FaultInjector) -> Do<f64> {
        let input = Nd::from([[0.5, -0.25, 1.0], [1.5, 0.75, -1.0]]);
        let hidden = injector.of(&(injector.of(&input.matmul(&self.table)) + &self.bias)).tanh();
        let score = injector.of(&hidden.square().mean());
        let product = injector.of(&(&self.a * &self.b));
        let loss = injector.of(&(&score * &product)) + decided(&product, self, injector) + twice(&score, injector);
        loss.train(&FaultyOptimizer { witness: self.witness.clone(), injector: injector.clone() })
    }

    fn bits(&self) -> Vec<u64> {
        let (table, bias) = (self.table.value(), self.bias.value());
        let numbers = [self.a.value(), self.b.value()].into_iter();
        numbers.chain(table.view().iter().copied()).chain(bias.view().iter().copied()).map(f64::to_bits).collect()
    }
}

/// The number of calls of user code in a step, and their sites.
fn places(fault: Fault) -> (usize, BTreeSet<Site>) {
    let injector = FaultInjector::armed(usize::MAX, fault);
    Net::new().step(&injector).wait().unwrap();
    injector.calls()
}

/// Runs a successful step of both networks, and checks that they agree.
fn agree(net: &Net, twin: &Net) {
    let [left, right] = [net, twin].map(|net| {
        net.witness.take_bits();
        let loss = net.step(&FaultInjector::default()).wait().unwrap();
        (loss.to_bits(), net.bits(), net.witness.take_bits())
    });
    assert_eq!(left, right, "loss, weights and recorded updates");
}

/// Polls a run until its k-th site, which blocks, then drops the run.
fn drop_when_hit(mut run: Run<f64>, injector: &FaultInjector) {
    while injector.hit().is_none() {
        let ended = (&mut run).now_or_never();
        assert!(ended.is_none(), "the step must not complete: {ended:?}");
        std::thread::yield_now();
    }
}

#[test]
fn step_with_fault_at_any_site_changes_nothing() {
    for threads in if sweep() { vec![1, 2, 3, 8] } else { vec![1, 3] } {
        for fault in [Fault::Error, Fault::Panic] {
            watched(&format!("{fault:?} on {threads} threads"), move || {
                on_threads(threads, || {
                    let (places, sites) = places(fault);
                    assert_eq!(sites.len(), 6, "all kinds of sites: {sites:?}");
                    let (net, twin) = (Net::new(), Net::new());
                    for k in 0..places {
                        let (before, injector) = (net.bits(), FaultInjector::armed(k, fault));
                        let error = net.step(&injector).wait().unwrap_err();
                        let site = injector.hit().expect("the fault was hit");
                        assert!(error.to_string().contains(&format!("injected fault in {site:?}")), "{error}");
                        assert_eq!(net.bits(), before, "{fault:?} number {k} of {places}, in {site:?}");
                        agree(&net, &twin);
                    }
                })
            });
        }
    }
}

/// The run is dropped while its k-th evaluation is in progress on another thread, or while its k-th
/// body is suspended.
#[test]
fn step_dropped_at_any_evaluation_changes_nothing() {
    watched("a dropped step", || {
        let (places, sites) = places(Fault::Hold);
        assert_eq!(sites, BTreeSet::from([Site::Forward, Site::Backward, Site::Body]));
        let (net, twin) = (Net::new(), Net::new());
        for k in 0..places {
            let (before, injector) = (net.bits(), FaultInjector::armed(k, Fault::Hold));
            drop_when_hit(net.step(&injector).run(), &injector);
            assert_eq!(net.bits(), before, "dropped at evaluation {k} of {places}");
            injector.release();
            agree(&net, &twin);
        }
    });
}

/// On a worker, a poll of the run executes kernels and bodies itself.
#[test]
fn step_dropped_at_any_body_on_worker_changes_nothing() {
    for threads in [1, 2, 4] {
        watched("a step dropped on a worker", move || {
            on_threads(threads, || {
                let (places, _) = places(Fault::Pend);
                assert_eq!(places, 2);
                let (net, twin) = (Net::new(), Net::new());
                for k in 0..places {
                    let (before, injector) = (net.bits(), FaultInjector::armed(k, Fault::Pend));
                    drop_when_hit(net.step(&injector).run(), &injector);
                    assert_eq!(net.bits(), before);
                    agree(&net, &twin);
                }
            })
        });
    }
}

#[test]
fn step_in_aborted_task_changes_nothing() {
    for workers in [None, Some(2)] {
        watched("an aborted task", move || {
            let (places, _) = places(Fault::Hold);
            let (net, twin) = (Net::new(), Net::new());
            let runtime = tokio_runtime(workers);
            for k in (0..places).step_by(if sweep() { 1 } else { 3 }) {
                let (before, injector) = (net.bits(), FaultInjector::armed(k, Fault::Hold));
                runtime.block_on(async {
                    let task = tokio::spawn(net.step(&injector).run());
                    while injector.hit().is_none() {
                        tokio::task::yield_now().await;
                    }
                    task.abort();
                    assert!(task.await.unwrap_err().is_cancelled());
                });
                assert_eq!(net.bits(), before, "aborted at evaluation {k} of {places}");
                injector.release();
                agree(&net, &twin);
            }
        });
    }
}

/// A run is dropped after a number of polls. Then either the step is complete, or nothing has
/// changed.
#[test]
fn step_dropped_after_any_number_of_polls_is_atomic() {
    watched("a step dropped after some polls", || {
        let (net, twin) = (Net::new(), Net::new());
        for polls in 0..if sweep() { 2000 } else { 60 } {
            let before = net.bits();
            let mut run = net.step(&FaultInjector::default()).run();
            let ended = (0..polls).any(|_| {
                std::thread::yield_now();
                (&mut run).now_or_never().is_some_and(|loss| loss.is_ok())
            });
            drop(run);
            if ended {
                twin.step(&FaultInjector::default()).wait().unwrap();
            }
            assert_eq!(net.bits() == before, !ended, "after {polls} polls");
            agree(&net, &twin);
        }
    });
}

/// If the value of the loss cannot be cloned for the caller, the step must fail without a change.
#[test]
fn step_with_panicking_clone_of_loss_is_atomic() {
    for optimizer in [Sgd::new(0.1), Sgd::new(0.1).momentum(0.9)] {
        for place in [Break::Clone, Break::Never] {
            let w = Weight::new(1.0_f64);
            let result = Layer::apply(MakeFragile(place), (w.layer(),)).train(&optimizer).wait();
            assert_eq!(result.is_ok(), w.value() != 1.0, "{place:?}");
            assert!(place == Break::Clone || result.is_ok());
        }
    }
}

/// A number with its own in-place descent, which panics if the delta is 13.
#[derive(Clone, Debug, PartialEq)]
struct Fragile(f64);

impl Data for Fragile {
    type Delta = f64;

    fn one(&self) -> f64 {
        1.0
    }
}

impl Trainable for Fragile {
    const DESCENDS: bool = true;

    fn zeros_like(&self) -> Self {
        Fragile(0.0)
    }

    fn descend(&mut self, rate: f64, delta: &f64) {
        assert!(*delta != 13.0, "unlucky");
        self.0 -= rate * delta;
    }

    fn update(&mut self, delta: &f64, _: &mut [Self], rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>) -> Result<()> {
        rule(Chunk::F64 { values: std::slice::from_mut(&mut self.0), deltas: &[*delta], slots: &mut [] })
    }
}

/// factor·x
struct Number(f64);

impl Primitive for Number {
    type Operands = (Layer<Fragile>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "number"
    }

    fn value(&self, (x,): (&Fragile,)) -> Result<f64> {
        Ok(self.0 * x.0)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta * self.0),)
    }
}

#[test]
fn step_with_panicking_descend_of_user_type_changes_no_weight() {
    let weights = [1.0, 2.0, 3.0].map(|x| Weight::new(Fragile(x)));
    let loss = |factors: [f64; 3]| -> Layer<f64> {
        weights.iter().zip(factors).map(|(w, factor)| Layer::apply(Number(factor), (w.layer(),))).sum()
    };
    let values = || weights.each_ref().map(|w| w.value().0);
    for factors in [[13.0, 1.0, 1.0], [1.0, 13.0, 1.0], [1.0, 1.0, 13.0]] {
        let error = loss(factors).train(&Sgd::new(0.5)).wait().unwrap_err();
        assert!(error.is_panic() && error.to_string().contains("unlucky"), "{error}");
        assert_eq!(values(), [1.0, 2.0, 3.0]);
    }
    loss([1.0, 2.0, 4.0]).train(&Sgd::new(0.5)).wait().unwrap();
    assert_eq!(values(), [0.5, 1.0, 1.0]);
}
