//! Forward mode against reverse mode and closed forms: random graphs, mixed orders, dual numbers.

use dl_core::{
    Algebra, At, Binary, Data, Deltas, Differentiable, Do, Dual, Layer, Primitive, Result, SideEffects, Tape, Term,
    Unary, Variables, Weight, max, min, pow, with_rule,
};
use dl_optim::Sgd;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn one() -> Layer<f64> {
    Layer::constant(1.0)
}

#[test]
fn jvp_of_every_operation_matches_its_pullback() {
    for &op in Unary::ALL {
        let domain = [0.3_f64, 0.7, 1.4].into_iter().filter(|&x| !op.value(x).is_nan());
        assert!(domain.clone().count() > 0, "{op:?} has no value");
        for x in domain {
            let w = Weight::new(x);
            let y = <f64 as dl_core::Pointwise>::unary(op, &w.layer());
            let [slope, gradient] = [y.jvp(&w, &Layer::constant(2.0)), 2.0 * y.gradient(&w)];
            let (slope, gradient) = (slope.predict().wait().unwrap(), gradient.predict().wait().unwrap());
            assert_eq!(slope, gradient, "{op:?} at {x}");
            assert_eq!(Dual::unary(op, &Dual::new(x, 2.0)), Dual::new(op.value(x), slope), "{op:?} at {x}");
        }
    }
    for &op in Binary::ALL {
        for (x, y) in [(0.3_f64, 0.7), (1.4, 0.2), (2.0, 2.0)] {
            let (a, b) = (Weight::new(x), Weight::new(y));
            let z = <f64 as dl_core::Pointwise>::binary(op, &a.layer(), &b.layer());
            let (da, db) = z.gradients(&(&a, &b));
            let gradient = (2.0 * da + 3.0 * db).predict().wait().unwrap();
            let slope = z.jvp(&(&a, &b), &(Layer::constant(2.0), Layer::constant(3.0))).predict().wait().unwrap();
            assert!((slope - gradient).abs() <= 1e-14 * gradient.abs().max(1.0), "{op:?} at {x}, {y}");
            let dual = Dual::binary(op, &Dual::new(x, 2.0), &Dual::new(y, 3.0));
            assert_eq!(dual, Dual::new(op.value(x, y), slope), "{op:?} at {x}, {y}");
            for left in [true, false] {
                let number = <f64 as dl_core::Pointwise>::with_number(op, &a.layer(), y, left);
                let slope = number.jvp(&a, &one()).predict().wait().unwrap();
                assert_eq!(slope, number.gradient(&a).predict().wait().unwrap(), "{op:?} at {x} with {y}");
                assert_eq!(
                    Dual::with_number(op, &Dual::variable(x), y, left).tangent(),
                    slope,
                    "{op:?} at {x} with {y}"
                );
            }
        }
    }
}

/// `x³`, as a primitive with the default pushforward.
struct Cube;

impl Primitive for Cube {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "cube"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        Ok(x * x * x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta * 3.0 * at.operands.0.square()),)
    }
}

fn cube(x: &Layer<f64>) -> Layer<f64> {
    Layer::apply(Cube, (x.clone(),))
}

/// One of two layers, selected by the value of a third.
fn decide(condition: &Layer<f64>, positive: &Layer<f64>, other: &Layer<f64>) -> Layer<f64> {
    let (condition, positive, other) = (condition.clone(), positive.clone(), other.clone());
    Layer::dynamic(move || {
        let (condition, positive, other) = (condition.extract(), positive.clone(), other.clone());
        async move { Ok(if condition.await? > 0.0 { positive } else { other }) }
    })
}

