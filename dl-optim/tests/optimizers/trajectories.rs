//! Twenty steps of every optimizer, in both precisions, compared with PyTorch after each step.

use super::problem::{Array, Problem, flat};
use super::{numbers, reference};
use dl_core::{Chunk, ChunkElement, Delta, Differentiable, Optimizer, Result, Weight};
use dl_optim::schedule::Cosine;
use dl_optim::{Adadelta, Adagrad, Adam, AdamW, Groups, Lion, NAdam, OptimizerExt, RAdam, RmsProp, Sgd};
use serde_json::Value;
use std::sync::Arc;

/// The optimizers to compare, with their names in the reference.
fn cases<A: ChunkElement + Delta>(problem: &Problem<A>) -> Vec<(&'static str, Arc<dyn Optimizer>)> {
    fn case(name: &'static str, optimizer: impl Optimizer + 'static) -> (&'static str, Arc<dyn Optimizer>) {
        (name, Arc::new(optimizer))
    }
    vec![
        case("sgd", Sgd::new(0.02)),
        case("sgd-momentum", Sgd::new(0.02).momentum(0.9)),
        case("sgd-dampening", Sgd::new(0.02).momentum(0.9).dampening(0.3)),
        case("sgd-nesterov", Sgd::new(0.02).momentum(0.9).nesterov()),
        case("sgd-weight-decay", Sgd::new(0.02).momentum(0.5).weight_decay(0.1)),
        case("adagrad", Adagrad::new(0.1)),
        case("adagrad-settings", Adagrad::new(0.1).initial_accumulator(0.5).eps(1e-3).weight_decay(0.1)),
        case("rms-prop", RmsProp::new(0.02)),
        case("rms-prop-momentum", RmsProp::new(0.02).alpha(0.9).eps(1e-3).momentum(0.7)),
        case("rms-prop-centered", RmsProp::new(0.02).centered()),
        case("rms-prop-all", RmsProp::new(0.02).alpha(0.9).momentum(0.7).centered().weight_decay(0.1)),
        case("adadelta", Adadelta::new(1.0)),
        case("adadelta-settings", Adadelta::new(0.7).rho(0.8).eps(1e-3).weight_decay(0.1)),
        case("adam", Adam::new(0.05)),
        case("adam-settings", Adam::new(0.05).betas(0.8, 0.95).eps(1e-3).weight_decay(0.1)),
        case("adam-amsgrad", Adam::new(0.05).betas(0.5, 0.6).amsgrad()),
        case("adamw", AdamW::new(0.05)),
        case("adamw-settings", AdamW::new(0.05).betas(0.5, 0.6).eps(1e-3).weight_decay(0.3).amsgrad()),
        case("adagrad-decay", Adagrad::new(0.1).lr_decay(0.3)),
        case("nadam-decoupled", NAdam::new(0.05).decoupled_weight_decay(0.1)),
        case("radam-decoupled", RAdam::new(0.05).decoupled_weight_decay(0.1)),
        case("nadam", NAdam::new(0.05)),
        case("nadam-settings", NAdam::new(0.05).betas(0.8, 0.95).eps(1e-3).momentum_decay(0.1).weight_decay(0.1)),
        case("radam", RAdam::new(0.05)),
        case("radam-settings", RAdam::new(0.05).betas(0.8, 0.7).eps(1e-3).weight_decay(0.1)),
        case("lion", Lion::new(0.01)),
        case("lion-settings", Lion::new(0.01).betas(0.8, 0.95).weight_decay(0.5)),
        case("clip-norm", Sgd::new(0.1).momentum(0.9).weight_decay(0.5).clip_norm(1.0)),
        case("clip-norm-of-decayed", Sgd::new(0.1).momentum(0.9).clip_norm(1.0).weight_decay(0.5)),
        case("clip-value", Adam::new(0.05).clip_value(0.5)),
        case("l1", Sgd::new(0.02).l1(0.3)),
        case(
            "groups",
            Groups::new(Adam::new(0.05)).with([&problem.b], Adam::new(0.01).weight_decay(0.5)).clip_norm(1.0),
        ),
        case("scheduled", Adam::new(Cosine::new(0.1, 15).minimum(0.01))),
    ]
}

