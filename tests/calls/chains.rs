//! Call chains: the annotated functions in which a layer was created.

use super::support::{broken, chain, functions, recorded_pass};
use dl::prelude::*;
use dl::record::{Direction, Recorder};

#[derive(Clone)]
struct Net {
    w: Weight<f64>,
}

#[differentiable]
impl Net {
    fn score(&self, x: &Layer<f64>) -> Layer<f64> {
        if !x > 0.0 { self.gate(x) } else { x.clone() } // line 15
    }

    fn gate(&self, x: &Layer<f64>) -> Layer<f64> {
        encode(&(x * &self.w)) // line 19
    }

    fn of_nothing() -> Layer<f64> {
        broken(&Layer::constant(1.0))
    }
}

#[differentiable]
fn encode(x: &Layer<f64>) -> Layer<f64> {
    broken(x)
}

#[test]
fn calls_include_functions_and_methods() {
    assert_eq!(line!(), 34);
    let net = Net { w: Weight::new(2.0) };
    let score = net.score(&Layer::constant(1.0));
    let error = (score + 1.0).predict().wait().unwrap_err();
    assert_eq!(chain(error.calls()), [("encode", 19), ("Net::gate", 15), ("Net::score", 36)]);
    assert_eq!(error.place().map(|place| place.line()), Some(29));
    let error = Net::of_nothing().predict().wait().unwrap_err();
    assert_eq!(chain(error.calls()), [("Net::of_nothing", 40)]);
}

#[test]
fn layer_outside_of_annotated_functions_has_no_calls() {
    let error = broken(&Layer::constant(1.0)).predict().wait().unwrap_err();
    assert!(error.calls().is_empty());
}

trait Model: Clone + Send + Sync + 'static {
    fn inner(&self, x: &Layer<f64>) -> Layer<f64>;

    #[differentiable]
    fn outer(&self, x: &Layer<f64>) -> Layer<f64> {
        if !x > 0.0 { self.inner(x) } else { x.clone() }
    }
}

mod nested {
    #[derive(Clone)]
    pub(super) struct Deep<T>(pub(super) T);
}

#[differentiable]
impl Model for nested::Deep<Vec<u8>> {
    fn inner(&self, x: &Layer<f64>) -> Layer<f64> {
        broken(x)
    }
}

#[differentiable]
fn generic<M: Model>(model: &M, x: &Layer<f64>) -> Layer<f64> {
    let seen = !x;
    model.outer(x) + seen
}

#[test]
fn calls_include_trait_methods() {
    let model = nested::Deep(vec![1_u8]);
    let error = generic(&model, &Layer::constant(1.0)).predict().wait().unwrap_err();
    assert_eq!(functions(error.calls()), ["Deep::inner", "Deep::outer", "generic"]);
}

#[differentiable]
fn countdown(x: &Layer<f64>, n: u32) -> Layer<f64> {
    let x_now = !x;
    if n == 0 { broken(&(x + x_now)) } else { countdown(x, n - 1) }
}

#[differentiable]
fn even(x: &Layer<f64>, n: u32) -> Layer<f64> {
    if !x > 0.0 && n == 0 { broken(x) } else { odd(x, n - 1) }
}

#[differentiable]
fn odd(x: &Layer<f64>, n: u32) -> Layer<f64> {
    if !x > 0.0 && n == 0 { broken(x) } else { even(x, n - 1) }
}

#[test]
fn recursive_calls_are_recorded_once() {
    let x = Layer::constant(1.0);
    let error = countdown(&x, 100_000).predict().wait().unwrap_err();
    assert_eq!(functions(error.calls()), ["countdown", "countdown"]);
    let again = countdown(&x, 10).predict().wait().unwrap_err();
    assert_eq!(again.calls().frames().next(), error.calls().frames().next());
    let error = even(&x, 1_000).predict().wait().unwrap_err();
    assert_eq!(functions(error.calls()), ["even", "even"]);
    let error = even(&x, 1_001).predict().wait().unwrap_err();
    assert_eq!(functions(error.calls()), ["odd", "even", "even"]);
}

