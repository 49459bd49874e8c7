//! Compiled functions that update buffers.

use super::{distance, first, plans, tensor};
use dl::nd::ndarray::{Ix1, Ix2};
use dl::nd::{Element, RunningStats};
use dl::prelude::*;
use dl::{Adam, Buffer, Sgd};
use test_support::on_threads;

/// A hidden layer with running statistics, and dropout behind it.
#[derive(Module)]
struct Net<A: Element> {
    w: NdWeight<Ix2, A>,
    v: NdWeight<Ix2, A>,
    stats: RunningStats<A>,
    last: RunningStats<A>,
    dropped: f64,
    is_compiled: bool,
}

impl<A: Element> Net<A> {
    fn new(is_compiled: bool) -> Net<A> {
        let weight = |seed| Weight::new(dl::nd::init::uniform([4, 4], -1.0, 1.0, &mut dl::nd::init::rng(seed)));
        let [stats, last] = [0.25, 0.1].map(|momentum| RunningStats::new(4).momentum(momentum));
        Net { w: weight(1), v: weight(2), stats, last, dropped: 0.3, is_compiled }
    }

    fn layers(&self, x: &NdLayer<Ix2, A>) -> (NdLayer<Ix2, A>, NdLayer<Ix2, A>) {
        let hidden = x.matmul(&self.w).batch_norm_with(&self.stats, 1e-5).relu().dropout(self.dropped);
        let last = (hidden.matmul(&self.v) + &hidden).batch_norm_with(&self.last, 1e-5);
        (hidden, last)
    }

    #[differentiable(compiled)]
    fn compiled_layers(&self, x: &NdLayer<Ix2, A>) -> (NdLayer<Ix2, A>, NdLayer<Ix2, A>) {
        self.layers(x)
    }

    fn call(&self, x: &NdLayer<Ix2, A>) -> (NdLayer<Ix2, A>, NdLayer<Ix2, A>) {
        if self.is_compiled { self.compiled_layers(x) } else { self.layers(x) }
    }

    /// All weights and buffers, each element in full precision.
    fn bits(&self) -> Vec<String> {
        let weights = [&self.w, &self.v].map(|weight| format!("{:?}", weight.value()));
        let stats = [&self.stats, &self.last].map(|stats| format!("{:?} {:?}", stats.mean, stats.variance));
        weights.into_iter().chain(stats).collect()
    }
}

fn trained<A: Element>(is_compiled: bool) -> Vec<Vec<String>> {
    let net = Net::<A>::new(is_compiled);
    let x = dl::nd::init::uniform::<A, _>([6, 4], -1.0, 1.0, &mut dl::nd::init::rng(7)).into_layer();
    let mut found = Vec::new();
    for step in 0..4 {
        let (hidden, last) = net.call(&x.dropout(0.1));
        let loss = (hidden + last).square().mean();
        for mode in [Mode::Train, Mode::Evaluate] {
            found.push(vec![format!("{:?}", loss.predict().mode(mode).seed(step).wait().unwrap())]);
            found.push(vec![format!("{:?}", loss.gradient(&net.w).predict().mode(mode).seed(step).wait().unwrap())]);
            found.push(net.bits()); // unchanged
        }
        loss.train(&Adam::new(0.1)).seed(step).wait().unwrap();
        found.push(net.bits());
        loss.train(&Sgd::new(0.1)).mode(Mode::Evaluate).wait().unwrap();
        found.push(net.bits());
    }
    found
}

#[test]
fn running_statistics_equal_those_of_ordinary_function() {
    for threads in [1, 2, 3, 8] {
        on_threads(threads, || {
            assert_eq!(trained::<f32>(true), trained::<f32>(false));
            assert_eq!(trained::<f64>(true), trained::<f64>(false));
        });
    }
    let found = trained::<f32>(true);
    assert!(found[0..6].iter().filter(|bits| bits.len() > 1).all(|bits| bits[2..] == found[2][2..]), "no step yet");
    assert_ne!(found[6][2..], found[2][2..], "a step in training mode");
    assert_eq!(found[7][2..], found[6][2..], "a step in evaluation mode");
}

#[test]
fn only_updates_that_evaluated_results_depend_on_are_written() {
    let x = tensor([6, 4], 7).into_layer();
    for which in [0, 1] {
        let nets = [true, false].map(|is_compiled| {
            let net = Net::<f32> { dropped: 0.0, ..Net::new(is_compiled) };
            for step in 0..3 {
                let results = net.call(&x);
                let loss = if which == 0 { results.0 } else { results.1 }.square().mean();
                loss.train(&Sgd::new(0.1)).seed(step).wait().unwrap();
            }
            net
        });
        assert_eq!(nets[0].bits(), nets[1].bits());
        let is_unchanged = nets[0].last.mean.value() == Nd::full(4, 0.0);
        assert_eq!(is_unchanged, which == 0);
    }
}

