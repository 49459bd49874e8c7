//! Graphs, costs and traces of recorded passes.

use dl::prelude::*;
use dl::record::{Direction, NodeKind, PassRecord, Recorder, Recording, Span, SpanWork};
use dl::view::{Costs, Graph, chrome_trace};
use dl::{At, Primitive, Result};
use serde_json::Value;
use std::time::Duration;

#[differentiable]
fn steep(x: &Layer<f64>, slope: &Weight<f64>) -> Layer<f64> {
    let scaled = x * slope;
    if !scaled > 1.0 { scaled.exp() } else { scaled.sin() }
}

#[differentiable]
fn outer(x: &Layer<f64>, slope: &Weight<f64>) -> Layer<f64> {
    steep(x, slope) + 1.0
}

/// Halves `x` until it is at most 1.
#[differentiable]
fn halved(x: &Layer<f64>) -> Layer<f64> {
    let mut rest = x.clone();
    while !rest > 1.0 {
        rest = rest * 0.5;
    }
    rest
}

fn recorded<T: Send + 'static>(run: &Do<T>) -> (Result<T>, Recording) {
    let recorder = Recorder::new();
    let result = run.clone().recorded(&recorder).wait();
    (result, recorder.take())
}

fn matrix(shape: [usize; 2]) -> NdWeight {
    Weight::new(Nd::from_vec(shape, vec![0.5; shape[0] * shape[1]]).expect("as many"))
}

#[test]
fn graph_names_taken_arm_and_not_untaken_operations() {
    let slope = Weight::new(2.0);
    let dot = outer(&(3.0 * &slope), &slope).graph().wait().expect("a picture").dot();
    let [taken, untaken, condition] = ["\"scaled.exp()\"", "\"scaled.sin()\"", "\"!scaled > 1.0\""]
        .map(|label| dot.lines().find(|line| line.contains(label)).unwrap_or_else(|| panic!("{label}: {dot}")));
    assert!(!taken.contains("dashed") && untaken.contains("dashed") && condition.contains("shape=diamond"));
    // a label has the time or the bytes below the name of the operation
    assert!(dot.contains("[label=\"exp") && !dot.contains("[label=\"sin"), "{dot}");
    assert!(dot.contains("tests/view.rs:") && dot.contains("in `steep`") && dot.contains("in `outer`"), "{dot}");
}

#[test]
fn loop_iterations_are_recorded() {
    let weight = Weight::new(20.0);
    let (value, recording) = recorded(&halved(&weight.layer()).predict());
    assert_eq!(value.expect("a number"), 0.625);
    let costs = Costs::of(&recording);
    let [branch] = &costs.branches[..] else { panic!("{costs}") };
    let taken: Vec<usize> = branch.arms.iter().map(|(_, taken)| *taken).collect();
    assert_eq!((branch.condition.as_str(), taken), ("!rest > 1.0", vec![5, 1]));
    // each iteration reads the value of the previous one
    let looks: Vec<u32> = recording.passes[0].decisions.iter().map(|decision| decision.looked_at).collect();
    assert_eq!(looks, [1, 2, 3, 4, 5, 6]);
    let halving = costs.lines.iter().find(|line| line.evaluations == 5).expect("five rounds");
    assert!(halving.source.as_deref().is_none_or(|source| source == "rest = rest * 0.5;"), "{halving:?}");
}

#[test]
fn costs_are_per_line_forward_and_backward() {
    let (a, b) = (matrix([64, 64]), matrix([64, 64]));
    let sum = a.matmul(&b).sum(); // this line
    let line = line!() - 1;
    let (loss, recording) = recorded(&sum.train(&Sgd::new(0.1)));
    loss.expect("a step");
    let costs = Costs::of(&recording);
    let cost = costs.lines.iter().find(|cost| cost.line == line).unwrap_or_else(|| panic!("{costs}"));
    assert_eq!((cost.file.as_str(), cost.evaluations, cost.deltas), (file!(), 2, 2));
    assert!(!cost.forward.is_zero() && cost.bytes >= 4 * 64 * 64, "{costs}");
    assert!(costs.runtime.iter().any(|row| row.what == "optimizer steps"), "{costs}");
    let [pass] = &recording.passes[..] else { panic!("{recording:?}") };
    assert!(pass.nodes.iter().any(|node| node.direction == Direction::Backward));
    check_backward_row(&costs, pass);
    assert!(!cost.backward.is_zero(), "{costs}");
    let head = Graph::of(pass).title("").dot();
    assert!(head.contains("The backward pass is not drawn"), "{head}");
}

