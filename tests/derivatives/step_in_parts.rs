//! Training steps in parts: gradient accumulation, clipping, inspection, one commit.

use dl::prelude::*;
use dl::{At, BuiltIn, Deltas, Primitive, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[test]
fn gradients_of_several_losses_are_accumulated() {
    let (a, b) = (Weight::new(1.0_f64), Weight::new(Nd::from([1.0_f32, -1.0])));
    let first = (&a * &a).backward().wait().unwrap();
    let second = (&b * &b * 0.5).backward().wait().unwrap();
    let third = (3.0 * &a).backward().wait().unwrap();
    let all = first + 2.0 * second + third;
    assert_eq!((a.value(), b.value()), (1.0, Nd::from([1.0, -1.0])), "weights must not change before the step");
    assert_eq!(all.delta(&a).wait().unwrap(), Some(5.0));
    assert_eq!(all.delta(&b).wait().unwrap(), Some(Nd::from([2.0, -2.0])));
    assert!((all.norm().wait().unwrap() - 33.0_f64.sqrt()).abs() < 1e-12);
    all.step(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(a.value(), 0.5);
    assert_eq!(b.value(), Nd::from([0.8, -0.8]));
}

#[test]
fn clip_norm_uses_norm_of_all_weights() {
    let (a, b) = (Weight::new(0.0_f64), Weight::new(0.0_f64));
    let effects = (30.0 * &a + 40.0 * &b).backward().wait().unwrap();
    let clipped = effects.clip_norm(5.0).wait().unwrap();
    assert!((clipped.norm().wait().unwrap() - 5.0).abs() < 1e-6);
    clipped.step(&Sgd::new(1.0)).wait().unwrap();
    assert!((a.value() + 3.0).abs() < 1e-6 && (b.value() + 4.0).abs() < 1e-6);
    // a gradient below the bound is unchanged, bit by bit
    let small = (0.1 * &a).backward().wait().unwrap();
    assert_eq!(small.clip_norm(5.0).wait().unwrap().delta(&a).wait().unwrap(), Some(0.1));
    for senseless in [-1.0, f64::NAN] {
        assert!(small.clip_norm(senseless).wait().unwrap_err().to_string().contains("must be"));
    }
}

#[test]
fn failure_of_one_part_changes_nothing() {
    let (a, b) = (Weight::new(1.0), Weight::new(Nd::from([1.0, 2.0])));
    let good = (&a * 2.0).backward().wait().unwrap();
    let tape = (&b * 1.0).forward().wait().unwrap();
    let bad = tape.backward(Do::now(Nd::from([1.0, 2.0, 3.0])));
    let both = good + bad;
    assert!(both.step(&Sgd::new(0.1)).wait().is_err());
    assert_eq!((a.value(), b.value()), (1.0, Nd::from([1.0, 2.0])));
}

#[test]
fn computed_side_effects_release_forward_values() {
    let w = Weight::new(Nd::from([1.0_f64, 2.0]));
    let alive = std::sync::Arc::new(());
    let mut all = SideEffects::none();
    for x in 0..5 {
        let held = alive.clone();
        let seen = w.layer().with_rule(
            |w| w * f64::from(x),
            move |_, _, d| {
                let _ = &held;
                d * f64::from(x)
            },
        );
        all += seen.backward().wait().unwrap();
        drop(seen);
        all = all.evaluate().wait().unwrap();
        assert_eq!(std::sync::Arc::strong_count(&alive), 1, "the graph must be dropped");
    }
    assert_eq!(all.delta(&w).wait().unwrap(), Some(Nd::from([10.0, 10.0])));
    w.freeze();
    all.step(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(w.value(), Nd::from([1.0, 2.0]), "a frozen weight must not change");
    w.unfreeze();
    all.step(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(w.value(), Nd::from([0.0, 1.0]));
}

#[test]
fn clip_norm_with_non_finite_norm_is_error() {
    assert_eq!(SideEffects::none().norm().wait().unwrap().to_bits(), 0.0_f64.to_bits());
    let w = Weight::new(0.0_f64);
    let effects = w.sqrt().backward().wait().unwrap();
    assert!(effects.clip_norm(1.0).wait().unwrap_err().is_not_finite());
}

#[test]
fn step_in_parts_equals_train() {
    let (once, parts) = (Weight::new(0.3), Weight::new(0.3));
    let loss = |w: &Weight<f64>| (w.tanh() * w).exp();
    loss(&once).train(&Sgd::new(0.1)).wait().unwrap();
    loss(&parts).backward().wait().unwrap().step(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(once.value().to_bits(), parts.value().to_bits());
}

/// (f₀ + f₁)(x) = f₀(x) + f₁(x) and (x₀f)(x₁) = f(x₀x₁), the equations of the paper.
#[test]
fn side_effects_are_a_vector_space() {
    let w = Weight::new(2.0);
    let (f, g) = ((&w * &w).forward().wait().unwrap(), w.exp().forward().wait().unwrap());
    let slope = |effects: SideEffects| effects.delta(&w).wait().unwrap().unwrap();
    let (x0, x1) = (3.0, 5.0);
    let sum = f.backward(Do::now(x0)) + g.backward(Do::now(x0));
    assert_eq!(slope(sum), slope(f.backward(Do::now(x0))) + slope(g.backward(Do::now(x0))));
    assert_eq!(slope(x0 * f.backward(Do::now(x1))), slope(f.backward(Do::now(x0 * x1))));
}

type Row = Nd<f64, Ix1>;

/// a·b, with a count of its evaluations.
#[derive(Clone)]
struct Times(Arc<AtomicUsize>);

impl Primitive for Times {
    type Operands = (Layer<Row>, Layer<Row>);
    type Output = Row;

    fn name(&self) -> &'static str {
        "times"
    }

    fn value(&self, (a, b): (&Row, &Row)) -> Result<Row> {
        self.0.fetch_add(1, SeqCst);
        Ok((&a.view() * &b.view()).into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let times = |x: &Layer<Row>| Some(Layer::apply_built_in(self.clone(), (at.delta.clone(), x.clone())));
        (times(&at.operands.1), times(&at.operands.0))
    }
}

impl BuiltIn for Times {
    const ACCUMULATES: bool = true;

    fn can_accumulate(&self, _: (&Row, &Row), _: &Row) -> bool {
        true
    }

    fn accumulate(&self, operands: (&Row, &Row), factor: f64, to: &mut Row) {
        let value = self.value(operands).unwrap();
        *to = (&to.view() + &(factor * &value.view())).into();
    }
}

/// The delta of a weight with several uses is a sum. It is computed once, also if it is requested
/// again.
#[test]
fn delta_requested_again_is_not_recomputed() {
    let w = Weight::new(Nd::from([0.5, 2.0]));
    let counted = Arc::<AtomicUsize>::default();
    let ones = Layer::constant(Nd::from([1.0, 1.0]));
    let loss = (0..3).fold(ones, |y, _| Layer::apply_built_in(Times(counted.clone()), (y, w.layer())));
    let effects = loss.sum().backward().wait().unwrap();
    effects.clip_norm(0.1).wait().unwrap().step(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(effects.delta(&w).wait().unwrap(), Some(Nd::from([0.75, 12.0])));
    assert_eq!(counted.load(SeqCst), 3 + 2 + 3, "forward, deltas of operands, and deltas of the weight");
}

/// A weight is used twice below a hand-written backward. Its delta is a sum, which is
/// differentiable.
#[test]
fn delta_of_hand_written_backward_is_differentiable() {
    let w = Weight::new(Nd::from([[0.5, -1.0], [2.0, 0.25]]));
    let penalty = |by_hand: bool| {
        let x = Layer::constant(Nd::from([[1.0, 2.0]]));
        let y = x.matmul(&w).matmul(&w);
        let y = match by_hand {
            true => Layer::from(y.forward().map(|tape| Tape::new(tape.data().clone(), move |d| tape.backward(d)))),
            false => y,
        };
        y.sum().gradient(&w).square().sum().gradient(&w).predict().wait().unwrap()
    };
    assert_eq!(penalty(true), penalty(false));
}
