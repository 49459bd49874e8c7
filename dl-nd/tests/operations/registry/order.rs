//! Scans, sorting, selection by masks, and padding with elements of the tensor.

use super::movement::pads;
use super::{Drawn, index, mask, ops};
use crate::draw::Draw;
use dl_nd::{PadMode, ops::*};
use serde_json::json;

const ALONG: Drawn = Some(|draw| {
    let shape = draw.shape_with_axes(1);
    let args = json!({ "axis": draw.axis(&shape), "descending": draw.flip() });
    Draw::sample(args, [draw.numbers(&shape, -1.5, 1.5)])
});

/// A tensor with an axis of at least one element.
const ALONG_SOME: Drawn = Some(|draw| {
    let mut shape = draw.full_shape();
    shape.resize(shape.len().max(1), 2);
    let axis = draw.axis(&shape);
    let length = shape[axis.rem_euclid(shape.len() as isize) as usize];
    let args = json!({ "axis": axis, "k": draw.between(0..=length) });
    Draw::sample(args, [draw.numbers(&shape, -1.5, 1.5)])
});

/// The values or the indices of a pair.
macro_rules! either {
    ($args:ident, $pair:expr) => {{
        let (values, indices) = $pair;
        if $args.flag("indices") { indices.to_floats::<A>() } else { values }
    }};
}

ops! {
    "cumprod", ALONG, |args, x| x[0].cumprod(args.integer("axis"));
    "logcumsumexp", ALONG, |args, x| x[0].logcumsumexp(args.integer("axis"));
    "cummax", ALONG, |args, x| either!(args, x[0].cummax(args.integer("axis")));
    "cummin", ALONG, |args, x| either!(args, x[0].cummin(args.integer("axis")));
    "sort", ALONG, |args, x| x[0].sort(args.integer("axis"), args.flag("descending")).0;
    "argsort", None, |args, x| x[0].argsort(args.integer("axis"), args.flag("descending")).to_floats::<A>();
    "topk", ALONG_SOME, |args, x| either!(args, x[0].topk(args.integer("axis"), args.count("k")));
    "max_with_indices", ALONG_SOME, |args, x| either!(args, x[0].max_with_indices(args.integer("axis")));
    "min_with_indices", ALONG_SOME, |args, x| either!(args, x[0].min_with_indices(args.integer("axis")));
    "masked_select", Some(|draw| {
        let [shape, _] = draw.pair();
        let args = json!({ "mask": draw.places(&shape, 2) });
        Draw::sample(args, [draw.numbers(&shape, -1.5, 1.5)])
    }), |args, x| x[0].masked_select(mask(args, "mask")).to_dyn();
    "cosine_similarity", Some(|draw| {
        let mut shape = draw.full_shape();
        shape.push(3);
        let args = json!({ "axis": draw.axis(&shape) });
        Draw::sample(args, [draw.numbers(&shape, 0.5, 2.0), draw.numbers(&shape, 0.5, 2.0)])
    }), |args, x| cosine_similarity(&x[0], &x[1], args.integer("axis"));
    "embedding_padded", None, |args, x| x[0].embedding_padded(index(args, "index"), args.count("padding"));
    "pad_with", Some(|draw| {
        let shape = draw.full_shape();
        let widths: Vec<_> = shape.iter().map(|&length| [draw.between(0..=length - 1), draw.between(0..=length - 1)]).collect();
        let mode = draw.one_of(["reflect", "replicate", "circular"]);
        Draw::sample(json!({ "pads": widths, "mode": mode }), [draw.numbers(&shape, -2.0, 2.0)])
    }), |args, x| {
        let mode = match args.text("mode") {
            "reflect" => PadMode::Reflect,
            "replicate" => PadMode::Replicate,
            _ => PadMode::Circular,
        };
        x[0].pad_with(&pads(args), mode)
    };
}
