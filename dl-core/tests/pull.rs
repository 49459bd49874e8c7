//! Derivatives with respect to layers and to weights in one walk back; gradients as numbers.

use dl_core::{
    At, Deltas, Differentiable, Do, Entry, Layer, Module, Numbers, Primitive, Result, SideEffects, Tape, Weight,
};
use dl_optim::{Adam, Sgd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// 2 · x, with a count of its pullbacks and of the values that they compute.
#[derive(Clone)]
struct Twice(Arc<AtomicU32>);

impl Primitive for Twice {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "twice"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        self.0.fetch_add(1, SeqCst);
        Ok(2.0 * x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(Layer::apply(self.clone(), (at.delta.clone(),))),)
    }
}

fn net() -> [Weight<f64>; 3] {
    [0.5, -1.5, 2.0].map(Weight::new)
}

/// A function of two inputs and three weights, in which all meet.
fn score(x: &Layer<f64>, y: &Layer<f64>, net: &[Weight<f64>; 3]) -> Layer<f64> {
    let hidden = (x * &net[0] + y * &net[1]).tanh();
    (&hidden * &net[2] + &hidden * x).exp() * y
}

#[test]
fn pull_has_bits_of_backward_and_of_gradient() {
    let (net, x, y) = (net(), Layer::constant(0.75_f64), Layer::constant(-0.3_f64));
    let loss = score(&x, &y, &net);
    let tape = loss.forward().wait().unwrap();
    let (effects, (dx, dy)) = tape.pull(Do::now(1.0), &(x.clone(), y.clone()));
    let whole = loss.backward().wait().unwrap();
    for weight in &net {
        let [mine, theirs] = [&effects, &whole].map(|effects| effects.delta(weight).wait().unwrap().unwrap());
        assert_eq!(mine.to_bits(), theirs.to_bits());
    }
    let (one, two) = loss.gradients(&(x, y));
    for (mine, theirs) in [(dx, one), (dy, two)] {
        assert_eq!(mine.predict().wait().unwrap().to_bits(), theirs.predict().wait().unwrap().to_bits());
    }
}

#[test]
fn pull_is_linear_in_delta_and_runs_it_once() {
    let (net, x, y) = (net(), Layer::constant(0.75_f64), Layer::constant(-0.3_f64));
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let delta = Do::from_fn(move || {
        counted.fetch_add(1, SeqCst);
        std::future::ready(Ok(4.0))
    });
    let tape = score(&x, &y, &net).forward().wait().unwrap();
    let (effects, dx) = tape.pull(delta, &x);
    assert_eq!(runs.load(SeqCst), 0);
    let four = (dx.predict().wait().unwrap(), effects.delta(&net[0]).wait().unwrap().unwrap());
    assert_eq!(runs.load(SeqCst), 1);
    let (effects, dx) = tape.pull(Do::now(1.0), &x);
    let one = (dx.predict().wait().unwrap(), effects.delta(&net[0]).wait().unwrap().unwrap());
    assert_eq!(four, (4.0 * one.0, 4.0 * one.1)); // a power of two is exact
}

#[test]
fn pull_computes_what_is_shared_once() {
    let (count, w, x) = (Arc::new(AtomicU32::new(0)), Weight::new(3.0_f64), Layer::constant(2.0_f64));
    let product = &w * &x;
    let loss = Layer::apply(Twice(count.clone()), (product,));
    let tape = loss.forward().wait().unwrap();
    assert_eq!(count.load(SeqCst), 1);
    let (effects, dx) = tape.pull(Do::now(1.0), &x);
    assert_eq!((dx.predict().wait().unwrap(), effects.delta(&w).wait().unwrap()), (6.0, Some(4.0)));
    assert_eq!(count.load(SeqCst), 2); // the forward is not evaluated again, and the delta once
}

#[test]
fn pull_sees_values_of_tape_after_step() {
    let (w, x) = (Weight::new(3.0_f64), Layer::constant(2.0_f64));
    let tape = (&w * &x).forward().wait().unwrap();
    w.set(100.0);
    let (_, dx) = tape.pull(Do::now(1.0), &x);
    assert_eq!(dx.predict().wait().unwrap(), 3.0);
}

