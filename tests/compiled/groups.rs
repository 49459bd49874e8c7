//! The option `grouped`: calls with the same weights at the same level run as one.

use super::{first, plans, tensor};
use dl::nd::ndarray::{Ix1, Ix3, s};
use dl::prelude::*;
use dl::{Along, At, BuiltIn, Deltas, Primitive, Result, Sgd};
use test_support::on_threads;

#[derive(Clone, Layers)]
struct State {
    h: NdLayer,
    c: NdLayer,
}

/// A cell for the nodes of a binary tree.
#[derive(Module)]
struct Cell {
    gates: NdWeight,
    bias: Weight<Nd<f32, Ix1>>,
    leaf: [NdWeight; 2],
}

impl Cell {
    fn new(width: usize) -> Cell {
        let leaf = [3, 4].map(|seed| Weight::new(tensor([1, width], seed)));
        let gates = Weight::new(tensor([2 * width, 4 * width], 1));
        Cell { gates, bias: Weight::new(tensor([4 * width], 2)), leaf }
    }

    fn ordinary(&self, left: &State, right: &State) -> State {
        let x = dl::nd::concat(1, [&left.h, &right.h]);
        let gates = x.linear(&self.gates, &self.bias).chunk(1, 4);
        let kept = gates[0].sigmoid() * &left.c + gates[1].sigmoid() * &right.c;
        let c = kept + gates[2].tanh() * left.h.relu();
        State { h: gates[3].sigmoid() * c.tanh(), c }
    }

    #[differentiable(compiled)]
    fn alone(&self, left: &State, right: &State) -> State {
        self.ordinary(left, right)
    }

    #[differentiable(compiled(grouped))]
    fn together(&self, left: &State, right: &State) -> State {
        self.ordinary(left, right)
    }

    /// The state of a tree with so many leaves. The first ones are words, the others are weights.
    fn state(&self, words: &[NdLayer], leaves: usize, is_grouped: bool) -> State {
        if leaves == 1 {
            let [h, c] = &self.leaf;
            let h = words.first().cloned().unwrap_or_else(|| h.layer());
            return State { h, c: c.layer() };
        }
        let left = leaves * 2 / 5 + 1;
        let left = left.min(leaves - 1);
        let (left, right) = (
            self.state(&words[..left.min(words.len())], left, is_grouped),
            self.state(&words[left.min(words.len())..], leaves - left, is_grouped),
        );
        if is_grouped { self.together(&left, &right) } else { self.alone(&left, &right) }
    }

    fn loss(&self, words: &[NdLayer], leaves: usize, is_grouped: bool) -> Layer<f32> {
        let State { h, c } = self.state(words, leaves, is_grouped);
        (h * 2.0 + c.square()).sum()
    }

    /// The weights after some steps, and the last loss.
    fn trained(width: usize, is_grouped: bool) -> (Vec<Nd>, f32) {
        let cell = Cell::new(width);
        let words: Vec<NdLayer> = (0..9).map(|i| tensor([1, width], 10 + i).into_layer()).collect();
        let mut loss = 0.0;
        for step in 0..4 {
            loss = cell.loss(&words, 11 + step, is_grouped).train(&Sgd::new(0.05)).wait().unwrap();
        }
        let [h, c] = &cell.leaf;
        (vec![cell.gates.value(), h.value(), c.value()], loss)
    }
}

