//! Recorded branches: the condition, the arm that was taken, and their place.

use super::support::recorded_pass;
use dl::prelude::*;

/// Condition, arm and line of each decision, in order of time.
fn taken(layer: &Layer<f64>) -> Vec<(&'static str, &'static str, u32)> {
    let (result, record) = recorded_pass(layer);
    result.unwrap();
    let each = record.decisions.iter().map(|decision| {
        let branch = decision.branch;
        assert!(branch.place.file().ends_with("branches.rs"));
        (branch.condition, branch.arms[decision.taken], branch.place.line())
    });
    each.collect()
}

/// [`taken`] without lines.
fn arms(layer: &Layer<f64>) -> Vec<(&'static str, &'static str)> {
    taken(layer).into_iter().map(|(condition, arm, _)| (condition, arm)).collect()
}

#[differentiable]
fn two_ways(x: Layer<f64>) -> Layer<f64> {
    if !x > 0.0 { x * 2.0 } else { -x } // line 25
}

#[test]
fn if_records_condition_and_arm() {
    assert_eq!(line!(), 30);
    assert_eq!(taken(&two_ways(Layer::constant(1.0))), [("!x > 0.0", "x * 2.0", 25)]);
    assert_eq!(taken(&two_ways(Layer::constant(-1.0))), [("!x > 0.0", "-x", 25)]);
}

#[differentiable]
fn three_ways(x: Layer<f64>, flag: bool) -> Layer<f64> {
    if flag {
        return x;
    }
    let value = !x;
    let scale = if value > 1.0 {
        3.0
    } else if value > 0.0 {
        let twice = 2.0;
        twice
    } else {
        1.0
    };
    if flag {
        return x;
    }
    x * scale
}

#[test]
fn else_if_records_each_evaluated_condition() {
    let of = |x: f64| arms(&three_ways(Layer::constant(x), false));
    // statements before all bangs do not depend on a value and are not recorded
    assert_eq!(of(2.0), [("value > 1.0", "3.0"), ("flag", "nothing")]);
    let outer = ("value > 1.0", "if value > 0.0 …");
    assert_eq!(of(0.5), [outer, ("value > 0.0", "twice"), ("flag", "nothing")]);
    assert_eq!(of(-1.0), [outer, ("value > 0.0", "1.0"), ("flag", "nothing")]);
    assert_eq!(arms(&three_ways(Layer::constant(2.0), true)), []);
}

#[differentiable]
fn by_match(x: Layer<f64>) -> Layer<f64> {
    match !x {
        0.0 => x,
        value if value < 0.0 => -x,
        value => {
            let scaled = x * value;
            scaled + 1.0
        }
    }
}

#[test]
fn match_records_pattern_and_guard_of_arm() {
    let of = |x: f64| arms(&by_match(Layer::constant(x)));
    assert_eq!(of(0.0), [("!x", "0.0 => x")]);
    assert_eq!(of(-1.0), [("!x", "value if value < 0.0 => -x")]);
    assert_eq!(of(3.0), [("!x", "value => scaled + 1.0")]);
}

#[differentiable]
fn doubled(x: Layer<f64>) -> Layer<f64> {
    let mut x = x;
    while !x < 10.0 {
        x = x * 2.0;
    }
    x
}

#[differentiable]
fn popped(x: Layer<f64>) -> Layer<f64> {
    let mut left = vec![1.0, 2.0];
    let mut x = x + !x;
    while let Some(next) = left.pop() {
        x = x * next;
    }
    x
}

#[test]
fn loops_record_a_decision_per_iteration() {
    let round = ("!x < 10.0", "another round");
    assert_eq!(arms(&doubled(Layer::constant(3.0))), [round, round, ("!x < 10.0", "end")]);
    let round = ("let Some(next) = left.pop()", "another round");
    assert_eq!(arms(&popped(Layer::constant(3.0))), [round, round, ("let Some(next) = left.pop()", "end")]);
}

#[differentiable]
fn in_rounds(x: Layer<f64>) -> Layer<f64> {
    let mut count = 0.0;
    for i in 0..3 {
        if i > 0 {
            count += 1.0;
        }
        count += !x;
    }
    x * count
}

#[test]
fn decisions_are_recorded_in_order_of_iterations() {
    let decisions = arms(&in_rounds(Layer::constant(1.0)));
    assert_eq!(decisions, [("i > 0", "nothing"), ("i > 0", "count += 1.0"), ("i > 0", "count += 1.0")]);
}

#[differentiable]
fn if_there_is_one(x: Layer<f64>, scale: Option<f64>) -> Layer<f64> {
    let value = !x;
    let Some(scale) = scale else { return x * value };
    if let 1.0..=2.0 = value
        && scale > 0.0
    {
        x * scale
    } else {
        x
    }
}

#[test]
fn let_else_and_if_let_record_their_arms() {
    let of = |x: f64, scale| arms(&if_there_is_one(Layer::constant(x), scale));
    assert_eq!(of(1.0, None), [("let Some(scale) = scale", "return x * value")]);
    let there = ("let Some(scale) = scale", "Some(scale)");
    let condition = "let 1.0..=2.0 = value && scale > 0.0";
    assert_eq!(of(1.0, Some(2.0)), [there, (condition, "x * scale")]);
    assert_eq!(of(5.0, Some(2.0)), [there, (condition, "x")]);
}

#[test]
fn decision_in_block_is_recorded() {
    let x = Layer::constant(1.0);
    let layer = direct! { if !x > 0.0 { x } else { -x } };
    assert_eq!(arms(&layer), [("!x > 0.0", "x")]);
}

#[test]
fn branch_place_has_column_of_keyword() {
    let (_, record) = recorded_pass(&two_ways(Layer::constant(1.0)));
    assert_eq!(record.decisions[0].branch.place.column(), 5);
    // both decisions have the same branch, regardless of the arm
    let (_, other) = recorded_pass(&two_ways(Layer::constant(-1.0)));
    assert!(std::ptr::eq(record.decisions[0].branch, other.decisions[0].branch));
}
