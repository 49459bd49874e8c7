//! Operations that move or select elements.

use super::{Drawn, Scalar, index, ops, placed};
use crate::case::{Args, integer};
use crate::draw::{Draw, Sample};
use dl_nd::ops::*;
use ndarray::{Ix1, IxDyn, Slice, SliceInfo, SliceInfoElem};
use serde_json::{Value, json};

/// A tensor with at least `axes` axes, and arguments that depend on its shape.
fn with(draw: &mut Draw, axes: usize, args: impl Fn(&mut Draw, &[usize]) -> Value) -> Sample {
    let shape = draw.shape_with_axes(axes);
    let args = args(draw, &shape);
    Draw::sample(args, [draw.numbers(&shape, -2.0, 2.0)])
}

const RESHAPED: Drawn = Some(|draw| {
    with(draw, 0, |draw, shape| {
        let size: usize = shape.iter().product();
        let reversed: Vec<usize> = shape.iter().rev().copied().collect();
        json!({ "shape": draw.one_of([vec![size], vec![1, size], vec![size, 1, 1], reversed]) })
    })
});

/// A tensor with an axis of length 1, and the position of this axis.
fn squeezed(draw: &mut Draw) -> Sample {
    let mut shape = draw.shape();
    let axis = draw.between(0..=shape.len());
    shape.insert(axis, 1);
    let axis = if draw.flip() { axis as isize } else { axis as isize - shape.len() as isize };
    Draw::sample(json!({ "axis": axis }), [draw.numbers(&shape, -2.0, 2.0)])
}

fn expanded(draw: &mut Draw) -> Sample {
    let [shape, _] = draw.pair();
    let to = draw.shape();
    Draw::sample(json!({ "shape": to }), [draw.numbers(&shape, -2.0, 2.0)])
}

/// A range with a step: start, end or null, step.
fn range(draw: &mut Draw, length: usize) -> Value {
    let start = draw.between(0..=length);
    let end = draw.between(start..=length);
    let end = if end == length && draw.flip() { Value::Null } else { json!(end) };
    json!([start, end, draw.one_of([1, 2, -1, -2])])
}

fn slice(range: &Value) -> Slice {
    let end = (!range[1].is_null()).then(|| integer(&range[1]));
    Slice { start: integer(&range[0]), end, step: integer(&range[2]) }
}

/// A range or a single index for each axis.
fn sliced(draw: &mut Draw, shape: &[usize]) -> Value {
    let parts = shape.iter().map(|&length| {
        if length == 0 || draw.between(0..=4) > 0 {
            return range(draw, length);
        }
        let place = draw.between(0..=length - 1) as isize;
        json!(if draw.flip() { place } else { place - length as isize })
    });
    json!({ "parts": parts.collect::<Vec<_>>() })
}

fn parts(args: &Args) -> SliceInfo<Vec<SliceInfoElem>, IxDyn, IxDyn> {
    let part = |part: &Value| if part.is_array() { slice(part).into() } else { SliceInfoElem::Index(integer(part)) };
    let parts: Vec<_> = args.value("parts").as_array().expect("a list").iter().map(part).collect();
    parts.try_into().expect("a slice of dynamic rank")
}

/// Lengths that split an axis, and the number of one part.
fn split(draw: &mut Draw, shape: &[usize]) -> Value {
    let axis = draw.axis(shape);
    let mut rest = shape[axis.rem_euclid(shape.len() as isize) as usize];
    let mut sizes = Vec::new();
    while rest > 0 || sizes.is_empty() {
        sizes.push(draw.between(0..=rest));
        rest -= sizes.last().expect("one");
    }
    json!({ "axis": axis, "sizes": sizes, "part": draw.between(0..=sizes.len() - 1) })
}

