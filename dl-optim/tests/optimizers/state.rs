//! Saving and loading of optimizer state.

use super::problem::{Array, Problem};
use dl_core::{Chunk, Differentiable, Optimizer, OptimizerState, Result, Weight, WeightHandle};
use dl_optim::schedule::{Cosine, Plateau, Schedule};
use dl_optim::{Adadelta, Adagrad, Adam, AdamW, Groups, Lion, NAdam, OptimizerExt, RAdam, RmsProp, Sgd};
use std::sync::Arc;

type Make = fn(&Problem<f64>) -> Arc<dyn Optimizer>;

/// Optimizers and wrappers, with and without state.
const OPTIMIZERS: &[Make] = &[
    |_| Arc::new(Sgd::new(0.02)),
    |_| Arc::new(Sgd::new(Cosine::new(0.02, 9))),
    |_| Arc::new(Sgd::new(0.02).momentum(0.9).dampening(0.5).refuse_non_finite()),
    |_| Arc::new(Adagrad::new(0.1).initial_accumulator(0.5)),
    |_| Arc::new(RmsProp::new(0.02)),
    |_| Arc::new(RmsProp::new(0.02).centered().momentum(0.5).clip_norm(1.0)),
    |_| Arc::new(Adadelta::new(1.0)),
    |_| Arc::new(Adam::new(|step: u64| 0.1 / (step + 1) as f64).weight_decay(0.1)),
    |_| Arc::new(Adam::new(0.05).amsgrad()),
    |_| Arc::new(AdamW::new(0.05)),
    |_| Arc::new(NAdam::new(0.05)),
    |_| Arc::new(RAdam::new(0.05)),
    |_| Arc::new(Lion::new(0.01)),
    |_| Arc::new(Adam::new(0.05).ema(0.9).ema(0.5)),
    |problem| {
        let other = RmsProp::new(0.01).momentum(0.9).ema(0.5);
        Arc::new(Groups::new(Adam::new(Cosine::new(0.1, 7))).with([&problem.b], other).clip_norm(1.0).ema(0.9))
    },
];

/// Copies numbers and slots, as writing and reading a checkpoint does.
fn written_and_read(state: &OptimizerState) -> OptimizerState {
    let mut copy = OptimizerState::new(state.kind());
    for (key, number) in state.numbers() {
        copy.set_number(key, number);
    }
    for (weight, slot) in state.slots() {
        copy.set_slot(weight, slot, state.slot::<Array<f64>>(weight, slot).unwrap().clone());
    }
    copy
}

#[test]
fn resumed_run_is_bit_identical() -> Result<()> {
    for make in OPTIMIZERS {
        let problem = Problem::new();
        let optimizer = make(&problem);
        for _ in 0..5 {
            problem.train(&optimizer)?;
        }
        let (values, state) = (problem.values(), optimizer.state(&problem.named())?);
        for _ in 0..5 {
            problem.train(&optimizer)?;
        }
        let state = written_and_read(&state);

        // in another program: other weights, another optimizer, which may have been used
        let again = Problem::new();
        let resumed = make(&again);
        again.train(&resumed)?;
        again.set(values);
        resumed.load_state(&state, &again.named())?;
        for _ in 0..5 {
            again.train(&resumed)?;
        }
        assert_eq!(again.values(), problem.values(), "{}", optimizer.kind());
        let states = [optimizer.state(&problem.named())?, resumed.state(&again.named())?];
        for (weight, slot) in states[0].slots() {
            let [there, here] = states.each_ref().map(|state| state.slot::<Array<f64>>(weight, slot));
            assert!(there.is_some() && there == here, "{}: {slot} of {weight}", optimizer.kind());
        }
        assert_eq!(format!("{:?}", states[0]), format!("{:?}", states[1]));
    }
    Ok(())
}

