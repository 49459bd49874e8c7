//! Normalisation and attention.

use super::{Scalar, mask, ops, placed};
use crate::case::{Args, Tensor};
use crate::draw::{Draw, Sample};
use dl_nd::{Attention, Nd, RunningStats, ops::*, scaled_dot_product_attention_with};
use ndarray::Ix1;
use serde_json::{Value, json};

/// A tensor `[batch, channels, …]`, with or without a weight and a bias for each channel.
fn channels(draw: &mut Draw, shape: &[usize], args: Value) -> Sample {
    let mut inputs = vec![draw.numbers(shape, -2.0, 2.0)];
    if draw.flip() {
        inputs.push(draw.numbers(&shape[1..2], -2.0, 2.0));
        inputs.push(draw.numbers(&shape[1..2], -2.0, 2.0));
    }
    Draw::sample(args, inputs)
}

fn batch(draw: &mut Draw) -> Sample {
    let [batch, channels, length] = draw.lengths();
    let shape = if draw.flip() { vec![batch + 2, channels] } else { vec![batch, channels, length + 2] };
    let number = |i: usize| i as f64 / 2.0 + 0.5;
    let numbers = json!({ "shape": [channels], "data": (0..channels).map(number).collect::<Vec<_>>() });
    let args =
        if draw.flip() { json!({ "eps": 0.01 }) } else { json!({ "eps": 0.01, "mean": numbers, "var": numbers }) };
    self::channels(draw, &shape, args)
}

fn group(draw: &mut Draw) -> Sample {
    let [batch, groups, length] = draw.lengths();
    let shape = [batch, 2 * groups, length + 1];
    channels(draw, &shape, json!({ "eps": 0.01, "groups": groups }))
}

/// A tensor and the number of last axes to normalise, with or without `weights` of their shape.
fn last(draw: &mut Draw, weights: usize) -> Sample {
    let mut shape = draw.full_shape();
    shape.truncate(3);
    shape.push(3);
    let axes = draw.between(1..=shape.len());
    let mut inputs = vec![draw.numbers(&shape, -2.0, 2.0)];
    if draw.flip() {
        inputs.extend((0..weights).map(|_| draw.numbers(&shape[shape.len() - axes..], -2.0, 2.0)));
    }
    Draw::sample(json!({ "axes": axes, "eps": 0.01 }), inputs)
}

fn normalized_batch<A: Scalar>(args: &Args, x: &Tensor<A>) -> Tensor<A> {
    if !args.has("mean") {
        return x.batch_norm(args.number("eps"));
    }
    let vector = |name: &str| {
        let numbers = args.numbers(name).data;
        placed(Nd::from_vec(numbers.len(), numbers.iter().map(|&x| A::of(x)).collect()).expect("a vector"))
    };
    let mean = vector("mean");
    let stats = RunningStats::new(mean.len());
    stats.mean.set(mean);
    stats.variance.set(vector("var"));
    x.batch_norm_with(&stats, args.number("eps"))
}

/// Applies weight and bias of each channel, if given.
fn affine<A: Scalar>(x: Tensor<A>, weights: &[Tensor<A>]) -> Tensor<A> {
    match weights {
        [weight, bias] => x.affine(weight.to_rank::<Ix1>(), bias.to_rank::<Ix1>()),
        _ => x,
    }
}

/// Queries, keys and values, sometimes with a bias as a fourth operand.
fn attended(draw: &mut Draw) -> Sample {
    let [batch, queries, keys] = draw.lengths();
    let [length, width] = [(); 2].map(|()| draw.between(1..=3));
    let batch = if draw.flip() { vec![] } else { vec![batch] };
    let shape = |rows: usize, columns: usize| [&batch[..], &[rows, columns]].concat();
    let mut inputs = vec![
        draw.numbers(&shape(queries, length), -1.0, 1.0),
        draw.numbers(&shape(keys, length), -1.0, 1.0),
        draw.numbers(&shape(keys, width), -1.0, 1.0),
    ];
    let mut args = json!({ "causal": draw.flip(), "scale": draw.one_of([Value::Null, json!(0.75)]) });
    if draw.flip() {
        inputs.push(draw.numbers(&[queries, keys], -1.0, 1.0));
    }
    if draw.flip() {
        let mut mask = draw.places(&[queries, keys], 2);
        (0..queries).for_each(|row| mask["data"][row * keys] = json!(1));
        args["mask"] = mask;
    }
    Draw::sample(args, inputs)
}

fn attention<A: Scalar>(args: &Args, x: &[Tensor<A>]) -> Attention<A> {
    let mut settings = Attention::new();
    if args.flag("causal") {
        settings = settings.causal();
    }
    if args.has("mask") {
        settings = settings.mask(mask(args, "mask"));
    }
    if args.has("scale") {
        settings = settings.scale(args.number("scale"));
    }
    match x.get(3) {
        Some(bias) => settings.bias(bias),
        None => settings,
    }
}

ops! {
    "batch_norm", Some(batch), |args, x| affine(normalized_batch(args, &x[0]), &x[1..]);
    "group_norm", Some(group),
        |args, x| affine(x[0].group_norm(args.count("groups"), args.number("eps")), &x[1..]);
    "layer_norm", Some(|draw| last(draw, 2)), |args, x| {
        let y = x[0].layer_norm(args.count("axes"), args.number("eps"));
        if let [_, weight, bias] = x { y * weight + bias } else { y }
    };
    "rms_norm", Some(|draw| last(draw, 1)), |args, x| {
        let y = x[0].rms_norm(args.count("axes"), args.number("eps"));
        if let [_, weight] = x { y * weight } else { y }
    };
    "scaled_dot_product_attention", Some(attended),
        |args, x| scaled_dot_product_attention_with(&x[0], &x[1], &x[2], &attention(args, x));
}
