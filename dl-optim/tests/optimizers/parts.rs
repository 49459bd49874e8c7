//! Gradient transformations: order, refused steps, parameter groups.

use super::problem::{Array, Problem};
use dl_core::{Chunk, Differentiable, Memory, Optimizer, Result, Slot, Step, Weight, WeightHandle, WeightId};
use dl_optim::{Adadelta, Adagrad, Adam, AdamW, Groups, Lion, NAdam, OptimizerExt, RAdam, RmsProp, Sgd};
use std::sync::Arc;

/// One step of the loss `delta · w`.
fn stepped<O: Optimizer + Clone + 'static>(w: f64, delta: f64, optimizer: &O) -> Result<f64> {
    let w = Weight::new(w);
    (&w * delta).train(optimizer).wait()?;
    Ok(w.value())
}

#[test]
fn transformations_apply_outermost_first() -> Result<()> {
    let sgd = || Sgd::new(1.0);
    // clipped to 2, then 0.5 · 8 is added
    assert_eq!(stepped(8.0, 5.0, &sgd().weight_decay(0.5).clip_value(2.0))?, 8.0 - 6.0);
    // 0.5 · 8 is added, then clipped
    assert_eq!(stepped(8.0, 5.0, &sgd().clip_value(2.0).weight_decay(0.5))?, 8.0 - 2.0);
    // the same with the norm, which is that of the deltas after the outer transformations
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
    close(stepped(8.0, 5.0, &sgd().weight_decay(0.5).clip_norm(2.0))?, 8.0 - 6.0);
    close(stepped(8.0, 5.0, &sgd().clip_norm(2.0).weight_decay(0.5))?, 8.0 - 2.0);
    // 5 → 9 → 3 → 3 − 0.25 → 2
    let all = sgd().clip_norm(2.0).l1(-0.0).clip_value(3.0).weight_decay(0.5);
    close(stepped(8.0, 5.0, &all)?, 8.0 - 2.0);
    // one norm inside of another: 30 → 10, + 8 → 18 → 6
    close(stepped(8.0, 30.0, &sgd().clip_norm(6.0).weight_decay(1.0).clip_norm(10.0))?, 8.0 - 6.0);
    Ok(())
}

#[test]
fn clip_norm_uses_norm_of_all_weights() -> Result<()> {
    let weights: Vec<Weight<f64>> = (0..4).map(|_| Weight::new(0.0)).collect();
    let small = Weight::new(0.0_f32);
    let deltas = [2.0, -4.0, 4.0, 8.0];
    let loss = weights.iter().zip(deltas).map(|(w, d)| w * d).sum::<dl_core::Layer<f64>>();
    let factor = 5.0 / (10.0 + 1e-6);
    loss.train(&Sgd::new(1.0).clip_norm(5.0)).wait()?;
    for (w, d) in weights.iter().zip(deltas) {
        assert!((w.value() + factor * d).abs() < 1e-15);
    }
    // nothing is changed below the bound, not by a bit
    (&small * 3.0).train(&Sgd::new(0.1).clip_norm(3.1)).wait()?;
    let plain = Weight::new(0.0_f32);
    (&plain * 3.0).train(&Sgd::new(0.1)).wait()?;
    assert_eq!(small.value().to_bits(), plain.value().to_bits());
    Ok(())
}

#[test]
fn clip_norm_of_extreme_deltas_does_not_overflow_or_underflow() -> Result<()> {
    for size in [1e-200, 1.0, 1e200] {
        let (a, b) = (Weight::new(0.0_f64), Weight::new(0.0_f64));
        (&a * (3.0 * size) + &b * (4.0 * size)).train(&Sgd::new(1.0 / size).clip_norm(1e300)).wait()?;
        assert_eq!((a.value(), b.value()), (-3.0, -4.0), "{size}");
    }
    let (a, b) = (Weight::new(0.0_f64), Weight::new(0.0_f64));
    (&a * 3e200 + &b * 4e200).train(&Sgd::new(1.0).clip_norm(5.0)).wait()?;
    assert!((a.value() + 3.0).abs() < 1e-12 && (b.value() + 4.0).abs() < 1e-12);
    // no deltas but zeros
    assert_eq!(stepped(1.0, 0.0, &Sgd::new(1.0).clip_norm(0.0))?, 1.0);
    Ok(())
}