/// Two buffers without a mode, each with a result of its own and one that has both.
fn counted(x: &NdLayer, [a, b]: [&Buffer<Nd<f32, Ix1>>; 2]) -> [NdLayer; 3] {
    let one = |layer: NdLayer, buffer: &Buffer<Nd<f32, Ix1>>, by: f32| layer.updating(buffer, buffer.layer() + by);
    let (first, second) = (one(x.tanh(), a, 1.0), one(x * 2.0, b, 10.0));
    let both = &first * &second;
    [first, second, both]
}

#[differentiable(compiled)]
fn compiled_counted(x: &NdLayer, buffers: [&Buffer<Nd<f32, Ix1>>; 2]) -> [NdLayer; 3] {
    counted(x, buffers)
}

#[test]
fn updates_without_mode_are_those_of_ordinary_function() {
    let w = Weight::new(tensor([2, 2], 1));
    for which in 0..3 {
        let results = [compiled_counted, counted].map(|function| {
            let buffers = [0.0, 0.0].map(|x| Buffer::new(Nd::from([x])));
            let train = |mode| {
                let layers = function(&w.layer(), buffers.each_ref());
                layers[which].sum().train(&Sgd::new(0.0)).mode(mode).wait().unwrap();
                layers[which].predict().wait().unwrap();
            };
            let _: [(); 3] = [Mode::Train, Mode::Evaluate, Mode::Train].map(train);
            buffers.map(|buffer| buffer.value()[0])
        });
        assert_eq!(results[0], results[1]);
        assert_eq!(results[0], [[3.0, 0.0], [0.0, 30.0], [3.0, 30.0]][which]);
    }
}

#[test]
fn second_update_of_a_buffer_is_the_error_of_ordinary_function() {
    let x = tensor([6, 4], 7).into_layer();
    let errors = [true, false].map(|is_compiled| {
        let net = Net::<f32>::new(is_compiled);
        let (y, before) = (net.call(&x).0, net.bits());
        let error = net.call(&y).0.sum().train(&Sgd::new(0.1)).seed(1).wait().unwrap_err();
        assert_eq!(net.bits(), before);
        (first(&error), error.place().map(|place| (place.file(), place.line())))
    });
    assert_eq!(errors[0], errors[1]);
}

#[test]
fn failed_step_writes_no_buffer() {
    let (net, x) = (Net::<f32>::new(true), tensor([6, 4], 7).into_layer());
    let wrong = tensor([5, 5], 1).into_layer();
    let (_, y) = net.call(&x);
    let before = net.bits();
    assert!((y + wrong).sum().train(&Sgd::new(0.1)).seed(1).wait().is_err());
    assert!(net.call(&tensor([1, 4], 7).into_layer()).1.sum().train(&Sgd::new(0.1)).seed(1).wait().is_err());
    assert_eq!(net.bits(), before);
}

#[test]
fn momentum_is_part_of_the_key() {
    #[differentiable(compiled)]
    fn moved(x: &NdLayer, stats: &RunningStats) -> NdLayer {
        x.batch_norm_with(stats, 1e-5)
    }
    let w = Weight::new(tensor([6, 4], 7));
    for momentum in [0.5, 0.25, 0.5] {
        let [stats, ordinary] = [0, 1].map(|_| RunningStats::new(4).momentum(momentum));
        moved(&w.layer(), &stats).sum().train(&Sgd::new(0.0)).wait().unwrap();
        w.batch_norm_with(&ordinary, 1e-5).sum().train(&Sgd::new(0.0)).wait().unwrap();
        assert_eq!(stats.mean.value(), ordinary.mean.value());
        assert_eq!(stats.variance.value(), ordinary.variance.value());
    }
    assert_eq!(plans("moved").built(), 2);
}

#[test]
fn compiled_functions_with_updates_call_each_other() {
    #[differentiable(compiled)]
    fn outer(net: &Net<f32>, x: &NdLayer) -> NdLayer {
        let (hidden, last) = net.call(&x.dropout(0.5));
        hidden * last.tanh()
    }
    let x = tensor([6, 4], 7).into_layer();
    let nets = [true, false].map(|is_compiled| {
        let net = Net::<f32>::new(is_compiled);
        for step in 0..3 {
            let y = if is_compiled {
                outer(&net, &x)
            } else {
                let (hidden, last) = net.layers(&x.dropout(0.5));
                hidden * last.tanh()
            };
            y.square().mean().train(&Adam::new(0.1)).seed(step).wait().unwrap();
        }
        net.bits()
    });
    assert_eq!(nets[0], nets[1]);
}

#[test]
fn checkpointed_calls_update_once() {
    let x = tensor([6, 4], 7).into_layer();
    let nets = [true, false].map(|is_compiled| {
        let net = Net::<f32>::new(is_compiled);
        for step in 0..3 {
            let (hidden, last) = net.call(&x);
            let loss = (hidden.checkpoint() * last.checkpoint()).square().mean().checkpoint();
            loss.train(&Sgd::new(0.1)).seed(step).wait().unwrap();
        }
        net
    });
    assert_eq!(nets[0].bits()[2..], nets[1].bits()[2..]);
    assert!(distance(&nets[0].w.value(), &nets[1].w.value()) < 1e-4);
}
