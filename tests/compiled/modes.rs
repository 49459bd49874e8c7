//! Compiled functions that depend on the mode of the pass, and draw random numbers.

use super::{plans, tensor};
use dl::prelude::*;
use dl::{Adam, Data, Sgd};
use test_support::on_threads;

fn dropped_ordinarily(x: &NdLayer, y: &NdLayer, w: &NdLayer) -> (NdLayer, NdLayer) {
    let hidden = (y * 2.0 + x.dropout(0.5).matmul(w)).tanh().dropout(0.25);
    (hidden.clone(), hidden * x)
}

#[differentiable(compiled)]
fn dropped(x: &NdLayer, y: &NdLayer, w: &NdLayer) -> (NdLayer, NdLayer) {
    dropped_ordinarily(x, y, w)
}

/// The two versions.
type Version = fn(&NdLayer, &NdLayer, &NdLayer) -> (NdLayer, NdLayer);
const VERSIONS: [Version; 2] = [dropped, dropped_ordinarily];

fn sum((a, b): (NdLayer, NdLayer)) -> NdLayer {
    a + b
}

#[test]
fn dropout_draws_numbers_of_ordinary_function() {
    let [x, y, w] = [1, 2, 3].map(|seed| tensor([4, 4], seed).into_layer());
    for threads in [1, 2, 3, 8] {
        on_threads(threads, || {
            for seed in 0..10 {
                let values = VERSIONS.map(|function| {
                    // a random layer before, between and after the calls
                    let first = function(&x.dropout(0.5), &y, &w).0;
                    let second = sum(function(&first.dropout(0.1), &x.dropout(0.4), &w)) + y.dropout(0.3);
                    let third = function(&x, &second.dropout(0.2), &w).1;
                    let mode = Mode::Train;
                    [&second, &third].map(|layer| layer.predict().mode(mode).seed(seed).wait().unwrap())
                });
                assert_eq!(values[0], values[1]);
                assert!(values[0][1].view().iter().any(|&x| x == 0.0));
            }
        });
    }
    assert!(plans("dropped").built() <= 8, "a plan has both modes");
}

#[test]
fn bodies_of_dynamic_layers_draw_numbers_of_ordinary_function() {
    #[differentiable]
    fn in_body(x: &NdLayer, w: &NdLayer, function: Version) -> NdLayer {
        let mut y = sum(function(x, x, w)).dropout(0.5);
        if (!&y)[[0, 0]] < 10.0 {
            y = sum(function(&y, x, w));
            y = y.dropout(0.1) + sum(function(&y, x, w));
        }
        y
    }
    let (x, w) = (tensor([4, 4], 1).into_layer(), tensor([4, 4], 2).into_layer());
    for seed in 0..10 {
        let [a, b] = VERSIONS.map(|function| {
            let each = [in_body(&x, &w, function), in_body(&x, &w, function)];
            Do::predict(each.to_vec()).mode(Mode::Train).seed(seed).wait().unwrap()
        });
        assert_eq!(a, b);
        assert_ne!(a[0], a[1], "each call has draws of its own");
    }
}

#[test]
fn one_layer_trains_and_evaluates() {
    let [x, y] = [1, 2].map(|seed| tensor([4, 4], seed).into_layer());
    let results = VERSIONS.map(|function| {
        let w = Weight::new(tensor([4, 4], 3));
        let loss = sum(function(&x, &y, &w.layer())).square().mean();
        let steps = (0..5).map(|step| {
            let before = loss.predict().wait().unwrap();
            let trained = loss.train(&Adam::new(0.1)).seed(step).wait().unwrap();
            let evaluated = loss.train(&Sgd::new(0.1)).mode(Mode::Evaluate).wait().unwrap();
            assert_ne!(before, trained);
            (before, trained, evaluated, w.value())
        });
        steps.collect::<Vec<_>>()
    });
    assert_eq!(results[0], results[1]);
}

