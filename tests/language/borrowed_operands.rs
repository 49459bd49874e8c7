//! An operand is duplicated if a borrow of it is live in the same expression. If the borrow has ended,
//! it is moved.

use dl::prelude::*;
use std::sync::{Arc, Mutex};

fn larger(a: &Layer<f64>, b: Layer<f64>, c: Layer<f64>) -> Layer<f64> {
    a.max(b) + c
}

fn sum(all: &[&Layer<f64>]) -> Layer<f64> {
    all.iter().map(|&x| x.clone()).sum()
}

fn called(f: impl Fn(f64) -> Layer<f64>, x: Layer<f64>) -> Layer<f64> {
    f(1.0) + x
}

struct Pair<'a> {
    first: &'a Layer<f64>,
    second: Layer<f64>,
}

trait Combined {
    fn combined(&self, other: Layer<f64>) -> Layer<f64>;
}

impl Combined for Layer<f64> {
    fn combined(&self, other: Layer<f64>) -> Layer<f64> {
        self * other
    }
}

#[differentiable]
fn arguments(x: &Layer<f64>) -> Layer<f64> {
    let h = x * 2.0;
    larger(&h, h * 0.5, 1.0.layer())
}

#[differentiable]
fn receivers(x: &Layer<f64>) -> Layer<f64> {
    let h = x * 2.0;
    h.combined(h * 0.5)
}

#[differentiable]
fn operators(x: &Layer<f64>) -> Layer<f64> {
    let h = x * 2.0;
    &h + h * h
}

#[differentiable]
fn lists(x: &Layer<f64>) -> Layer<f64> {
    let (h, k) = (x * 2.0, x * 3.0);
    let both = vec![&h, &k];
    let p = h * k;
    sum(&both) + p
}

#[differentiable]
fn closures(x: &Layer<f64>) -> Layer<f64> {
    let h = x * 2.0;
    called(|y| y * h, h * 0.5)
}

#[differentiable]
fn structs(x: &Layer<f64>) -> Layer<f64> {
    let h = x * 2.0;
    let pair = Pair { first: &h, second: h * 0.5 };
    pair.first * pair.second
}

#[differentiable]
fn formats(x: &Layer<f64>) -> Do<String> {
    let h = x * 2.0;
    let k = x * 3.0;
    let text = format!("{} {:?}", !x, [&h, &(h * 2.0)].len());
    let _ = format!("{h:?} {:?}", h * 2.0);
    let _ = format!("{:?} {:?}", k, k * 2.0);
    Do::now(text)
}

#[derive(Clone)]
struct Net {
    gate: Layer<f64>,
    pair: (Layer<f64>, Layer<f64>),
    shared: Arc<Mutex<Layered>>,
}

struct Layered {
    weight: Weight<f64>,
}

impl Net {
    fn net(&self) -> &Net {
        self
    }

    /// A field behind a reference that a call returns is duplicated.
    #[differentiable]
    fn lent(&self, x: &Layer<f64>) -> Layer<f64> {
        let a = !self.net().gate;
        let [b, c] = ![self.net().pair.0, self.net().pair.1];
        let (d, e) = !(self.shared.lock().unwrap().weight, self.net().clone().gate);
        let f = !self.shared.lock().unwrap().weight;
        let w = self.shared.lock().unwrap().weight * f;
        self.net().gate * x * (a + b + c + d + e) + w - !self.net().clone().pair.1
    }
}

#[test]
fn field_behind_returned_reference_is_duplicated() {
    let [gate, b, c] = [2.0, 3.0, 5.0].map(Layer::constant);
    let shared = Arc::new(Mutex::new(Layered { weight: Weight::new(7.0) }));
    let net = Net { gate, pair: (b, c), shared };
    assert_eq!(net.lent(&Layer::constant(10.0)).predict().wait().unwrap(), 20.0 * 19.0 + 49.0 - 5.0);
}

/// A type that is neither `Copy` nor `Clone`.
struct Once(f64);

impl std::ops::Mul<f64> for Once {
    type Output = f64;
    fn mul(self, other: f64) -> f64 {
        self.0 * other
    }
}

fn of(once: &Once) -> f64 {
    once.0
}

/// Code that compiles without the attribute compiles with it.
#[differentiable]
fn moved(a: Once, b: Once, c: Once) -> f64 {
    let text = format!("{}", of(&a)).len() as f64 + a * 2.0;
    text + f64::max(of(&b), b * 2.0) + of(&c) * (c * 2.0)
}

struct Made {
    once: Once,
    more: (Once, f64),
}

/// The name of a named argument is not a captured variable.
#[differentiable]
fn named(once: Once, text: Once) -> String {
    let text = format!("{text}", text = text * 2.0);
    format!("{once} {text} {}", 1, once = once * 2.0)
}

/// A field of a constructed value is moved.
#[differentiable]
fn parts(a: Once) -> f64 {
    Made { once: a, more: (Once(1.0), 2.0) }.once * 2.0
        + (Once(3.0), 1).0 * 2.0
        + Pair2(Once(7.0), Once(8.0)).1 * 2.0
        + Made { once: Once(9.0), more: (Once(10.0), 11.0) }.more.0 * 2.0
}

struct Pair2(#[allow(dead_code, reason = "the test does not read it")] Once, Once);

#[test]
fn operand_borrowed_by_same_expression_is_duplicated() {
    let x = Layer::constant(2.0);
    assert_eq!(arguments(&x).predict().wait().unwrap(), 5.0);
    assert_eq!(receivers(&x).predict().wait().unwrap(), 8.0);
    assert_eq!(operators(&x).predict().wait().unwrap(), 20.0);
    assert_eq!(lists(&x).predict().wait().unwrap(), 34.0);
    assert_eq!(closures(&x).predict().wait().unwrap(), 6.0);
    assert_eq!(structs(&x).predict().wait().unwrap(), 8.0);
    assert_eq!(formats(&x).wait().unwrap(), "2 2");
    assert_eq!(named(Once(1.0), Once(2.0)), "2 4 1");
    assert_eq!(parts(Once(1.0)), 2.0 + 6.0 + 16.0 + 20.0);
    assert_eq!(moved(Once(1.0), Once(2.0), Once(3.0)), 3.0 + 4.0 + 18.0);
}
