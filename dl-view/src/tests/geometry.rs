//! Geometry of SVG output: it is well-formed, shapes are disjoint, text is inside its shape.

use super::all;
use crate::{Graph, text};
use roxmltree::{Document, Node};

/// Left, top, right, bottom.
type Bounds = [f64; 4];

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name} of {node:?}"))
}

fn rectangle(node: Node<'_, '_>) -> Bounds {
    let [x, y, width, height] = ["x", "y", "width", "height"].map(|name| number(node, name));
    [x, y, x + width, y + height]
}

/// The bounds of a rectangle, or of a path of straight lines.
fn bounds(shape: Node<'_, '_>) -> Bounds {
    if shape.has_tag_name("rect") || shape.tag_name().name() == "rect" {
        return rectangle(shape);
    }
    let path = shape.attribute("d").expect("a path");
    let numbers = path.split(|c: char| c.is_ascii_alphabetic() || c == ' ').filter_map(|n| n.parse::<f64>().ok());
    let points: Vec<f64> = numbers.collect();
    let (xs, ys) = (points.iter().step_by(2), points.iter().skip(1).step_by(2));
    let least = |numbers: &mut dyn Iterator<Item = &f64>| numbers.fold(f64::MAX, |a, b| a.min(*b));
    let most = |numbers: &mut dyn Iterator<Item = &f64>| numbers.fold(f64::MIN, |a, b| a.max(*b));
    [least(&mut xs.clone()), least(&mut ys.clone()), most(&mut xs.clone()), most(&mut ys.clone())]
}

fn is_class(node: &Node<'_, '_>, class: &str) -> bool {
    node.attribute("class").is_some_and(|classes| classes.split(' ').any(|known| known == class))
}

/// Panics if a picture is not well-formed, or if shapes overlap.
pub(super) fn check(name: &str, svg: &str) {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{name}: {error}"));
    let root = document.root_element();
    let view: Vec<f64> = root
        .attribute("viewBox")
        .expect("a view box")
        .split(' ')
        .map(|number| number.parse().expect("a number"))
        .collect();
    let items: Vec<Node<'_, '_>> = document.descendants().filter(|node| is_class(node, "item")).collect();
    let shape = |item: &Node<'_, '_>| bounds(item.children().find(|node| is_class(node, "shape")).expect("a shape"));
    let places: Vec<Bounds> = items.iter().map(shape).collect();
    for (index, place) in places.iter().enumerate() {
        let inside = place[0] >= -0.1 && place[1] >= -0.1 && place[2] <= view[2] && place[3] <= view[3];
        assert!(inside, "{name}: {place:?} is outside of {view:?}");
        for other in &places[..index] {
            let apart = place[0] >= other[2] || other[0] >= place[2] || place[1] >= other[3] || other[1] >= place[3];
            assert!(apart, "{name}: {place:?} and {other:?} overlap");
        }
    }
    for (item, place) in items.iter().zip(&places) {
        assert!(item.children().any(|node| node.tag_name().name() == "title"), "{name}: no tooltip in {item:?}");
        let is_diamond = is_class(item, "decision");
        for words in item.children().filter(|node| node.tag_name().name() == "text") {
            let (x, y, size) = (number(words, "x"), number(words, "y"), number(words, "font-size"));
            let half = text::width(words.text().unwrap_or_default(), size) / 2.0;
            // From the top of the letters to below the baseline.
            for (x, y) in [(x - half, y - 0.75 * size), (x + half, y - 0.75 * size), (x - half, y + 0.2 * size)] {
                let (across, down) =
                    ((x - (place[0] + place[2]) / 2.0).abs() * 2.0, (y - (place[1] + place[3]) / 2.0).abs() * 2.0);
                let (across, down) = (across / (place[2] - place[0]), down / (place[3] - place[1]));
                let far = if is_diamond { across + down } else { across.max(down) };
                assert!(far <= 1.001, "{name}: {:?} sticks out of {place:?}", words.text());
            }
        }
    }
}

#[test]
fn shapes_are_disjoint_and_contain_their_text() {
    for (name, record, backward) in all() {
        check(name, &Graph::of(&record).backward(backward).svg());
    }
}

#[test]
fn function_box_contains_its_items() {
    let svg = Graph::of(&crate::samples::gated()).svg();
    let document = Document::parse(&svg).expect("XML");
    let boxes: Vec<Bounds> = document.descendants().filter(|node| is_class(node, "box")).map(rectangle).collect();
    // The expert is nested in the net.
    let [outer, inner] = boxes[..] else { panic!("{boxes:?}") };
    assert!(outer[0] < inner[0] && outer[1] < inner[1] && outer[2] > inner[2] && outer[3] > inner[3]);
    let items = document.descendants().filter(|node| is_class(node, "item"));
    let within = |item: &Node<'_, '_>| {
        let place = bounds(item.children().find(|node| is_class(node, "shape")).expect("a shape"));
        inner[0] <= place[0] && inner[1] <= place[1] && inner[2] >= place[2] && inner[3] >= place[3]
    };
    // Two products, their weights, and the activation between them.
    assert_eq!(items.filter(within).count(), 5);
}