/// The construction of the backward has a row of its own. Forward times include forward nodes only.
fn check_backward_row(costs: &Costs, pass: &PassRecord) {
    let took = |chosen: &dyn Fn(&Span) -> bool| -> Duration {
        pass.spans.iter().filter(|span| chosen(span)).map(|span| span.ended - span.began).sum()
    };
    let walks =
        costs.runtime.iter().find(|row| row.what == "backward construction").unwrap_or_else(|| panic!("{costs}"));
    let written = took(&|span| span.work == SpanWork::Backward);
    assert!(walks.times == 1 && !walks.time.is_zero() && walks.time <= written, "{costs}");
    let forward = took(&|span| {
        let node = span.node.map(|node| &pass.nodes[node as usize]);
        span.work != SpanWork::Backward && node.is_some_and(|node| node.direction == Direction::Forward)
    });
    assert!(costs.lines.iter().map(|line| line.forward).sum::<Duration>() <= forward, "{costs}");
}

#[test]
fn scalar_backward_has_cost_row() {
    let weight = Weight::new(3.0_f64);
    let (loss, recording) = recorded(&(&weight * &weight).train(&Sgd::new(0.1)));
    loss.expect("a step");
    let costs = Costs::of(&recording);
    check_backward_row(&costs, &recording.passes[0]);
    assert!(costs.lines.iter().all(|line| line.time().is_zero()), "{costs}");
    let trace: Value = serde_json::from_str(&chrome_trace(&recording)).expect("JSON");
    let walk = trace["traceEvents"].as_array().expect("events").iter().find(|event| event["cat"] == "backward");
    let walk = walk.expect("a walk");
    assert_eq!((&walk["name"], &walk["args"]["direction"]), (&"backward".into(), &"backward".into()));
}

#[test]
fn graph_of_failed_pass_marks_failed_node() {
    let (a, b) = (matrix([2, 3]), matrix([2, 3]));
    let (result, recording) = recorded(&a.matmul(&b).relu().predict());
    let error = result.expect_err("the sizes differ");
    let svg = Graph::of(&recording.passes[0]).svg();
    assert!(error.is_shape() && svg.contains("item operation failed") && svg.contains("matmul"), "{svg}");
    // the product has failed; its consumer was not computed
    assert_eq!(
        (svg.matches("item operation failed").count(), svg.matches("item not-computed").count()),
        (1, 1),
        "{svg}"
    );
    assert!(a.matmul(&b).graph().wait().expect_err("the sizes differ").is_shape());
}

/// An operation that sleeps.
struct Pause;

impl Primitive for Pause {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "pause"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        std::thread::sleep(Duration::from_millis(30));
        Ok(*x)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        1e9
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(at.delta.clone()),)
    }
}

#[test]
fn spans_of_two_threads_overlap_in_trace() {
    let (a, b) = (Weight::new(1.0), Weight::new(2.0));
    let branches = Layer::apply(Pause, (a.layer(),)) + Layer::apply(Pause, (b.layer(),));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    let (value, recording) = pool.install(|| recorded(&branches.predict()));
    assert_eq!(value.expect("a number"), 3.0);
    let trace: Value = serde_json::from_str(&chrome_trace(&recording)).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let pauses: Vec<(u64, f64, f64)> = events
        .iter()
        .filter(|event| event["name"] == "pause" && event["ph"] == "X")
        .map(|event| (event["tid"].as_u64(), event["ts"].as_f64(), event["dur"].as_f64()))
        .map(|(thread, began, took)| (thread.expect("a thread"), began.expect("a time"), took.expect("a time")))
        .collect();
    let [(first, began, took), (second, other_began, other_took)] = pauses[..] else { panic!("{events:?}") };
    assert!(first != second && began < other_began + other_took && other_began < began + took, "{pauses:?}");
    assert!(took >= 30_000.0 && other_took >= 30_000.0, "{pauses:?}");
    // 60 ms of work in less elapsed time
    let costs = Costs::of(&recording);
    assert!(costs.time() >= Duration::from_millis(60) && costs.elapsed < costs.time(), "{costs}");
}

macro_rules! choices {
    ($x:ident: $($name:ident $large:expr, $small:expr;)*) => {$(
        #[differentiable]
        fn $name($x: &Layer<f64>) -> Layer<f64> {
            if !$x > 0.0 { $large } else { $small }
        }
    )*};
}

choices! { x: waves x.sin(), x.cos(); grows x.exp(), x * 2.0; }

#[test]
fn functions_of_one_macro_call_have_separate_branches() {
    let weight = Weight::new(1.0);
    let (value, recording) = recorded(&(waves(&weight.layer()) + grows(&(-&weight))).predict());
    assert_eq!(value.expect("a number"), 1_f64.sin() - 2.0);
    let costs = Costs::of(&recording);
    let arms: Vec<Vec<(&str, usize)>> =
        costs.branches.iter().map(|branch| branch.arms.iter().map(|(arm, taken)| (&**arm, *taken)).collect()).collect();
    assert_eq!(arms, [[("x.exp()", 0), ("x * 2.0", 1)], [("x.sin()", 1), ("x.cos()", 0)]]);
    let places: Vec<(u32, u32)> = costs.branches.iter().map(|branch| (branch.line, branch.column)).collect();
    assert_eq!(places[0], places[1], "{costs}");
}

