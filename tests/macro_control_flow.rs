//! Extractions (`!x`) in every construct of Rust.

#![deny(warnings)]

use dl::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

fn constant(value: f64) -> Layer<f64> {
    Layer::constant(value)
}

#[differentiable]
fn gated(scores: (Layer<f64>, Layer<f64>), inputs: &[Layer<f64>], built: &Arc<AtomicUsize>) -> Layer<f64> {
    let (left, right) = !scores;
    if left > right {
        built.fetch_add(1, Ordering::Relaxed);
        scores.0 * inputs[0]
    } else {
        built.fetch_add(100, Ordering::Relaxed);
        scores.1 * inputs[1]
    }
}

#[test]
fn lazy_body_builds_taken_branch_only_and_runs_in_each_pass() {
    let built = Arc::new(AtomicUsize::new(0));
    let layer = gated((constant(2.0), constant(1.0)), &[constant(10.0), constant(20.0)], &built);
    assert_eq!(built.load(Ordering::Relaxed), 0);
    assert_eq!(value(&layer), 20.0);
    assert_eq!(value(&layer), 20.0);
    assert_eq!(built.load(Ordering::Relaxed), 2);
}

#[differentiable]
fn doubled_until(x: &Layer<f64>, limit: f64) -> Layer<f64> {
    let mut y = x.clone();
    while !y < limit {
        y = y + y;
    }
    y
}

#[differentiable]
fn looped(x: Layer<f64>) -> Layer<f64> {
    let mut y = x;
    let mut rounds = 0.0;
    let found = loop {
        rounds += 1.0;
        if rounds > 100.0 {
            continue;
        }
        if !y > 50.0 && !(y * 2.0) > 100.0 {
            break y * rounds;
        }
        y = y * y;
    };
    found + 1.0
}

#[differentiable]
fn summed(xs: Vec<Layer<f64>>, skip: f64) -> Layer<f64> {
    let mut sum = Layer::constant(0.0);
    for x in &xs {
        if !x == skip {
            continue;
        }
        sum = sum + x * !x;
    }
    sum
}

#[test]
fn extractions_in_loops_run_in_each_iteration() {
    assert_eq!(value(&doubled_until(&constant(3.0), 40.0)), 48.0);
    assert_eq!(value(&looped(constant(3.0))), 81.0 * 3.0 + 1.0);
    assert_eq!(value(&summed([1.0, 2.0, 3.0].map(constant).to_vec(), 2.0)), 10.0);
}

#[differentiable]
fn factorial(n: &Layer<f64>) -> Layer<f64> {
    if !n <= 1.0 { Layer::constant(1.0) } else { n * factorial(&(n - 1.0)) }
}

#[differentiable]
fn even(n: Layer<f64>) -> Layer<f64> {
    if !n == 0.0 { Layer::constant(1.0) } else { odd(n - 1.0) }
}

#[differentiable]
fn odd(n: Layer<f64>) -> Layer<f64> {
    if !n == 0.0 { Layer::constant(0.0) } else { even(n - 1.0) }
}

#[test]
fn recursive_lazy_functions_end_at_extracted_condition() {
    assert_eq!(value(&factorial(&constant(6.0))), 720.0);
    assert_eq!(value(&even(constant(7.0))), 0.0);
}

#[differentiable]
fn matched(x: &Layer<f64>, sign: &str) -> Layer<f64> {
    match (!x, sign) {
        (v, "-") if v > 0.0 => -x,
        (v, _) if v > !(x * 0.0 + 10.0) => x * !x,
        (v, "return") => return x + v,
        _ => x * 1.0,
    }
}

#[test]
fn match_on_extracted_value_takes_right_arm() {
    assert_eq!(value(&matched(&constant(3.0), "-")), -3.0);
    assert_eq!(value(&matched(&constant(11.0), "+")), 121.0);
    assert_eq!(value(&matched(&constant(3.0), "return")), 6.0);
    assert_eq!(value(&matched(&constant(3.0), "+")), 3.0);
}

#[differentiable]
fn parsed(text: &str, x: &Layer<f64>) -> Layer<f64> {
    let n: f64 = text.trim().parse()?;
    x * n
}

#[differentiable]
fn checked(x: &Layer<f64>) -> Layer<f64> {
    if !x < 0.0 {
        Err("negative")?;
    }
    x.clone()
}

#[test]
fn question_mark_error_becomes_error_of_layer() {
    assert_eq!(value(&parsed(" 4 ", &constant(2.0))), 8.0);
    let error = parsed("four", &constant(2.0)).predict().wait().unwrap_err();
    assert!(error.to_string().contains("invalid float literal"), "{error}");
    let error = (checked(&constant(-1.0)) + 1.0).predict().wait().unwrap_err();
    assert!(error.to_string().contains("negative"), "{error}");
}

#[differentiable]
fn leftmost(x: &Layer<f64>) -> Layer<f64> {
    let (a, b) = !(parsed("left", x), parsed("right", x));
    let c = !checked(x) + !checked(x);
    x * (a + b + c)
}

