//! Tests on synthetic records. The output is read by independent parsers.

mod folding;
mod geometry;
mod random;
mod small;
mod trace;
mod words;

use crate::samples;
use dl_core::record::PassRecord;

/// All samples, with a name and whether the backward pass is drawn.
fn all() -> Vec<(&'static str, PassRecord, bool)> {
    vec![
        ("gated", samples::gated(), false),
        ("tree", samples::tree(), false),
        ("step", samples::step(), true),
        ("rounds", samples::rounds(5), false),
        ("many rounds", samples::rounds(200), false),
        ("deep", samples::deep(12), false),
        ("failed", samples::failed(), false),
        ("nothing", PassRecord::default(), false),
    ]
}
