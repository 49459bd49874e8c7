//! Recorded nodes.

use super::support::{RULE, checked, counted, magnitude, names, node, record, twice};
use dl_core::record::{Direction, NodeKind, NodeRecord, Recorder};
use dl_core::{Differentiable, Do, Layer, Seed, Weight};
use dl_optim::Sgd;

#[test]
fn nodes_have_operands_values_and_places() {
    let w = Weight::new(3.0_f64);
    let (product, line) = (&w * 2.0, line!());
    let (value, pass) = record((&product + &product).predict());
    assert_eq!(value.unwrap(), 12.0);
    assert_eq!(names(&pass), ["weight", "mul", "add"]);
    let [weight, mul, add] = &pass.nodes[..] else { unreachable!() };
    assert_eq!((weight.kind, mul.kind), (NodeKind::Weight, NodeKind::Operation));
    assert_eq!((&mul.operands[..], &add.operands[..]), (&[0][..], &[1, 1][..]));
    assert_eq!((mul.place.file(), mul.place.line()), (file!(), line));
    assert_eq!((&add.value[..], add.bytes), ("f64", 8));
    assert!(pass.nodes.iter().all(|node| node.direction == Direction::Forward && node.failure.is_none()));
    assert!(pass.spans.is_empty(), "scalar arithmetic is evaluated during discovery");
}

#[test]
fn dynamic_node_records_reads_and_resolution() {
    let w = Weight::new(-3.0_f64);
    let x = twice(w.layer());
    let (value, pass) = record((magnitude(x) + 1.0).predict());
    assert_eq!(value.unwrap(), 7.0);
    let (twice, _) = node(&pass, "twice", Direction::Forward);
    let (neg, _) = node(&pass, "neg", Direction::Forward);
    let (decides, decision) = node(&pass, "differentiable function", Direction::Forward);
    assert_eq!(decision.kind, NodeKind::Decision);
    assert_eq!((&decision.looked_at[..], decision.became), (&[twice][..], Some(neg)));
    assert_eq!((&decision.value[..], decision.bytes), ("f64", 0));
    assert_eq!(node(&pass, "add", Direction::Forward).1.operands, [decides]);
}

#[test]
fn reads_of_driver_belong_to_no_node() {
    let w = Weight::new(2.0_f64);
    let (_, pass) = record(Do::predict((magnitude(w.layer()), w.sin())));
    assert_eq!(pass.nodes.iter().map(|node| node.looked_at.len()).sum::<usize>(), 1);
}

#[test]
fn deltas_have_place_of_their_operation() {
    let w = Weight::new(3.0_f64);
    let (sine, line) = (w.sin(), line!());
    let y = twice(sine);
    let (value, pass) = record((&y * &y).train(&Sgd::new(0.1)));
    assert_eq!(value.unwrap(), (2.0 * 3_f64.sin()).powi(2));
    let deltas: Vec<_> = pass.nodes.iter().filter(|node| node.direction == Direction::Backward).collect();
    assert!(deltas.iter().any(|node| node.name == "cos" && node.place.line() == line), "{deltas:?}");
    let (own, others): (Vec<&NodeRecord>, Vec<&NodeRecord>) =
        deltas.into_iter().partition(|node| node.place.file() == RULE);
    assert_eq!(own.iter().map(|node| node.name).collect::<Vec<_>>(), ["mul"], "deltas of a user rule have its place");
    assert!(others.iter().all(|node| node.place.file() == file!()), "{others:?}");
    let forward: Vec<_> = pass.nodes.iter().filter(|node| node.direction == Direction::Forward).collect();
    assert_eq!(forward.iter().map(|node| node.name).collect::<Vec<_>>(), ["weight", "sin", "twice", "mul"]);
}

#[test]
fn gradient_in_training_pass_has_forward_and_backward_nodes() {
    let w = Weight::new(3.0_f64);
    let y = twice(w.layer());
    let slope = (&y * &y).gradient(&w);
    let ((value, counters), pass) = {
        let (value, pass) = record((slope.square() + 1.0).train(&Sgd::new(0.0)).counted());
        (value.unwrap(), pass)
    };
    assert_eq!(value, 24.0 * 24.0 + 1.0);
    assert_eq!(counted(&pass), counters.nodes);
    let backward = |direction| pass.nodes.iter().filter(move |node| node.direction == direction);
    assert_eq!(backward(Direction::Forward).filter(|node| node.name == "twice").count(), 1);
    let stray: Vec<_> =
        backward(Direction::Backward).filter(|node| ![file!(), RULE].contains(&node.place.file())).collect();
    assert!(stray.is_empty(), "{stray:?}");
    assert!(backward(Direction::Backward).count() > 2);
}

#[test]
fn gradient_in_prediction_is_recorded_as_nested_pass() {
    let (recorder, w) = (Recorder::new(), Weight::new(3.0_f64));
    let y = twice(w.layer());
    assert_eq!((&y * &y).gradient(&w).predict().recorded(&recorder).wait().unwrap(), 24.0);
    let recording = checked(recorder.take());
    let [around, inside] = &recording.passes[..] else { panic!("{recording:?}") };
    assert!(around.began <= inside.began && inside.ended <= around.ended);
    assert!(names(inside).contains(&"twice") && !names(around).contains(&"twice"));
}

#[test]
fn seeds_and_constants_are_recorded() {
    let noise = Seed::draw();
    let w = Layer::constant(1.0_f64) + 1.0;
    let (_, pass) = record(Do::predict((noise, w)).seed(1));
    let kinds: Vec<NodeKind> = pass.nodes.iter().map(|node| node.kind).collect();
    assert!(kinds.contains(&NodeKind::Seed) && kinds.contains(&NodeKind::Constant), "{kinds:?}");
}

#[test]
fn discarded_checkpoint_values_are_recorded() {
    let w = Weight::new(0.5_f64);
    let y = (0..9).fold(w.layer(), |y, at| if at % 3 == 2 { twice(y).checkpoint() } else { twice(y) });
    let (value, pass) = record((&y * &y).train(&Sgd::new(0.1)));
    assert_eq!(value.unwrap(), 256.0 * 256.0);
    assert!(pass.nodes.iter().all(|node| node.value == "f64" || node.kind == NodeKind::Decision), "{:?}", pass.nodes);
    assert_eq!(pass.nodes.iter().filter(|node| node.name == "twice").count(), 9);
}

#[test]
fn swept_nodes_of_long_pass_are_recorded() {
    const ROUNDS: usize = 100_000;
    let x = Weight::new(1.0_f64);
    let run = Layer::dynamic(move || {
        let x = x.clone();
        async move {
            let mut y = x.layer();
            for _ in 0..ROUNDS {
                y = Layer::constant((&y + 1.0).extract().await?);
            }
            Ok(y)
        }
    });
    let (ended, pass) = record(run.predict().counted());
    let (value, counters) = ended.unwrap();
    assert_eq!(value, 1.0 + ROUNDS as f64);
    assert_eq!(counted(&pass), counters.nodes);
    let (_, body) = node(&pass, "differentiable function", Direction::Forward);
    assert_eq!(body.looked_at.len(), ROUNDS);
    assert_eq!(pass.nodes.iter().filter(|node| node.name == "add" && node.operands.len() == 1).count(), ROUNDS);
}
