//! Fifty learning rates of every schedule, compared with PyTorch, and the counting of steps.

use super::{numbers, reference};
use dl_core::{Differentiable, Result, Weight};
use dl_optim::schedule::{Cosine, Exponential, Linear, MultiStep, OneCycle, Plateau, Polynomial, Schedule, StepDecay};
use dl_optim::{Adam, OptimizerExt, Sgd};

fn check(name: &str, rate: impl FnMut(u64) -> f64) {
    let expected = numbers(&reference("schedules")[name]);
    assert_eq!(expected.len(), 50);
    let found: Vec<f64> = (0..50).map(rate).collect();
    for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
        // PyTorch's recursive formulas end at a rounding error instead of 0
        let near = (found - expected).abs() <= 1e-12 * expected.abs().max(1e-3);
        assert!(near, "{name}, step {step}: {found}, PyTorch has {expected}");
    }
}

fn check_schedule(name: &str, schedule: impl Schedule) {
    check(name, |step| schedule.at(step).unwrap());
}

#[test]
fn schedules_match_pytorch() {
    check_schedule("step-decay", StepDecay::new(0.5, 7, 0.3));
    check_schedule("multi-step", MultiStep::new(0.5, [5, 12, 12, 30], 0.3));
    check_schedule("exponential", Exponential::new(0.5, 0.9));
    check_schedule("linear", Linear::new(0.5 * 0.2, 0.5 * 0.9, 13));
    check_schedule("polynomial", Polynomial::new(0.5, 40, 1.7));
    check_schedule("cosine", Cosine::new(0.5, 18).minimum(0.01));
    check_schedule("restarts-1", Cosine::new(0.5, 7).minimum(0.01).restarts(1));
    check_schedule("restarts-2", Cosine::new(0.5, 5).restarts(2));
    check_schedule("one-cycle", OneCycle::new(0.5, 50));
    check_schedule("one-cycle-settings", OneCycle::new(0.5, 50).warm_up(0.25).divided_by(10.0, 100.0).linear());
    check_schedule("one-cycle-three-phases", OneCycle::new(0.5, 50).three_phases());
    check_schedule("lambda", |step: u64| 0.5 / (1 + step) as f64);
    let sequence = Linear::new(0.05, 0.5, 10).then(10, Exponential::new(0.5, 0.9)).then(25, Cosine::new(0.5, 25));
    check_schedule("sequence", sequence);
    check_schedule("chain", Linear::new(0.25, 1.0, 10).times(StepDecay::new(0.5, 7, 0.5)));
}

#[test]
fn plateau_matches_pytorch() {
    let metrics = numbers(&reference("metrics"));
    let check_plateau = |name, plateau: Plateau| {
        let optimizer = Sgd::new(plateau.clone());
        check(name, |step| {
            let rate = optimizer.learning_rate().unwrap();
            plateau.report(metrics[step as usize]).unwrap();
            rate
        });
    };
    check_plateau("plateau", Plateau::new(0.5).patience(2));
    let settings = Plateau::new(0.5).factor(0.5).patience(1).threshold(0.1).cooldown(2).minimum(0.05);
    check_plateau("plateau-settings", settings);
    let greater = Plateau::new(0.5).greater_is_better().factor(0.7).patience(3).absolute_threshold(0.2);
    check_plateau("plateau-max", greater);
}