/// A node of a random graph, with the indices of its operands among earlier nodes.
#[derive(Clone, Debug)]
enum Step {
    Unary(usize, usize),
    Binary(usize, usize, usize),
    WithNumber(usize, f64, bool),
    Cube(usize),
    Ruled(usize, usize),
    Decide(usize, usize, usize),
    Nested(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || any::<usize>();
    let step = prop_oneof![
        4 => (at(), at()).prop_map(|(op, x)| Step::Unary(op, x)),
        4 => (at(), at(), at()).prop_map(|(op, a, b)| Step::Binary(op, a, b)),
        1 => (at(), -2.0..2.0_f64, any::<bool>()).prop_map(|(x, number, left)| Step::WithNumber(x, number, left)),
        1 => at().prop_map(Step::Cube),
        1 => (at(), at()).prop_map(|(a, b)| Step::Ruled(a, b)),
        1 => (at(), at(), at()).prop_map(|(c, a, b)| Step::Decide(c, a, b)),
        1 => at().prop_map(Step::Nested),
    ];
    prop::collection::vec(step, 1..24)
}

/// Operations with bounded or slowly growing values, so that random graphs do not overflow.
const TAME: [Unary; 8] =
    [Unary::Tanh, Unary::Sin, Unary::Cos, Unary::Sigmoid, Unary::Neg, Unary::Erf, Unary::Softplus, Unary::Gelu];

fn build(steps: &[Step], inputs: &[Weight<f64>]) -> Layer<f64> {
    let mut nodes: Vec<Layer<f64>> = inputs.iter().map(Weight::layer).collect();
    for step in steps {
        let at = |place: &usize| &nodes[place % nodes.len()];
        let node = match step {
            Step::Unary(op, x) => <f64 as dl_core::Pointwise>::unary(TAME[op % TAME.len()], at(x)),
            Step::Binary(op, a, b) => match op % 5 {
                0 => at(a) + at(b),
                1 => at(a) - at(b),
                2 => (at(a) * at(b)).tanh(),
                3 => max(at(a), at(b)),
                _ => min(at(a), at(b).sin()),
            },
            Step::WithNumber(x, number, true) => *number * at(x),
            Step::WithNumber(x, number, false) => at(x) / (number.abs() + 1.0),
            Step::Cube(x) => cube(&at(x).sin()),
            Step::Ruled(a, b) => with_rule(
                (at(a).clone(), at(b).clone()),
                |(a, b)| a * b.stop_gradient(),
                |(a, b), y, d| (Some(d * b.cos()), Some(d * (a + y).sin())),
            ),
            Step::Decide(c, a, b) => decide(at(c), at(a), at(b)),
            // a derivative inside the graph
            Step::Nested(x) => at(x).tanh().gradient(&inputs[0]).sin(),
        };
        nodes.push(node);
    }
    nodes.pop().expect("there are inputs")
}

fn close(what: &str, a: f64, b: f64) -> std::result::Result<(), TestCaseError> {
    prop_assert!((a - b).abs() <= 1e-10 * a.abs().max(b.abs()).max(1.0), "{what}: {a} and {b}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn forward_mode_of_random_graphs_agrees_with_reverse_mode(steps in steps(), x in prop::array::uniform3(-1.5..1.5_f64), v in prop::array::uniform3(-2.0..2.0_f64)) {
        let weights: Vec<Weight<f64>> = x.into_iter().map(Weight::new).collect();
        let direction: Vec<Layer<f64>> = v.into_iter().map(Layer::constant).collect();
        let y = build(&steps, &weights);
        let value = |layer: &Layer<f64>| layer.predict().wait().map_err(|error| TestCaseError::fail(error.to_string()));
        let dot = |gradients: &[Layer<f64>]| gradients.iter().zip(v).map(|(g, v)| g * v).sum::<Layer<f64>>();
        let slope = y.jvp(&weights, &direction);
        let reverse = dot(&y.gradients(&weights));
        close("first order", value(&slope)?, value(&reverse)?)?;
        // the derivatives of both first-order results, in both modes
        let along = [&slope, &reverse].map(|first| first.jvp(&weights, &direction));
        let back = [&slope, &reverse].map(|first| dot(&first.gradients(&weights)));
        let hvp = dot(&y.hvp(&weights, &direction));
        for second in along.iter().chain(&back) {
            close("second order", value(second)?, value(&hvp)?)?;
        }
    }
}

#[test]
fn mixed_forward_and_reverse_derivatives_agree() {
    for x in [-1.3_f64, -0.2, 0.4, 2.0] {
        let w = Weight::new(x);
        let (y, via) = (w.tanh(), cube(&w.layer()));
        let t = x.tanh();
        let s = 1.0 - t * t;
        let third = s * (6.0 * t * t - 2.0);
        type Order = fn(&Layer<f64>, &Weight<f64>) -> Layer<f64>;
        let orders: [Order; 2] = [|y, w| y.jvp(w, &one()), |y, w| y.gradient(w)];
        for first in orders {
            for second in orders {
                let (of_y, of_cube) = (second(&first(&y, &w), &w), second(&first(&via, &w), &w));
                assert!((of_y.predict().wait().unwrap() + 2.0 * t * s).abs() < 1e-13);
                assert!((of_cube.predict().wait().unwrap() - 6.0 * x).abs() < 1e-13);
                for order in orders {
                    assert!((order(&of_y, &w).predict().wait().unwrap() - third).abs() < 1e-12);
                    assert!((order(&of_cube, &w).predict().wait().unwrap() - 6.0).abs() < 1e-12);
                }
            }
        }
    }
}

#[test]
fn jvp_can_be_trained_on() {
    // minimise (d/dw w³)² = 9w⁴: its own derivative is 36w³
    let w = Weight::new(0.5);
    let penalty = (&w * &w * &w).jvp(&w, &one()).square();
    penalty.train(&Sgd::new(0.1)).wait().unwrap();
    let expected: f64 = 0.5 - 0.1 * 36.0 * 0.125;
    assert!((w.value() - expected).abs() < 1e-12);
}

#[test]
fn jvp_with_dependent_variables_adds_their_directions() {
    let w = Weight::new(3.0_f64);
    let hidden = &w * &w;
    let y = &hidden * &w;
    // dy = w · dh + h · dw, dh = 2w · dw + the direction of `hidden`
    let slope = y.jvp(&(&w, &hidden), &(Layer::constant(1.0), Layer::constant(10.0)));
    assert_eq!(slope.predict().wait().unwrap(), 3.0 * (6.0 + 10.0) + 9.0);
    // the directions of a variable that is listed twice are added
    assert_eq!(y.jvp(&[&w, &w], &[one(), one()]).predict().wait().unwrap(), 54.0);
}

#[test]
fn jvp_of_independent_or_stopped_layer_is_zero() {
    let (w, stranger) = (Weight::new(2.0_f64), Weight::new(3.0));
    let layers = [w.layer().stop_gradient() * &stranger, w.floor(), w.layer().stop_gradient(), Layer::constant(1.0)];
    for y in layers {
        assert_eq!(y.jvp(&w, &one()).predict().wait().unwrap(), 0.0);
        assert_eq!((y + &w).jvp(&w, &one()).predict().wait().unwrap(), 1.0);
    }
    assert_eq!((&w * 2.0).jvp(&stranger, &one()).predict().wait().unwrap(), 0.0);
}

/// A layer that counts how often it is evaluated.
fn counting(x: &Layer<f64>, count: &Arc<AtomicUsize>) -> Layer<f64> {
    let (x, count) = (x.clone(), count.clone());
    Layer::dynamic(move || {
        count.fetch_add(1, Relaxed);
        let x = x.clone();
        async move { Ok(x) }
    })
}

#[test]
fn jvp_evaluates_only_layers_on_the_path() {
    let counts: [Arc<AtomicUsize>; 5] = std::array::from_fn(|_| Arc::default());
    let counted = |which: usize| counts[which].load(Relaxed);
    let (w, other) = (Weight::new(2.0_f64), Weight::new(3.0_f64));
    let taken = counting(&w.sin(), &counts[0]);
    let untaken = counting(&w.cos(), &counts[1]);
    let [direction, of_stranger] = [2, 3].map(|which| counting(&Layer::constant(5.0), &counts[which]));
    let y = decide(&other.layer(), &taken, &untaken);
    let unused = counting(&(&y * 2.0), &counts[4]);
    let slope = y.jvp(&(&w, &Weight::new(1.0), &unused), &(direction, of_stranger, one()));
    assert_eq!((0..5).map(counted).sum::<usize>(), 0, "it is lazy");
    assert_eq!(slope.predict().wait().unwrap(), 5.0 * 2_f64.cos());
    assert_eq!([0, 1, 2, 3, 4].map(counted), [1, 0, 1, 0, 0]);
}

#[test]
fn value_and_jvp_evaluates_layers_once() {
    let count = Arc::default();
    let w = Weight::new(2.0_f64);
    let (value, slope) = counting(&w.sin(), &count).value_and_jvp(&w, &one());
    assert_eq!((value / slope).predict().wait().unwrap(), 2_f64.tan());
    assert_eq!(count.load(Relaxed), 1);
    let along = counting(&w.sin(), &count).linearize(&w);
    let sum: Layer<f64> = (0..10).map(|i| along(&Layer::constant(f64::from(i)))).sum();
    assert!((sum.keeping_values().predict().wait().unwrap() - 45.0 * 2_f64.cos()).abs() < 1e-12);
    assert_eq!(count.load(Relaxed), 2);
}

#[test]
fn jvp_of_long_chain_does_not_overflow_stack() {
    const LENGTH: i32 = 100_000;
    let w = Weight::new(1.0_f64);
    let y = (0..LENGTH).fold(w.layer(), |y, i| if i % 2 == 0 { &y * 1.000_01 } else { y + 1e-7 });
    let slope = y.jvp(&w, &one()).predict().wait().unwrap();
    assert!((slope - 1.000_01_f64.powi(LENGTH / 2)).abs() < 1e-9, "{slope}");
    // each node of the chain requires the transpose of its rule
    let y = (0..1000).fold(w.layer(), |y, _| cube(&y));
    assert_eq!(y.jvp(&w, &one()).predict().wait().unwrap(), (0..1000).fold(1.0, |slope, _| slope * 3.0));
}

#[test]
fn jvp_through_manual_backward_is_error() {
    let (w, other) = (Weight::new(2.0_f64), Weight::new(3.0_f64));
    let inner = w.clone();
    let by_hand = Do::now(()).flat_map(move |()| {
        inner.forward().map(|tape| Tape::new(*tape.data(), move |delta: Do<f64>| tape.backward(delta)))
    });
    let y = Layer::from(by_hand) * &other;
    let error = y.jvp(&w, &one()).predict().wait().unwrap_err().to_string();
    assert!(
        error.contains("cannot be differentiated in forward mode") && error.contains("tests/forward.rs"),
        "{error}"
    );
    assert_eq!(y.jvp(&other, &one()).predict().wait().unwrap(), 2.0);
    let free: Layer<f64> = Layer::from(Do::now(4.0).map(|x| Tape::new(x, |_| SideEffects::none())));
    assert_eq!((free * &w).jvp(&w, &one()).predict().wait().unwrap(), 4.0);
}

#[test]
fn jvp_with_direction_of_wrong_length_is_error() {
    let weights = vec![Weight::new(1.0_f64), Weight::new(2.0)];
    let y = &weights[0] * &weights[1];
    for length in [0, 1, 3] {
        let direction = vec![one(); length];
        let error = y.jvp(&weights, &direction).predict().wait().unwrap_err().to_string();
        assert!(error.contains(&format!("a direction of {length} layers was given for 2 variables")), "{error}");
        assert!(y.hvp(&weights, &direction)[0].predict().wait().is_err());
    }
}

#[test]
fn panic_in_pullback_rule_is_error_of_jvp() {
    struct Broken;

    impl Primitive for Broken {
        type Operands = (Layer<f64>,);
        type Output = f64;
        fn name(&self) -> &'static str {
            "broken"
        }
        fn value(&self, (x,): (&f64,)) -> Result<f64> {
            Ok(*x)
        }
        fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
            panic!("no rule")
        }
    }

    let w = Weight::new(2.0_f64);
    let y = Layer::apply(Broken, (w.sin(),));
    let error = y.jvp(&w, &one()).predict().wait().unwrap_err().to_string();
    assert!(error.contains("no rule") && error.contains("broken"), "{error}");
    // a rule is not called for a layer without a tangent
    assert_eq!((y * &Weight::new(1.0)).jvp(&Weight::new(1.0), &one()).predict().wait().unwrap(), 0.0);
}