#[test]
fn slot_names_match_pytorch() -> Result<()> {
    let slots = |make: &Make| -> Result<String> {
        let problem = Problem::new();
        let optimizer = make(&problem);
        problem.train(&optimizer)?;
        let state = optimizer.state(&problem.named())?;
        let mut slots: Vec<&str> = state.slots().filter(|(weight, _)| *weight == "a").map(|(_, slot)| slot).collect();
        slots.sort();
        Ok(format!("{} {}", state.kind(), slots.join(" ")))
    };
    let found = OPTIMIZERS.iter().map(slots).collect::<Result<Vec<String>>>()?;
    assert_eq!(
        found,
        [
            "Sgd ",
            "Sgd ",
            "Sgd momentum_buffer",
            "Adagrad sum",
            "RmsProp square_avg",
            "RmsProp grad_avg momentum_buffer square_avg",
            "Adadelta acc_delta square_avg",
            "Adam exp_avg exp_avg_sq",
            "Adam exp_avg exp_avg_sq max_exp_avg_sq",
            "AdamW exp_avg exp_avg_sq",
            "NAdam exp_avg exp_avg_sq",
            "RAdam exp_avg exp_avg_sq",
            "Lion exp_avg",
            "Ema(Ema(Adam)) ema ema_2 exp_avg exp_avg_sq",
            "Ema(Groups(Adam, Ema(RmsProp))) ema exp_avg exp_avg_sq",
        ]
    );
    Ok(())
}

#[test]
fn plateau_schedule_is_saved_with_optimizer_state() -> Result<()> {
    let problem = Problem::<f64>::new();
    let make = || {
        let plateau = Plateau::new(0.1).patience(1).cooldown(1);
        (plateau.clone(), Sgd::new(plateau.times(Cosine::new(1.0, 9))).clip_norm(1.0))
    };
    let (plateau, optimizer) = make();
    problem.train(&optimizer)?;
    for metric in [3.0, 2.0, 2.5, 2.5] {
        plateau.report(metric)?;
    }
    plateau.report(4.0)?;
    let state = written_and_read(&optimizer.state(&problem.named())?);
    let numbers: Vec<(&str, f64)> = state.numbers().collect();
    assert_eq!(
        numbers,
        [
            ("learning_rate.first.plateau.best", 2.0),
            ("learning_rate.first.plateau.cooldown_counter", 0.0),
            ("learning_rate.first.plateau.last_lr", 0.1 * 0.1),
            ("learning_rate.first.plateau.num_bad_epochs", 0.0),
            ("steps", 1.0),
        ]
    );
    let (resumed_plateau, resumed) = make();
    resumed_plateau.report(0.0)?;
    resumed.load_state(&state, &problem.named())?;
    for metric in [2.0, 2.0, 1.0] {
        plateau.report(metric)?;
        resumed_plateau.report(metric)?;
        assert_eq!(resumed_plateau.at(0)?.to_bits(), plateau.at(0)?.to_bits());
    }
    assert!(plateau.at(0)? < 0.002, "it was lowered again");
    Ok(())
}

#[test]
fn loading_mismatched_state_is_error_and_changes_nothing() -> Result<()> {
    let problem = Problem::<f64>::new();
    let adam = Adam::new(0.05);
    problem.train(&adam)?;
    problem.train(&adam)?;
    let good = adam.state(&problem.named())?;

    let changed = |change: &dyn Fn(&mut OptimizerState)| {
        let mut state = good.clone();
        change(&mut state);
        state
    };
    let without = |left_out: &str| {
        let mut state = OptimizerState::new("Adam");
        good.numbers().filter(|(key, _)| *key != left_out).for_each(|(key, number)| state.set_number(key, number));
        for (weight, slot) in good.slots().filter(|(weight, slot)| format!("{weight}.{slot}") != left_out) {
            state.set_slot(weight, slot, good.slot::<Array<f64>>(weight, slot).unwrap().clone());
        }
        state
    };
    let numbers = |count: usize| Array(vec![0.5; count]);
    let mut of_another_kind = OptimizerState::new("AdamW");
    of_another_kind.set_number("steps", 1.0);
    let bad = [
        ("this is the state of AdamW, and the optimizer is Adam", of_another_kind),
        ("no number \"steps\"", without("steps")),
        ("no number \"steps.a\"", without("steps.a")),
        ("no slot exp_avg of the weight \"b\"", without("b.exp_avg")),
        ("which is not a count", changed(&|state| state.set_number("steps.b", 1.5))),
        ("which is not a count", changed(&|state| state.set_number("steps", -1.0))),
        ("is NaN", changed(&|state| state.set_number("steps", f64::NAN))),
        ("a number \"learning_rate.best\"", changed(&|state| state.set_number("learning_rate.best", 1.0))),
        ("a number \"steps.c\"", changed(&|state| state.set_number("steps.c", 1.0))),
        ("of a weight \"c\"", changed(&|state| state.set_slot("c", "exp_avg", numbers(3)))),
        ("a slot \"ema\" of a weight \"a\"", changed(&|state| state.set_slot("a", "ema", numbers(3)))),
        (
            "a slot of the state has 3 numbers, its weight 2",
            changed(&|state| state.set_slot("b", "exp_avg", numbers(3))),
        ),
        ("of the same type", changed(&|state| state.set_slot("b", "exp_avg", Array(vec![0.5_f32; 2])))),
        ("of the same type", changed(&|state| state.set_slot("b", "exp_avg", 0.5))),
    ];
    for (message, state) in bad {
        let before = format!("{:?} {:?}", adam.state(&problem.named())?, adam);
        let error = adam.load_state(&state, &problem.named()).unwrap_err();
        assert!(error.to_string().contains(message), "{message}: {error}");
        assert_eq!(format!("{:?} {:?}", adam.state(&problem.named())?, adam), before);
        let now = adam.state(&problem.named())?;
        for (weight, slot) in good.slots() {
            assert_eq!(now.slot::<Array<f64>>(weight, slot), good.slot::<Array<f64>>(weight, slot));
        }
    }
    adam.load_state(&good, &problem.named())
}

