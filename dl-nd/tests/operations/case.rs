//! A reference case: operands and arguments of an operation, with its value and derivatives.

use dl_core::Layer;
use dl_nd::{Element, Nd};
use ndarray::{ArrayD, Axis, IxDyn, Slice};
use serde_json::Value;
use std::fmt;

/// An operand or result of an operation in these tests, of dynamic rank.
pub(crate) type Tensor<A> = Layer<Nd<A, IxDyn>>;

/// The elements of a tensor and its memory layout.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) shape: Vec<usize>,
    /// In row-major order.
    pub(crate) data: Vec<f64>,
    /// The axes from outermost to innermost, and the step between neighbours along each axis. Empty
    /// for row-major order.
    pub(crate) layout: (Vec<usize>, Vec<isize>),
}

impl Numbers {
    fn parse(value: &Value) -> Self {
        let layout = match value.get("axes") {
            Some(axes) => (lengths(axes), integers(&value["steps"])),
            None => (Vec::new(), Vec::new()),
        };
        Numbers { shape: lengths(&value["shape"]), data: list(&value["data"], number), layout }
    }

    /// The tensor with the strides of the layout. Gaps between its elements are filled with NaN.
    pub(crate) fn tensor<A: Element>(&self) -> Nd<A, IxDyn> {
        let elements = self.data.iter().map(|&x| A::of(x)).collect();
        let array =
            ArrayD::from_shape_vec(self.shape.as_slice(), elements).expect("as many elements as the shape says");
        let (axes, steps) = &self.layout;
        if axes.is_empty() {
            return array.into();
        }
        let span = |axis: usize| self.shape[axis].saturating_sub(1) * steps[axis].unsigned_abs();
        let span = |axis: usize| if self.shape[axis] == 0 { 0 } else { span(axis) + 1 };
        let memory = ArrayD::from_elem(axes.iter().map(|&axis| span(axis)).collect::<Vec<_>>(), A::of(f64::NAN));
        let places: Vec<usize> =
            (0..axes.len()).map(|axis| axes.iter().position(|&other| other == axis).expect("every axis")).collect();
        let mut strided = memory.into_shared().permuted_axes(places);
        for (axis, &step) in steps.iter().enumerate() {
            strided.slice_axis_inplace(Axis(axis), Slice::new(0, None, step));
        }
        strided.assign(&array);
        Nd::from(strided)
    }
}

/// The arguments of an operation other than its operands.
#[derive(Clone, PartialEq)]
pub(crate) struct Args(pub(crate) Value);

impl fmt::Debug for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Args {
    fn get(&self, name: &str) -> &Value {
        self.find(name).unwrap_or_else(|| panic!("no argument `{name}` in {self:?}"))
    }

    fn find(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.find(name).is_some_and(|value| value.as_bool().expect("a truth value"))
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        number(self.get(name))
    }

    pub(crate) fn number_or(&self, name: &str, default: f64) -> f64 {
        self.find(name).map_or(default, number)
    }

    pub(crate) fn integer(&self, name: &str) -> isize {
        integer(self.get(name))
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.integer(name).try_into().expect("a count")
    }

    pub(crate) fn integers(&self, name: &str) -> Vec<isize> {
        integers(self.get(name))
    }

    pub(crate) fn lengths(&self, name: &str) -> Vec<usize> {
        lengths(self.get(name))
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).as_str().expect("a text")
    }

    pub(crate) fn value(&self, name: &str) -> &Value {
        self.get(name)
    }

    pub(crate) fn numbers(&self, name: &str) -> Numbers {
        Numbers::parse(self.get(name))
    }

    /// A tensor of indices or of booleans.
    pub(crate) fn array<T>(&self, name: &str, element: impl Fn(f64) -> T) -> ArrayD<T> {
        let Numbers { shape, data, .. } = self.numbers(name);
        ArrayD::from_shape_vec(shape, data.into_iter().map(element).collect())
            .expect("as many elements as the shape says")
    }
}

fn list<T>(value: &Value, element: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().expect("a list").iter().map(element).collect()
}

pub(crate) fn integer(value: &Value) -> isize {
    value.as_i64().expect("an integer") as isize
}

fn integers(value: &Value) -> Vec<isize> {
    list(value, integer)
}

pub(crate) fn lengths(value: &Value) -> Vec<usize> {
    list(value, |length| integer(length).try_into().expect("a length"))
}

/// A number. Numbers without a JSON representation are stored as strings.
fn number(value: &Value) -> f64 {
    match value {
        Value::String(text) => text.parse().expect("a number"),
        value => value.as_f64().expect("a number"),
    }
}

/// A line of the reference file.
pub(crate) struct Case {
    /// The line number, from 1.
    pub(crate) line: usize,
    pub(crate) op: String,
    pub(crate) args: Args,
    pub(crate) inputs: Vec<Numbers>,
    pub(crate) output: Numbers,
    /// Whether it is at a kink, a tie or a pole.
    pub(crate) kink: bool,
    pub(crate) first: Option<Derivatives>,
    pub(crate) second: Option<Derivatives>,
}

/// Derivatives of a weighted sum.
pub(crate) struct Derivatives {
    /// The weights: the cotangent of the output, or the directions that weight the gradients.
    pub(crate) weights: Vec<Numbers>,
    /// One derivative for each input.
    pub(crate) gradients: Vec<Numbers>,
}

impl Case {
    fn parse(line: usize, text: &str) -> Self {
        let value: Value = serde_json::from_str(text).expect("a line of JSON");
        let tensors = |name: &str| list(&value[name], Numbers::parse);
        let given = |name: &str| value.get(name).is_some();
        Case {
            line,
            op: value["op"].as_str().expect("a name").to_owned(),
            args: Args(value["args"].clone()),
            inputs: tensors("inputs"),
            output: Numbers::parse(&value["output"]),
            kink: given("kink"),
            first: given("cotangent").then(|| Derivatives {
                weights: vec![Numbers::parse(&value["cotangent"])],
                gradients: tensors("gradients"),
            }),
            second: given("second")
                .then(|| Derivatives { weights: tensors("directions"), gradients: tensors("second") }),
        }
    }

    /// All cases of the reference file.
    pub(crate) fn all() -> Vec<Case> {
        let lines = include_str!("../reference/operations.jsonl").lines();
        lines.enumerate().map(|(i, text)| Case::parse(i + 1, text)).collect()
    }
}