/// Tensors of different lengths along one axis.
fn joined(draw: &mut Draw) -> Sample {
    let shape = draw.shape_with_axes(1);
    let axis = draw.axis(&shape);
    let inputs: Vec<_> = (0..draw.between(1..=3))
        .map(|_| {
            let mut shape = shape.clone();
            let rank = shape.len() as isize;
            shape[axis.rem_euclid(rank) as usize] = draw.between(0..=2);
            draw.numbers(&shape, -2.0, 2.0)
        })
        .collect();
    Draw::sample(json!({ "axis": axis }), inputs)
}

fn stacked(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    let axis = draw.between(0..=shape.len()) as isize;
    let axis = if draw.flip() { axis } else { axis - shape.len() as isize - 1 };
    let inputs: Vec<_> = (0..draw.between(1..=3)).map(|_| draw.numbers(&shape, -2.0, 2.0)).collect();
    Draw::sample(json!({ "axis": axis }), inputs)
}

fn padded(draw: &mut Draw, shape: &[usize]) -> Value {
    let pads: Vec<_> = shape.iter().map(|_| [draw.between(0..=2), draw.between(0..=1)]).collect();
    json!({ "pads": pads, "value": 0.5 })
}

pub(super) fn pads(args: &Args) -> Vec<(usize, usize)> {
    let pads = args.value("pads").as_array().expect("a list");
    pads.iter().map(|pad| (integer(&pad[0]) as usize, integer(&pad[1]) as usize)).collect()
}

/// A shape, arguments with an axis and indices, and the shape of the indices: at most the lengths
/// of the first shape along the other axes.
fn gathered(draw: &mut Draw) -> (Vec<usize>, Value, Vec<usize>) {
    let mut shape = draw.full_shape();
    shape.truncate(3);
    shape.resize(shape.len().max(1), 2);
    let axis = draw.axis(&shape);
    let along = axis.rem_euclid(shape.len() as isize) as usize;
    let mut places: Vec<usize> = shape.iter().map(|&length| draw.between(1..=length)).collect();
    places[along] = draw.between(0..=3);
    let index = draw.places(&places, shape[along]);
    (shape, json!({ "axis": axis, "index": index }), places)
}

fn matrix(draw: &mut Draw, args: impl Fn(&mut Draw, usize) -> Value) -> Sample {
    let [rows, columns] = draw.lengths();
    let args = args(draw, rows);
    Draw::sample(args, [draw.numbers(&[rows, columns], -2.0, 2.0)])
}

const TRIANGLE: Drawn = Some(|draw| with(draw, 2, |draw, _| json!({ "k": draw.between(0..=4) as isize - 2 })));