fn agrees(found: &[f64], expected: &Value, tolerance: f64, what: &str) {
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        let near = (found - expected).abs() <= tolerance * expected.abs().max(1e-2);
        assert!(near, "{what}: {found}, PyTorch has {expected}");
    }
}

fn as_in_pytorch<A: ChunkElement + Delta>(section: &str, tolerance: f64) {
    let reference = reference(section);
    let names: Vec<&str> = cases(&Problem::<A>::new()).iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len() + 1, reference.as_object().unwrap().len(), "all cases, and the case `ema`");
    for (index, name) in names.into_iter().enumerate() {
        let problem = Problem::<A>::new();
        let optimizer = cases(&problem).swap_remove(index).1;
        let steps = reference[name].as_array().expect(name);
        assert_eq!(steps.len(), 20);
        for (step, expected) in steps.iter().enumerate() {
            problem.train(&optimizer).unwrap();
            agrees(&flat(problem.values()), expected, tolerance, &format!("{name}, step {}", step + 1));
        }
    }
}

#[test]
fn optimizers_match_pytorch_in_double_precision() {
    as_in_pytorch::<f64>("f64", 1e-12);
}

#[test]
fn optimizers_match_pytorch_in_single_precision() {
    as_in_pytorch::<f32>("f32", 2e-5);
}

#[test]
fn ema_matches_pytorch() {
    let reference = reference("f64");
    let (problem, ema) = (Problem::<f64>::new(), Adam::new(0.05).ema(0.9));
    for (step, expected) in reference["ema"].as_array().unwrap().iter().enumerate() {
        problem.train(&ema).unwrap();
        let averages = [&problem.a, &problem.b].map(|weight| ema.average(weight).unwrap().unwrap());
        agrees(&flat(averages.clone()), expected, 1e-12, &format!("averages in step {}", step + 1));
        let snapshot = ema.snapshot().unwrap();
        let on_averages: Array<f64> = problem.a.predict().on(&snapshot).wait().unwrap();
        assert_eq!(on_averages, averages[0]);
    }
}

#[test]
fn failed_step_is_not_counted() {
    let (adam, w) = (Adam::new(0.5).refuse_non_finite(), Weight::new(0.0_f64));
    assert!(w.sqrt().train(&adam).wait().unwrap_err().is_not_finite());
    (&w * 2.0).train(&adam).wait().unwrap();
    assert!((w.value() + 0.5).abs() < 1e-8);
}

/// Steps are counted per weight in a memory.
#[test]
fn weight_added_later_counts_its_own_steps() {
    let adam = Adam::new(0.5);
    let (first, second) = (Weight::new(3.0_f64), Weight::new(3.0_f64));
    for _ in 0..10 {
        (&first * 2.0).train(&adam).wait().unwrap();
    }
    (&second * 2.0).train(&adam.at_learning_rate(0.25)).wait().unwrap();
    assert!((second.value() - 2.75).abs() < 1e-8);
}

/// The product `Π` of NAdam is cut off once it is negligible: a step at a large count is cheap.
#[test]
fn nadam_step_cost_is_bounded_at_large_step_counts() -> Result<()> {
    let (mut values, [mut m, mut v]) = ([0.0_f64], [[0.5_f64], [0.25]]);
    let nadam = NAdam::new(0.1);
    for step in 1_000_000_000..1_000_010_000 {
        nadam.step(Chunk::F64 { values: &mut values, deltas: &[0.5], slots: &mut [&mut m, &mut v] }, step)?;
    }
    assert!((values[0] + 0.1 * 10_000.0).abs() < 1.0, "{values:?}");
    Ok(())
}
