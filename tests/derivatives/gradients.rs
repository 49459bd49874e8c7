//! Gradients with respect to weights, inputs and intermediate layers, in the structure of the
//! variables.

use dl::Trainable;
use dl::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

type Log = Arc<[AtomicUsize; 2]>;

/// x, with counts of the evaluations of its value and its delta.
fn counted(x: &Layer<f64>, log: &Log) -> Layer<f64> {
    struct Counted(Log);
    impl dl::Primitive for Counted {
        type Operands = (Layer<f64>,);
        type Output = f64;
        fn name(&self) -> &'static str {
            "counted"
        }
        fn value(&self, (x,): (&f64,)) -> dl::Result<f64> {
            self.0[0].fetch_add(1, SeqCst);
            Ok(*x)
        }
        fn pullback(&self, at: &dl::At<'_, Self>) -> dl::Deltas<Self> {
            let log = self.0.clone();
            let seen = Do::from_fn(move || {
                log[1].fetch_add(1, SeqCst);
                async { Ok(0.0) }
            });
            (Some(at.delta + Layer::from(seen)),)
        }
    }
    Layer::apply(Counted(log.clone()), (x.clone(),))
}

fn counts(log: &Log) -> (usize, usize) {
    (log[0].load(SeqCst), log[1].load(SeqCst))
}

#[derive(Variables)]
struct Line {
    slope: Weight<f64>,
    offset: Weight<f64>,
    #[variables(skip)]
    #[allow(dead_code, reason = "what is left out need not be a variable")]
    name: &'static str,
}

#[derive(Variables)]
struct Pair<A, B: Variables>(A, B)
where
    A: Variables;

#[derive(Variables)]
struct List {
    head: Weight<f64>,
    tail: Option<Box<List>>,
}

