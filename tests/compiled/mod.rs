//! Functions with the option `compiled`: the same values, deltas and errors as without it.

mod groups;
mod modes;
mod panics;
mod programs;
mod updates;

use dl::nd::Element;
use dl::nd::init::{rng, uniform};
use dl::nd::ndarray::{IntoDimension, Ix1, Ix2, s};
use dl::prelude::*;
use dl::{Buffer, CompiledPlans, Data, Nothing, Sgd, compiled_functions};
use std::sync::Arc;
use test_support::on_threads;

/// The two versions of a function.
macro_rules! both {
    ($($compiled:ident / $ordinary:ident => fn ($($parameter:ident: $Type:ty),*) -> $Result:ty $body:block)*) => {$(
        #[differentiable(compiled)]
        fn $compiled($($parameter: $Type),*) -> $Result $body

        #[differentiable]
        fn $ordinary($($parameter: $Type),*) -> $Result $body
    )*};
}

fn tensor<const N: usize>(shape: [usize; N], seed: u64) -> Nd<f32, <[usize; N] as IntoDimension>::Dim>
where
    [usize; N]: IntoDimension<Dim: dl::nd::Rank>,
{
    uniform(shape, -1.0, 1.0, &mut rng(seed))
}

/// The largest difference between two elements at the same place.
fn distance(a: &Nd, b: &Nd) -> f32 {
    a.view().iter().zip(b.view()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The first line of an error, without the number of others: a call stops at its first error.
fn first(error: &Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().expect("a message");
    line.split("; and ").next().unwrap_or(line).to_owned()
}

fn plans(name: &str) -> CompiledPlans {
    compiled_functions().into_iter().find(|function| function.name() == name).expect("it has been called")
}

#[derive(Module)]
struct Cell {
    w: NdWeight,
    u: NdWeight,
    b: Weight<Nd<f32, Ix1>>,
    width: usize,
}

impl Cell {
    fn new(width: usize, seed: u64) -> Cell {
        let [w, u] = [0, 1].map(|i| Weight::new(tensor([width, 4 * width], seed + i)));
        Cell { w, u, b: Weight::new(tensor([4 * width], seed + 2)), width }
    }

    fn gates(&self, x: &NdLayer, h: &NdLayer, c: &NdLayer) -> (NdLayer, NdLayer) {
        let width = self.width as isize;
        let gates = x.matmul(&self.w) + h.matmul(&self.u) + self.b.lift::<Ix2>();
        let gate = |i: isize| gates.slice(s![.., i * width..(i + 1) * width]);
        let c = gate(0).sigmoid() * c + gate(1).sigmoid() * gate(2).tanh();
        (gate(3).sigmoid() * c.tanh(), c)
    }

    #[differentiable(compiled)]
    fn step(&self, x: &NdLayer, h: &NdLayer, c: &NdLayer) -> (NdLayer, NdLayer) {
        self.gates(x, h, c)
    }

    /// The sum of the states after some steps.
    fn run(&self, x: &NdLayer, steps: usize, is_compiled: bool) -> Layer<f32> {
        let mut h: NdLayer = Layer::constant(Nd::full([1, self.width].into_dimension(), 0.0));
        let mut c = h.clone();
        for _ in 0..steps {
            (h, c) = if is_compiled { self.step(x, &h, &c) } else { self.gates(x, &h, &c) };
        }
        (h * 2.0 + c).sum()
    }
}

#[test]
fn trained_cell_equals_ordinary_one() {
    let x = tensor([1, 8], 9).into_layer();
    let (compiled, ordinary) = (Cell::new(8, 1), Cell::new(8, 1));
    for _ in 0..5 {
        let losses = (compiled.run(&x, 1, true), ordinary.run(&x, 1, false));
        let gradients = (losses.0.gradient(&compiled.w), losses.1.gradient(&ordinary.w));
        assert_eq!(gradients.0.predict().wait().unwrap(), gradients.1.predict().wait().unwrap());
        assert_eq!(losses.0.predict().wait().unwrap(), losses.1.predict().wait().unwrap());
        losses.0.train(&Sgd::new(0.1)).wait().unwrap();
        losses.1.train(&Sgd::new(0.1)).wait().unwrap();
        assert_eq!(compiled.w.value(), ordinary.w.value());
        assert_eq!(compiled.u.value(), ordinary.u.value());
        assert_eq!(compiled.b.value(), ordinary.b.value());
    }
}

/// The deltas of a weight in several calls are added call by call, and so with other rounding.
#[test]
fn deltas_of_several_calls_agree_and_are_deterministic() {
    let x = tensor([1, 8], 9).into_layer();
    let cells = [1, 2, 3, 8, 0].map(|threads| {
        let cell = Cell::new(8, 1);
        let train = || {
            for _ in 0..5 {
                cell.run(&x, 7, threads > 0).train(&Sgd::new(0.1)).wait().unwrap();
            }
        };
        on_threads(threads.max(1), train);
        cell.u.value()
    });
    assert!(cells[..4].iter().all(|cell| *cell == cells[0]));
    assert!(distance(&cells[0], &cells[4]) < 1e-5);
}

both! {
    curve / ordinary_curve => fn (x: &Layer<f64>, a: &Weight<f64>, turns: usize) -> Layer<f64> {
        let mut y = x.clone();
        for _ in 0..turns {
            y = (y * a).sin() + x * x;
        }
        y
    }

    softly / ordinarily_softly => fn (x: &NdLayer, w: &NdWeight) -> NdLayer {
        let y = x.matmul(w);
        (y.softmax(1) + y.square()).relu()
    }
}

#[test]
fn derivatives_of_higher_order_equal_ordinary_ones() {
    let (a, x) = (Weight::new(0.7), Weight::new(0.3));
    for turns in [1, 3, 2, 3, 0] {
        let each = [curve(&x.layer(), &a, turns), ordinary_curve(&x.layer(), &a, turns)].map(|y| {
            let (da, dx) = y.gradients(&(&a, &x));
            let (daa, dax, dxx) = (da.gradient(&a), da.gradient(&x), dx.gradient(&x));
            let third = dxx.gradient(&a);
            let along = y.jvp(&a, &Layer::constant(2.0));
            let hessian = y.hvp(&a, &Layer::constant(1.0));
            let all = [y, da, dx, daa, dax, dxx, third, along, hessian];
            all.map(|layer| layer.predict().wait().unwrap())
        });
        assert_eq!(each[0], each[1], "{turns}");
    }
    assert!(plans("curve").built() <= 4 && plans("curve").reused() >= 1);
}

/// A pass evaluates numbers in less time than a call takes.
#[test]
fn function_of_numbers_is_evaluated_as_ordinary_one() {
    #[differentiable(compiled)]
    fn squared_difference(x: &Layer<f64>, weights: &[Weight<f64>; 2], answer: &Layer<f64>) -> (Layer<f64>, Layer<f64>) {
        let difference = x * &weights[0] + &weights[1] - answer;
        (&difference * &difference, difference)
    }
    for step in 0..3 {
        let runs = [true, false].map(|is_compiled| {
            let weights = [0.5, -1.0].map(Weight::new);
            let (x, answer) = (Layer::constant(f64::from(step)), Layer::constant(3.0));
            let loss = if is_compiled {
                squared_difference(&x, &weights, &answer).0
            } else {
                let difference = &x * &weights[0] + &weights[1] - &answer;
                &difference * &difference
            };
            let (value, counters) = loss.train(&Sgd::new(0.1)).counted().wait().unwrap();
            (value, counters, weights.map(|weight| weight.value()))
        });
        assert_eq!(runs[0], runs[1]);
    }
    assert!(plans("squared_difference").explain().contains("4 operations, on numbers"));
    assert_eq!((plans("squared_difference").built(), plans("squared_difference").reused()), (1, 2));
}

#[test]
fn derivatives_of_tensors_equal_ordinary_ones() {
    let w = Weight::new(tensor([3, 4], 1));
    for rows in [2, 5, 2, 1] {
        let x = Weight::new(tensor([rows, 3], 7));
        let each = [softly(&x.layer(), &w), ordinarily_softly(&x.layer(), &w)].map(|y| {
            let loss = (&y * &y).sum();
            let dw = loss.gradient(&w);
            let second = dw.square().sum().gradient(&x);
            let along = y.jvp(&w, &Layer::constant(tensor([3, 4], 2)));
            let loss = (loss.predict().wait().unwrap(), dw.predict().wait().unwrap(), along.predict().wait().unwrap());
            (loss, second.predict().wait().unwrap())
        });
        assert_eq!(each[0].0, each[1].0);
        let [a, b] = each.map(|(_, second)| second);
        assert!(distance(&a, &b) < 1e-4, "{a:?} {b:?}");
    }
}

both! {
    weighted / ordinary_weighted => fn (x: &NdLayer, w: &NdWeight) -> NdLayer {
        x * w
    }

    squashed / ordinary_squashed => fn (x: &NdLayer, w: &NdWeight) -> NdLayer {
        x.matmul(w).tanh()
    }

    unchanged / ordinary_unchanged => fn (x: &NdLayer, _w: &NdWeight) -> NdLayer {
        x.clone()
    }
}

/// Such a call is its own result: `weighted` at once, `squashed` when its first backward is known.
#[test]
fn calls_whose_backward_reads_only_the_result_equal_ordinary_ones() {
    type Function = fn(&NdLayer, &NdWeight) -> NdLayer;
    let functions: [[Function; 2]; 3] =
        [[weighted, ordinary_weighted], [squashed, ordinary_squashed], [unchanged, ordinary_unchanged]];
    for (which, versions) in functions.into_iter().enumerate() {
        let [compiled, ordinary] = versions.map(|function| {
            let (v, w) = (Weight::new(tensor([4, 4], 1)), Weight::new(tensor([4, 4], 2)));
            let before = function(&v.layer(), &w);
            let (mut values, mut seconds) = (Vec::new(), Vec::new());
            for _ in 0..2 {
                let after = function(&v.layer(), &w);
                for y in [&before, &after] {
                    let loss = y.square().sum();
                    let (dv, dw) = loss.gradients(&(&v, &w));
                    let along = y.jvp(&v, &tensor([4, 4], 3).into_layer());
                    let second = dv.square().sum().gradients(&(&v, &w));
                    seconds.extend(<[NdLayer; 2]>::from(second).map(|layer| layer.predict().wait().unwrap()));
                    values.extend([y.clone(), dv, dw, along].map(|layer| layer.predict().wait().unwrap()));
                    loss.train(&Sgd::new(0.01)).wait().unwrap();
                    values.extend([v.value(), w.value()]);
                }
            }
            (values, seconds)
        });
        assert_eq!(compiled.0, ordinary.0, "{which}");
        // a second derivative flows back through the call and through its operations
        assert!(compiled.1.iter().zip(&ordinary.1).all(|(a, b)| distance(a, b) < 1e-5), "{which}");
    }
}

#[test]
fn same_operand_twice_has_its_own_plan() {
    let (x, y) = (Weight::new(tensor([2, 2], 1)), Weight::new(tensor([2, 2], 2)));
    #[differentiable(compiled)]
    fn product(a: &NdLayer, b: &NdLayer) -> NdLayer {
        a * b + a
    }
    let (x, y) = (x.layer(), y.layer());
    for (a, b) in [(&x, &x), (&x, &y), (&y, &y), (&y, &x)] {
        assert_eq!(product(a, b).predict().wait().unwrap(), (a * b + a).predict().wait().unwrap());
    }
    assert_eq!(plans("product").built(), 2);
}

#[test]
fn modules_of_same_shape_share_a_plan_and_settings_do_not() {
    #[derive(Module)]
    struct Scaled {
        w: NdWeight,
        power: usize,
        #[module(skip)]
        name: Option<&'static str>,
    }
    impl Scaled {
        #[differentiable(compiled)]
        fn scaled(&self, x: &NdLayer) -> NdLayer {
            let y = if self.name.is_some() { x + 1.0 } else { x.clone() };
            (0..self.power).fold(y, |y, _| y * &self.w)
        }
    }
    let scaled = |w: f32, power, name| {
        let x = Nd::from([[3.0]]).into_layer();
        Scaled { w: Weight::new(Nd::from([[w]])), power, name }.scaled(&x).sum().predict().wait().unwrap()
    };
    for w in [2.0, 5.0, 7.0] {
        assert_eq!(scaled(w, 2, None), 3.0 * w * w);
        assert_eq!(scaled(w, 1, None), 3.0 * w);
        assert_eq!(scaled(w, 1, Some("plus")), 4.0 * w);
    }
    assert_eq!((plans("scaled").built(), plans("scaled").reused()), (3, 6));
}

#[test]
fn generic_functions_have_a_plan_for_each_type() {
    #[differentiable(compiled)]
    fn doubled<T: dl::Pointwise>(x: &Layer<T>) -> Layer<T> {
        T::with_number(dl::Binary::Mul, x, 2.0, false)
    }
    assert_eq!(doubled(&Layer::constant(1.5_f64)).predict().wait().unwrap(), 3.0);
    assert_eq!(doubled(&Layer::constant(1.5_f32)).predict().wait().unwrap(), 3.0);
    assert_eq!(plans("doubled").built(), 2);
}

both! {
    multiplied / ordinary_multiplied => fn (x: &NdLayer, w: &NdWeight) -> NdLayer {
        x.tanh().matmul(w)
    }
}

#[test]
fn errors_name_the_line_and_the_calls() {
    #[differentiable]
    fn caller(x: &NdLayer, w: &NdWeight, is_compiled: bool) -> NdLayer {
        if is_compiled { multiplied(x, w) } else { ordinary_multiplied(x, w) }
    }
    let w = Weight::new(tensor([3, 4], 1));
    let x = tensor([2, 3], 1).into_layer();
    multiplied(&x, &w).predict().wait().unwrap();
    let x = tensor([2, 5], 1).into_layer();
    let [a, b] = [true, false].map(|is_compiled| caller(&x, &w, is_compiled).predict().wait().unwrap_err());
    assert_eq!(
        a.place().map(|place| (place.file(), place.line())),
        b.place().map(|place| (place.file(), place.line()))
    );
    let functions = |error: &Error| error.calls().frames().map(|call| call.function).collect::<Vec<_>>();
    assert_eq!(functions(&a), ["multiplied", "caller"]);
    assert_eq!(functions(&b), ["ordinary_multiplied", "caller"]);
    assert_eq!(a.to_string().lines().next(), b.to_string().lines().next());
    assert!(caller(&x, &w, true).sum().train(&Sgd::new(0.1)).wait().is_err());
    assert_eq!(w.value(), tensor([3, 4], 1));
}

#[differentiable(compiled)]
fn sum_of_products(terms: &[NdLayer], w: &NdWeight) -> NdLayer {
    let products = terms.iter().map(|term| (term * w).tanh());
    products.reduce(|sum, product| (sum + product).sigmoid()).expect("there are terms")
}

#[test]
fn failure_of_any_operation_leaves_weights_unchanged() {
    let [right, wrong] = [[2, 3], [2, 5]].map(|shape| tensor(shape, 1).into_layer());
    let w = Weight::new(tensor([2, 3], 2));
    let train = |terms: &[NdLayer]| sum_of_products(terms, &w).sum().train(&Sgd::new(0.1)).wait();
    for failing in 0..8 {
        train(&vec![right.clone(); 8]).unwrap();
        let before = w.value();
        let mut terms = vec![right.clone(); 8];
        terms[failing] = wrong.clone();
        let error = train(&terms).unwrap_err();
        assert!(error.to_string().contains("[2, 5]"), "{error}");
        assert_eq!(w.value(), before);
    }
    assert_eq!(plans("sum_of_products").built(), 9);
}

/// The bits of a product depend on the layout of its operands.
#[test]
fn operands_of_other_layout_give_bits_of_ordinary_function() {
    both_layouts::<f32>();
    both_layouts::<f64>();
}

fn both_layouts<A: Element>() {
    let random = |seed| uniform::<A, _>([37, 37], -1.0, 1.0, &mut rng(seed));
    let (w, x) = (random(1), random(2));
    let turned: Nd<A> = Nd::from(w.view().reversed_axes().as_standard_layout().reversed_axes().into_owned());
    assert_eq!(w, turned);
    let column = |x: &Nd<A>| x.layer().slice_axis(1, ..1);
    for w in [&w, &turned, &w, &turned] {
        let (compiled, ordinary) =
            (twice_applied(&column(&x), &w.layer()), ordinary_twice_applied(&column(&x), &w.layer()));
        assert_eq!(compiled.predict().wait().unwrap(), ordinary.predict().wait().unwrap());
    }
}

#[differentiable(compiled)]
fn twice_applied<A: Element>(x: &NdLayer<Ix2, A>, w: &NdLayer<Ix2, A>) -> NdLayer<Ix2, A> {
    w.matmul(w.matmul(x).tanh()) * A::of(2.0) + x
}

fn ordinary_twice_applied<A: Element>(x: &NdLayer<Ix2, A>, w: &NdLayer<Ix2, A>) -> NdLayer<Ix2, A> {
    w.matmul(w.matmul(x).tanh()) * A::of(2.0) + x
}

#[test]
fn call_needs_no_more_memory_than_ordinary_function() {
    let x = tensor([1, 8], 9).into_layer();
    let peak = |is_compiled| {
        let cell = Cell::new(8, 1);
        let train = || cell.run(&x, 7, is_compiled).train(&Sgd::new(0.1)).counted().wait();
        train().unwrap();
        on_threads(1, train).unwrap().1.bytes_peak
    };
    assert!(peak(true) <= peak(false), "{} bytes beside {}", peak(true), peak(false));
}

#[test]
fn what_cannot_be_compiled_is_an_error_that_says_why() {
    #[differentiable(compiled)]
    fn selected(x: &NdLayer) -> Layer<Nd<f32, Ix1>> {
        x.masked_select(x.greater(0.0))
    }
    #[differentiable(compiled)]
    fn with_weight_of_its_own(x: &NdLayer) -> NdLayer {
        x * Weight::new(tensor([2, 2], 1))
    }
    #[differentiable]
    fn decides(x: &NdLayer) -> NdLayer {
        if (!x)[[0, 0]] > 0.0 { x.clone() } else { x + 1.0 }
    }
    #[differentiable(compiled)]
    fn calls_a_decision(x: &NdLayer) -> NdLayer {
        decides(x) * 2.0
    }
    #[differentiable(compiled)]
    fn updates_a_buffer_of_its_own(x: &NdLayer) -> NdLayer {
        x.updating(&Buffer::new(0.0_f32), x.sum())
    }
    #[differentiable(compiled)]
    fn by_mode_of_its_own(x: &NdLayer) -> NdLayer {
        let x = x.clone();
        Layer::dynamic(move || {
            let x = x.clone();
            async move { Ok(if Mode::current() == Some(Mode::Train) { x } else { x * 2.0 }) }
        })
    }
    let x = tensor([2, 2], 4).into_layer();
    let errors = [
        by_mode_of_its_own(&x).sum().predict().wait().unwrap_err(),
        updates_a_buffer_of_its_own(&x).sum().predict().wait().unwrap_err(),
        selected(&x).sum().predict().wait().unwrap_err(),
        with_weight_of_its_own(&x).sum().predict().wait().unwrap_err(),
        calls_a_decision(&x).sum().predict().wait().unwrap_err(),
    ];
    let parts = [
        "the mode of the pass",
        "updates a buffer that no argument",
        "shape depends on values",
        "no argument of the function has",
        "decides by a value",
    ];
    for (error, part) in errors.iter().zip(parts) {
        let text = error.to_string();
        assert!(text.contains(part) && text.contains("compiled/mod.rs"), "{text}");
    }
}

/// A value whose copies can be counted.
#[derive(Clone)]
struct Counted {
    _count: Arc<()>,
}

impl Data for Counted {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }
}

#[test]
fn plans_keep_no_operand_alive() {
    #[differentiable(compiled)]
    fn held(x: &Layer<f64>, _other: &Layer<Counted>) -> Layer<f64> {
        x * 2.0
    }
    let count = Arc::new(());
    let other = Layer::constant(Counted { _count: count.clone() });
    let weight = Weight::new(3.0);
    assert_eq!(held(&(&weight * 1.0), &other).predict().wait().unwrap(), 6.0);
    drop(other);
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn frozen_weights_and_untrained_operands_have_no_delta() {
    let (frozen, trained) = (Weight::new(tensor([3, 4], 1)), Weight::new(tensor([2, 3], 2)));
    frozen.freeze();
    let y = softly(&trained.layer(), &frozen);
    y.sum().train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(frozen.value(), tensor([3, 4], 1));
    assert_ne!(trained.value(), tensor([2, 3], 2));
}

#[test]
fn compiled_functions_call_compiled_functions() {
    #[differentiable(compiled)]
    fn twice(x: &NdLayer, w: &NdWeight) -> NdLayer {
        softly(&softly(x, w).matmul(w.transpose(0, 1)), w)
    }
    #[differentiable]
    fn ordinary_twice(x: &NdLayer, w: &NdWeight) -> NdLayer {
        ordinarily_softly(&ordinarily_softly(x, w).matmul(w.transpose(0, 1)), w)
    }
    let (x, w) = (tensor([2, 3], 3).into_layer(), Weight::new(tensor([3, 4], 4)));
    for _ in 0..3 {
        let [a, b] = [twice(&x, &w), ordinary_twice(&x, &w)];
        assert_eq!(a.predict().wait().unwrap(), b.predict().wait().unwrap());
        let [a, b] = [a, b].map(|y| y.sum().gradient(&w).predict().wait().unwrap());
        assert_eq!(a, b);
    }
    // the inner functions are a part of the outer one
    let plan = plans("twice").explain();
    assert!(plan.contains("= matmul(") && !plan.contains("softly("), "{plan}");
}

#[test]
fn checkpointed_calls_are_evaluated_again() {
    let cell = Cell::new(4, 2);
    let x = tensor([1, 4], 3).into_layer();
    let loss = |is_compiled: bool| {
        let h: NdLayer = Layer::constant(Nd::full([1, 4].into_dimension(), 0.5));
        let (h, c) = if is_compiled { cell.step(&x, &h, &h) } else { cell.gates(&x, &h, &h) };
        (h.checkpoint() * c).sum()
    };
    let [a, b] = [true, false].map(|is_compiled| loss(is_compiled).gradient(&cell.w).predict().wait().unwrap());
    assert_eq!(a, b);
}

#[test]
fn calls_with_ever_new_shapes_are_warned_of() {
    #[differentiable(compiled)]
    fn churned(x: &NdLayer, times: usize) -> NdLayer {
        (0..times).fold(x.clone(), |x, _| (x * 2.0).tanh())
    }
    let run = |rows: usize, times| churned(&tensor([rows, 2], 1).into_layer(), times).predict().wait().unwrap();
    (0..100).for_each(|call| _ = run(1 + call % 5, 2));
    let plan = plans("churned");
    assert_eq!((plan.calls(), plan.built(), plan.churn()), (100, 1, None));
    // Each schedule is evicted before its shapes come again.
    (0..100).for_each(|call| _ = run(10 + call % 40, 3));
    let warning = plan.churn().expect("a warning");
    assert!(warning.contains("shapes of the operands change often"), "{warning}");
    assert!(plan.explain().ends_with(&format!("{warning}\n")));
    (0..200).for_each(|call| _ = run(2, 4 + call));
    let warning = plan.churn().expect("a warning");
    assert!(warning.contains("arguments that are no layers change often"), "{warning}");
    assert_eq!((plan.calls(), plan.built()), (400, 202));
}