fn distance(a: &Nd, b: &Nd) -> f32 {
    a.view().iter().zip(b.view()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn grouped_trees_equal_ungrouped_ones_up_to_rounding() {
    for width in [3, 16] {
        let ((grouped, loss), (ungrouped, expected)) = (Cell::trained(width, true), Cell::trained(width, false));
        assert!((loss - expected).abs() < 1e-4 * expected.abs().max(1.0), "{loss} instead of {expected}");
        for (a, b) in grouped.iter().zip(&ungrouped) {
            assert!(distance(a, b) < 1e-4);
        }
    }
    let plans = plans("together");
    assert!(plans.grouped() > 0 && plans.grouped() < plans.calls());
    assert!(plans.explain().contains("run as one"), "{}", plans.explain());
}

#[test]
fn bits_of_groups_are_those_of_one_thread_for_any_number() {
    // the larger one is not evaluated inline
    for width in [8, 96] {
        let all = [1, 2, 3, 5, 8].map(|threads| on_threads(threads, || Cell::trained(width, true)));
        assert!(all.iter().all(|one| *one == all[0]));
    }
}

#[test]
fn higher_derivatives_take_the_ordinary_way() {
    let cell = Cell::new(4);
    let words: Vec<NdLayer> = (0..4).map(|i| tensor([1, 4], 10 + i).into_layer()).collect();
    let [grouped, ungrouped] = [true, false].map(|is_grouped| {
        let loss = cell.loss(&words, 6, is_grouped);
        let gradient = loss.gradient(&cell.gates);
        let second = gradient.square().sum().gradient(&cell.gates);
        let along = loss.jvp(&words[0], &tensor([1, 4], 30).into_layer());
        (gradient.predict().wait().unwrap(), second.predict().wait().unwrap(), along.predict().wait().unwrap())
    });
    assert!(distance(&grouped.0, &ungrouped.0) < 1e-4);
    assert!(distance(&grouped.1, &ungrouped.1) < 1e-2, "{}", distance(&grouped.1, &ungrouped.1));
    assert!((grouped.2 - ungrouped.2).abs() < 1e-4);
}

/// The identity for numbers up to 1; an error for larger ones.
#[derive(Clone)]
struct Bounded;

impl Primitive for Bounded {
    type Operands = (NdLayer,);
    type Output = Nd;

    fn name(&self) -> &'static str {
        "bounded"
    }

    fn value(&self, (x,): (&Nd,)) -> Result<Nd> {
        match x.view().iter().find(|x| **x > 1.0) {
            Some(x) => Err(Error::invalid(format!("{x} is more than 1"))),
            None => Ok(x.clone()),
        }
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(Layer::apply_built_in(Bounded, (at.delta.clone(),))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<NdLayer> {
        along.tangents.0.clone()
    }

    fn cost(&self, (x,): (&Nd,)) -> f64 {
        x.len() as f64
    }
}

impl BuiltIn for Bounded {
    const IS_PURE: bool = true;

    fn is_by_rows(&self, _: &[bool], _: (&Nd,), _: &Nd) -> bool {
        true
    }
}

fn bounded(x: &NdLayer, w: &NdWeight) -> NdLayer {
    Layer::apply_built_in(Bounded, (x * w,)) * 1.0
}

#[differentiable(compiled(grouped))]
fn bounded_together(x: &NdLayer, w: &NdWeight) -> NdLayer {
    bounded(x, w)
}

#[differentiable]
fn bounded_alone(x: &NdLayer, w: &NdWeight) -> NdLayer {
    bounded(x, w)
}

#[test]
fn fault_of_a_member_is_that_of_its_call_and_changes_no_weight() {
    let loss = |numbers: [f32; 4], scale: f32, w: &NdWeight, is_grouped: bool| {
        let call = |x: f32| {
            let x = Nd::from([[x, 0.5]]).into_layer();
            if is_grouped { bounded_together(&x, w) } else { bounded_alone(&x, w) }
        };
        numbers.map(call).into_iter().fold(Layer::constant(0.0), |sum, y| sum + (y * scale).sum())
    };
    for threads in [1, 2, 4] {
        on_threads(threads, || {
            let w = Weight::new(Nd::from([[1.0_f32, 1.0]]));
            // in the forward of one call, and in the backward of all
            for (numbers, scale) in [([0.5, 0.25, 3.0, 0.75], 1.0), ([0.5, 0.25, 0.125, 0.75], 7.0)] {
                let error = |is_grouped| loss(numbers, scale, &w, is_grouped).train(&Sgd::new(0.1)).wait().unwrap_err();
                let (grouped, ungrouped) = (first(&error(true)), first(&error(false)));
                assert_eq!(grouped, ungrouped.replace("bounded_alone", "bounded_together"));
                assert_eq!(w.value(), Nd::from([[1.0_f32, 1.0]]));
            }
            assert_eq!(loss([0.5; 4], 1.0, &w, true).train(&Sgd::new(0.0)).wait().unwrap(), 4.0);
        });
    }
    assert!(plans("bounded_together").grouped() >= 4);
}

#[differentiable(compiled(grouped))]
fn centered(x: &NdLayer, w: &NdWeight) -> NdLayer {
    let y = x.matmul(w);
    &y - y.sum_keepdim(0)
}

#[differentiable(compiled)]
fn centered_alone(x: &NdLayer, w: &NdWeight) -> NdLayer {
    let y = x.matmul(w);
    &y - y.sum_keepdim(0)
}

#[test]
fn function_that_mixes_rows_runs_call_by_call() {
    let w = Weight::new(tensor([3, 4], 1));
    let calls = |function: fn(&NdLayer, &NdWeight) -> NdLayer| {
        (0..5).map(|i| function(&tensor([2, 3], 20 + i).into_layer(), &w).tanh().sum()).sum::<Layer<f32>>()
    };
    let (grouped, ungrouped) = (calls(centered), calls(centered_alone));
    assert_eq!(grouped.predict().wait().unwrap(), ungrouped.predict().wait().unwrap());
    let [grouped, ungrouped] = [&grouped, &ungrouped].map(|loss| loss.gradient(&w).predict().wait().unwrap());
    assert!(distance(&grouped, &ungrouped) < 1e-5);
    assert_eq!(plans("centered").grouped(), 0);
    assert!(plans("centered").explain().contains("is not by rows"), "{}", plans("centered").explain());
}

fn many(x: &NdLayer<Ix3>, w: &NdWeight, row: &Weight<Nd<f32, Ix3>>) -> NdLayer<Ix3> {
    let y = x.matmul(w) + row;
    let part = y.slice(s![.., 1.., 0..2]).log_softmax(1);
    let (sums, means) = (part.sum_keepdim(1), y.mean_keepdim(2));
    let both = dl::nd::concat(2, [&part, &part.square()]);
    (both - 0.5) * means.slice_axis(1, 1..3) + sums.sum_keepdim(2)
}

#[differentiable(compiled(grouped))]
fn many_together(x: &NdLayer<Ix3>, w: &NdWeight, row: &Weight<Nd<f32, Ix3>>) -> NdLayer<Ix3> {
    many(x, w, row)
}

/// A weight with as many rows as a call has: they cannot be repeated.
#[differentiable(compiled(grouped))]
fn shifted(x: &NdLayer, w: &NdWeight) -> NdLayer {
    (x + w).tanh() * x
}

#[test]
fn operations_by_rows_have_the_values_and_deltas_of_single_calls() {
    let (w, row) = (Weight::new(tensor([4, 5], 1)), Weight::new(tensor([1, 3, 5], 2)));
    let words: Vec<NdLayer<Ix3>> = (0..4).map(|i| tensor([2, 3, 4], 10 + i).into_layer()).collect();
    let all = [many_together, many].map(|function| {
        let loss = words.iter().map(|x| function(x, &w, &row).square().sum()).sum::<Layer<f32>>();
        let gradients = (loss.gradient(&w), loss.gradient(&row));
        let deltas = words.iter().map(|x| loss.gradient(x).predict().wait().unwrap());
        let deltas: Vec<f32> = deltas.flat_map(|delta| delta.view().iter().copied().collect::<Vec<_>>()).collect();
        let (w, row) = (gradients.0.predict().wait().unwrap(), gradients.1.predict().wait().unwrap());
        let all = w.view().iter().chain(row.view()).copied().chain(deltas).collect::<Vec<f32>>();
        (loss.predict().wait().unwrap(), all)
    });
    let close = |a: f32, b: f32| (a - b).abs() < 1e-4 * b.abs().max(1.0);
    assert!(close(all[0].0, all[1].0));
    assert!(all[0].1.iter().zip(&all[1].1).all(|(a, b)| close(*a, *b)));
    assert!(plans("many_together").grouped() > 0, "{}", plans("many_together").explain());

    let w = Weight::new(tensor([2, 3], 1));
    let sum = (0..2).map(|i| shifted(&tensor([2, 3], i).into_layer(), &w).sum()).sum::<Layer<f32>>();
    let expected = (0..2).map(|i| {
        let x = tensor([2, 3], i).into_layer();
        ((&x + &w).tanh() * &x).sum()
    });
    let expected = expected.sum::<Layer<f32>>().predict().wait().unwrap();
    assert!(close(sum.predict().wait().unwrap(), expected));
    assert_eq!(plans("shifted").grouped(), 0);
}

#[differentiable(compiled(grouped))]
fn projected(x: &NdLayer, w: &NdWeight) -> (NdLayer, NdLayer) {
    let y = x.matmul(w);
    (y.tanh(), y.softmax(1))
}

#[test]
fn calls_with_other_shapes_or_weights_or_deltas_are_apart() {
    let [v, w] = [1, 2].map(|seed| Weight::new(tensor([3, 3], seed)));
    let x = |rows: usize, seed| tensor([rows, 3], seed).into_layer();
    let ordinary = |x: &NdLayer, w: &NdWeight| {
        let y = x.matmul(w);
        (y.tanh(), y.softmax(1))
    };
    let loss = |call: &dyn Fn(&NdLayer, &NdWeight) -> (NdLayer, NdLayer)| {
        let ((a, p), (b, _), (c, q)) = (call(&x(1, 3), &v), call(&x(1, 4), &v), call(&x(4, 5), &w));
        let (d, r) = call(&x(2, 6), &w);
        // the second of the calls with `v` has a delta for one result only
        a.sum() + b.sum() + (c * q).sum() + (p * 3.0).square().sum() + d.sum() * r.square().sum()
    };
    let (grouped, ungrouped) = (loss(&projected), loss(&ordinary));
    for weight in [&v, &w] {
        let [a, b] = [&grouped, &ungrouped].map(|loss| loss.gradient(weight).predict().wait().unwrap());
        assert!(distance(&a, &b) < 1e-5);
    }
    let before = plans("projected").grouped();
    grouped.predict().wait().unwrap();
    assert_eq!(plans("projected").grouped() - before, 2);
}

#[test]
fn results_of_members_can_be_read_after_a_pass() {
    let cell = Cell::new(4);
    let word = |seed| State { h: tensor([1, 4], seed).into_layer(), c: cell.leaf[1].layer() };
    let calls: Vec<State> = (0..3).map(|i| cell.together(&word(i), &word(i + 5))).collect();
    let sum = calls.iter().map(|state| state.h.sum()).sum::<Layer<f32>>();
    let expected: Vec<Nd> = (0..3).map(|i| cell.ordinary(&word(i), &word(i + 5)).h.predict().wait().unwrap()).collect();
    // the first call is the root of its own pass; then all are below one root
    assert!(distance(&calls[0].h.predict().wait().unwrap(), &expected[0]) < 1e-6);
    let tape = sum.forward().wait().unwrap();
    assert!((tape.data() - expected.iter().map(|h| h.view().sum()).sum::<f32>()).abs() < 1e-5);
    let all = Do::predict(calls.iter().map(|state| state.h.clone()).collect::<Vec<_>>()).wait().unwrap();
    assert!(all.iter().zip(&expected).all(|(a, b)| distance(a, b) < 1e-6));
}

#[test]
fn chains_of_groups_do_not_overflow_the_stack() {
    let w = Weight::new(tensor([2, 2], 1));
    let mut pair = [1, 2].map(|seed| tensor([1, 2], seed).into_layer());
    for _ in 0..5_000 {
        pair = pair.map(|x| projected(&x, &w).0);
    }
    let [a, b] = pair;
    assert!((a + b).sum().train(&Sgd::new(0.0)).wait().unwrap().is_finite());
}

#[test]
fn dropout_beside_groups_draws_the_same_numbers() {
    let w = Weight::new(tensor([3, 3], 1));
    let x = |seed: u64| tensor([1, 3], seed).into_layer();
    let loss = |is_grouped: bool| {
        let call = |x: &NdLayer| if is_grouped { projected(x, &w).0 } else { x.matmul(&w).tanh() };
        let noisy = [1, 2].map(|seed| x(seed).dropout(0.5));
        let other = x(7).dropout(0.5);
        noisy.iter().fold(other.sum(), |sum, x| sum + call(x).dropout(0.5).sum())
    };
    let [grouped, ungrouped] =
        [true, false].map(|is_grouped| loss(is_grouped).train(&Sgd::new(0.0)).seed(5).wait().unwrap());
    assert!((grouped - ungrouped).abs() < 1e-5, "{grouped} instead of {ungrouped}");
}
