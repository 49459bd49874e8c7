//! Records of networks: shapes, annotated functions, and branches that were taken.

use dl::prelude::*;
use dl::record::{Direction, NodeRecord, PassRecord, Recorder};

#[derive(Clone)]
struct Net {
    gate: NdWeight,
    sides: [NdWeight; 2],
    table: Weight<Table<f32>>,
}

impl Net {
    fn new() -> Net {
        let ones = |shape: (usize, usize)| Weight::new(Nd::from(dl::nd::ndarray::Array2::<f32>::ones(shape)));
        let table = Weight::new(Table::from(dl::nd::ndarray::Array2::<f32>::ones((10, 3))));
        Net { gate: ones((3, 2)), sides: [ones((3, 4)), ones((3, 4))], table }
    }
}

#[differentiable]
fn gated(x: NdLayer, net: &Net) -> NdLayer {
    let score = x.matmul(&net.gate).sum();
    if !score > 0.0 { side(x, &net.sides[0]) } else { side(-x, &net.sides[1]) }
}

#[differentiable]
fn side(x: NdLayer, weight: &NdWeight) -> NdLayer {
    x.matmul(weight).tanh()
}

fn train(sign: f32) -> PassRecord {
    let (recorder, net) = (Recorder::new(), Net::new());
    let words = net.table.embedding(vec![1, 2]);
    let loss = gated(sign * words, &net).square().sum();
    loss.train(&Sgd::new(0.1)).recorded(&recorder).wait().unwrap();
    recorder.take().passes.remove(0)
}

fn named<'a>(pass: &'a PassRecord, name: &str, direction: Direction) -> Vec<&'a NodeRecord> {
    pass.nodes.iter().filter(|node| node.name == name && node.direction == direction).collect()
}

#[test]
fn record_has_shapes_of_values() {
    let pass = train(1.0);
    let values =
        |name, direction| -> Vec<&str> { named(&pass, name, direction).iter().map(|node| &*node.value).collect() };
    assert_eq!(values("matmul", Direction::Forward), ["f32[2, 2]", "f32[2, 4]"]);
    let mut weights = values("weight", Direction::Forward);
    weights.sort_unstable();
    assert_eq!(weights, ["f32[10, 3] table", "f32[3, 2]", "f32[3, 4]"]);
    assert!(pass.nodes.iter().any(|node| node.value.ends_with(" rows of f32[10, 3]")), "{:?}", pass.nodes);
    let product = named(&pass, "matmul", Direction::Forward)[1];
    assert_eq!(product.bytes, 2 * 4 * 4);
}

#[test]
fn record_has_functions_and_taken_branches() {
    for (sign, arm) in [(1.0, 0), (-1.0, 1)] {
        let pass = train(sign);
        let [decision] = &pass.decisions[..] else { panic!("{:?}", pass.decisions) };
        assert_eq!((decision.branch.condition, decision.taken), ("!score > 0.0", arm));
        let body = &pass.nodes[decision.node.unwrap() as usize];
        assert_eq!((body.looked_at.len(), body.became.is_some()), (1, true));
        let functions: Vec<&str> =
            named(&pass, "matmul", Direction::Forward)[1].calls.frames().map(|call| call.function).collect();
        assert_eq!(functions, ["side", "gated"]);
        let backward = pass.nodes.iter().filter(|node| node.direction == Direction::Backward);
        assert!(backward.clone().count() > 3);
        assert!(backward.clone().all(|node| node.place.file() == file!()), "{:?}", backward.collect::<Vec<_>>());
    }
}
