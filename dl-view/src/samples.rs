//! Synthetic records for tests.

use dl_core::bang::function;
use dl_core::record::{Decision, Direction, NodeKind, NodeRecord, PassRecord, Span, SpanWork};
use dl_core::{Branch, Calls};
use std::panic::Location;
use std::time::Duration;

/// Builds a record. The operation at index `i` takes `1,000 + 10 · i` ns.
#[derive(Default)]
pub(crate) struct Sample {
    pub(crate) record: PassRecord,
    pub(crate) calls: Calls,
    pub(crate) direction: Option<Direction>,
}

impl Sample {
    #[track_caller]
    pub(crate) fn node(&mut self, kind: NodeKind, name: &'static str, operands: &[u32], value: &str) -> u32 {
        let index = self.record.nodes.len() as u32;
        let numbers: usize =
            value.split(|c: char| !c.is_ascii_digit()).skip(2).filter_map(|n| n.parse::<usize>().ok()).product();
        let mut node = NodeRecord::new(kind, name, Location::caller());
        (node.calls, node.direction) = (self.calls, self.direction.unwrap_or(Direction::Forward));
        (node.operands, node.value) = (operands.to_vec(), value.into());
        node.bytes = if value.is_empty() { 0 } else { 4 * numbers };
        self.record.nodes.push(node);
        if kind == NodeKind::Operation {
            let began = self.record.ended;
            self.record.ended += Duration::from_nanos(1_000 + 10 * u64::from(index));
            let ended = self.record.ended;
            self.record.spans.push(Span { work: SpanWork::Kernel, node: Some(index), thread: 0, began, ended });
        }
        index
    }

    #[track_caller]
    pub(crate) fn op(&mut self, name: &'static str, operands: &[u32], value: &str) -> u32 {
        self.node(NodeKind::Operation, name, operands, value)
    }

    #[track_caller]
    pub(crate) fn weight(&mut self, value: &str) -> u32 {
        self.node(NodeKind::Weight, "weight", &[], value)
    }

    /// Records a backward construction that starts from this loss.
    pub(crate) fn walk_back(&mut self, from: u32, time: Duration) {
        let (began, ended) = (self.record.ended, self.record.ended + time);
        self.record.spans.push(Span { work: SpanWork::Backward, node: Some(from), thread: 0, began, ended });
        self.record.ended = ended;
    }

