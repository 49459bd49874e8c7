//! Reductions.

use super::{Drawn, Scalar, ops};
use crate::draw::{Draw, Sample};
use dl_nd::ops::*;
use serde_json::json;

/// A tensor with elements, some or all of its axes, and whether these are kept.
fn reduced(draw: &mut Draw, low: f64, high: f64) -> Sample {
    let shape = draw.full_shape();
    let args = json!({ "axes": draw.axes(&shape), "keep": draw.flip() });
    Draw::sample(args, [draw.numbers(&shape, low, high)])
}

const REDUCED: Drawn = Some(|draw| reduced(draw, -1.5, 1.5));

/// A tensor with an axis and a correction; at least two elements are reduced.
const SPREAD: Drawn = Some(|draw| {
    let mut shape = draw.full_shape();
    shape.push(2 + draw.between(0..=1));
    let args = json!({ "axes": [-1], "keep": draw.flip(), "correction": draw.between(0..=1) });
    Draw::sample(args, [draw.numbers(&shape, -1.5, 1.5)])
});

const ALONG: Drawn = Some(|draw| {
    let shape = draw.shape_with_axes(1);
    let args = json!({ "axis": draw.axis(&shape) });
    Draw::sample(args, [draw.numbers(&shape, -1.5, 1.5)])
});

/// Calls a reduction in one of its three forms: all elements, axes removed, axes kept.
macro_rules! reduced {
    ($args:ident, $x:ident, $total:ident $axis:ident $keepdim:ident $(, $more:expr)?) => {
        match ($args.has("axes"), $args.flag("keep")) {
            (false, false) => Scalar::tensor($x[0].$total($($more)?)),
            (false, true) => $x[0].$keepdim(.. $(, $more)?),
            (true, false) => $x[0].$axis($args.integers("axes") $(, $more)?),
            (true, true) => $x[0].$keepdim($args.integers("axes") $(, $more)?),
        }
    };
}

ops! {
    "sum", REDUCED, |args, x| reduced!(args, x, sum sum_axis sum_keepdim);
    "mean", REDUCED, |args, x| reduced!(args, x, mean mean_axis mean_keepdim);
    "prod", REDUCED, |args, x| reduced!(args, x, prod prod_axis prod_keepdim);
    "amax", REDUCED, |args, x| reduced!(args, x, amax amax_axis amax_keepdim);
    "amin", REDUCED, |args, x| reduced!(args, x, amin amin_axis amin_keepdim);
    "logsumexp", REDUCED, |args, x| reduced!(args, x, logsumexp logsumexp_axis logsumexp_keepdim);
    "var", SPREAD, |args, x| reduced!(args, x, var var_axis var_keepdim, args.count("correction"));
    "std", SPREAD, |args, x| reduced!(args, x, std std_axis std_keepdim, args.count("correction"));
    "norm", REDUCED, |args, x| reduced!(args, x, norm norm_axis norm_keepdim);
    "norm_p", Some(|draw| {
        let mut sample = reduced(draw, -1.5, 1.5);
        sample.args.0["p"] = draw.one_of([json!(1), json!(2.5), json!(3), json!("inf")]);
        sample
    }), |args, x| reduced!(args, x, norm_p norm_p_axis norm_p_keepdim, args.number("p"));
    "argmax", None, |args, x| x[0].argmax(args.integer("axis")).to_floats::<A>();
    "argmin", None, |args, x| x[0].argmin(args.integer("axis")).to_floats::<A>();
    "cumsum", ALONG, |args, x| x[0].cumsum(args.integer("axis"));
    "softmax", ALONG, |args, x| x[0].softmax(args.integer("axis"));
    "log_softmax", ALONG, |args, x| x[0].log_softmax(args.integer("axis"));
}