#[test]
fn pull_to_layer_without_path_is_zero() {
    let (w, x, other) = (Weight::new(3.0_f64), Layer::constant(2.0_f64), Layer::constant(7.0_f64));
    let tape = (&w * &x).forward().wait().unwrap();
    let (effects, (dx, none)) = tape.pull(Do::now(1.0), &(x, other));
    assert_eq!((dx.predict().wait().unwrap(), none.predict().wait().unwrap()), (3.0, 0.0));
    assert_eq!(effects.delta(&w).wait().unwrap(), Some(2.0));
}

#[test]
fn pull_to_weight_and_frozen_weight_keeps_step_right() {
    let [a, b] = [3.0_f64, 5.0].map(Weight::new);
    b.freeze();
    let tape = (&a * &b).forward().wait().unwrap();
    let (effects, (da, db)) = tape.pull(Do::now(1.0), &(&a, &b));
    assert_eq!((da.predict().wait().unwrap(), db.predict().wait().unwrap()), (5.0, 3.0));
    assert_eq!(effects.delta(&b).wait().unwrap(), None);
    effects.step(&Sgd::new(0.5)).wait().unwrap();
    assert_eq!((a.value(), b.value()), (0.5, 5.0));
}

#[test]
fn pull_in_pass_can_be_differentiated_again() {
    let (w, x) = (Weight::new(3.0_f64), Layer::constant(2.0_f64));
    let slope = Layer::dynamic({
        let (w, x) = (w.clone(), x.clone());
        move || {
            let (w, x) = (w.clone(), x.clone());
            async move {
                let tape = (&w * &x * &x).forward().await?;
                Ok(tape.pull(Do::now(1.0), &x).1) // 2 · w · x
            }
        }
    });
    let (value, effects) = slope.value_and_backward().wait().unwrap();
    assert_eq!((value, effects.delta(&w).wait().unwrap()), (12.0, Some(4.0)));
}

#[test]
fn pull_across_hand_written_backward_is_error_for_layers_only() {
    let (w, x) = (Weight::new(3.0_f64), Layer::constant(2.0_f64));
    let inner = w.clone();
    let far = Layer::from(Do::from_fn(move || {
        let inner = inner.clone();
        async move {
            let tape = inner.forward().await?;
            Ok(Tape::new(10.0 * tape.data(), move |delta| tape.backward(delta.map(|d| 10.0 * d))))
        }
    }));
    let tape = far.forward().wait().unwrap();
    let (effects, dx) = tape.pull(Do::now(1.0), &x);
    let error = dx.predict().wait().unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("hand-written"), "{error}");
    assert!(effects.step(&Sgd::new(0.5)).wait().is_err());
    let (effects, dw) = tape.pull(Do::now(1.0), &w);
    assert_eq!(dw.predict().wait().unwrap(), 10.0);
    effects.step(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(w.value(), 2.0);
}

#[test]
fn deltas_by_path_go_back_into_step() {
    let (here, there) = (net(), net());
    let x = Layer::constant(0.75_f64);
    let (mine, theirs) = (Adam::new(0.1), Adam::new(0.1));
    for _ in 0..5 {
        let effects = score(&x, &x, &here).backward().wait().unwrap();
        let deltas = effects.deltas(&here).wait().unwrap();
        effects.step(&mine).wait().unwrap();
        SideEffects::of_deltas(&there, deltas).unwrap().step(&theirs).wait().unwrap();
        assert_eq!(here.each_ref().map(Weight::value), there.each_ref().map(Weight::value));
    }
}

#[test]
fn deltas_that_do_not_fit_module_are_errors() {
    let net = net();
    let effects = (&net[0] * &net[2]).backward().wait().unwrap();
    let deltas = effects.deltas(&net).wait().unwrap();
    let paths =
        |deltas: &[(String, dl_core::DeltaNumbers)]| deltas.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&deltas), ["0", "2"]); // a weight that was not used is absent
    let message = |ended: Result<SideEffects>| ended.unwrap_err().to_string();

    let error = effects.deltas(&net[..1]).wait().unwrap_err();
    assert!(error.to_string().contains("outside of this module"), "{error}");
    assert!(message(SideEffects::of_deltas(&net[..1], deltas.clone())).contains("no weight or buffer at `2`"));
    let twice = [deltas[0].clone(), deltas[0].clone()];
    assert!(message(SideEffects::of_deltas(&net, twice)).contains("`0` has two deltas"));
    let mut wrong = deltas.clone();
    wrong[0].1.numbers = Numbers::F32(vec![1.0]);
    assert!(message(SideEffects::of_deltas(&net, wrong)).contains("the delta of `0`"));
    assert!(net.weights().iter().all(Entry::is_weight));
}
