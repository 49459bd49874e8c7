//! Values of the reference, and the operations on them, with the same roundings as in the library,
//! in the same order.

use super::graph::{Binary, Fault, Kernel, Kind, LENGTH, Unary};
use dl::Number;

/// A forward value. A counted number is a plain number here.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    F64(f64),
    F32(f32),
    Many(Vec<f64>),
}

/// The failure of a pass: the index of the fault, and its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) number: usize,
    pub(crate) panics: bool,
    /// Whether it occurs in a delta.
    pub(crate) delta: bool,
    /// The name of the operation in the error.
    pub(crate) op: &'static str,
}

impl Value {
    /// The value of a variable or constant that one number describes.
    pub(crate) fn of(kind: Kind, value: f64) -> Value {
        match kind {
            Kind::F32 => Value::F32(value as f32),
            Kind::F64 | Kind::Counted => Value::F64(value),
            Kind::Many => Value::Many((0..LENGTH).map(|i| value / (i + 1) as f64).collect()),
        }
    }

    /// This number in all elements of a value of the same shape.
    pub(crate) fn filled(&self, number: f64) -> Value {
        match self {
            Value::F64(_) => Value::F64(number),
            Value::F32(_) => Value::F32(number as f32),
            Value::Many(_) => Value::Many(vec![number; LENGTH]),
        }
    }

    pub(crate) fn number(&self) -> f64 {
        match self {
            Value::F64(number) => *number,
            _ => unreachable!("this is asked of numbers of type f64"),
        }
    }

    /// All elements. The conversion to `f64` is exact.
    pub(crate) fn elements(&self) -> Vec<f64> {
        match self {
            Value::F64(x) => vec![*x],
            Value::F32(x) => vec![f64::from(*x)],
            Value::Many(x) => x.clone(),
        }
    }

    /// A step of gradient descent with momentum.
    pub(crate) fn step(&mut self, velocity: &mut Value, delta: &Value, rate: f64, momentum: f64) {
        match (self, velocity, delta) {
            (Value::F64(w), Value::F64(v), Value::F64(d)) => {
                *v = momentum * *v + d;
                *w -= rate * *v;
            }
            (Value::F32(w), Value::F32(v), Value::F32(d)) => {
                *v = momentum as f32 * *v + d;
                *w -= rate as f32 * *v;
            }
            (Value::Many(w), Value::Many(v), Value::Many(d)) => {
                for ((w, v), d) in w.iter_mut().zip(v).zip(d) {
                    *v = momentum * *v + d;
                    *w -= rate * *v;
                }
            }
            _ => unreachable!("a delta is of the type of its weight"),
        }
    }
}

macro_rules! arithmetic {
    ($unary:ident $binary:ident $T:ident) => {
        fn $unary(op: Unary, x: $T) -> $T {
            match op {
                Unary::Neg => -x,
                Unary::Abs => x.abs(),
                Unary::Sign => match x {
                    0.0 => x,
                    _ => x.signum(),
                },
                Unary::Exp => Number::exp(x),
                Unary::Square => x * x,
                Unary::Recip => 1.0 / x,
                Unary::Sin => x.sin(),
                Unary::Cos => x.cos(),
                Unary::Tanh => Number::tanh(x),
                Unary::Sigmoid if x >= 0.0 => 1.0 / (1.0 + Number::exp(-x)),
                Unary::Sigmoid => {
                    let e = Number::exp(-x.abs());
                    e / (1.0 + e)
                }
                Unary::Relu if x <= 0.0 => 0.0,
                Unary::Relu => x,
                Unary::Softplus => x.max(0.0) + Number::ln_1p(Number::exp(-x.abs())),
            }
        }

        fn $binary(op: Binary, a: $T, b: $T) -> $T {
            match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div => a / b,
                Binary::Min if a < b || a.is_nan() => a,
                Binary::Max if a > b || a.is_nan() => a,
                Binary::Min | Binary::Max => b,
                Binary::Above if a > b => 1.0,
                Binary::Above if a == b => 0.5,
                Binary::Above if a < b => 0.0,
                Binary::Above => a + b,
                Binary::Gate if b <= 0.0 => 0.0,
                Binary::Gate => a,
                Binary::StrongMul if a == 0.0 => a,
                Binary::StrongMul => a * b,
                Binary::StrongDiv if a == 0.0 => a,
                Binary::StrongDiv => a / b,
                Binary::BothStrongMul if a == 0.0 || b == 0.0 => 0.0,
                Binary::BothStrongMul => a * b,
            }
        }
    };
}

arithmetic!(unary_f64 binary_f64 f64);
arithmetic!(unary_f32 binary_f32 f32);

pub(crate) fn unary(op: Unary, x: &Value) -> Value {
    match x {
        Value::F64(x) => Value::F64(unary_f64(op, *x)),
        Value::F32(x) => Value::F32(unary_f32(op, *x)),
        Value::Many(x) => Value::Many(x.iter().map(|&x| unary_f64(op, x)).collect()),
    }
}

pub(crate) fn binary(op: Binary, a: &Value, b: &Value) -> Value {
    match (a, b) {
        (Value::F64(a), Value::F64(b)) => Value::F64(binary_f64(op, *a, *b)),
        (Value::F32(a), Value::F32(b)) => Value::F32(binary_f32(op, *a, *b)),
        (Value::Many(a), Value::Many(b)) => Value::Many(a.iter().zip(b).map(|(&a, &b)| binary_f64(op, a, b)).collect()),
        _ => unreachable!("arithmetic works on values of one type"),
    }
}

pub(crate) fn kernel(kernel: &Kernel, operands: &[Value]) -> Result<Value, Failure> {
    let x = &operands[0];
    let number = |operand: usize| operands[operand].number();
    Ok(match kernel {
        Kernel::Scale(k) | Kernel::Stretch(k) => Value::F64(k * x.number()),
        Kernel::Blend => Value::F64(number(0) * number(1) + number(0)),
        Kernel::Fused => Value::F64(number(0) * number(1) + number(2)),
        Kernel::Gather(factors) => {
            Value::F64(factors.iter().zip(operands).fold(0.0, |sum, (k, x)| sum + k * x.number()))
        }
        Kernel::Widen => Value::F64(x.elements()[0]),
        Kernel::Narrow => Value::F32(x.number() as f32),
        Kernel::Enter | Kernel::Leave => x.clone(),
        Kernel::Mix => Value::F64(number(0) * 0.5 + number(1)),
        Kernel::Spread => Value::of(Kind::Many, x.number()),
        Kernel::Total => Value::F64(x.elements().iter().enumerate().fold(0.0, |sum, (i, x)| sum + x / (i + 1) as f64)),
        Kernel::Sum => operands[1..].iter().fold(x.clone(), |sum, term| binary(Binary::Add, &sum, term)),
        Kernel::Faulty(number, Fault::ValueFails) => {
            return Err(Failure { number: *number, panics: false, delta: false, op: "faulty" });
        }
        Kernel::Faulty(number, Fault::ValuePanics) => {
            return Err(Failure { number: *number, panics: true, delta: false, op: "faulty" });
        }
        Kernel::Faulty(..) => x.clone(),
        Kernel::FaultyDelta(number, fault) => {
            let panics = *fault == Fault::DeltaPanics;
            return Err(Failure { number: *number, panics, delta: true, op: "faulty_delta" });
        }
    })
}