#[test]
fn derivatives_of_dropout_equal_ordinary_ones() {
    let [x, y] = [1, 2].map(|seed| tensor([4, 4], seed).into_layer());
    let results = VERSIONS.map(|function| {
        let w = Weight::new(tensor([4, 4], 3));
        let z = sum(function(&x, &y, &w.layer()));
        let along = z.jvp(&w, &Layer::constant(tensor([4, 4], 4)));
        let gradient = z.square().sum().gradient(&w);
        [Mode::Train, Mode::Evaluate]
            .map(|mode| [&along, &gradient].map(|layer| layer.predict().mode(mode).seed(7).wait().unwrap()))
    });
    assert_eq!(results[0], results[1]);
    assert_ne!(results[0][0], results[0][1]);
}

#[test]
fn checkpointed_calls_draw_the_same_numbers_again() {
    let x = tensor([4, 4], 1).into_layer();
    let results = VERSIONS.map(|function| {
        let w = Weight::new(tensor([4, 4], 3));
        for step in 0..3 {
            let h = sum(function(&x, &x, &w.layer())).checkpoint();
            let h = sum(function(&h.dropout(0.5), &x, &w.layer())).checkpoint();
            h.square().mean().train(&Adam::new(0.1)).seed(step).wait().unwrap();
        }
        w.value()
    });
    assert!(super::distance(&results[0], &results[1]) < 1e-4, "{results:?}");
}

#[test]
fn compiled_functions_with_dropout_call_each_other() {
    #[differentiable(compiled)]
    fn outer(x: &NdLayer, w: &NdLayer) -> NdLayer {
        let y = sum(dropped(&x.dropout(0.1), x, w));
        sum(dropped(x, &y, w)).dropout(0.5)
    }
    fn ordinary_outer(x: &NdLayer, w: &NdLayer) -> NdLayer {
        let y = sum(dropped_ordinarily(&x.dropout(0.1), x, w));
        sum(dropped_ordinarily(x, &y, w)).dropout(0.5)
    }
    let x = tensor([4, 4], 1).into_layer();
    let results = [outer as fn(&NdLayer, &NdLayer) -> NdLayer, ordinary_outer].map(|function| {
        let w = Weight::new(tensor([4, 4], 3));
        [Mode::Train, Mode::Evaluate, Mode::Train].map(|mode| {
            let y = function(&x, &w.layer()) + function(&x, &w.layer());
            let gradient = y.sum().gradient(&w).predict().mode(mode).seed(3).wait().unwrap();
            (y.predict().mode(mode).seed(3).wait().unwrap(), gradient)
        })
    });
    for (compiled, ordinary) in results[0].iter().zip(&results[1]) {
        assert_eq!(compiled.0, ordinary.0);
        assert!(super::distance(&compiled.1, &ordinary.1) < 1e-5);
    }
}

#[test]
fn missing_seed_is_the_error_of_ordinary_function() {
    let [x, w, wrong] = [[4, 4], [4, 4], [4, 5]].map(|shape| tensor(shape, 1).into_layer());
    for (x, w) in [(&x, &w), (&wrong, &w), (&x, &w)] {
        let [a, b] = VERSIONS.map(|function| function(x, x, w).0.predict().mode(Mode::Train).wait().unwrap_err());
        assert_eq!(super::first(&a), super::first(&b));
        assert_eq!(a.place().map(|place| place.line()), b.place().map(|place| place.line()));
    }
    assert!(dropped(&x, &x, &w).0.predict().wait().is_ok(), "evaluation needs no seed");
}

#[test]
fn size_of_seed_values_is_known() {
    // The value of a call has the seeds that its backward reads.
    let [x, w] = [1, 2].map(|seed| tensor([4, 4], seed).into_layer());
    let y = sum(dropped(&x, &x, &w));
    let counters = y.predict().mode(Mode::Train).seed(1).counted().wait().unwrap().1;
    assert!(counters.bytes_peak >= tensor([4, 4], 1).bytes());
}