/// An invalid delta of one weight leaves the other weights, the optimizer state and the schedule
/// unchanged.
#[test]
fn refused_step_changes_nothing() {
    for bad in [f64::NAN, f64::INFINITY] {
        let rules: [Arc<dyn Optimizer>; 3] = [
            Arc::new(Adam::new(|step: u64| 0.1 / (step + 1) as f64).ema(0.9).clip_norm(1.0)),
            Arc::new(Adam::new(|step: u64| 0.1 / (step + 1) as f64).refuse_non_finite()),
            Arc::new(Groups::new(Adam::new(0.1)).refuse_non_finite().weight_decay(0.1)),
        ];
        for optimizer in rules {
            let (a, b) = (Weight::new(1.0_f64), Weight::new(2.0_f64));
            let named: [(&str, WeightHandle); 2] = [("a", (&a).into()), ("b", (&b).into())];
            (&a * &b).train(&optimizer).wait().unwrap();
            let remembered = || format!("{:?}", optimizer.state(&named).unwrap());
            let (before, values) = (remembered(), (a.value(), b.value()));
            let error = (&a * 1.0 + &b * bad).train(&optimizer).wait().unwrap_err();
            assert!(error.is_not_finite(), "{error}");
            assert_eq!((a.value(), b.value()), values);
            assert_eq!(remembered(), before);
            assert_eq!(optimizer.memory().unwrap().steps(), 1);
        }
    }
}

#[test]
fn optimizer_with_invalid_setting_is_error() {
    let optimizers: Vec<(&str, Arc<dyn Optimizer>)> = vec![
        ("learning rate", Arc::new(Sgd::new(f64::NAN))),
        ("momentum", Arc::new(Sgd::new(0.1).momentum(f64::INFINITY))),
        ("dampening", Arc::new(Sgd::new(0.1).momentum(0.9).dampening(f64::NAN))),
        ("Nesterov", Arc::new(Sgd::new(0.1).nesterov())),
        ("Nesterov", Arc::new(Sgd::new(0.1).momentum(0.9).dampening(0.5).nesterov())),
        ("eps", Arc::new(Adagrad::new(0.1).eps(-1.0))),
        ("initial accumulator", Arc::new(Adagrad::new(0.1).initial_accumulator(-1.0))),
        ("decay of the learning rate", Arc::new(Adagrad::new(0.1).lr_decay(-1.0))),
        ("weight decay", Arc::new(NAdam::new(0.1).decoupled_weight_decay(-1.0))),
        ("weight decay", Arc::new(RAdam::new(0.1).decoupled_weight_decay(f64::NAN))),
        ("alpha", Arc::new(RmsProp::new(0.1).alpha(1.5))),
        ("momentum", Arc::new(RmsProp::new(0.1).momentum(f64::NAN))),
        ("rho", Arc::new(Adadelta::new(0.1).rho(-0.5))),
        ("eps", Arc::new(Adadelta::new(0.1).eps(f64::NAN))),
        ("beta", Arc::new(Adam::new(0.1).betas(1.0, 0.9))),
        ("weight decay", Arc::new(AdamW::new(0.1).weight_decay(-1.0))),
        ("momentum decay", Arc::new(NAdam::new(0.1).momentum_decay(-1.0))),
        ("beta", Arc::new(RAdam::new(0.1).betas(0.9, 1.0))),
        ("beta", Arc::new(Lion::new(0.1).betas(-0.1, 0.9))),
        ("weight decay", Arc::new(Lion::new(0.1).weight_decay(f64::INFINITY))),
        ("weight decay", Arc::new(Sgd::new(0.1).weight_decay(-1.0))),
        ("L1 penalty", Arc::new(Sgd::new(0.1).l1(f64::NAN))),
        ("greatest value", Arc::new(Sgd::new(0.1).clip_value(-1.0))),
        ("greatest norm", Arc::new(Sgd::new(0.1).clip_norm(f64::NAN))),
        ("decay of the averages", Arc::new(Sgd::new(0.1).ema(1.5))),
    ];
    for (what, optimizer) in optimizers {
        let w = Weight::new(1.0_f64);
        let error = w.train(&optimizer).wait().unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(what), "{what}: {error}");
        assert_eq!(w.value(), 1.0);
        assert!(optimizer.memory().is_none_or(Memory::is_empty), "{what}");
    }
}