/// The Hessian of Rosenbrock's function, by derivatives of derivatives.
#[test]
fn hessian_of_rosenbrock_function_is_exact() {
    for (x, y) in [(-1.2, 1.0), (1.0, 1.0), (0.3, -0.7), (2.5, 4.0_f64)] {
        let variables = [x, y].map(Weight::new);
        let [a, b] = &variables;
        let f = (1.0 - a).square() + 100.0 * (b - a.square()).square();
        let exact = [[2.0 - 400.0 * (y - 3.0 * x * x), -400.0 * x], [-400.0 * x, 200.0]];
        let by_reverse = f.gradients(&variables).map(|first| first.gradients(&variables));
        let units = [[1.0, 0.0], [0.0, 1.0]].map(|unit| unit.map(Layer::constant));
        let by_forward = units.map(|unit| f.hvp(&variables, &unit));
        for hessian in [by_reverse, by_forward] {
            for (ours, exact) in hessian.iter().flatten().zip(exact.iter().flatten()) {
                let ours = ours.predict().wait().unwrap();
                assert!((ours - exact).abs() <= 1e-12 * exact.abs().max(1.0), "{ours} should be {exact}");
            }
        }
    }
}

fn f<A: Algebra>(x: &Term<A>) -> Term<A> {
    (x.sin() * x + 2.0).ln() / (1.0 + x.square()) - x.pow(&(x.square() + 0.5))
}