#[test]
fn graph_of_gradient_shows_forward_and_backward() {
    let weight = matrix([2, 3]);
    let squares = (&weight * &weight).sum();
    let slope = squares.gradient(&weight); // this line
    let line = line!() - 1;
    let dot = slope.graph().wait().expect("a picture").dot();
    for name in ["mul", "sum", "expand"] {
        assert!(dot.contains(&format!("[label=\"{name}")), "{name}: {dot}");
    }
    // with consumers of the gradient, also in a pass that retains its values
    for around in [slope.sin(), slope.sin().keeping_values()] {
        let dot = around.graph().wait().expect("a picture").dot();
        assert!(["sin", "sum", "expand"].iter().all(|name| dot.contains(&format!("[label=\"{name}"))), "{dot}");
        assert!(!dot.to_lowercase().contains("derivative"), "{dot}");
        let (_, recording) = recorded(&around.predict());
        let nodes: Vec<_> = recording.passes.iter().flat_map(|pass| &pass.nodes).collect();
        let inside = nodes.iter().find(|node| node.place.file() != file!());
        assert!(inside.is_none(), "{inside:?}");
        assert!(nodes.iter().any(|node| node.name == "derivative" && node.place.line() == line), "{nodes:?}");
    }
}

#[test]
fn body_has_name_of_its_function() {
    let slope = Weight::new(2.0);
    let (value, recording) = recorded(&outer(&(3.0 * &slope), &slope).predict());
    assert!(value.is_ok());
    let body =
        recording.passes[0].nodes.iter().find(|node| node.kind == NodeKind::Decision).expect("there is a dynamic node");
    assert_eq!(body.name, "steep");
    assert!(Graph::of(&recording.passes[0]).dot().contains("body of `steep`: tests/view.rs"));
    let trace = chrome_trace(&recording);
    assert!(trace.contains("\"name\":\"steep\"") && !trace.contains("differentiable function"), "{trace}");
    // an error names the function, too
    let error = risky(&slope.layer()).predict().wait().expect_err("the body panics");
    assert_eq!(error.op(), Some("risky"));
}

#[differentiable]
fn risky(x: &Layer<f64>) -> Layer<f64> {
    if !x > 0.0 { panic!("too large") } else { x.sin() }
}

#[derive(Module)]
struct Line {
    slope: NdWeight,
    offset: NdWeight,
}

#[test]
fn weights_have_paths_in_graph() {
    let net = Line { slope: matrix([3, 2]), offset: matrix([1, 2]) };
    let other = matrix([2, 2]);
    let y = (other.matmul(&matrix([2, 3])).matmul(&net.slope) + &net.offset).sum();
    let graph = y.graph().wait().expect("a picture");
    let weights = |dot: &str, name: &str| dot.matches(&format!("[label=\"{name}\\n")).count();
    let (plain, named) = (graph.dot(), graph.clone().named(&net).dot());
    let count = |dot: &str| ["weight", "slope", "offset"].map(|name| weights(dot, name));
    assert_eq!((count(&plain), count(&named)), ([4, 0, 0], [2, 1, 1]), "{named}");
    // a box for several weights lists their paths in its tooltip
    let sum = (&net.slope + &net.offset).sin().sum();
    let folded = sum.graph().wait().expect("a picture").named(&net).at_most(4).dot();
    assert!(folded.contains("weight ×2") && folded.contains("slope, offset"), "{folded}");
}

#[differentiable(compiled)]
fn squashed(x: &NdLayer, w: &NdWeight) -> (NdLayer, NdLayer) {
    let y = x.matmul(w).tanh();
    (y.sigmoid(), y)
}

#[test]
fn call_of_compiled_function_is_a_box_that_opens() {
    let (x, w) = (matrix([2, 2]).layer(), matrix([2, 2]));
    for _ in 0..2 {
        let (a, b) = squashed(&x, &w);
        let (sum, recording) = recorded(&(a + b).predict());
        sum.expect("a matrix");
        let graph = Graph::of(&recording.passes[0]);
        let dot = graph.dot();
        for name in ["matmul", "tanh", "sigmoid", "squashed", "result"] {
            assert!(dot.contains(&format!("label=\"{name}")), "{name}: {dot}");
        }
        assert_eq!(dot.matches("subgraph").count(), 1, "{dot}");
        let closed = graph.at_most(4).dot();
        assert!(closed.contains("ƒ squashed") && !closed.contains("label=\"tanh"), "{closed}");
    }
}
