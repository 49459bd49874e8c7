//! Random, possibly inconsistent records.

use super::geometry::check;
use super::words::parse_dot;
use crate::samples::{self, Sample, branch};
use crate::{Costs, Graph, chrome_trace};
use dl_core::record::{Direction, NodeKind, PassRecord, Recording};
use proptest::prelude::*;

/// For each layer: its kind, operands, call chain, and the layer it resolves to.
type RandomNodes = Vec<(u8, Vec<u16>, u8, u16)>;

fn record(nodes: &RandomNodes) -> PassRecord {
    let mut sample = Sample::default();
    let functions = ["f", "g", "h"];
    let which = [branch("x > 1.0", &["left", "right"]), branch("match x", &["a", "b", "c", "d", "e", "f"])];
    for (kind, reads, calls, became) in nodes {
        let count = sample.record.nodes.len() as u32;
        let any = |read: &u16| u32::from(*read) % (count + 2);
        let reads: Vec<u32> = reads.iter().map(any).collect();
        let called = |function: u8| functions[usize::from(function + calls / 4) % 3];
        sample.calls = samples::calls(&(0..calls % 4).map(called).collect::<Vec<_>>());
        sample.direction = (kind % 11 == 10).then_some(Direction::Backward);
        match kind % 8 {
            0 => sample.weight(["f32[4]", "f64"][usize::from(*calls) % 2]),
            1 => sample.node(NodeKind::Constant, "constant", &reads, ["f32[4]", "f64"][usize::from(*calls) % 2]),
            2 => sample.node(NodeKind::Seed, "seed", &[], "u64"),
            3 | 4 => {
                let way = which[usize::from(*calls) % 2];
                let ways: Vec<_> = (0..kind % 3).map(|round| (way, usize::from(round ^ calls) % 2)).collect();
                sample.body("body", &reads, &ways, (became % 3 > 0).then(|| any(became)))
            }
            _ => sample.op(
                ["mul", "add", "sin"][usize::from(*kind) % 3],
                &reads,
                ["f32[4]", "f64"][usize::from(*calls) % 2],
            ),
        };
    }
    sample.record
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn inconsistent_record_is_drawn_without_panic(
        nodes in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u16>(), 0..4), any::<u8>(), any::<u16>()), 0..40),
        most in 4_usize..40,
        backward: bool,
    ) {
        let record = record(&nodes);
        let graph = Graph::of(&record).backward(backward).at_most(most);
        prop_assert!(graph.scene().items.len() <= most);
        check("random", &graph.svg());
        parse_dot("random", &graph.dot());
        let recording = Recording { passes: vec![record] };
        let costs = Costs::of(&recording);
        let work: u128 = recording.passes[0].spans.iter().map(|span| (span.ended - span.began).as_nanos()).sum();
        prop_assert_eq!(costs.time().as_nanos(), work);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&chrome_trace(&recording)).is_ok());
    }
}
