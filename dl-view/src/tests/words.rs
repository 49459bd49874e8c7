//! The text and the structure of pictures.

use super::all;
use crate::Graph;
use crate::samples::{self, Sample, branch};
use crate::scene::{Flow, Look, Outcome, Scene};
use dl_core::record::NodeKind;
use layout::gv::DotParser;
use roxmltree::Document;

/// The names of the source and target items of the edges of this kind.
fn edges(scene: &Scene, flow: Flow) -> Vec<(String, String)> {
    let name = |item: usize| scene.items[item].name.join(" ");
    let of_flow = scene.edges.iter().filter(|edge| edge.flow == flow);
    of_flow.map(|edge| (name(edge.from), name(edge.to))).collect()
}

fn pair(from: &str, to: &str) -> (String, String) {
    (from.to_string(), to.to_string())
}

#[test]
fn decision_has_edges_from_extracted_values_and_to_arms() {
    let scene = Graph::of(&samples::gated()).scene();
    let (left, right) = ("scores.0 * net.left.of(input)", "scores.1 * net.right.of(input)");
    assert_eq!(edges(&scene, Flow::Extracted), [pair("element", "left > right"), pair("element", "left > right")]);
    let mut ways = edges(&scene, Flow::Control);
    ways.sort();
    assert_eq!(ways, [pair("left > right", left), pair("left > right", right), pair(left, "mul")]);
    let look = |name: &str| scene.items.iter().find(|item| item.name == [name]).map(|item| item.look);
    assert_eq!((look(left), look(right)), (Some(Look::Taken), Some(Look::NotTaken)));
    // The computation of the expert is placed below the arm.
    let below = edges(&scene, Flow::Rank);
    assert!(below.contains(&pair(left, "weight")), "{below:?}");
    let shapes: Vec<&str> =
        scene.edges.iter().map(|edge| edge.label.as_str()).filter(|label| !label.is_empty()).collect();
    assert_eq!(shapes.iter().filter(|shape| **shape == "f32[32]").count(), 2);
}

#[test]
fn arm_that_returns_earlier_value_leads_to_readers() {
    let mut sample = Sample::default();
    let weight = sample.weight("f64");
    let twice = sample.op("mul", &[weight, weight], "f64");
    let which = branch("!twice > 1.0", &["twice", "-twice"]);
    let body = sample.body("chosen", &[twice], &[(which, 0)], Some(twice));
    sample.op("sin", &[body], "f64");
    let scene = Graph::of(&sample.record).scene();
    let ways = edges(&scene, Flow::Control);
    assert!(ways.contains(&pair("twice", "sin")) && !ways.contains(&pair("twice", "mul")), "{ways:?}");
    assert!(edges(&scene, Flow::Data).contains(&pair("mul", "sin")));
}

#[test]
fn scalar_constants_are_drawn_only_as_results() {
    let mut sample = Sample::default();
    let (one, two) = (
        sample.node(NodeKind::Constant, "constant", &[], "f64"),
        sample.node(NodeKind::Constant, "constant", &[], "f64"),
    );
    let weight = sample.weight("f64");
    let sum = sample.op("add", &[weight, one], "f64");
    sample.body("chosen", &[sum], &[(branch("!sum > 1.0", &["1.0", "2.0"]), 1)], Some(two));
    let scene = Graph::of(&sample.record).scene();
    assert_eq!(scene.items.iter().filter(|item| item.look == Look::Constant).count(), 1);
    assert!(edges(&scene, Flow::Control).contains(&pair("2.0", "value")));
}

#[test]
fn backward_pass_is_drawn_on_request() {
    let step = Graph::of(&samples::step());
    let backward = |graph: &Graph| graph.scene().items.iter().filter(|item| item.look == Look::Backward).count();
    assert_eq!((backward(&step), backward(&step.clone().backward(true))), (0, 3));
    // 3.33 µs of kernels and 3 µs of backward construction.
    assert!(step.scene().head.contains(&"The backward pass is not drawn: 4 deltas, 6.33 µs.".to_string()));
    // The construction does not count as time of the loss.
    let loss = step.scene().items.into_iter().find(|item| item.name == ["mean"]).expect("it is drawn");
    assert!(loss.hover.contains("1080 ns"), "{}", loss.hover);
}

#[test]
fn failed_layer_is_marked_with_its_message() {
    let svg = Graph::of(&samples::failed()).svg();
    let document = Document::parse(&svg).expect("XML");
    let failed: Vec<_> =
        document.descendants().filter(|node| node.attribute("class") == Some("item operation failed")).collect();
    let words: String = failed[0].descendants().filter_map(|node| node.text()).collect();
    assert!(failed.len() == 1 && words.contains("the inner sizes differ") && words.contains("<bad>"), "{words}");
    // The consumer has the same message in the record, but did not fail itself.
    let scene = Graph::of(&samples::failed()).scene();
    let relu = scene.items.iter().find(|item| item.name == ["relu"]).expect("it is drawn");
    assert_eq!((relu.outcome, &relu.details[..]), (Outcome::NotComputed, &["not computed".to_string()][..]));
    assert_eq!(svg.matches("item not-computed").count(), 2);
}

