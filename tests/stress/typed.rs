//! Layers and weights with dynamic types.

use super::graph::{Binary, Kind, LENGTH, Unary, Variable};
use super::kernels::Many;
use super::ledger::{Counted, Ledger};
use super::numbers::Value;
use dl::{Data, Differentiable, Layer, Pointwise, Weight, max, min};
use std::sync::Arc;

/// A layer of any kind.
#[derive(Clone)]
pub(crate) enum Any {
    F64(Layer<f64>),
    F32(Layer<f32>),
    Many(Layer<Many>),
    Counted(Layer<Counted>),
}

/// A weight of any kind.
pub(crate) enum AnyWeight {
    F64(Weight<f64>),
    F32(Weight<f32>),
    Many(Weight<Many>),
    Counted(Weight<Counted>),
}

/// A type of one of the kinds.
pub(crate) trait Typed: Data {
    fn of(any: &Any) -> Layer<Self>;

    fn any(layer: Layer<Self>) -> Any;

    /// The constant that one number describes.
    fn described(value: f64, ledger: &Arc<Ledger>) -> Layer<Self>;
}

pub(crate) trait Erase {
    fn erase(self) -> Any;
}

impl<T: Typed> Erase for Layer<T> {
    fn erase(self) -> Any {
        T::any(self)
    }
}

macro_rules! typed {
    ($($T:ty, $Kind:ident: |$value:ident, $ledger:ident| $described:expr;)*) => {$(
        impl Typed for $T {
            fn of(any: &Any) -> Layer<$T> {
                match any {
                    Any::$Kind(layer) => layer.clone(),
                    _ => unreachable!("a node is used with its kind"),
                }
            }

            fn any(layer: Layer<$T>) -> Any {
                Any::$Kind(layer)
            }

            fn described($value: f64, $ledger: &Arc<Ledger>) -> Layer<$T> {
                Layer::constant($described)
            }
        }
    )*};
}

typed! {
    f64, F64: |value, _ledger| value;
    f32, F32: |value, _ledger| value as f32;
    Many, Many: |value, _ledger| many(value);
    Counted, Counted: |value, ledger| Counted::new(value, ledger);
}

fn many(value: f64) -> Many {
    (0..LENGTH).map(|i| value / (i + 1) as f64).collect::<Vec<_>>().into()
}

impl AnyWeight {
    pub(crate) fn new(variable: &Variable, ledger: &Arc<Ledger>) -> Self {
        fn new<T: dl::Trainable>(value: T, frozen: bool) -> Weight<T> {
            let weight = Weight::new(value);
            if frozen {
                weight.freeze();
            }
            weight
        }

        let Variable { kind, value, frozen } = *variable;
        match kind {
            Kind::F64 => AnyWeight::F64(new(value, frozen)),
            Kind::F32 => AnyWeight::F32(new(value as f32, frozen)),
            Kind::Many => AnyWeight::Many(new(many(value), frozen)),
            Kind::Counted => AnyWeight::Counted(new(Counted::new(value, ledger), frozen)),
        }
    }

    /// The elements of its value.
    pub(crate) fn elements(&self) -> Vec<f64> {
        match self {
            AnyWeight::F64(weight) => vec![weight.value()],
            AnyWeight::F32(weight) => vec![f64::from(weight.value())],
            AnyWeight::Many(weight) => weight.value().view().to_vec(),
            AnyWeight::Counted(weight) => vec![weight.value().number],
        }
    }

    pub(crate) fn set(&self, value: &Value, ledger: &Arc<Ledger>) {
        match (self, value) {
            (AnyWeight::F64(weight), Value::F64(value)) => weight.set(*value),
            (AnyWeight::F32(weight), Value::F32(value)) => weight.set(*value),
            (AnyWeight::Many(weight), Value::Many(value)) => weight.set(value.clone().into()),
            (AnyWeight::Counted(weight), Value::F64(value)) => weight.set(Counted::new(*value, ledger)),
            _ => unreachable!("a weight keeps its kind"),
        }
    }

    pub(crate) fn layer(&self) -> Any {
        match self {
            AnyWeight::F64(weight) => weight.layer().erase(),
            AnyWeight::F32(weight) => weight.layer().erase(),
            AnyWeight::Many(weight) => weight.layer().erase(),
            AnyWeight::Counted(weight) => weight.layer().erase(),
        }
    }
}

pub(crate) fn unary(op: Unary, x: &Any) -> Any {
    fn of<T: Pointwise + Typed>(op: Unary, x: &Layer<T>) -> Any {
        let y = match op {
            Unary::Neg => -x,
            Unary::Abs => x.abs(),
            Unary::Sign => x.sign(),
            Unary::Exp => x.exp(),
            Unary::Square => x.square(),
            Unary::Recip => x.recip(),
            Unary::Sin => x.sin(),
            Unary::Cos => x.cos(),
            Unary::Tanh => x.tanh(),
            Unary::Sigmoid => x.sigmoid(),
            Unary::Relu => x.relu(),
            Unary::Softplus => x.softplus(),
        };
        y.erase()
    }

    match x {
        Any::F64(x) => of(op, x),
        Any::F32(x) => of(op, x),
        Any::Many(x) => of(op, x),
        Any::Counted(_) => unreachable!("counted numbers have no arithmetic"),
    }
}

pub(crate) fn binary(op: Binary, a: &Any, b: &Any) -> Any {
    macro_rules! of {
        ($a:ident, $b:ident) => {
            match op {
                Binary::Add => ($a + $b).erase(),
                Binary::Sub => ($a - $b).erase(),
                Binary::Mul => ($a * $b).erase(),
                Binary::Div => ($a / $b).erase(),
                Binary::Min => min($a, $b).erase(),
                Binary::Max => max($a, $b).erase(),
                Binary::Above | Binary::Gate | Binary::StrongMul | Binary::StrongDiv | Binary::BothStrongMul => {
                    unreachable!("these appear in deltas only")
                }
            }
        };
    }

    match (a, b) {
        (Any::F64(a), Any::F64(b)) => of!(a, b),
        (Any::F32(a), Any::F32(b)) => of!(a, b),
        (Any::Many(a), Any::Many(b)) => of!(a, b),
        _ => unreachable!("arithmetic works on values of one type"),
    }
}

pub(crate) fn literal(op: Binary, x: &Any, number: f64, left: bool) -> Any {
    macro_rules! of {
        ($x:ident, $number:expr) => {
            match (op, left) {
                (Binary::Add, false) => ($x + $number).erase(),
                (Binary::Add, true) => ($number + $x).erase(),
                (Binary::Sub, false) => ($x - $number).erase(),
                (Binary::Sub, true) => ($number - $x).erase(),
                (Binary::Mul, false) => ($x * $number).erase(),
                (Binary::Mul, true) => ($number * $x).erase(),
                (Binary::Div, false) => ($x / $number).erase(),
                (Binary::Div, true) => ($number / $x).erase(),
                _ => unreachable!("literals stand beside + - * /"),
            }
        };
    }

    match x {
        Any::F64(x) => of!(x, number),
        Any::F32(x) => of!(x, number as f32),
        Any::Many(x) => of!(x, number),
        Any::Counted(_) => unreachable!("counted numbers have no arithmetic"),
    }
}