#[test]
fn state_with_duplicate_or_missing_names_is_error() -> Result<()> {
    let weights = [1.0, 2.0].map(Weight::<f64>::new);
    let adam = Adam::new(0.1);
    (&weights[0] * &weights[1]).train(&adam).wait()?;
    let [a, b] = weights.each_ref().map(WeightHandle::from);
    drop(weights);
    let error = |named: &[(&str, WeightHandle)]| adam.state(named).unwrap_err().to_string();
    assert!(error(&[("a", a.clone()), ("a", b.clone())]).contains("two weights are called \"a\""));
    assert!(error(&[("a", a.clone()), ("b", a.clone())]).contains("\"b\" also has another name"));
    assert!(error(&[("a", a.clone())]).contains("has state for 1 weights that are not among those with a name"));
    // a weight that is gone need not have one
    drop(b);
    adam.state(&[("a", a)]).map(drop)
}

/// A weight that has not taken part in a step has no state, and loading removes later state.
#[test]
fn weight_without_steps_has_no_state() -> Result<()> {
    let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
    let named: [(&str, WeightHandle); 2] = [("a", (&a).into()), ("b", (&b).into())];
    let adam = Adam::new(0.5);
    a.train(&adam).wait()?;
    let state = adam.state(&named)?;
    assert_eq!(state.slots().collect::<Vec<_>>(), [("a", "exp_avg"), ("a", "exp_avg_sq")]);
    b.train(&adam).wait()?;
    adam.load_state(&state, &named)?;
    b.set(1.0);
    b.train(&adam).wait()?;
    assert!((b.value() - 0.5).abs() < 1e-7, "it counts as its first step again");
    Ok(())
}

/// An optimizer that tries to replace the state of another one during a step.
#[derive(Clone)]
struct Meddler(Adam, OptimizerState, WeightHandle);

impl Optimizer for Meddler {
    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        self.0.load_state(&self.1, &[("w", self.2.clone())])
    }
}

#[test]
fn load_state_during_step_is_error() -> Result<()> {
    let (w, adam) = (Weight::new(1.0_f64), Adam::new(0.5));
    let named = [("w", WeightHandle::from(&w))];
    let fresh = adam.state(&named)?;
    w.train(&adam).wait()?;
    let error = w.train(&Meddler(adam.clone(), fresh.clone(), (&w).into())).wait().unwrap_err();
    assert!(error.to_string().contains("during a step"), "{error}");
    let new = adam.check_state(&fresh, &named)?;
    assert_eq!(adam.memory().unwrap().steps(), 1, "check_state changes nothing");
    new.set()?;
    assert_eq!(adam.memory().unwrap().steps(), 0);
    Ok(())
}
