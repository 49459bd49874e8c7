//! Losses.

use super::{Drawn, Scalar, index, ops, placed};
use crate::case::{Args, lengths};
use crate::draw::{Draw, Sample};
use dl_nd::{BatchMean, Bce, CrossEntropy, Ctc, Each, Mean, Sum, ops::*};
use ndarray::Ix1;
use serde_json::{Value, json};

/// A loss with the reduction among the arguments.
macro_rules! loss {
    ($args:ident, |$reduction:ident| $loss:expr) => {{
        macro_rules! with {
            ($Reduction:ident) => {{
                let $reduction = $Reduction;
                $loss
            }};
        }
        match $args.text("reduction") {
            "mean" => Scalar::tensor(with!(Mean)),
            "sum" => Scalar::tensor(with!(Sum)),
            "batchmean" => Scalar::tensor(with!(BatchMean)),
            "none" => with!(Each),
            other => unreachable!("no reduction {other}"),
        }
    }};
}

fn reduction(draw: &mut Draw) -> &'static str {
    draw.one_of(["mean", "sum", "none"])
}

/// Logits or log-probabilities and labels, with random settings.
fn labelled(draw: &mut Draw) -> Sample {
    let mut shape = draw.full_shape();
    shape.truncate(3);
    shape.resize(shape.len().max(2), 3);
    let (batch, classes) = (shape[0], shape[1]);
    let places = [&[batch][..], &shape[2..]].concat();
    let mut args = json!({ "labels": draw.places(&places, classes), "reduction": reduction(draw) });
    if draw.flip() {
        args["weight"] =
            json!({ "shape": [classes], "data": (1..=classes).map(|i| i as f64 / 2.0).collect::<Vec<_>>() });
    }
    if draw.flip() && args["labels"]["data"][0] != 0 {
        args["ignore_index"] = json!(0);
    }
    Draw::sample(args, [draw.numbers(&shape, -2.0, 2.0)])
}

/// Logits with labels or with class probabilities.
fn classified(draw: &mut Draw) -> Sample {
    let mut sample = labelled(draw);
    if draw.flip() {
        let shape = sample.inputs[0].shape.clone();
        sample.inputs.push(draw.numbers(&shape, 0.25, 1.25));
        sample.args.0["labels"] = Value::Null;
        sample.args.0["ignore_index"] = Value::Null;
    }
    sample.args.0["label_smoothing"] = json!(draw.one_of([0.0, 0.25]));
    sample
}

fn settings<A: Scalar>(args: &Args) -> CrossEntropy<A> {
    let mut settings = CrossEntropy::new().label_smoothing(args.number_or("label_smoothing", 0.0));
    if args.has("ignore_index") {
        settings = settings.ignore_index(args.count("ignore_index"));
    }
    if args.has("weight") {
        settings = settings.weights(placed(args.numbers("weight").tensor::<A>()).to_rank::<Ix1>());
    }
    settings
}

fn bce<A: Scalar>(args: &Args) -> Bce<A> {
    if args.has("pos_weight") { Bce::new().pos_weight(placed(args.numbers("pos_weight").tensor())) } else { Bce::new() }
}

/// Log-probabilities and targets. A loss that may be infinite counts as 0 if it is.
fn transcribed(draw: &mut Draw) -> Sample {
    let [batch, steps, classes] = [draw.between(1..=2), draw.between(1..=4), draw.between(2..=3)];
    let blank = draw.between(0..=classes - 1);
    let inputs: Vec<usize> = (0..batch).map(|_| draw.between(1..=steps)).collect();
    let mut target = |most| -> Vec<usize> {
        let labels = draw.between(0..=most);
        (0..labels).map(|_| (blank + draw.between(1..=classes - 1)) % classes).collect()
    };
    let targets: Vec<_> = inputs.iter().map(|&steps| target(steps)).collect();
    let args = json!({
        "targets": targets, "input_lengths": inputs, "blank": blank, "zero_infinity": true,
        "reduction": reduction(draw),
    });
    Draw::sample(args, [draw.numbers(&[batch, steps, classes], -2.0, 0.0)])
}

/// Two tensors of the same shape.
fn compared(draw: &mut Draw, target: (f64, f64), args: Value) -> Sample {
    let mut shape = draw.full_shape();
    if shape.is_empty() && draw.flip() {
        shape.push(3);
    }
    let mut args = args;
    args["reduction"] = json!(reduction(draw));
    Draw::sample(args, [draw.numbers(&shape, -2.0, 2.0), draw.numbers(&shape, target.0, target.1)])
}

const COMPARED: Drawn = Some(|draw| compared(draw, (-2.0, 2.0), json!({})));

ops! {
    "cross_entropy", Some(classified), |args, x| match x {
        [x, y] => loss!(args, |reduction| x.cross_entropy_with(y, &settings::<A>(args).reduction(reduction))),
        _ => loss!(args, |reduction| {
            x[0].cross_entropy_with(index(args, "labels"), &settings::<A>(args).reduction(reduction))
        }),
    };
    "nll", Some(labelled),
        |args, x| loss!(args, |reduction| x[0].nll_with(index(args, "labels"), &settings::<A>(args).reduction(reduction)));
    "ctc", Some(transcribed), |args, x| {
        let x = if args.flag("softmax") { x[0].log_softmax(-1) } else { x[0].clone() };
        let targets: Vec<_> = args.value("targets").as_array().expect("a list").iter().map(lengths).collect();
        let settings = Ctc::new().blank(args.count("blank")).zero_infinity(args.flag("zero_infinity"));
        let settings = if args.has("input_lengths") { settings.input_lengths(args.lengths("input_lengths")) } else { settings };
        match args.text("reduction") {
            "mean" => Scalar::tensor(x.ctc_with(&targets, &settings)),
            "sum" => Scalar::tensor(x.ctc_with(&targets, &settings.reduction(Sum))),
            _ => x.ctc_with(&targets, &settings.reduction(Each)).to_dyn(),
        }
    };
    "mse", COMPARED, |args, x| loss!(args, |reduction| x[0].mse_with(&x[1], reduction));
    "l1", COMPARED, |args, x| loss!(args, |reduction| x[0].l1_with(&x[1], reduction));
    "huber", Some(|draw| compared(draw, (-2.0, 2.0), json!({ "delta": 0.75 }))),
        |args, x| loss!(args, |reduction| x[0].huber_with(&x[1], args.number("delta"), reduction));
    "bce_with_logits", Some(|draw| compared(draw, (0.0, 1.0), json!({}))),
        |args, x| loss!(args, |reduction| x[0].bce_with_logits_with(&x[1], &bce::<A>(args).reduction(reduction)));
    "kl_div", Some(|draw| compared(draw, (0.25, 1.25), json!({ "log_target": false }))), |args, x| {
        let target = if args.flag("log_target") { x[1].exp() } else { x[1].clone() };
        loss!(args, |reduction| x[0].kl_div_with(&target, reduction))
    };
}