#[test]
fn several_failures_report_leftmost_error() {
    #[differentiable]
    fn named(name: &'static str) -> Layer<f64> {
        Err(name)?;
        Layer::constant(1.0)
    }
    #[differentiable]
    fn both(n: usize) -> Layer<f64> {
        let x = !named("first") + !named("second");
        Layer::constant(x + n as f64)
    }
    for n in 0..20 {
        let error = both(n).predict().wait().unwrap_err();
        assert!(error.to_string().contains("first"), "{error}");
    }
    assert!(leftmost(&constant(1.0)).predict().wait().is_err());
}

#[differentiable]
fn not(x: &Layer<f64>, flags: (bool, u8), named: bool) -> Layer<f64> {
    let opposite = !flags.0;
    let bits = !flags.1;
    let text = "text".to_owned();
    if opposite && !named && !text.is_empty() && bits == 0xF0 { x * !x } else { x + 0.0 }
}

#[test]
fn not_on_bool_and_integer_keeps_its_meaning() {
    assert_eq!(value(&not(&constant(3.0), (false, 0x0F), false)), 9.0);
    assert_eq!(value(&not(&constant(3.0), (true, 0x0F), false)), 3.0);
}

struct Net {
    weight: Weight<f64>,
    limit: f64,
}

impl Clone for Net {
    fn clone(&self) -> Self {
        Net { weight: self.weight.clone(), limit: self.limit }
    }
}

trait Module {
    fn of(&self, x: &Layer<f64>) -> Layer<f64>;
}

impl Module for Net {
    #[differentiable]
    fn of(&self, x: &Layer<f64>) -> Layer<f64> {
        let described = format!("{} {}", self.limit, !x);
        assert!(!x < 100.0, "{described} {}", !x);
        if !x > self.limit { self.weight * x } else { x * self.limit }
    }
}

impl Net {
    #[differentiable]
    fn consumed(self, x: Layer<f64>) -> Layer<f64> {
        let v = !self.of(&x);
        self.weight * v
    }
}

#[test]
fn lazy_methods_keep_self_and_format_strings() {
    let net = Net { weight: Weight::new(5.0), limit: 2.0 };
    assert_eq!(value(&net.of(&constant(3.0))), 15.0);
    assert_eq!(value(&net.of(&constant(1.0))), 2.0);
    assert_eq!(value(&net.clone().consumed(constant(3.0))), 75.0);
    assert!(net.of(&constant(200.0)).predict().wait().unwrap_err().is_panic());
}

#[differentiable]
fn cell(h: &Layer<f64>, c: Layer<f64>, runs: &Arc<AtomicUsize>) -> (Layer<f64>, [Layer<f64>; 2], Do<f64>) {
    runs.fetch_add(1, Ordering::Relaxed);
    let (a, b) = !(h, c);
    if a > b { (h * c, [h.clone(), c], Do::now(a)) } else { (c, [h * 2.0, h * 3.0], Do::now(b)) }
}

#[test]
fn tuple_result_runs_body_once_in_pass() {
    let runs = Arc::new(AtomicUsize::new(0));
    let (x, [y, z], n) = cell(&constant(1.0), constant(5.0), &runs);
    assert_eq!(value(&(&x + &y * &z)), 11.0);
    assert_eq!(runs.load(Ordering::Relaxed), 1, "the body runs once in a pass");
    assert_eq!(n.wait().unwrap(), 5.0);
    let w = Weight::new(4.0);
    let (x, [y, _], _) = cell(&w.layer(), constant(2.0), &runs);
    (x * y).train(&Sgd::new(0.01)).wait().unwrap();
    // The derivative of w² · 2 at 4 is 16.
    assert!((w.value() - (4.0 - 0.16)).abs() < 1e-12);
}

#[differentiable]
fn computation(x: &Layer<f64>) -> Do<String> {
    let text = (!x).to_string();
    Do::now(text)
}

#[test]
fn do_result_can_be_awaited_twice() {
    let text = computation(&constant(1.5));
    assert_eq!(text.wait().unwrap(), "1.5");
    assert_eq!(text.wait().unwrap(), "1.5");
}

#[differentiable]
fn larger(
    a: impl Differentiable<Data = f64, Delta = f64>,
    b: &impl Differentiable<Data = f64, Delta = f64>,
) -> Layer<f64> {
    let (x, y) = !(a, b);
    if x > y { a * b } else { a + b }
}

#[test]
fn polymorphic_parameters_take_numbers_weights_and_layers() {
    let (w, x) = (Weight::new(3.0), constant(2.0));
    assert_eq!(value(&larger(3.0, &x)), 6.0);
    assert_eq!(value(&larger(&w, &2.0)), 6.0);
    assert_eq!(value(&larger(x, &w)), 5.0);
}