#[test]
fn failed_body_has_edge_from_arm_to_reader() {
    let mut sample = Sample::default();
    let weight = sample.weight("f64");
    let body = sample.body("risky", &[weight], &[(branch("!w > 1.0", &["w", "-w"]), 0)], None);
    sample.record.nodes[body as usize].failure = Some("panicked: no".into());
    let sin = sample.op("sin", &[body], "");
    sample.record.nodes[sin as usize].failure = Some("panicked: no".into());
    let scene = Graph::of(&sample.record).scene();
    assert!(scene.items.iter().any(|item| item.outcome == Outcome::Failed && item.look == Look::Decision));
    assert!(edges(&scene, Flow::Control).contains(&pair("w", "sin")));
}

#[test]
fn invalid_indices_are_ignored() {
    let mut sample = Sample::default();
    let op = sample.op("mul", &[7, 8], "f64");
    sample.body("odd", &[9, op], &[(branch("x", &["y"]), 3)], Some(99));
    sample.record.decisions[0].node = Some(77);
    sample.record.nodes[op as usize].became = Some(op);
    Graph::of(&sample.record).svg();
}

#[test]
fn many_arms_not_taken_share_one_stub() {
    let mut sample = Sample::default();
    let weight = sample.weight("i32");
    let which = branch("!w", &["0", "1", "2", "3", "4", "5", "6"]);
    sample.body("chosen", &[weight], &[(which, 2)], Some(weight));
    let dot = Graph::of(&sample.record).dot();
    assert!(dot.contains("\"6 other arms\"") && dot.contains("label=\"2\""), "{dot}");
}

#[test]
fn special_characters_in_conditions_are_escaped() {
    let condition = "a < b && c > \"d\\n\" && e == '\u{1}' && f.len() as f64 <= 'ü' & 漢字";
    let mut sample = Sample::default();
    let weight = sample.weight("f64");
    sample.body("odd <T>", &[weight], &[(branch(condition, &["\"<x>\"", "]]>", "{}|"]), 0)], Some(weight));
    let graph = Graph::of(&sample.record).title("<&\">");
    let svg = graph.svg();
    let document = Document::parse(&svg).expect("XML");
    let texts: String = document.descendants().filter_map(|node| node.text()).collect();
    assert!(texts.contains("a < b && c > \"d\\n\"") && texts.contains("]]>") && texts.contains("<&\">"), "{texts}");
    parse_dot("conditions", &graph.dot());
}

#[test]
fn css_and_ids_are_scoped_to_the_picture() {
    let svg = Graph::of(&samples::gated()).svg();
    let document = Document::parse(&svg).expect("XML");
    let root = document.root_element();
    assert_eq!(root.attribute("class"), Some("dl-picture"));
    let style = root.children().find(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "style")));
    let rules: Vec<&str> = style.and_then(|style| style.text()).expect("rules").split_terminator('}').collect();
    let selectors = rules.iter().flat_map(|rule| rule.split('{').next().unwrap_or_default().split(','));
    let mut loose = selectors.filter(|selector| !selector.starts_with(".dl-picture "));
    assert!(rules.len() > 15 && loose.next().is_none(), "{rules:?}");
    let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    assert!(ids.len() == 4 && ids.iter().all(|id| id.starts_with("dl-picture-")), "{ids:?}");
    let used = document.descendants().filter_map(|node| node.attribute("marker-end"));
    assert!(used.map(|used| used.trim_start_matches("url(#").trim_end_matches(')')).all(|used| ids.contains(&used)));
}

/// Parses DOT with an independent parser.
pub(super) fn parse_dot(name: &str, dot: &str) {
    if let Err(error) = DotParser::new(dot).process() {
        panic!("{name}: {error}\n{dot}");
    }
}

#[test]
fn dot_is_accepted_by_independent_parser() {
    for (name, record, backward) in all() {
        parse_dot(name, &Graph::of(&record).backward(backward).dot());
    }
}

/// If Graphviz is installed, it must accept the output, too.
#[test]
fn dot_is_accepted_by_graphviz_if_installed() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    for (name, record, backward) in all() {
        let command =
            Command::new("dot").arg("-Tsvg").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let Ok(mut dot) = command else { return };
        let mut input = dot.stdin.take().expect("an input");
        input.write_all(Graph::of(&record).backward(backward).dot().as_bytes()).expect("it reads");
        drop(input);
        let output = dot.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