#[test]
fn generic_function_agrees_in_all_algebras() {
    for x in [0.3_f64, 1.1, 2.7] {
        let w = Weight::new(x);
        let layer = f(&Term(w.layer())).0;
        let value = |layer: &Layer<f64>| layer.predict().wait().unwrap();
        let dual = f(&Term(Dual::variable(x))).0;
        assert_eq!(dual.value(), f(&Term(x)).0);
        assert_eq!(dual.value(), value(&layer));
        let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-12 * a.abs().max(1.0), "{a} and {b}");
        close(dual.tangent(), value(&layer.gradient(&w)));
        // second derivatives: by dual numbers of dual numbers, by layers, by dual numbers of layers
        let second = f(&Term(Dual::variable(Dual::variable(x)))).0.tangent().tangent();
        close(second, value(&layer.gradient(&w).gradient(&w)));
        let of_layers = f(&Term(Dual::variable(w.layer()))).0;
        close(dual.tangent(), value(&of_layers.tangent()));
        close(second, value(&of_layers.tangent().gradient(&w)));
        // a difference quotient
        let step = 1e-6;
        let quotient = (f(&Term(x + step)).0 - f(&Term(x - step)).0) / (2.0 * step);
        assert!((quotient - dual.tangent()).abs() < 1e-7 * quotient.abs().max(1.0));
    }
}