/// `weight_decay` on a wrapped optimizer is an L2 penalty, which is not meant to be combined with
/// the weight decay of the optimizer itself.
#[test]
fn l2_penalty_on_optimizer_with_weight_decay_is_error() -> Result<()> {
    let other = Weight::new(1.0_f64);
    let decayed: Vec<Arc<dyn Optimizer>> = vec![
        Arc::new(AdamW::new(0.1).clip_norm(1.0).weight_decay(0.1)),
        Arc::new(Arc::new(AdamW::new(0.1)).weight_decay(0.1).ema(0.5)),
        Arc::new(Lion::new(0.1).weight_decay(0.5).ema(0.5).clip_value(1.0).weight_decay(0.1)),
        Arc::new(NAdam::new(0.1).decoupled_weight_decay(0.1).weight_decay(0.1)),
        Arc::new(RAdam::new(0.1).decoupled_weight_decay(0.1).weight_decay(0.1)),
        Arc::new(Groups::new(Sgd::new(0.1)).with([&other], AdamW::new(0.1)).weight_decay(0.1)),
        Arc::new(Groups::new(Box::new(AdamW::new(0.1)).l1(0.1).weight_decay(0.1)).clip_norm(1.0)),
    ];
    for optimizer in decayed {
        let w = Weight::new(1.0_f64);
        let error = w.train(&optimizer).wait().unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains("call `weight_decay` on `AdamW`"), "{error}");
        assert_eq!(w.value(), 1.0);
        assert!(optimizer.memory().is_none_or(Memory::is_empty));
    }
    // one of them alone
    stepped(1.0, 1.0, &AdamW::new(0.1).weight_decay(0.1).clip_norm(1.0))?;
    stepped(1.0, 1.0, &AdamW::new(0.1).clip_norm(1.0).weight_decay(0.0))?;
    stepped(1.0, 1.0, &AdamW::new(0.1).weight_decay(0.0).clip_norm(1.0).weight_decay(0.1))?;
    stepped(1.0, 1.0, &Lion::new(0.1).clip_norm(1.0).weight_decay(0.1))?;
    Ok(())
}

/// A clone with a setting that needs another slot does not fit the state of earlier steps.
#[test]
fn step_with_different_number_of_slots_is_error() {
    let (w, adam) = (Weight::new(1.0_f64), Adam::new(0.1));
    w.train(&adam).wait().unwrap();
    let error = w.train(&adam.clone().amsgrad()).wait().unwrap_err();
    assert!(error.to_string().contains("has 2 state slots for this weight"), "{error}");
    w.train(&adam).wait().unwrap();
}

#[test]
fn groups_apply_their_own_settings() -> Result<()> {
    let (a, b, c) = (Weight::new(1.0_f64), Weight::new(1.0_f64), Weight::new(1.0_f32));
    let inner = Groups::new(Sgd::new(0.25)).with([&b], Sgd::new(|step: u64| (step + 1) as f64));
    let groups =
        Groups::new(Sgd::new(0.5).clip_norm(1.0)).with([WeightHandle::from(&b), (&c).into()], inner).weight_decay(0.0);
    for _ in 0..2 {
        (&a * 2.0 + &b * 3.0).train(&groups).wait()?;
        c.train(&groups).wait()?; // this training step advances the schedule of `b`, too
    }
    assert!((a.value() - (1.0 - 2.0 * 0.5)).abs() < 1e-5, "the norm is that of the group: {}", a.value());
    assert_eq!(b.value(), 1.0 - 3.0 * 1.0 - 3.0 * 3.0);
    assert_eq!(c.value(), 1.0 - 2.0 * 0.25);
    Ok(())
}

#[test]
fn weight_in_two_groups_is_error() {
    let w = Weight::new(1.0_f64);
    let made = line!() - 1;
    let other = Weight::new(1.0_f64);
    let groups = Groups::new(Sgd::new(0.1)).with([&other, &w], Sgd::new(0.2)).with([&w], Sgd::new(0.3));
    let error = w.train(&groups).wait().unwrap_err();
    assert!(error.to_string().contains("in two groups"), "{error}");
    assert_eq!(error.place().map(|place| (place.file(), place.line())), Some((file!(), made)));
}

#[test]
fn ema_around_groups_averages_all_weights() -> Result<()> {
    let problem = Problem::<f64>::new();
    let groups = Groups::new(Sgd::new(0.01)).with([&problem.b], Adam::new(0.01));
    let ema = groups.ema(0.5);
    let [a, b] = problem.values();
    problem.train(&ema.clone().clip_value(10.0))?;
    for (before, weight) in [(a, &problem.a), (b, &problem.b)] {
        let now = weight.value();
        let mean = before.0.iter().zip(&now.0).map(|(before, now)| 0.5 * before + 0.5 * now).collect();
        let mean = Array(mean);
        assert_eq!(ema.average(weight)?, Some(mean.clone()));
        assert_eq!(weight.predict().on(&ema.snapshot()?).wait()?, mean);
        assert_eq!(weight.value(), now, "only the pass on the snapshot sees the average");
    }
    Ok(())
}