    /// A body that extracted these layers, took these arms, and resolved to that layer.
    #[track_caller]
    pub(crate) fn body(
        &mut self,
        name: &'static str,
        looked_at: &[u32],
        ways: &[(&'static Branch, usize)],
        became: Option<u32>,
    ) -> u32 {
        let index = self.node(NodeKind::Decision, name, &[], "");
        let node = &mut self.record.nodes[index as usize];
        (node.looked_at, node.became) = (looked_at.to_vec(), became);
        // The number of extractions before a decision: all of them for the last, one less for each
        // decision before it.
        let looks = |way: usize| (looked_at.len() + way + 1).saturating_sub(ways.len()) as u32;
        let decision = |(way, &(branch, taken))| {
            let mut decision = Decision::new(branch, taken);
            (decision.node, decision.looked_at) = (Some(index), looks(way));
            decision
        };
        self.record.decisions.extend(ways.iter().enumerate().map(decision));
        index
    }
}

/// A call chain of these functions, outermost first.
pub(crate) fn calls(functions: &[&'static str]) -> Calls {
    match functions {
        [] => Calls::here(),
        [first, rest @ ..] => function("", first).run(|| calls(rest)),
    }
}

#[track_caller]
pub(crate) fn branch(condition: &'static str, arms: &'static [&'static str]) -> &'static Branch {
    Box::leak(Box::new(Branch { condition, arms, place: Location::caller() }))
}

/// A gated network in which the gate selected the left expert.
pub(crate) fn gated() -> PassRecord {
    let mut sample = Sample::default();
    let input = sample.node(NodeKind::Constant, "constant", &[], "f32[64]");
    let inside = calls(&["gated_net"]);
    sample.calls = inside;
    let gate = sample.weight("f32[64, 2]");
    let product = sample.op("matmul", &[input, gate], "f32[2]");
    let (left, right) = (sample.op("element", &[product], "f32"), sample.op("element", &[product], "f32"));
    sample.calls = calls(&["gated_net", "Expert::of"]);
    let (hidden, out) = (sample.weight("f32[64, 32]"), sample.weight("f32[32, 10]"));
    let first = sample.op("matmul", &[input, hidden], "f32[32]");
    let first = sample.op("relu", &[first], "f32[32]");
    let second = sample.op("matmul", &[first, out], "f32[10]");
    sample.calls = inside;
    let result = sample.op("mul", &[left, second], "f32[10]");
    let arms = &["scores.0 * net.left.of(input)", "scores.1 * net.right.of(input)"];
    sample.body("gated_net", &[left, right], &[(branch("left > right", arms), 0)], Some(result));
    sample.record
}

/// A decision tree of three levels.
pub(crate) fn tree() -> PassRecord {
    let mut sample = Sample::default();
    let features = sample.node(NodeKind::Constant, "constant", &[], "f64[3]");
    let is_above = branch("at < threshold", &["left.of(features)", "right.of(features)"]);
    let leaf = branch("self", &["Leaf(value)", "Split { .. }"]);
    let mut outer = Vec::new();
    for level in 1..=3 {
        sample.calls = calls(&["Tree::of"; 3][..level]);
        let feature = sample.op("element", &[features], "f64");
        outer.push(feature);
    }
    let value = sample.weight("f64");
    let result = sample.op("tanh", &[value], "f64");
    let mut became = sample.body("Tree::of", &[], &[(leaf, 0)], Some(result));
    for (level, feature) in outer.into_iter().enumerate().rev() {
        became = sample.body("Tree::of", &[feature], &[(is_above, level % 2)], Some(became));
    }
    sample.record
}

/// A loop of `count` rounds.
pub(crate) fn rounds(count: usize) -> PassRecord {
    let mut sample = Sample::default();
    let mut state = sample.node(NodeKind::Constant, "constant", &[], "f32[8]");
    sample.calls = calls(&["ponder"]);
    let (turn, stop) = (sample.weight("f32[8, 8]"), sample.weight("f32[8]"));
    let again = branch("!halt < 1.0", &["another round", "end"]);
    let (mut looked_at, mut ways) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let product = sample.op("matmul", &[state, turn], "f32[8]");
        state = sample.op("tanh", &[product], "f32[8]");
        looked_at.push(sample.op("dot", &[state, stop], "f32"));
        ways.push((again, 0));
    }
    ways.push((again, 1));
    sample.body("ponder", &looked_at, &ways, Some(state));
    sample.record
}

/// A net of `layers` blocks of four operations each, half of them in `encoder` and half in
/// `decoder`.
pub(crate) fn deep(layers: usize) -> PassRecord {
    let mut sample = Sample::default();
    let mut at = sample.node(NodeKind::Constant, "constant", &[], "f32[16, 64]");
    for layer in 0..layers {
        let half = if layer < layers / 2 { "encoder" } else { "decoder" };
        sample.calls = calls(&["net", half, "block"]);
        let (weight, bias) = (sample.weight("f32[64, 64]"), sample.weight("f32[64]"));
        let product = sample.op("matmul", &[at, weight], "f32[16, 64]");
        let sum = sample.op("add", &[product, bias], "f32[16, 64]");
        let active = sample.op("gelu", &[sum], "f32[16, 64]");
        at = sample.op("add", &[active, at], "f32[16, 64]");
    }
    sample.calls = calls(&["net"]);
    sample.op("sum", &[at], "f32");
    sample.record
}

/// A training step of a linear regression.
pub(crate) fn step() -> PassRecord {
    let mut sample = Sample::default();
    let input = sample.node(NodeKind::Constant, "constant", &[], "f32[16, 4]");
    let labels = sample.node(NodeKind::Constant, "constant", &[], "f32[16, 1]");
    sample.calls = calls(&["loss"]);
    let (weight, bias) = (sample.weight("f32[4, 1]"), sample.weight("f32[1]"));
    let product = sample.op("matmul", &[input, weight], "f32[16, 1]");
    let sum = sample.op("add", &[product, bias], "f32[16, 1]");
    let difference = sample.op("sub", &[sum, labels], "f32[16, 1]");
    let square = sample.op("mul", &[difference, difference], "f32[16, 1]");
    let loss = sample.op("mean", &[square], "f32");
    sample.walk_back(loss, Duration::from_micros(3));
    sample.direction = Some(Direction::Backward);
    let two = sample.node(NodeKind::Constant, "constant", &[], "f32");
    let delta = sample.op("mul", &[difference, two], "f32[16, 1]");
    sample.op("sum_to", &[delta], "f32[1]");
    sample.op("matmul", &[input, delta], "f32[4, 1]");
    let (began, ended) = (sample.record.ended, sample.record.ended + Duration::from_micros(2));
    sample.record.spans.push(Span { work: SpanWork::Commit, node: None, thread: 0, began, ended });
    sample.record.ended = ended;
    sample.record
}

/// A pass whose product failed.
pub(crate) fn failed() -> PassRecord {
    let mut sample = Sample::default();
    let (left, right) = (sample.weight("f32[4, 3]"), sample.weight("f32[4, 3]"));
    let product = sample.op("matmul", &[left, right], "");
    let message = "matmul: the inner sizes differ: f32[4, 3] and f32[4, 3], at src/main.rs:12:5 & that is <bad>";
    let relu = sample.op("relu", &[product], "");
    let sum = sample.op("sum", &[relu], "");
    // Nodes that depend on the failed value repeat its message.
    for node in [product, relu, sum] {
        sample.record.nodes[node as usize].failure = Some(message.into());
    }
    sample.record.spans.truncate(1);
    sample.record
}
