//! Promise 1: a pass evaluates each layer at most once, regardless of how it is reached.

use super::support::Counted;
use dl::{At, Differentiable, Layer, Primitive, Result, Sgd, Weight};

#[test]
fn nested_diamonds_are_evaluated_in_linear_time() {
    let w = Weight::new(1e-9);
    let step = Counted::new(0.5);
    let mut y = w.layer();
    for _ in 0..1000 {
        let x = step.of(&y);
        y = &x + &x;
    }
    y.train(&Sgd::new(1e-9)).wait().unwrap();
    assert_eq!(step.counts(), (1000, 1000));
}

#[test]
fn nested_scalar_diamonds_are_evaluated_in_linear_time() {
    // 2^1000 visits would not terminate
    let w = Weight::new(0.001_f32);
    let mut y = w.layer();
    for _ in 0..1000 {
        y = &y * &y + &y;
    }
    y.train(&Sgd::new(0.0)).wait().unwrap();
}

#[test]
fn layer_reached_in_several_ways_is_evaluated_once() {
    let w = Weight::new(2.0);
    let shared = Counted::new(3.0);
    let x = shared.of(&w.layer());
    let inner = x.clone();
    let decided = Layer::dynamic(move || {
        let x = inner.clone();
        async move {
            let bang = x.extract().await?; // by a bang
            let tape = x.forward().await?; // by forward
            assert_eq!((bang, *tape.data()), (6.0, 6.0));
            Ok(&x * bang) // by an operator
        }
    });
    let y = &decided + &x; // and from outside of the body
    assert_eq!(y.predict().wait().unwrap(), 42.0);
    assert_eq!(shared.counts(), (1, 0));
    y.train(&Sgd::new(0.0)).wait().unwrap();
    assert_eq!(shared.counts(), (2, 1));
}

#[test]
fn each_pass_evaluates_layers_again() {
    let counted = Counted::new(1.0);
    let y = counted.of(&Weight::new(1.0).layer());
    for passes in 1..=3 {
        y.predict().wait().unwrap();
        assert_eq!(counted.counts(), (passes, 0));
    }
}

#[test]
fn concurrent_passes_evaluate_layers_once_each() {
    let counted = Counted::new(1.0);
    let mut y = Weight::new(1.0).layer();
    for _ in 0..100 {
        y = counted.of(&y) + 1.0;
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(y.predict().wait().unwrap(), 101.0);
                }
            });
        }
    });
    assert_eq!(counted.counts(), (4 * 50 * 100, 0));
}

/// x ↦ x². The rule uses the operand, which has no other handle.
struct Squared;

impl Primitive for Squared {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "squared"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        Ok(x * x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(2.0 * (at.delta * &at.operands.0)),)
    }
}

#[test]
fn operand_used_again_by_rule_is_evaluated_once() {
    let w = Weight::new(3.0);
    let counted = Counted::new(0.5);
    let squared = Layer::apply(Squared, (counted.of(&w.layer()),));
    squared.train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!(counted.counts(), (1, 1));
    assert_eq!(w.value(), 3.0 - 1.5);
    // a second derivative uses it again
    let counted = Counted::new(0.5);
    let squared = Layer::apply(Squared, (counted.of(&w.layer()),));
    let curvature = squared.gradient(&w).gradient(&w);
    assert_eq!(curvature.train(&Sgd::new(0.0)).wait().unwrap(), 0.5);
    assert_eq!(counted.counts().0, 1);
}
