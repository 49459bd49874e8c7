//! Extractions in places that the analysis could miss: operands of operators, format strings, code
//! under `#[cfg]`, references.

use dl::prelude::*;

/// Extractions in an index that is an operand of an operator.
#[differentiable]
fn chosen(i: &Layer<f64>, x: &Layer<f64>, experts: &[Layer<f64>]) -> Layer<f64> {
    let a = !x;
    let b = experts[!i as usize] * a;
    let sum = b.clone() + experts[!i as usize];
    -experts[!i as usize + 1] * x + sum + b
}

#[test]
fn extraction_inside_index_of_operand_is_rewritten() {
    let experts = [10.0, 100.0].map(Layer::constant);
    let y = chosen(&Layer::constant(0.0), &Layer::constant(2.0), &experts);
    assert_eq!(y.predict().wait().unwrap(), -200.0 + (20.0 + 10.0) + 20.0);
}

fn by_name(name: &str, x: &Layer<f64>) -> Layer<f64> {
    x * name.trim_start_matches('w').parse::<f64>().unwrap()
}

/// A variable that a format string captures is in the use set of the operand.
#[differentiable]
fn captured(x: &Layer<f64>, k: usize) -> Layer<f64> {
    let a = !x;
    let k = k + 1;
    let b = !by_name(&format!("w{k}"), x);
    x * (a + b)
}

/// So is a variable for a width or a precision.
#[differentiable]
fn as_wide_as(x: &Layer<f64>, digits: usize) -> Layer<f64> {
    let a = !x;
    let digits = digits + 1;
    let b = !by_name(&format!("w{:.digits$}", 1.25), x);
    x * (a + b)
}

#[test]
fn operand_with_format_string_is_not_hoisted_over_captured_variable() {
    assert_eq!(as_wide_as(&Layer::constant(2.0), 1).predict().wait().unwrap(), 2.0 * (2.0 + 2.0 * 1.25));
    assert_eq!(captured(&Layer::constant(1.0), 6).predict().wait().unwrap(), 8.0);
    let x = Layer::constant(2.0);
    let y = direct! {
        let text = format!("{loss} {{text}}", loss = !x);
        assert_eq!(text, "2 {text}");
        x.clone()
    };
    assert_eq!(y.predict().wait().unwrap(), 2.0);
}

/// Extractions under `#[cfg]` join no group.
#[differentiable]
fn only_sometimes(x: &Layer<f64>, fails: &Layer<f64>) -> Layer<f64> {
    #[cfg(doc)]
    let probe = !fails;
    let _ = fails;
    let a = !x;
    let b = !(x * 2.0);
    debug_assert!(a < 0.0 || !(x * 3.0) > 0.0);
    x * (a + b)
}

#[test]
fn extraction_compiled_out_does_not_run() {
    let fails = Layer::from(Do::<f64>::fail(dl::Error::invalid("it is run")));
    assert_eq!(only_sometimes(&Layer::constant(2.0), &fails).predict().wait().unwrap(), 12.0);
}

fn report(fails: bool, text: String) -> dl::Result<()> {
    if fails { Err(dl::Error::invalid(text)) } else { Ok(()) }
}

/// No kind of statement under `#[cfg]` joins a group before it. Variables that it uses count as
/// used.
#[differentiable]
fn mostly_compiled_out(x: &Layer<f64>, fails: &Layer<f64>) -> Layer<f64> {
    let y = x * 2.0;
    let v = !x;
    let z = y * v;
    #[cfg(doc)]
    let z = z * 0.0;
    #[cfg(doc)]
    return x * 100.0;
    #[cfg(doc)]
    report(true, v.to_string())?;
    #[cfg(doc)]
    !fails;
    #[cfg(doc)]
    println!("{}", !fails);
    #[cfg(doc)]
    if !fails > 0.0 {
        return y;
    }
    #[cfg(doc)]
    {
        let _ = !fails;
    }
    #[cfg(doc)]
    (y = y * !fails);
    let of = [
        #[cfg(doc)]
        !fails,
        #[cfg(not(doc))]
        !(x + 1.0),
        v,
    ];
    let _ = fails;
    #[cfg(not(doc))]
    report(v < 0.0, format!("{v} is negative"))?;
    z * of[0] + y * of[1]
}

/// Extractions that are compiled in are not hoisted.
#[differentiable]
fn squared_if_positive(x: &Layer<f64>, fails: &Layer<f64>) -> Layer<f64> {
    let v = !x;
    #[cfg(not(doc))]
    if v > 0.0 {
        return x * v;
    }
    #[cfg(not(doc))]
    return x * !fails;
}

#[test]
fn statements_with_cfg_keep_attribute_and_order() {
    let fails = Layer::from(Do::<f64>::fail(dl::Error::invalid("it is run")));
    let y = mostly_compiled_out(&Layer::constant(2.0), &fails);
    assert_eq!(y.predict().wait().unwrap(), 4.0 * 2.0 * 3.0 + 4.0 * 2.0);
    assert!(mostly_compiled_out(&Layer::constant(-2.0), &fails).predict().wait().is_err());
    assert_eq!(squared_if_positive(&Layer::constant(3.0), &fails).predict().wait().unwrap(), 9.0);
}

#[differentiable]
fn halved(mut x: impl Differentiable<Data = f64, Delta = f64>, times: usize) -> Layer<f64> {
    for _ in 0..times {
        x = x * 0.5;
    }
    x
}

#[test]
fn polymorphic_parameter_can_be_mutable() {
    assert_eq!(halved(8.0, 3).predict().wait().unwrap(), 1.0);
}

/// Members of an extraction that are references.
#[differentiable]
fn of_references(
    a: &Do<f64>,
    b: &Do<f64>,
    xs: &[Layer<f64>],
    more: &Vec<Layer<f64>>,
    pair: &(Layer<f64>, Layer<f64>),
) -> Do<f64> {
    let (a, b, xs, more, (c, d)) = !(a, b, xs, more, pair);
    let [e, f] = ![a_do(a), a_do(b)];
    Do::now(xs.iter().chain(&more).sum::<f64>() + c + d + e + f)
}

fn a_do(x: f64) -> Do<f64> {
    Do::now(10.0 * x)
}

#[test]
fn extraction_of_references_returns_values() {
    let x = Layer::constant(1.0);
    let sum = of_references(&Do::now(1.0), &Do::now(2.0), &[x.clone(), x.clone()], &vec![x.clone()], &(x.clone(), x));
    assert_eq!(sum.wait().unwrap(), 5.0 + 30.0);
}