ops! {
    "reshape", RESHAPED, |args, x| x[0].reshape(args.lengths("shape"));
    "flatten", Some(|draw| with(draw, 0, |_, _| json!({}))), |_, x| x[0].flatten().to_dyn();
    "flatten_rows", Some(|draw| with(draw, 2, |_, _| json!({}))), |_, x| x[0].flatten_rows().to_dyn();
    "t", Some(|draw| with(draw, 0, |_, _| json!({}))), |_, x| x[0].t();
    "permute", Some(|draw| with(draw, 0, |draw, shape| json!({ "axes": draw.permutation(shape.len()) }))), |args, x| {
        x[0].permute(args.integers("axes"))
    };
    "transpose", Some(|draw| with(draw, 1, |draw, shape| json!({ "a": draw.axis(shape), "b": draw.axis(shape) }))),
        |args, x| x[0].transpose(args.integer("a"), args.integer("b"));
    "squeeze", Some(squeezed), |args, x| x[0].squeeze(args.integer("axis"));
    "unsqueeze", Some(|draw| with(draw, 0, |draw, shape| json!({ "axis": draw.between(0..=shape.len()) }))),
        |args, x| x[0].unsqueeze(args.integer("axis"));
    "expand", Some(expanded), |args, x| x[0].expand(args.lengths("shape"));
    "slice", Some(|draw| with(draw, 0, sliced)), |args, x| x[0].slice(parts(args));
    "slice_axis", Some(|draw| {
        with(draw, 1, |draw, shape| {
            let axis = draw.between(0..=shape.len() - 1);
            json!({ "axis": axis, "part": range(draw, shape[axis]) })
        })
    }), |args, x| x[0].slice_axis(args.integer("axis"), slice(args.value("part")));
    "row", Some(|draw| {
        let shape = draw.lengths::<3>();
        Draw::sample(json!({ "i": draw.between(0..=shape[0] - 1) }), [draw.numbers(&shape, -2.0, 2.0)])
    }), |args, x| x[0].row(args.integer("i"));
    "split", Some(|draw| with(draw, 1, split)),
        |args, x| x[0].split(args.integer("axis"), &args.lengths("sizes")).swap_remove(args.count("part"));
    "chunk", Some(|draw| with(draw, 1, |draw, shape| json!({ "axis": draw.axis(shape), "parts": 2, "part": draw.between(0..=1) }))),
        |args, x| x[0].chunk(args.integer("axis"), args.count("parts")).swap_remove(args.count("part"));
    "concat", Some(joined), |args, x| concat(args.integer("axis"), x.iter().cloned());
    "stack", Some(stacked), |args, x| stack(args.integer("axis"), x.iter().cloned());
    "pad", Some(|draw| with(draw, 0, padded)), |args, x| x[0].pad(&pads(args), args.number("value") as A);
    "flip", Some(|draw| with(draw, 1, |draw, shape| json!({ "axes": [draw.axis(shape)] }))), |args, x| x[0].flip(args.integers("axes"));
    "roll", Some(|draw| with(draw, 1, |draw, shape| json!({ "axis": draw.axis(shape), "shift": draw.between(0..=9) as isize - 4 }))),
        |args, x| x[0].roll(args.integer("axis"), args.integer("shift"));
    "tril", TRIANGLE, |args, x| x[0].tril(args.integer("k"));
    "triu", TRIANGLE, |args, x| x[0].triu(args.integer("k"));
    "diag", Some(|draw| {
        let [length] = draw.lengths();
        let args = json!({ "k": draw.between(0..=2) as isize - 1 });
        Draw::sample(args, [draw.numbers(&[length], -2.0, 2.0)])
    }), |args, x| x[0].diag(args.integer("k")).to_dyn();
    "diagonal", Some(|draw| matrix(draw, |_, _| json!({ "k": 0 }))), |args, x| x[0].diagonal(args.integer("k")).to_dyn();
    "gather", Some(|draw| {
        let (shape, args, _) = gathered(draw);
        Draw::sample(args, [draw.numbers(&shape, -2.0, 2.0)])
    }), |args, x| x[0].gather(args.integer("axis"), index(args, "index"));
    "scatter_add", Some(|draw| {
        let (shape, args, places) = gathered(draw);
        Draw::sample(args, [draw.numbers(&shape, -2.0, 2.0), draw.numbers(&places, -2.0, 2.0)])
    }), |args, x| x[0].scatter_add(args.integer("axis"), index(args, "index"), &x[1]);
    "index_select", Some(|draw| with(draw, 1, |draw, shape| {
        let axis = draw.axis(shape);
        let length = shape[axis.rem_euclid(shape.len() as isize) as usize];
        let count = if length == 0 { 0 } else { draw.between(0..=3) };
        json!({ "axis": axis, "index": draw.places(&[count], length) })
    })), |args, x| {
        let list = args.array("index", |place| place as usize).into_dimensionality::<Ix1>().expect("a list");
        x[0].index_select(args.integer("axis"), placed(list.into()))
    };
    "embedding", Some(|draw| matrix(draw, |draw, rows| {
        let shape = [draw.between(1..=2), draw.between(0..=2)];
        json!({ "index": draw.places(&shape, rows) })
    })), |args, x| x[0].embedding(index(args, "index"));
    "at", Some(|draw| {
        let shape = draw.full_shape();
        let index: Vec<usize> = shape.iter().map(|&length| draw.between(0..=length - 1)).collect();
        Draw::sample(json!({ "index": index }), [draw.numbers(&shape, -2.0, 2.0)])
    }), |args, x| Scalar::tensor(x[0].at(args.lengths("index")));
}