#[test]
fn constant_operand_does_not_make_tangent_nan() {
    // the derivative of aᵇ with respect to b is NaN for negative a
    let square = Dual::variable(-3.0_f64).pow(&Dual::constant(2.0));
    assert_eq!(square, Dual::new(9.0, -6.0));
    let w = Weight::new(-3.0_f64);
    assert_eq!(pow(&w, Layer::constant(2.0)).jvp(&w, &one()).predict().wait().unwrap(), -6.0);
    assert_eq!(Dual::variable(f64::INFINITY).floor().tangent(), 0.0);
}

/// The default pushforward supports operations with data and deltas of different types.
#[test]
fn jvp_with_different_data_and_delta_types_is_correct() {
    /// A number that is stored as its logarithm; its delta is that of the number.
    #[derive(Clone)]
    struct Logarithm(f64);

    impl Data for Logarithm {
        type Delta = f64;
        fn one(&self) -> f64 {
            1.0
        }
    }

    struct Take;

    impl Primitive for Take {
        type Operands = (Layer<f64>,);
        type Output = Logarithm;
        fn name(&self) -> &'static str {
            "take"
        }
        fn value(&self, (x,): (&f64,)) -> Result<Logarithm> {
            Ok(Logarithm(x.ln()))
        }
        fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
            (Some(at.delta.clone()),)
        }
    }

    struct Product;

    impl Primitive for Product {
        type Operands = (Layer<Logarithm>, Layer<f64>);
        type Output = f64;
        fn name(&self) -> &'static str {
            "product"
        }
        fn value(&self, (x, y): (&Logarithm, &f64)) -> Result<f64> {
            Ok(x.0.exp() * y)
        }
        fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
            let x = Layer::constant(at.values.0.0.exp());
            (Some(at.delta * &at.operands.1), Some(at.delta * x))
        }
    }

    fn check<V: Variables>(y: &Layer<f64>, variables: &V, direction: &V::Gradients, slope: f64) {
        let ours = y.jvp(variables, direction).predict().wait().unwrap();
        assert!((ours - slope).abs() < 1e-12, "{ours} should be {slope}");
    }

    let (a, b) = (Weight::new(3.0_f64), Weight::new(5.0_f64));
    let x = Layer::apply(Take, (a.layer(),));
    let y = Layer::apply(Product, (x.clone(), b.layer()));
    check(&y, &(&a, &b), &(Layer::constant(1.0), Layer::constant(10.0)), 5.0 + 30.0);
    check(&y, &x, &Layer::constant(2.0), 10.0);
}
