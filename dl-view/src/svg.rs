//! Output as SVG.

use crate::layout::{BOX_TITLE, DETAIL, LINE, Layout, NAME, Point, Rectangle, Route, layout, text_size};
use crate::scene::{Flow, Item, Look, Outcome, Scene};
use crate::text;
use std::fmt::Write;

const MARGIN: f64 = 20.0;
const TITLE: f64 = 16.0;
const HEAD: f64 = 12.0;
const LEGEND: f64 = 46.0;
/// The height of the bar under an item that shows its relative time.
const BAR: f64 = 3.0;

/// The class of the picture and the prefix of its ids, so that it can be embedded in a page.
const SCOPE: &str = "dl-picture";

const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:#1f2328}\
.code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}\
.small{fill:#57606a}.title{font-weight:600}.failed text{fill:#8f1414}.not-taken text,.not-computed text{fill:#656d76}\
.operation .shape{fill:#f6f8fa;stroke:#8c959f}.backward .shape{fill:#e9f6ec;stroke:#2f8f4e}\
.function .shape{fill:#eef0f3;stroke:#57606a;stroke-width:1.5}.weight .shape{fill:#e3effc;stroke:#3b7dc4}\
.constant .shape{fill:#fff;stroke:#8c959f}.random .shape{fill:#f4edfc;stroke:#8250df}\
.decision .shape{fill:#fff3cf;stroke:#b27708;stroke-width:1.5}.taken .shape{fill:#fffaf0;stroke:#b27708;stroke-width:1.5}\
.not-taken .shape{fill:#fff;stroke:#afb8c1;stroke-dasharray:4 3}.not-computed .shape{fill:#eaecef;stroke:#afb8c1}.failed .shape{fill:#fdeaea;stroke:#c62828;stroke-width:2}\
.bar{fill:#d1604a}.box{fill:#0969da;fill-opacity:.035;stroke:#b6c3d1}\
.edge{fill:none;stroke:#6e7781;stroke-width:1.2}.looked{stroke:#b27708;stroke-dasharray:2 3}\
.way{stroke:#b27708;stroke-width:2}.stub{stroke:#afb8c1;stroke-dasharray:4 3}.halo{stroke:#fff;stroke-width:6;stroke-linejoin:round;paint-order:stroke}";

pub(crate) fn svg(scene: &Scene) -> String {
    let layout = layout(scene);
    let looks = looks(scene);
    let head_height = head_height(scene);
    let head_width = scene.head.iter().enumerate().map(|(line, text)| text::width(text, head_size(line)));
    let legend_width = looks.iter().map(|(name, _)| entry_width(name)).sum::<f64>();
    let width = head_width.fold(layout.size.0.max(legend_width), f64::max) + 2.0 * MARGIN;
    let legend_height = if looks.is_empty() { 0.0 } else { LEGEND };
    let height = head_height + layout.size.1 + legend_height + 2.0 * MARGIN;

    let mut out = String::new();
    open(&mut out, scene, width, height);
    for (line, words) in scene.head.iter().enumerate() {
        let baseline = MARGIN + TITLE + line as f64 * HEAD * LINE * 1.1;
        let class = if line == 0 { "title" } else { "small" };
        label(&mut out, (MARGIN, baseline), words, head_size(line), class, "start");
    }
    let shift = (((width - layout.size.0) / 2.0).max(MARGIN), MARGIN + head_height);
    let _ = write!(out, "<g transform=\"translate({:.1} {:.1})\">", shift.0, shift.1);
    boxes(&mut out, scene, &layout);
    layout.edges.iter().for_each(|route| edge(&mut out, scene, route));
    scene.items.iter().zip(&layout.items).for_each(|(item, place)| self::item(&mut out, item, place));
    box_titles(&mut out, scene, &layout);
    edge_labels(&mut out, scene, &layout);
    out.push_str("</g>");
    legend(&mut out, &looks, height - MARGIN);
    out.push_str("</svg>\n");
    out
}

/// Restricts CSS rules to the picture.
fn scoped(style: &str) -> String {
    let within = |rule: &str| {
        let (selectors, body) = rule.split_once('{')?;
        let selectors: Vec<String> = selectors.split(',').map(|selector| format!(".{SCOPE} {selector}")).collect();
        Some(format!("{}{{{body}", selectors.join(",")))
    };
    style.split_inclusive('}').filter_map(within).collect()
}

fn head_size(line: usize) -> f64 {
    if line == 0 { TITLE } else { HEAD }
}

fn head_height(scene: &Scene) -> f64 {
    TITLE + scene.head.len() as f64 * HEAD * LINE * 1.1 + 8.0
}

fn open(out: &mut String, scene: &Scene, width: f64, height: f64) {
    let title = scene.head.first().map(String::as_str).unwrap_or_default();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" class=\"{SCOPE}\">\
         <title>{}</title><style>{}</style><defs>",
        escaped(title),
        scoped(STYLE)
    );
    for (name, colour) in [("data", "#6e7781"), ("looked", "#b27708"), ("way", "#b27708"), ("stub", "#afb8c1")] {
        let _ = write!(
            out,
            "<marker id=\"{SCOPE}-{name}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0.5L8 4L0 7.5z\" fill=\"{colour}\"/></marker>"
        );
    }
    out.push_str("</defs><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>");
}

fn boxes(out: &mut String, scene: &Scene, layout: &Layout) {
    for (function, place) in scene.boxes.iter().zip(&layout.boxes) {
        out.push_str("<g>");
        title(out, &function.hover);
        rectangle(out, place, 8.0, "box");
        out.push_str("</g>");
    }
}

/// Drawn above the contents of the boxes, so that no edge crosses the letters.
fn box_titles(out: &mut String, scene: &Scene, layout: &Layout) {
    for (function, place) in scene.boxes.iter().zip(&layout.boxes) {
        let most = (place.width - 16.0) / text::width("x", DETAIL);
        let name = text::cut(&function.name, most.max(1.0) as usize);
        label(out, (place.left + 8.0, place.top + BOX_TITLE - 4.0), &name, DETAIL, "code small halo", "start");
    }
}

fn item(out: &mut String, item: &Item, place: &Rectangle) {
    let class = match item.outcome {
        Outcome::NotComputed => "not-computed",
        _ => class(item.look),
    };
    let failed = if item.outcome == Outcome::Failed { " failed" } else { "" };
    let _ = write!(out, "<g class=\"item {class}{failed}\">");
    title(out, &item.hover);
    shape(out, item.look, place);
    if item.share > 0.02 && item.look != Look::Decision {
        let width = (place.width - 12.0) * item.share.min(1.0);
        let bar = Rectangle { left: place.left + 6.0, top: place.top + place.height - BAR - 1.5, width, height: BAR };
        rectangle(out, &bar, 1.5, "bar");
    }
    let (x, middle) = place.centre();
    let mut top = middle - text_size(&item.name, &item.details).1 / 2.0;
    for (lines, size, class) in [(&item.name, NAME, "code"), (&item.details, DETAIL, "small")] {
        for line in lines {
            label(out, (x, top + size * 1.04), line, size, class, "middle");
            top += size * LINE;
        }
    }
    out.push_str("</g>");
}

fn shape(out: &mut String, look: Look, place: &Rectangle) {
    match look {
        Look::Decision => {
            let (x, y) = place.centre();
            let (right, bottom) = (place.left + place.width, place.top + place.height);
            let _ = write!(
                out,
                "<path class=\"shape\" d=\"M{x:.1} {:.1}L{right:.1} {y:.1}L{x:.1} {bottom:.1}L{:.1} {y:.1}z\"/>",
                place.top, place.left
            );
        }
        Look::Operation | Look::Backward => rectangle(out, place, 4.0, "shape"),
        Look::Function | Look::BackwardFunction => rectangle(out, place, 8.0, "shape"),
        Look::Weight | Look::Constant | Look::Random => rectangle(out, place, place.height / 2.0, "shape"),
        Look::Taken | Look::NotTaken => rectangle(out, place, 10.0, "shape"),
    }
}

fn edge(out: &mut String, scene: &Scene, route: &Route) {
    let edge = &scene.edges[route.edge];
    let (class, marker) = match edge.flow {
        Flow::Data => ("edge", "data"),
        Flow::Extracted => ("edge looked", "looked"),
        Flow::Control if scene.items[edge.to].look == Look::NotTaken => ("edge stub", "stub"),
        Flow::Control => ("edge way", "way"),
        Flow::Rank => return,
    };
    let _ =
        write!(out, "<path class=\"{class}\" d=\"{}\" marker-end=\"url(#{SCOPE}-{marker})\"/>", curve(&route.points));
}

/// A polyline with rounded corners.
fn curve(points: &[Point]) -> String {
    const RADIUS: f64 = 22.0;
    let at = |(x, y): Point| format!("{x:.1} {y:.1}");
    let towards = |from: Point, to: Point| {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy);
        let share = if length > 0.0 { (RADIUS / length).min(0.5) } else { 0.0 };
        (from.0 + dx * share, from.1 + dy * share)
    };
    let mut path = format!("M{}", at(points[0]));
    for each in points.windows(3) {
        let (before, after) = (towards(each[1], each[0]), towards(each[1], each[2]));
        let _ = write!(path, "L{}Q{} {}", at(before), at(each[1]), at(after));
    }
    let _ = write!(path, "L{}", at(points[points.len() - 1]));
    path
}

fn edge_labels(out: &mut String, scene: &Scene, layout: &Layout) {
    for route in &layout.edges {
        if let Some((x, y)) = route.label {
            let words = &scene.edges[route.edge].label;
            label(out, (x, y + DETAIL * 0.35), words, DETAIL, "small halo", "middle");
        }
    }
}

fn rectangle(out: &mut String, place: &Rectangle, radius: f64, class: &str) {
    let Rectangle { left, top, width, height } = place;
    let _ = write!(
        out,
        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius:.1}\"/>"
    );
}

fn label(out: &mut String, (x, y): Point, words: &str, size: f64, class: &str, anchor: &str) {
    let _ = write!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{}</text>",
        escaped(words)
    );
}

fn title(out: &mut String, words: &str) {
    let _ = write!(out, "<title>{}</title>", escaped(words));
}

/// The legend entries that occur in the picture.
fn looks(scene: &Scene) -> Vec<(&'static str, Look)> {
    let all = [
        ("operation", Look::Operation),
        ("backward", Look::Backward),
        ("function", Look::Function),
        ("weight", Look::Weight),
        ("plain value", Look::Constant),
        ("random", Look::Random),
        ("decision", Look::Decision),
        ("taken", Look::Taken),
        ("not taken", Look::NotTaken),
    ];
    let class_is_there = |look: Look| scene.items.iter().any(|item| class(item.look) == class(look));
    all.into_iter().filter(|(_, look)| class_is_there(*look)).collect()
}

fn entry_width(name: &str) -> f64 {
    text::width(name, DETAIL) + 42.0
}

fn legend(out: &mut String, looks: &[(&'static str, Look)], bottom: f64) {
    let mut left = MARGIN;
    for (name, look) in looks {
        let _ = write!(out, "<g class=\"{}\">", class(*look));
        shape(out, *look, &Rectangle { left, top: bottom - 14.0, width: 22.0, height: 13.0 });
        label(out, (left + 28.0, bottom - 3.5), name, DETAIL, "small", "start");
        out.push_str("</g>");
        left += entry_width(name);
    }
}

fn class(look: Look) -> &'static str {
    match look {
        Look::Operation => "operation",
        Look::Backward | Look::BackwardFunction => "backward",
        Look::Function => "function",
        Look::Weight => "weight",
        Look::Constant => "constant",
        Look::Random => "random",
        Look::Decision => "decision",
        Look::Taken => "taken",
        Look::NotTaken => "not-taken",
    }
}

/// Escapes text for XML, which excludes most control characters.
pub(crate) fn escaped(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for char in words.chars() {
        match char {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\n' => text.push('\n'),
            '\u{fffe}' | '\u{ffff}' => text.push('\u{fffd}'),
            char if char.is_control() => text.push(' '),
            char => text.push(char),
        }
    }
    text
}
