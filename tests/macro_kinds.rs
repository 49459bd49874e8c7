//! Structs of layers and opaque types as results; `direct!` blocks; the attribute on `impl` blocks,
//! traits and modules.

#![deny(warnings)]

use dl::prelude::*;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

fn constant(value: f64) -> Layer<f64> {
    Layer::constant(value)
}

#[derive(Clone, Layers)]
struct State {
    h: Layer<f64>,
    c: Layer<f64>,
}

#[derive(Clone, Layers)]
struct Both<T: dl::Data>(State, [Layer<T>; 2]);

#[differentiable(lazy)]
fn cell(x: &Layer<f64>, state: &State, runs: &Arc<AtomicUsize>) -> State {
    runs.fetch_add(1, Ordering::Relaxed);
    if !x > !state.c {
        State { h: x * state.h, c: state.c.clone() }
    } else {
        State { h: state.h + 1.0, c: x + state.c }
    }
}

#[differentiable(lazy)]
fn both(x: &Layer<f64>, state: &State, runs: &Arc<AtomicUsize>) -> Both<f64> {
    let v = !x;
    Both(cell(x, state, runs), [x * v, x + v])
}

#[test]
fn struct_of_layers_runs_body_once_in_pass() {
    let runs = Arc::new(AtomicUsize::new(0));
    let start = State { h: constant(2.0), c: constant(3.0) };
    let state = cell(&constant(5.0), &start, &runs);
    assert_eq!(value(&(&state.h * &state.c)), 30.0);
    assert_eq!(runs.load(Ordering::Relaxed), 1, "the body runs once in a pass");
    let state = cell(&constant(1.0), &state, &runs);
    assert_eq!(value(&state.h), 11.0);
    let w = Weight::new(5.0);
    let Both(state, [square, double]) = both(&w.layer(), &start, &runs);
    assert_eq!(value(&state.h), 10.0);
    assert_eq!(value(&double), 10.0);
    // The derivative of w · !w is !w = 5.
    square.train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(w.value(), 4.5);
}

fn gates(xs: &[Layer<f64>], limit: f64) -> Vec<Layer<f64>> {
    let scale = Weight::new(2.0);
    let twice = |v: f64| v * 2.0;
    xs.iter()
        .map(|x| {
            direct! {
                let v = !x;
                if v > limit {
                    return x * scale;
                }
                x + twice(v)
            }
        })
        .collect()
}

#[test]
fn direct_block_in_plain_function_runs_in_each_pass() -> dl::Result<()> {
    let [big, small]: [Layer<f64>; 2] = gates(&[constant(10.0), constant(1.0)], 5.0).try_into().unwrap();
    assert_eq!(value(&big), 20.0);
    assert_eq!(value(&small), 3.0);

    let (x, text) = (Weight::new(1.5), "2.5");
    let sum = direct! {
        let n: f64 = text.parse()?;
        let doubled: f64 = !x + n + !x;
        Do::now(format!("{text} {doubled}"))
    };
    assert_eq!(sum.wait()?, "2.5 5.5");
    x.set(2.5);
    assert_eq!(sum.wait()?, "2.5 7.5", "the block runs again");

    let (a, b) = direct! { if !x > 1.0 { (x * 2.0, x.layer()) } else { (x.layer(), x * 3.0) } };
    assert_eq!(value(&(a + b)), 7.5);

    let text = "number";
    let failed: Layer<f64> = direct! { x * text.parse::<f64>()? };
    assert!(failed.predict().wait().is_err());
    let sum: f64 = (0..3).map(|i| f64::from(i) + x.value()).sum();
    let nested = direct! { crate = dl; let inner = direct! { x * !x }; inner + sum * !inner };
    assert_eq!(value(&nested), 6.25 + 6.25 * 10.5);
    Ok(())
}

#[derive(Clone)]
struct Net {
    weight: Weight<f64>,
    limit: f64,
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net up to {}", self.limit)
    }
}

#[differentiable]
impl Net {
    const LIMIT: f64 = 2.0;

    const fn new(weight: Weight<f64>) -> Self {
        Net { weight, limit: Self::LIMIT }
    }