#[test]
fn schedule_with_invalid_setting_is_error() {
    let schedules: Vec<Box<dyn Schedule>> = vec![
        Box::new(StepDecay::new(0.1, 0, 0.5)),
        Box::new(StepDecay::new(0.1, 1, f64::NAN)),
        Box::new(MultiStep::new(f64::INFINITY, [1], 0.5)),
        Box::new(Exponential::new(0.1, -0.5)),
        Box::new(Linear::new(0.1, 0.2, 0)),
        Box::new(Polynomial::new(0.1, 0, 1.0)),
        Box::new(Polynomial::new(0.1, 5, -1.0)),
        Box::new(Cosine::new(0.1, 0)),
        Box::new(Cosine::new(0.1, 5).restarts(0)),
        Box::new(OneCycle::new(0.1, 0)),
        Box::new(OneCycle::new(0.1, 10).warm_up(1.5)),
        Box::new(OneCycle::new(0.1, 10).warm_up(0.7).three_phases()),
        Box::new(OneCycle::new(0.1, 10).divided_by(0.0, 1.0)),
        Box::new(Plateau::new(0.1).factor(1.0)),
        Box::new(Plateau::new(0.1).threshold(-1.0)),
    ];
    for (index, schedule) in schedules.iter().enumerate() {
        assert!(schedule.at(3).unwrap_err().is_invalid(), "schedule {index}");
    }
    let w = Weight::new(1.0_f64);
    let error = w.train(&Sgd::new(Cosine::new(0.1, 0))).wait().unwrap_err();
    assert!(error.to_string().contains("number of steps of the schedule is 0"), "{error}");
    let error = w.train(&Adam::new(|_: u64| f64::NAN)).wait().unwrap_err();
    assert!(error.to_string().contains("learning rate of the optimizer is NaN"), "{error}");
    assert_eq!(w.value(), 1.0);
}

#[test]
fn schedules_at_extreme_steps_do_not_panic() {
    for step in [0, 1, u64::MAX - 1, u64::MAX] {
        for rate in [
            StepDecay::new(0.1, 1, 0.5).at(step),
            Linear::new(0.1, 0.2, u64::MAX).at(step),
            Cosine::new(0.1, 1).restarts(2).at(step),
            Cosine::new(0.1, u64::MAX).restarts(3).at(step),
            OneCycle::new(0.1, 1).at(step),
            OneCycle::new(0.1, 2).three_phases().at(step),
            OneCycle::new(0.1, 10).warm_up(0.0).at(step),
            OneCycle::new(0.1, 10).warm_up(1.0).at(step),
        ] {
            assert!((-1e-12..=0.2).contains(&rate.unwrap()), "step {step}");
        }
    }
}

#[test]
fn refused_step_does_not_advance_schedule() -> Result<()> {
    let (w, zero) = (Weight::new(1.0_f64), Weight::new(0.0_f64));
    let sgd = Sgd::new(Exponential::new(0.5, 0.5));
    let guarded = sgd.clone().refuse_non_finite();
    w.train(&guarded).wait()?;
    assert_eq!((w.value(), sgd.learning_rate()?), (0.5, 0.25));
    assert!((&w + zero.sqrt()).train(&guarded).wait().unwrap_err().is_not_finite());
    assert_eq!((w.value(), sgd.learning_rate()?), (0.5, 0.25));
    w.train(&guarded).wait()?;
    assert_eq!((w.value(), sgd.learning_rate()?), (0.25, 0.125));
    Ok(())
}

/// A training step counts once, regardless of the number of weights.
#[test]
fn clones_share_step_count() -> Result<()> {
    let (a, b) = (Weight::new(1.0_f64), Weight::new(1.0_f64));
    let adam = Adam::new(|step: u64| step as f64);
    (&a + &b).train(&adam).wait()?;
    a.train(&adam.clone().clip_norm(1.0).weight_decay(0.1)).wait()?;
    assert_eq!(adam.learning_rate()?, 2.0);
    assert_eq!(adam.at_learning_rate(|step: u64| 10.0 * step as f64).learning_rate()?, 20.0);
    Ok(())
}

#[test]
fn plateau_with_nan_metric_is_error_and_changes_nothing() -> Result<()> {
    let plateau = Plateau::new(0.5).patience(0);
    plateau.report(1.0)?;
    assert!(plateau.report(f64::NAN).unwrap_err().is_not_finite());
    assert_eq!(plateau.at(0)?, 0.5);
    plateau.report(2.0)?;
    assert_eq!(plateau.at(0)?, 0.05);
    Ok(())
}
