//! Pointwise operations with broadcasting.

use super::{Drawn, mask, ops};
use crate::case::Args;
use crate::draw::{Draw, Sample};
use dl_core::{Binary, Pointwise, logaddexp, max, min, pow};
use dl_nd::ops::*;
use serde_json::json;

fn within(draw: &mut Draw, low: f64, high: f64) -> Sample {
    let shape = draw.shape();
    Draw::sample(json!({}), [draw.numbers(&shape, low, high)])
}

/// Numbers of either sign.
const ANY: Drawn = Some(|draw| within(draw, -2.0, 2.0));

const WITHIN_ONE: Drawn = Some(|draw| within(draw, -0.75, 0.75));

const POSITIVE: Drawn = Some(|draw| within(draw, 0.25, 3.0));

/// Numbers of either sign, and a number as an argument of the operation.
const NUMBER: Drawn = Some(|draw| {
    let args = Args(json!({ "number": draw.one_of([0.25, 1.0, 1.5]) }));
    Sample { args, ..within(draw, -2.0, 2.0) }
});

/// Two tensors that broadcast, or a tensor and a number on either side.
fn two(draw: &mut Draw, left: (f64, f64), right: (f64, f64)) -> Sample {
    let [a, b] = draw.pair();
    match draw.between(0..=3) {
        0 => Draw::sample(json!({ "right": (right.0 + right.1) / 2.0 }), [draw.numbers(&a, left.0, left.1)]),
        1 => Draw::sample(json!({ "left": (left.0 + left.1) / 2.0 }), [draw.numbers(&a, right.0, right.1)]),
        _ => Draw::sample(json!({}), [draw.numbers(&a, left.0, left.1), draw.numbers(&b, right.0, right.1)]),
    }
}

const TWO: Drawn = Some(|draw| two(draw, (-2.0, 2.0), (-2.0, 2.0)));

/// A call with two operands, one of which may be a plain number.
macro_rules! either {
    ($args:ident, $x:ident, |$a:ident, $b:ident| $call:expr) => {
        match $x {
            [$a, $b] => $call,
            [$a] if $args.has("right") => {
                let $b = $args.number("right") as A;
                $call
            }
            [$b] => {
                let $a = $args.number("left") as A;
                $call
            }
            _ => unreachable!("two operands at most"),
        }
    };
}

/// A comparison with a tensor or a number, converted to numbers.
macro_rules! compared {
    ($args:ident, $x:ident, $compare:ident) => {
        match $x {
            [a, b] => a.$compare(b).to_floats::<A>(),
            _ => $x[0].$compare($args.number("right") as A).to_floats::<A>(),
        }
    };
}

/// Two tensors, and a mask that broadcasts to them.
const MASKED: Drawn = Some(|draw| {
    let [a, b] = draw.pair();
    let args = json!({ "mask": draw.places(&draw.shape(), 2) });
    Draw::sample(args, [draw.numbers(&a, -2.0, 2.0), draw.numbers(&b, -2.0, 2.0)])
});

ops! {
    "neg", ANY, |_, x| -&x[0];
    "abs", ANY, |_, x| x[0].abs();
    "sign", ANY, |_, x| x[0].sign();
    "exp", ANY, |_, x| x[0].exp();
    "ln", POSITIVE, |_, x| x[0].ln();
    "expm1", ANY, |_, x| x[0].expm1();
    "log1p", POSITIVE, |_, x| x[0].log1p();
    "rsqrt", POSITIVE, |_, x| x[0].rsqrt();
    "sqrt", POSITIVE, |_, x| x[0].sqrt();
    "recip", POSITIVE, |_, x| x[0].recip();
    "square", ANY, |_, x| x[0].square();
    "sin", ANY, |_, x| x[0].sin();
    "cos", ANY, |_, x| x[0].cos();
    "tan", Some(|draw| within(draw, -1.2, 1.2)), |_, x| x[0].tan();
    "tanh", ANY, |_, x| x[0].tanh();
    "sigmoid", ANY, |_, x| x[0].sigmoid();
    "relu", ANY, |_, x| x[0].relu();
    "softplus", ANY, |_, x| x[0].softplus();
    "floor", ANY, |_, x| x[0].floor();
    "ceil", ANY, |_, x| x[0].ceil();
    "round", Some(|draw| within(draw, -0.45, 0.45)), |_, x| x[0].round();
    "asin", WITHIN_ONE, |_, x| x[0].asin();
    "acos", WITHIN_ONE, |_, x| x[0].acos();
    "atan", ANY, |_, x| x[0].atan();
    "sinh", ANY, |_, x| x[0].sinh();
    "cosh", ANY, |_, x| x[0].cosh();
    "asinh", ANY, |_, x| x[0].asinh();
    "acosh", Some(|draw| within(draw, 1.25, 3.0)), |_, x| x[0].acosh();
    "atanh", WITHIN_ONE, |_, x| x[0].atanh();
    "log_sigmoid", ANY, |_, x| x[0].log_sigmoid();
    "entr", POSITIVE, |_, x| x[0].entr();
    "erf", ANY, |_, x| x[0].erf();
    "ndtr", ANY, |_, x| x[0].ndtr();
    "gelu", ANY, |_, x| x[0].gelu();
    "gelu_tanh", ANY, |_, x| x[0].gelu_tanh();
    "silu", ANY, |_, x| x[0].silu();
    "leaky_relu", NUMBER, |args, x| x[0].leaky_relu(args.number("number"));
    "elu", NUMBER, |args, x| x[0].elu(args.number("number"));
    "clamp", Some(|draw| Sample { args: Args(json!({ "min": -0.5, "max": 1.0 })), ..within(draw, -2.0, 2.0) }),
        |args, x| x[0].clamp(args.number_or("min", f64::NEG_INFINITY), args.number_or("max", f64::INFINITY));
    "add", TWO, |args, x| either!(args, x, |a, b| a + b);
    "sub", TWO, |args, x| either!(args, x, |a, b| a - b);
    "mul", TWO, |args, x| either!(args, x, |a, b| a * b);
    "div", Some(|draw| two(draw, (-2.0, 2.0), (0.5, 2.0))), |args, x| either!(args, x, |a, b| a / b);
    "rem", Some(|draw| two(draw, (-1.75, -0.25), (2.0, 3.0))), |args, x| either!(args, x, |a, b| a % b);
    "pow", Some(|draw| two(draw, (0.5, 2.0), (-2.0, 2.0))), |args, x| either!(args, x, |a, b| pow(a, b));
    "min", TWO, |args, x| either!(args, x, |a, b| min(a, b));
    "max", TWO, |args, x| either!(args, x, |a, b| max(a, b));
    "xlogy", Some(|draw| {
        let [a, b] = draw.pair();
        Draw::sample(json!({}), [draw.numbers(&a, -2.0, 2.0), draw.numbers(&b, 0.5, 2.0)])
    }), |_, x| Pointwise::binary(Binary::Xlogy, &x[0], &x[1]);
    "logaddexp", TWO, |args, x| either!(args, x, |a, b| logaddexp(a, b));
    "where_", MASKED, |args, x| {
        let a = if args.flag("squared") { x[0].square() } else { x[0].clone() };
        where_(mask(args, "mask"), a, &x[1])
    };
    "equal", None, |args, x| compared!(args, x, equal);
    "not_equal", None, |args, x| compared!(args, x, not_equal);
    "less", None, |args, x| compared!(args, x, less);
    "less_equal", None, |args, x| compared!(args, x, less_equal);
    "greater", None, |args, x| compared!(args, x, greater);
    "greater_equal", None, |args, x| compared!(args, x, greater_equal);
}
