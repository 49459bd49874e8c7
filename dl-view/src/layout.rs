//! Positions of items, edges and boxes: a layered layout, top to bottom, computed by `dagre`.

use crate::scene::{Flow, Look, Scene};
use crate::text;
use dagre::graph::{Graph, GraphOptions};
use dagre::layout::types::LabelPos;
use dagre::{EdgeLabel, LayoutOptions, NodeLabel};

/// Font sizes of names and details, in pixels.
pub(crate) const NAME: f64 = 13.0;
pub(crate) const DETAIL: f64 = 11.0;
/// Line height relative to the font size.
pub(crate) const LINE: f64 = 1.35;
/// Horizontal and vertical distance between the text and the border of an item.
const MARGIN: (f64, f64) = (11.0, 7.0);
/// Height reserved for the name of a function at the top of its box.
pub(crate) const BOX_TITLE: f64 = 18.0;

/// In pixels; y grows downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rectangle {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

pub(crate) type Point = (f64, f64);

/// The positions of the items, edges and boxes of a scene.
#[derive(Default)]
pub(crate) struct Layout {
    pub(crate) items: Vec<Rectangle>,
    /// The routes of the visible edges.
    pub(crate) edges: Vec<Route>,
    pub(crate) boxes: Vec<Rectangle>,
    pub(crate) size: Point,
}

pub(crate) struct Route {
    /// The index of the edge in the scene.
    pub(crate) edge: usize,
    pub(crate) points: Vec<Point>,
    /// The centre of its label.
    pub(crate) label: Option<Point>,
}

impl Rectangle {
    pub(crate) fn centre(&self) -> Point {
        (self.left + self.width / 2.0, self.top + self.height / 2.0)
    }

    fn around(centre: Point, (width, height): Point) -> Rectangle {
        Rectangle { left: centre.0 - width / 2.0, top: centre.1 - height / 2.0, width, height }
    }
}

/// The size of the text of an item.
pub(crate) fn text_size(name: &[String], details: &[String]) -> Point {
    let widest = |lines: &[String], size| lines.iter().map(|line| text::width(line, size)).fold(0.0, f64::max);
    let width = widest(name, NAME).max(widest(details, DETAIL));
    (width, LINE * (NAME * name.len() as f64 + DETAIL * details.len() as f64))
}

/// The size of an item.
fn size(scene: &Scene, item: usize) -> Point {
    let item = &scene.items[item];
    let (width, height) = text_size(&item.name, &item.details);
    match item.look {
        // Flat, so that a long condition does not make it high. A text of (w, h) fits into a
        // diamond of (W, H) if w/W + h/H ≤ 1.
        Look::Decision => {
            let room = 3.0 * (height + 4.0);
            ((width + 6.0) * 1.5, room)
        }
        _ => ((width + 2.0 * MARGIN.0).max(56.0), height + 2.0 * MARGIN.1),
    }
}

pub(crate) fn layout(scene: &Scene) -> Layout {
    if scene.items.is_empty() {
        return Layout::default();
    }
    let mut graph: Graph<NodeLabel, EdgeLabel> =
        Graph::with_options(GraphOptions { directed: true, multigraph: true, compound: !scene.boxes.is_empty() });
    let (item_name, box_name) = (|item: usize| format!("item{item}"), |inside: usize| format!("box{inside}"));
    for item in 0..scene.items.len() {
        let (width, height) = size(scene, item);
        graph.set_node(item_name(item), Some(NodeLabel { width, height, ..NodeLabel::default() }));
    }
    for (inside, function) in scene.boxes.iter().enumerate() {
        graph.set_node(box_name(inside), Some(NodeLabel::default()));
        if let Some(outer) = function.within {
            graph.set_parent(&box_name(inside), Some(&box_name(outer)));
        }
    }
    for (item, inside) in scene.items.iter().enumerate().filter_map(|(item, of)| Some((item, of.within?))) {
        graph.set_parent(&item_name(item), Some(&box_name(inside)));
    }
    for (index, edge) in scene.edges.iter().enumerate() {
        let mut label = EdgeLabel { labelpos: LabelPos::Center, ..EdgeLabel::default() };
        label.weight = match edge.flow {
            Flow::Data => 2,
            Flow::Control => 3,
            Flow::Extracted | Flow::Rank => 1,
        };
        if !edge.label.is_empty() {
            (label.width, label.height) = (text::width(&edge.label, DETAIL) + 6.0, DETAIL * LINE);
        }
        graph.set_edge(item_name(edge.from), item_name(edge.to), Some(label), Some(&index.to_string()));
    }
    let options = LayoutOptions { nodesep: 26.0, edgesep: 14.0, ranksep: 40.0, ..LayoutOptions::default() };
    dagre::layout(&mut graph, Some(options));

    let place = |name: &str, size: Option<Point>| {
        let node = graph.node(name)?;
        let size = size.unwrap_or((node.width, node.height));
        Some(Rectangle::around((node.x?, node.y?), size))
    };
    let of_item = |item: usize| place(&item_name(item), Some(size(scene, item))).unwrap_or_default();
    let items: Vec<Rectangle> = (0..scene.items.len()).map(of_item).collect();
    let boxes = (0..scene.boxes.len()).map(|inside| place(&box_name(inside), None).unwrap_or_default()).collect();
    let route = |(index, edge): (usize, &crate::scene::Edge)| {
        if edge.flow == Flow::Rank {
            return None;
        }
        let name = index.to_string();
        let placed = graph.edge(&item_name(edge.from), &item_name(edge.to), Some(&name))?;
        let mut points: Vec<Point> = placed.points.iter().map(|point| (point.x, point.y)).collect();
        if points.len() < 2 {
            return None;
        }
        let label = (!edge.label.is_empty()).then(|| placed.x.zip(placed.y)).flatten();
        let last = points.len() - 1;
        points[0] = border(scene, &items, edge.from, points[1]);
        points[last] = border(scene, &items, edge.to, points[last - 1]);
        let (leaves, arrives) = (upright(points[0], points[1]), upright(points[last], points[last - 1]));
        points.splice(last..last, arrives);
        points.splice(1..1, leaves);
        Some(Route { edge: index, points, label })
    };
    let edges = scene.edges.iter().enumerate().filter_map(route).collect();
    let mut layout = Layout { items, edges, boxes, size: (0.0, 0.0) };
    layout.fit();
    layout
}