    fn of(&self, x: &Layer<f64>) -> Layer<f64> {
        if !x > self.limit { self.weight * x } else { self.weight * self.weight }
    }

    fn is_small(&self, small: bool) -> bool {
        small && !(self.limit > 1.0 || self.weight.value() > 5.0)
    }

    fn described(&self, x: &Layer<f64>) -> Do<String> {
        let v = !x;
        assert!(v < 100.0, "{self}: {v}");
        Do::now(format!("{self} {v} {self:>14} {}", !x))
    }

    fn inside(&self, x: &Layer<f64>) -> Layer<f64> {
        let outer = direct! { self.weight * !x };
        outer * !outer
    }

    fn block(&self, x: &Layer<f64>) -> Vec<Layer<f64>> {
        vec![direct! { if !x > self.limit { self.of(x) } else { x.clone() } }]
    }

    #[differentiable(lazy)]
    fn state(&self) -> State {
        let w = !self.weight;
        State { h: self.weight * w, c: self.weight.layer() }
    }
}

#[differentiable]
trait Module {
    fn of(&self, x: &Layer<f64>) -> Layer<f64>;

    fn squared(&self, x: &Layer<f64>) -> Layer<f64> {
        let y = self.of(x);
        y * y
    }
}

impl Module for Net {
    fn of(&self, x: &Layer<f64>) -> Layer<f64> {
        Net::of(self, x)
    }
}

#[differentiable]
mod annotated {
    use super::*;

    pub(super) fn absolute(x: &Layer<f64>) -> Layer<f64> {
        if !x < 0.0 { -x } else { x.clone() }
    }

    pub(super) fn popcount(mut n: u32) -> u32 {
        let mut count = 0;
        while n != 0 {
            n &= n - 1;
            count += 1;
        }
        count ^ !0
    }

    pub(super) struct Twice(pub(super) f64);

    impl Twice {
        pub(super) fn of(&self, x: &Layer<f64>) -> Layer<f64> {
            x * self.0 * !x
        }
    }

    impl Clone for Twice {
        fn clone(&self) -> Self {
            Twice(self.0)
        }
    }
}

#[test]
fn attribute_on_impl_trait_and_module_applies_to_each_function() {
    let net = Net::new(Weight::new(3.0));
    assert_eq!(value(&net.of(&constant(4.0))), 12.0);
    assert_eq!(value(&net.of(&constant(1.0))), 9.0);
    assert_eq!(value(&net.squared(&constant(4.0))), 144.0);
    assert_eq!(value(&net.inside(&constant(4.0))), 144.0);
    assert_eq!(value(&net.block(&constant(4.0))[0]), 12.0);
    assert_eq!(value(&net.state().h), 9.0);
    assert!(!net.is_small(true) && !net.is_small(false));
    assert_eq!(net.described(&constant(1.5)).wait().unwrap(), "net up to 2 1.5 net up to 2 1.5");
    let error = net.described(&constant(100.0)).wait().unwrap_err();
    assert!(error.to_string().contains("net up to 2: 100"), "{error}");
    assert_eq!(value(&annotated::absolute(&constant(-2.0))), 2.0);
    assert_eq!(annotated::popcount(0b1011), !3);
    assert_eq!(value(&annotated::Twice(2.0).of(&constant(3.0))), 18.0);
}

#[differentiable]
fn opaque(
    x: impl Differentiable<Data = f64, Delta = f64>,
    early: bool,
) -> impl Differentiable<Data = f64, Delta = f64> + Expression {
    if early && !x > 0.0 {
        return x;
    }
    x * 2.0
}

trait Expression {}
impl<X: Differentiable<Data = f64, Delta = f64>> Expression for X {}

#[test]
fn opaque_result_can_return_early() {
    assert_eq!(opaque(Weight::new(3.0), true).predict().wait().unwrap(), 3.0);
    assert_eq!(opaque(3.0, false).predict().wait().unwrap(), 6.0);
    assert_eq!(opaque(constant(-3.0), true).predict().wait().unwrap(), -6.0);
}