/// An optimizer that wraps another one and forwards only the required methods.
#[derive(Clone)]
struct Around<O>(O);

impl<O: Optimizer> Optimizer for Around<O> {
    fn slots(&self) -> &[Slot] {
        self.0.slots()
    }

    fn memory(&self) -> Option<&Memory> {
        self.0.memory()
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        self.0.step(chunk, steps)
    }
}

#[test]
fn wrapper_that_does_not_forward_begin_is_error() {
    let w = Weight::new(1.0_f64);
    w.train(&Around(Sgd::new(0.5).momentum(0.9).weight_decay(0.1))).wait().unwrap();
    assert_eq!(w.value(), 1.0 - 0.5 * 1.1);
    let others: [Arc<dyn Optimizer>; 3] = [
        Arc::new(Around(Sgd::new(|_: u64| 0.1))),
        Arc::new(Around(Sgd::new(0.1).clip_norm(1.0))),
        Arc::new(Around(Groups::new(Sgd::new(0.1)))),
    ];
    for optimizer in others {
        let error = w.train(&optimizer).wait().unwrap_err();
        assert!(error.to_string().contains("must forward `begin`"), "{error}");
    }
}

/// Records the order in which `each_delta` visits the weights, which must not depend on the graph.
#[derive(Clone)]
struct Sees(Arc<std::sync::Mutex<Vec<WeightId>>>);

impl Optimizer for Sees {
    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        step.each_delta(&mut |weight, _| {
            self.0.lock().unwrap().push(weight);
            Ok(())
        })?;
        Ok(None)
    }

    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        Ok(())
    }
}

#[test]
fn each_delta_visits_weights_in_order_of_creation() {
    let weights: Vec<Weight<f64>> = (0..5).map(|_| Weight::new(1.0)).collect();
    let sees = Sees(Arc::default());
    let loss = [3, 0, 4, 2, 1].iter().map(|&k| &weights[k] * 2.0).sum::<dl_core::Layer<f64>>();
    loss.train(&sees).wait().unwrap();
    assert_eq!(*sees.0.lock().unwrap(), weights.iter().map(Weight::id).collect::<Vec<_>>());
}

#[test]
fn groups_by_path_select_matching_weights() -> Result<()> {
    let (encoder, bias, tied) = (Weight::new(1.0_f64), Weight::new(1.0_f32), Weight::new(1.0_f64));
    let net = ((encoder.clone(), bias.clone()), (tied.clone(), tied.clone()), Weight::new(1.0_f64));
    let groups = Groups::of(&net).path("0.0", Sgd::new(0.5)).path("0", Sgd::new(0.25)).path("1.1", Adam::new(0.125));
    let groups = groups.rest(Sgd::new(0.0))?;
    let loss = &encoder + &tied + &net.2;
    loss.train(&groups).wait()?;
    bias.train(&groups).wait()?;
    assert_eq!((encoder.value(), bias.value(), net.2.value()), (0.5, 0.75, 1.0));
    assert!((tied.value() - 0.875).abs() < 1e-8);

    let message = |groups: dl_optim::ByPath<'_>| groups.rest(Sgd::new(0.1)).unwrap_err().to_string();
    assert!(message(Groups::of(&net).path("0.2", Sgd::new(0.1))).contains("no weight matches `0.2`: `0` has `0`, `1`"));
    let twice = Groups::of(&net).path("1.0", Sgd::new(0.1)).path("1.1", Sgd::new(0.1)).path("9", Sgd::new(0.1));
    assert!(message(twice).contains("all weights that match `1.1` are in earlier groups"));
    Ok(())
}

#[test]
fn refused_step_of_non_finite_loss_changes_neither_weight_nor_state() -> Result<()> {
    let w = Weight::new(0.0);
    let sgd = Sgd::new(0.1).momentum(0.9).refuse_non_finite();
    for loss in [w.sqrt(), (&w - 1.0).ln(), &w * 0.0 + f64::INFINITY] {
        let error = loss.refuse_non_finite().train(&sgd).wait().unwrap_err();
        assert!(error.is_not_finite(), "{error}");
        assert_eq!(w.value(), 0.0);
    }
    assert_eq!(sgd.memory().map(|memory| memory.steps()), Some(0));
    Ok(())
}