#[derive(Variables)]
#[variables(gradients = Slopes)]
struct Net(Line, Vec<Line>, #[variables(skip)] usize, Option<Weight<f64>>);

/// Parameters of skipped fields, and their bounds, do not occur in the derived type.
#[derive(Variables)]
pub(crate) struct Acting<'a, L: Fitted<F>, F>
where
    F: Fn(f64) -> f64,
{
    layer: L,
    lines: Vec<(L, Own<L>)>,
    #[variables(skip)]
    act: &'a F,
}

/// A private type.
#[derive(Variables)]
struct Own<L>(L);

/// Bounds on retained parameters are retained.
pub(crate) trait Fitted<F> {}
impl<F> Fitted<F> for Weight<f64> {}

/// Two mutually recursive types.
#[derive(Variables)]
struct Trunk<T: Trainable> {
    weight: Weight<T>,
    branch: Option<Box<Branch<T>>>,
}

#[derive(Variables)]
struct Branch<T: Trainable> {
    trunk: Option<Box<Trunk<T>>>,
    weights: Vec<Weight<T>>,
}

/// A recursive type.
#[derive(Variables)]
struct Chain<L> {
    link: L,
    next: Option<Box<Chain<L>>>,
}

/// Bounds that mention a skipped parameter are dropped; other bounds are retained.
#[derive(Variables)]
struct Named<'a, 'b: 'a, L, N: ?Sized>
where
    L: Variables + Labelled<N>,
    'b: 'a,
{
    layer: &'b L,
    #[variables(skip)]
    name: &'a N,
}

trait Labelled<N: ?Sized> {}
impl<N: ?Sized> Labelled<N> for Weight<f64> {}

#[test]
fn gradients_of_mutually_recursive_structs() {
    let [a, b, c] = [2.0, 3.0, 5.0].map(Weight::new);
    let inner = Trunk { weight: b, branch: None };
    let branch = Branch { trunk: Some(Box::new(inner)), weights: vec![c] };
    let trunk = Trunk { weight: a, branch: Some(Box::new(branch)) };
    let branch = trunk.branch.as_ref().unwrap();
    let loss = &trunk.weight * &branch.trunk.as_ref().unwrap().weight * &branch.weights[0];
    let TrunkGradients { weight, branch } = loss.gradients(&trunk).clone();
    let BranchGradients { trunk, weights } = *branch.unwrap();
    let found = [&weight, &trunk.unwrap().weight, &weights[0]].map(|layer| layer.predict().wait().unwrap());
    assert_eq!(found, [15.0, 10.0, 6.0]);

    let end = Chain { link: Weight::new(2.0), next: None };
    let chain = Chain { link: Weight::new(3.0), next: Some(Box::new(end)) };
    let loss = &chain.link * &chain.next.as_ref().unwrap().link;
    let ChainGradients { link, next } = loss.gradients(&chain).clone();
    let found = [&link, &next.unwrap().link].map(|layer| layer.predict().wait().unwrap());
    assert_eq!(found, [2.0, 3.0]);

    let named = Named { layer: &Weight::new(4.0), name: "four" };
    let loss = named.layer * named.layer * named.name.len() as f64;
    assert_eq!(loss.gradients(&named).layer.predict().wait().unwrap(), 32.0);
}

#[test]
fn gradients_of_structs_with_type_parameters() {
    let [a, b, c] = [2.0, 3.0, 5.0].map(Weight::new);
    let double = |x| 2.0 * x;
    let net = Acting { layer: a, lines: vec![(b, Own(c))], act: &double };
    let loss = &net.layer * &net.lines[0].0 * &net.lines[0].1.0 * (net.act)(1.0);
    let ActingGradients { layer, lines } = loss.gradients(&net).clone();
    let found = [&layer, &lines[0].0, &lines[0].1.0].map(|layer| layer.predict().wait().unwrap());
    assert_eq!(found, [30.0, 20.0, 12.0]);
}

fn line(slope: f64, offset: f64) -> Line {
    Line { slope: Weight::new(slope), offset: Weight::new(offset), name: "line" }
}

impl Line {
    fn of(&self, x: &Layer<f64>) -> Layer<f64> {
        x * &self.slope + &self.offset
    }
}

#[test]
fn gradients_of_nested_structs() {
    let net = Net(line(2.0, 1.0), vec![line(3.0, -1.0), line(0.5, 0.0)], 7, None);
    let x = Layer::constant(10.0);
    let y = net.1.iter().fold(net.0.of(&x), |x, line| line.of(&x));
    let Slopes(first, rest, none) = y.gradients(&net);
    assert!(none.is_none() && net.2 == 7);
    let LineGradients { slope, offset } = first;
    assert_eq!((slope.predict().wait().unwrap(), offset.predict().wait().unwrap()), (15.0, 1.5));
    let slopes: Vec<f64> = rest.iter().map(|line| line.slope.predict().wait().unwrap()).collect();
    assert_eq!(slopes, [10.5, 62.0]);
    // gradients are variables with the same structure, so they can be the direction
    let along = y.hvp(&net, &y.gradients(&net)).0.slope.predict().wait().unwrap();
    // ∂²y/∂a∂b = x·c, ∂²y/∂a∂c = x·b, ∂²y/∂a∂(b's offset) = 0: along the gradient itself
    assert_eq!(along, 10.0 * 0.5 * 10.5 + 10.0 * 3.0 * 62.0 - 0.0);
}

#[test]
fn gradients_of_generic_structs_and_lists() {
    let pair = Pair(Weight::new(2.0), [Weight::new(3.0), Weight::new(4.0)]);
    let PairGradients(first, [second, _]) = (&pair.0 * &pair.1[0] * &pair.1[1]).gradients(&pair).clone();
    assert_eq!((first.predict().wait().unwrap(), second.predict().wait().unwrap()), (12.0, 8.0));

    let list = |head, tail: Option<List>| List { head: Weight::new(head), tail: tail.map(Box::new) };
    let list = list(2.0, Some(list(5.0, None)));
    let slopes = (&list.head * &list.tail.as_ref().unwrap().head).gradients(&list);
    assert_eq!(slopes.tail.unwrap().head.predict().wait().unwrap(), 2.0);
    assert_eq!(slopes.head.predict().wait().unwrap(), 5.0);
}

#[test]
fn gradient_descent_in_graph_is_differentiable() {
    // x ← x − 0.1 · d(x²)/dx; each gradient is with respect to the previous x, where its traversal
    // ends
    let w = Weight::new(1.0);
    let x = (0..300).fold(w.layer(), |x, _| &x - 0.1 * x.square().gradient(&x));
    let expected = 0.8_f64.powi(300);
    let found = x.keeping_values().predict().wait().unwrap();
    assert!((found / expected - 1.0).abs() < 1e-12);
    // the derivative through all steps
    let slope = x.gradient(&w).keeping_values().predict().wait().unwrap();
    assert!((slope / expected - 1.0).abs() < 1e-12);
}

#[test]
fn gradients_of_inputs_and_intermediate_layers() {
    let (w, input) = (Weight::new(3.0), Layer::constant(2.0));
    let hidden = (&w * &input).tanh();
    let y = &hidden * &hidden + &input;
    let h = 6.0_f64.tanh();
    let at = |layer: Layer<f64>| layer.predict().wait().unwrap();
    assert_eq!(at(y.gradient(&hidden)), 2.0 * h);
    assert!((at(y.gradient(&input)) - (2.0 * h * (1.0 - h * h) * 3.0 + 1.0)).abs() < 1e-15);
    // total derivatives: another variable on the path does not stop the gradient
    let (by_hidden, by_w) = y.gradients(&(&hidden, &w));
    assert_eq!(at(by_hidden), 2.0 * h);
    assert_eq!(at(by_w), at(y.gradient(&w)));
    assert_eq!(at(y.gradient(&y)), 1.0);
    // frozen weights are variables, too
    w.freeze();
    assert_ne!(at(y.gradient(&w)), 0.0);
}

#[test]
fn gradients_of_tensors_through_dynamic_nodes() {
    #[differentiable]
    fn steep(x: &NdLayer<Ix1>, w: &NdWeight<Ix1>) -> Layer<f32> {
        let mut y = x * w;
        while !y.sum() < 10.0 {
            y = y * 2.0;
        }
        y.square().sum()
    }
    let (x, w) = (Layer::constant(Nd::from([1.0_f32, 2.0])), Weight::new(Nd::from([3.0_f32, 0.25])));
    // sum 3.5, 7, 14: y = 4·x·w, and 2 · (4·w)² · x
    let by_input = steep(&x, &w).gradient(&x).predict().wait().unwrap();
    assert_eq!(by_input, Nd::from([288.0, 4.0]));
}

#[test]
fn gradient_evaluates_only_path_to_its_variables() {
    let weights: Vec<Weight<f64>> = (0..100).map(|i| Weight::new(f64::from(i))).collect();
    let logs: Vec<Log> = weights.iter().map(|_| Log::default()).collect();
    let y: Layer<f64> = weights.iter().zip(&logs).map(|(w, log)| counted(&w.layer(), log)).sum();
    assert_eq!(y.gradient(&weights[42]).predict().wait().unwrap(), 1.0);
    for (i, log) in logs.iter().enumerate() {
        assert_eq!(counts(log), (1, usize::from(i == 42)), "weight {i}");
    }
    // gradients that are requested together share one evaluation
    let two = y.gradients(&[&weights[7], &weights[8]]);
    assert_eq!(Do::predict(two).wait().unwrap(), [1.0, 1.0]);
    assert_eq!([7, 8, 9].map(|i| counts(&logs[i])), [(2, 1), (2, 1), (2, 0)]);
}

#[test]
fn value_and_gradient_evaluates_layers_once() {
    let (a, b, log) = (Weight::new(3.0), Weight::new(4.0), Log::default());
    let y = counted(&(&a * &b), &log).square();
    let (value, slopes) = y.value_and_gradients(&[&a, &b]);
    assert_eq!(Do::predict((value, slopes)).wait().unwrap(), (144.0, [96.0, 72.0]));
    assert_eq!(counts(&log), (1, 1));
    // training on a loss that contains its own gradient
    let (value, slope) = y.value_and_gradient(&a);
    (value + slope).train(&Sgd::new(0.0)).wait().unwrap();
    assert_eq!(counts(&log).0, 2);
}

#[test]
fn gradient_of_unrelated_variable_is_zero() {
    let (w, stranger) = (Weight::new(2.0), Weight::new(Nd::from([1.0, 2.0, 3.0])));
    let (own, theirs) = (&w * 2.0).gradients(&(&w, &stranger));
    assert_eq!(own.predict().wait().unwrap(), 2.0);
    assert_eq!(theirs.predict().wait().unwrap(), Nd::from([0.0, 0.0, 0.0]));
    assert_eq!(w.layer().stop_gradient().gradient(&w).predict().wait().unwrap(), 0.0);
}

#[test]
fn gradient_through_hand_written_backward_reaches_weights_only() {
    let (w, v) = (Weight::new(2.0), Weight::new(5.0));
    let inner = w.clone();
    let tripled: Layer<f64> = Layer::from(Do::now(()).flat_map(move |()| {
        inner.forward().map(|tape| Tape::new(3.0 * tape.data(), move |d: Do<f64>| tape.backward(d.map(|d| 3.0 * d))))
    }));
    let y = &tripled * &v + &w;
    let between = Layer::constant(1.0);
    let error = (&y * &between).gradients(&(&between, &Layer::constant(2.0))).1.predict().wait().unwrap_err();
    assert!(error.to_string().contains("hand-written backward hands derivatives to weights only"), "{error}");
    let (by_w, by_v) = y.gradients(&(&w, &v));
    assert_eq!((by_w.predict().wait().unwrap(), by_v.predict().wait().unwrap()), (16.0, 6.0));
}

#[test]
fn gradient_of_weight_used_on_another_thread() {
    let w = Weight::new(3.0);
    let there = w.clone();
    let y = std::thread::spawn(move || &there * &there).join().unwrap();
    assert_eq!(y.gradient(&w).predict().wait().unwrap(), 6.0);
    assert_eq!((&y * &w).gradient(&w).predict().wait().unwrap(), 27.0);
}

#[test]
fn function_is_mapped_to_its_derivative() {
    let cube = |x: Layer<f64>| &x * &x * &x;
    assert_eq!(derivative(cube)(2.0.into_layer()).predict().wait().unwrap(), 12.0);
    assert_eq!(derivative(derivative(derivative(cube)))(2.0.into_layer()).predict().wait().unwrap(), 6.0);
    let moved = derivative(|(x, w): (NdLayer<Ix1>, Weight<f32>)| (x * w).tanh().sum());
    let (by_x, by_w) = moved((Layer::constant(Nd::from([0.0, 0.0])), Weight::new(2.0)));
    assert_eq!(by_x.predict().wait().unwrap(), Nd::from([2.0, 2.0]));
    assert_eq!(by_w.predict().wait().unwrap(), 0.0);
}

#[test]
fn gradient_of_long_chain_does_not_overflow_stack() {
    let (w, x) = (Weight::new(1.0), Layer::constant(0.5));
    let y = (0..100_000).fold(x.clone(), |y, _| y * &w);
    assert_eq!(y.gradient(&x).predict().wait().unwrap(), 1.0);
    assert_eq!(y.gradient(&w).predict().wait().unwrap(), 50_000.0);
}

#[test]
fn hvp_with_direction_of_wrong_length_is_error() {
    let weights = vec![Weight::new(1.0), Weight::new(2.0)];
    let y = &weights[0] * &weights[1];
    let error = y.hvp(&weights, &vec![Layer::constant(1.0)])[0].predict().wait().unwrap_err();
    assert!(error.to_string().contains("a direction of 1 layers was given for 2 variables"), "{error}");
}

/// A delta that is passed to a backward must have the shape of the value. It is not broadcast, and
/// the error has the place of that call.
#[test]
fn backward_with_delta_of_wrong_shape_is_error() -> dl::Result<()> {
    let w = Weight::new(Nd::from([[1.0_f64, 2.0, 3.0], [4.0, 5.0, 6.0]]));
    let tape = (&w * Nd::from([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])).forward().wait()?;
    let delta = tape.backward(Do::now(Nd::from([[1.0, 1.0, 1.0]]))).delta(&w).wait();
    let line = line!() - 1;
    let error = delta.unwrap_err();
    assert!(error.is_shape(), "{error}");
    assert_eq!(error.place().map(|place| (place.file(), place.line())), Some((file!(), line)), "{error}");
    let error = tape.backward(Do::fail(Error::invalid("no"))).delta(&w).wait().unwrap_err();
    assert_eq!(error.place().map(|place| (place.file(), place.line())), Some((file!(), line!() - 1)), "{error}");
    let delta = tape.backward(Do::now(Nd::full([2, 3], 10.0))).delta(&w).wait()?;
    assert_eq!(delta, Some(Nd::from([[10.0, 10.0, 10.0], [20.0, 20.0, 20.0]])));
    Ok(())
}

/// A hand-written backward has no derivative with respect to a layer that is not a weight: forward
/// and reverse mode return an error. The search for non-finite numbers ignores it.
#[test]
fn jvp_with_hand_written_backward_is_error() -> dl::Result<()> {
    let hand = |x: &Layer<f64>| {
        Layer::from(
            x.forward().map(|tape| Tape::new(3.0 * tape.data(), move |d: Do<f64>| tape.backward(d.map(|d| 3.0 * d)))),
        )
    };
    let w = Weight::new(2.0_f64);
    let h = (&w * 2.0).into_layer();
    let one = Layer::constant(1.0);
    let y: Layer<f64> = hand(&h);
    for error in [y.gradient(&h).predict().wait().unwrap_err(), y.jvp(&h, &one).predict().wait().unwrap_err()] {
        assert!(error.to_string().contains("hand-written backward hands derivatives to weights only"), "{error}");
    }
    let loss = hand(&w.layer()) + (&w * 2.0).stop_gradient();
    assert!(loss.first_non_finite().wait()?.is_none());
    assert_eq!(loss.train(&Sgd::new(0.1)).wait()?, 10.0);
    Ok(())
}