/// Suspends at two bangs before it creates its result.
#[differentiable]
fn leaf(x: &Layer<f64>, i: u32) -> Layer<f64> {
    let first = !slow(x);
    let second = !slow(&(x * first));
    (x * second * f64::from(i)).sin()
}

#[differentiable]
fn slow(x: &Layer<f64>) -> Layer<f64> {
    let body = || async {
        std::thread::sleep(std::time::Duration::from_micros(50));
        Ok(1.0)
    };
    x * Layer::from(Do::from_fn(body))
}

#[differentiable]
fn left(x: &Layer<f64>, i: u32) -> Layer<f64> {
    leaf(x, i)
}

#[differentiable]
fn right(x: &Layer<f64>, i: u32) -> Layer<f64> {
    leaf(x, i) * 2.0
}

#[test]
fn calls_are_independent_of_resuming_thread() {
    let x = Weight::new(0.5).layer();
    let all: Vec<Layer<f64>> = (0..100).map(|i| if i % 2 == 0 { left(&x, i) } else { right(&x, i) }).collect();
    let (value, record) = recorded_pass(&all.into_iter().sum());
    value.unwrap();
    let sines: Vec<_> = record.nodes.iter().filter(|node| node.name == "sin").collect();
    assert_eq!(sines.len(), 100);
    let of = |outer| sines.iter().filter(|node| functions(node.calls) == ["leaf", outer]).count();
    assert_eq!((of("left"), of("right")), (50, 50));
    for node in record.nodes.iter().filter(|node| node.name == "computation") {
        assert_eq!(functions(node.calls)[..2], ["slow", "leaf"]);
    }
}

#[differentiable]
fn computed(x: &Layer<f64>) -> Do<f64> {
    let now = !x;
    let failed = !broken(&(x * now));
    Do::now(failed)
}

#[test]
fn calls_in_do_computation_are_recorded() {
    let error = computed(&Layer::constant(1.0)).wait().unwrap_err();
    assert_eq!(functions(error.calls()), ["computed"]);
}

#[test]
fn block_belongs_to_enclosing_function() {
    #[differentiable]
    fn around(x: &Layer<f64>) -> Layer<f64> {
        let x = x.clone();
        direct! { if !x > 0.0 { broken(&x) } else { x } }
    }
    let error = around(&Layer::constant(1.0)).predict().wait().unwrap_err();
    assert_eq!(functions(error.calls()), ["around"]);
}

#[differentiable]
fn product(x: &NdLayer<Ix2, f64>, w: &NdWeight<Ix2, f64>) -> NdLayer<Ix2, f64> {
    x.matmul(w).tanh()
}

#[test]
fn deltas_have_place_and_calls_of_their_operation() {
    let line = line!();
    let (x, w) = (Weight::new(Nd::from([[1.0, 2.0]])), Weight::new(Nd::from([[0.5], [0.25]])));
    let loss = product(&x.layer(), &w).sum();
    let recorder = Recorder::new();
    loss.train(&Adam::new(0.1)).recorded(&recorder).wait().unwrap();
    let record = recorder.take().passes.swap_remove(0);
    let deltas: Vec<_> = record.nodes.iter().filter(|node| node.direction == Direction::Backward).collect();
    assert!(deltas.len() > 3, "{deltas:?}");
    for delta in &deltas {
        assert!(delta.place.file().ends_with("chains.rs"), "{delta:?}");
    }
    assert!(deltas.iter().any(|delta| delta.name.contains("matmul")), "{deltas:?}");
    for delta in deltas.iter().filter(|delta| delta.name.contains("matmul")) {
        assert_eq!((delta.place.line(), chain(delta.calls)), (line - 5, vec![("product", line + 2)]));
    }
    let forward = record.nodes.iter().filter(|node| node.direction == Direction::Forward);
    assert!(forward.map(|node| node.name).any(|name| name == "matmul"));
}