#[differentiable]
fn joined(x: &Layer<f64>, y: &Layer<f64>) -> Layer<f64> {
    let a = !x;
    let b = !(y * 2.0);
    let k = 3.0;
    let mut c = !(x + y) * k - !y;
    c += !x;
    if !x < !y && a < b { x * a * b * c } else { y - !x }
}

#[test]
fn joined_extractions_give_sequential_result() {
    // a = 2, b = 10, c = 7 · 3 − 5 + 2
    assert_eq!(value(&joined(&constant(2.0), &constant(5.0))), 2.0 * 2.0 * 10.0 * 18.0);
}

#[differentiable]
fn bound(x: &Do<Option<f64>>, y: Layer<f64>) -> Layer<f64> {
    let Some(first) = !x else { return y };
    if let Some(v) = !x
        && v > !y
    {
        y * v * first
    } else {
        y + 1.0
    }
}

#[test]
fn let_else_and_let_chains_bind_extracted_values() {
    assert_eq!(value(&bound(&Do::now(Some(4.0)), constant(2.0))), 32.0);
    assert_eq!(value(&bound(&Do::now(Some(1.0)), constant(2.0))), 3.0);
    assert_eq!(value(&bound(&Do::now(None), constant(2.0))), 2.0);
}

#[differentiable]
fn guarded(x: &Layer<f64>, shared: &Arc<std::sync::Mutex<Vec<Layer<f64>>>>) -> Layer<f64> {
    // The lock guard must be dropped before the extraction is awaited.
    let last = !shared.lock().unwrap().last().unwrap();
    println!("{} {}", !x, !shared.lock().unwrap()[0]);
    x * last
}

#[test]
fn temporaries_of_operand_are_dropped_before_await() {
    let shared = Arc::new(std::sync::Mutex::new(vec![constant(3.0)]));
    assert_eq!(value(&guarded(&constant(2.0), &shared)), 6.0);
}

#[differentiable]
fn counted(w: &Weight<f64>, n: usize) -> Layer<f64> {
    let mut left = n as f64;
    while left > 0.0 {
        left -= !w;
    }
    w * left
}

#[test]
fn loop_of_many_extractions_completes() {
    assert_eq!(value(&counted(&Weight::new(1.0), 100_000)), 0.0);
}

mod renamed {
    pub(super) use dl as deep;
}

#[differentiable(crate = renamed::deep)]
fn elsewhere(x: &Layer<f64>) -> Layer<f64> {
    let sum = x + !x;
    sum * sum
}

type Score = Layer<f64>;

#[differentiable(lazy)]
fn alias(x: Score) -> Score {
    x * !x
}

#[test]
fn options_set_crate_path_and_lazy_return_type() {
    assert_eq!(value(&elsewhere(&constant(2.0))), 16.0);
    assert_eq!(value(&alias(constant(3.0))), 9.0);
}

#[differentiable]
fn generic<T, const N: usize>(xs: &[T; N], scale: impl Fn(f64) -> f64 + Clone + Send + Sync + 'static) -> Layer<f64>
where
    T: Differentiable<Data = f64, Delta = f64> + Clone + Send + Sync + 'static,
{
    let mut sum = Layer::constant(0.0);
    for x in xs {
        let v = !x;
        if v > 0.0 {
            sum = sum + x.layer() * scale(v);
        }
    }
    sum
}

#[test]
fn generic_parameters_are_kept_in_lazy_function() {
    assert_eq!(value(&generic(&[constant(2.0), constant(-1.0)], |v| v + 1.0)), 6.0);
    assert_eq!(value(&generic(&[Weight::new(3.0)], |v| v)), 9.0);
}

#[differentiable]
fn ends_with_return<'a>(x: &'a Layer<f64>, mut n: usize, _unused: u8, _: &'a str) -> Layer<f64> {
    n += 1;
    if !x > 1.0 {
        let y = x * n as f64;
        return y;
    }
    loop {
        n += 1;
        if n > 3 {
            return x * !x;
        }
    }
}

#[differentiable]
fn without_parameters() -> Layer<f64> {
    let v = !(Layer::constant(1.0) + 1.0);
    #[allow(clippy::needless_return, reason = "the test is about it")]
    return Layer::constant(v);
}

#[differentiable]
fn shadowed(x: Layer<f64>, start: f64, value: f64) -> Layer<f64> {
    let kept = !x + start;
    let x = x + kept;
    let tail = {
        let x = &x * 2.0;
        x * !x
    };
    let first = |v: f64| if !v.is_nan() && value > 0.0 { -v } else { v };
    tail + x * first(!x)
}

#[test]
fn returns_and_shadowed_names_keep_their_meaning() {
    assert_eq!(value(&ends_with_return(&constant(2.0), 1, 0, "")), 4.0);
    assert_eq!(value(&ends_with_return(&constant(0.5), 1, 0, "")), 0.25);
    assert_eq!(value(&without_parameters()), 2.0);
    // x = 1 + 3; tail = 8 · 8; first(4) = −4
    assert_eq!(value(&shadowed(constant(1.0), 2.0, 3.0)), 48.0);
}