/// The point where an edge towards `towards` leaves an item: on the top or bottom border, so that
/// it does not cross neighbours, or on the side border, if `towards` is beside the item.
fn border(scene: &Scene, items: &[Rectangle], item: usize, towards: Point) -> Point {
    let (place, (x, y)) = (items[item], items[item].centre());
    let (dx, dy) = (towards.0 - x, towards.1 - y);
    let (across, down) = (place.width / 2.0, place.height / 2.0);
    let is_diamond = scene.items[item].look == Look::Decision;
    if dy.abs() <= down {
        let far =
            if is_diamond { dx.abs() / across + dy.abs() / down } else { (dx.abs() / across).max(dy.abs() / down) };
        return if far <= f64::EPSILON { (x, y) } else { (x + dx / far, y + dy / far) };
    }
    // The straight part of the border.
    let reach = if is_diamond { 0.5 * across } else { (across - place.height / 2.0).max(0.4 * across) };
    let aside = dx.clamp(-reach, reach);
    let height = if is_diamond { down * (1.0 - aside.abs() / across) } else { down };
    (x + aside, y + height.copysign(dy))
}

/// An additional point next to the end of a flat edge, so that the edge does not graze the item.
fn upright(end: Point, next: Point) -> Option<Point> {
    const LONGEST: f64 = 11.0;
    let (dx, dy) = (next.0 - end.0, next.1 - end.1);
    (dx.abs() > 1.5 * dy.abs() && dy.abs() > 3.0).then(|| (end.0, end.1 + (0.75 * dy).clamp(-LONGEST, LONGEST)))
}

impl Layout {
    /// Moves the layout to the origin and sets its size.
    fn fit(&mut self) {
        self.boxes.iter_mut().for_each(|place| {
            (place.top, place.height) = (place.top - BOX_TITLE / 2.0, place.height + BOX_TITLE / 2.0);
        });
        let corners =
            |place: &Rectangle| [(place.left, place.top), (place.left + place.width, place.top + place.height)];
        let points = self.items.iter().chain(&self.boxes).flat_map(corners);
        let points: Vec<Point> = points.chain(self.edges.iter().flat_map(|route| route.points.clone())).collect();
        let least = points.iter().fold((f64::MAX, f64::MAX), |least, at| (at.0.min(least.0), at.1.min(least.1)));
        let most = points.iter().fold((f64::MIN, f64::MIN), |most, at| (at.0.max(most.0), at.1.max(most.1)));
        for place in self.items.iter_mut().chain(&mut self.boxes) {
            (place.left, place.top) = (place.left - least.0, place.top - least.1);
        }
        for route in &mut self.edges {
            let moved = |at: &mut Point| *at = (at.0 - least.0, at.1 - least.1);
            route.points.iter_mut().chain(&mut route.label).for_each(moved);
        }
        self.size = (most.0 - least.0, most.1 - least.1);
    }
}
