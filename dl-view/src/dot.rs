//! Output in DOT, the language of Graphviz.

use crate::scene::{Flow, Look, Outcome, Scene};
use std::fmt::Write;

pub(crate) fn dot(scene: &Scene) -> String {
    let mut out = String::from("digraph pass {\n  rankdir=TB; fontname=\"Helvetica\"; labelloc=t; labeljust=l;\n");
    let _ = writeln!(out, "  label={};", quoted(&scene.head.join("\n")));
    out.push_str("  node [fontname=\"Menlo,Consolas,monospace\", fontsize=11, style=\"filled\", fillcolor=\"#f6f8fa\", color=\"#8c959f\", shape=box];\n");
    out.push_str(
        "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#6e7781\", fontcolor=\"#57606a\", arrowsize=0.7];\n",
    );
    write_box(&mut out, scene, None, 1);
    for edge in &scene.edges {
        let mut style = match edge.flow {
            Flow::Data => String::new(),
            Flow::Extracted => " style=dotted, color=\"#b27708\"".into(),
            Flow::Control if scene.items[edge.to].look == Look::NotTaken => " style=dashed, color=\"#afb8c1\"".into(),
            Flow::Control => " penwidth=2, color=\"#b27708\"".into(),
            Flow::Rank => " style=invis".into(),
        };
        if !edge.label.is_empty() {
            let _ = write!(style, "{} label={}", if style.is_empty() { "" } else { "," }, quoted(&edge.label));
        }
        let style = if style.is_empty() { style } else { format!(" [{}]", style.trim_start()) };
        let _ = writeln!(out, "  n{} -> n{}{style};", edge.from, edge.to);
    }
    out.push_str("}\n");
    out
}

/// Writes the items of a box, and the boxes nested in it.
fn write_box(out: &mut String, scene: &Scene, within: Option<usize>, depth: usize) {
    let indent = "  ".repeat(depth);
    for (index, item) in scene.items.iter().enumerate().filter(|(_, item)| item.within == within) {
        let lines: Vec<&str> = item.name.iter().chain(&item.details).map(String::as_str).collect();
        let outcome = match item.outcome {
            Outcome::Computed => "",
            Outcome::Failed => ", color=\"#c62828\", fillcolor=\"#fdeaea\", fontcolor=\"#8f1414\"",
            Outcome::NotComputed => ", color=\"#afb8c1\", fillcolor=\"#eaecef\", fontcolor=\"#656d76\"",
        };
        let (label, tooltip) = (quoted(&lines.join("\n")), quoted(&item.hover));
        let _ = writeln!(out, "{indent}n{index} [label={label}, tooltip={tooltip}{}{outcome}];", style(item.look));
    }
    for (index, function) in scene.boxes.iter().enumerate().filter(|(_, function)| function.within == within) {
        let _ = writeln!(out, "{indent}subgraph cluster_{index} {{");
        let (label, tooltip) = (quoted(&function.name), quoted(&function.hover));
        let _ = writeln!(out, "{indent}  label={label}; tooltip={tooltip}; color=\"#b6c3d1\"; fontsize=11;");
        write_box(out, scene, Some(index), depth + 1);
        let _ = writeln!(out, "{indent}}}");
    }
}

fn style(look: Look) -> &'static str {
    match look {
        Look::Operation => "",
        Look::Backward => ", fillcolor=\"#e9f6ec\", color=\"#2f8f4e\"",
        Look::Function => ", style=\"rounded,filled\", fillcolor=\"#eef0f3\", color=\"#57606a\", penwidth=1.5",
        Look::BackwardFunction => ", style=\"rounded,filled\", fillcolor=\"#e9f6ec\", color=\"#2f8f4e\", penwidth=1.5",
        Look::Weight => ", style=\"rounded,filled\", fillcolor=\"#e3effc\", color=\"#3b7dc4\"",
        Look::Constant => ", style=\"rounded,filled\", fillcolor=\"#ffffff\"",
        Look::Random => ", style=\"rounded,filled\", fillcolor=\"#f4edfc\", color=\"#8250df\"",
        Look::Decision => ", shape=diamond, fillcolor=\"#fff3cf\", color=\"#b27708\", penwidth=1.5",
        Look::Taken => ", style=\"rounded,filled\", fillcolor=\"#fffaf0\", color=\"#b27708\", penwidth=1.5",
        Look::NotTaken => ", style=\"rounded,dashed\", color=\"#afb8c1\", fontcolor=\"#656d76\"",
    }
}

/// A DOT string literal, in which a line break is `\n`.
fn quoted(words: &str) -> String {
    let mut text = String::from("\"");
    for char in words.chars() {
        match char {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            char if char.is_control() => text.push(' '),
            char => text.push(char),
        }
    }
    text.push('"');
    text
}
