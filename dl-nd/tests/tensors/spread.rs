//! Variances, standard deviations and norms of rows that are hard for floating point, against exact
//! values. `reference/spread.py` writes the reference.

use dl_core::{Binary, Differentiable, Do, Layer, Pointwise, Weight};
use dl_nd::{Element, Nd, RunningStats, ops::*};
use dl_optim::Sgd;
use ndarray::{Ix1, Ix2, Ix3};
use serde_json::Value;

/// The results must have at most this many errors of the last digit of the largest one.
const ULPS: f64 = 16.0;

fn list(value: &Value) -> Vec<f64> {
    let number = |number: &Value| number.as_str().expect("a text").parse().expect("a number");
    value.as_array().expect("a list").iter().map(number).collect()
}

fn tensor<A: Element>(numbers: &[f64]) -> Nd<A, Ix1> {
    numbers.iter().map(|&x| A::of(x)).collect()
}

/// Subnormal `x` have fewer digits, and so have their deviations.
fn near<A: Element>(found: &[A], right: &[f64], x: &[A]) -> bool {
    let rounded: Vec<A> = right.iter().map(|&x| A::of(x)).collect();
    let largest =
        |x: &[A]| x.iter().filter(|x| x.is_finite()).fold(A::min_positive_value(), |most, x| most.max(x.abs()));
    let digit = match x.iter().fold(A::zero(), |most, x| most.max(x.abs())) {
        most if most > A::zero() => A::epsilon() * (A::min_positive_value() / most).max(A::of(1.0)),
        _ => A::epsilon(),
    };
    let most = A::of(ULPS) * digit * largest(&rounded);
    found.len() == right.len()
        && found.iter().zip(&rounded).all(|(&found, &right)| found == right || (found - right).abs() <= most)
}

/// The value of a reduction of each row, or of a norm, and the gradient of `Σ d · value`.
fn computed<A>(op: &str, number: f64, x: &Weight<Nd<A, Ix1>>, d: &Nd<A, Ix1>) -> [(&'static str, Layer<Nd<A, Ix1>>); 3]
where
    A: Element,
    Layer<Nd<A, Ix1>>: std::ops::Mul<Nd<A, Ix1>, Output = Layer<Nd<A, Ix1>>>,
{
    let (row, correction) = (x.reshape([1, d.len().max(x.value().len())]), number as usize);
    let column = row.t();
    let apart = x.reshape([1, 1, x.value().len()]).permute([2, 1, 0]);
    match op {
        "var" => [
            ("of all", x.var_keepdim(.., correction)),
            ("of a row", row.var_axis(1, correction)),
            ("of a column", apart.var_axis([0, 1], correction)),
        ],
        "std" => [
            ("of all", x.std_keepdim(.., correction)),
            ("of a row", row.std_axis(1, correction)),
            ("of a column", apart.std_axis([0, 1], correction)),
        ],
        "layer_norm" => [
            ("of a vector", x.layer_norm(1, number)),
            ("as a channel", column.batch_norm(number).flatten()),
            ("as a group", row.group_norm(1, number).flatten()),
        ],
        "rms_norm" => [
            ("of a vector", x.rms_norm(1, number)),
            ("of a row", row.rms_norm(1, number).flatten()),
            ("of two axes", apart.rms_norm(3, number).flatten()),
        ],
        _ => unreachable!("an operation of the reference"),
    }
}

macro_rules! check {
    ($A:ident, $digits:literal) => {
        let mut wrong = Vec::new();
        for (line, text) in include_str!("../reference/spread.jsonl").lines().enumerate() {
            let case: Value = serde_json::from_str(text).expect("a line of JSON");
            if case["format"] != $digits {
                continue;
            }
            let (op, number) = (case["op"].as_str().expect("a name"), case["number"].as_f64().expect("a number"));
            let (x, d): (_, Nd<$A, Ix1>) = (Weight::new(tensor::<$A>(&list(&case["x"]))), tensor(&list(&case["d"])));
            for (form, y) in computed(op, number, &x, &d) {
                let slope = (&y * &d).sum().gradient(&x);
                let (y, slope) = Do::predict((y, slope)).wait().expect("it succeeds");
                for (what, found) in [("value", y), ("gradient", slope)] {
                    let found: Vec<$A> = found.view().iter().copied().collect();
                    if !near(&found, &list(&case[what]), x.value().view().as_slice().expect("in order")) {
                        let (found, right) = (&found[..found.len().min(4)], list(&case[what]));
                        let (line, right) = (line + 1, &right[..right.len().min(4)]);
                        wrong.push(format!("line {line}: {op} ({number}) {form}: {what} {found:?}, not {right:?}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} are wrong\n{}", wrong.len(), wrong.join("\n"));
    };
}

#[test]
fn spread_of_hard_rows_in_f32_is_exact_to_rounding() {
    check!(f32, 24);
}

#[test]
fn spread_of_hard_rows_in_f64_is_exact_to_rounding() {
    check!(f64, 53);
}

/// Tensors of this size are computed by fused kernels.
#[test]
fn spread_of_large_tensor_of_equal_numbers_is_zero() {
    let x: Weight<Nd<f32, Ix2>> = Weight::new(Nd::full([300, 64], 1000.1));
    let of_all = (x.var(0), x.std(1), x.std(0).gradient(&x).square().sum());
    assert_eq!(Do::predict(of_all).wait().expect("it succeeds"), (0.0, 0.0, 0.0));
    let normed = [x.layer_norm(1, 1e-12), x.batch_norm(1e-12), x.group_norm(4, 1e-12)];
    for (i, y) in normed.into_iter().enumerate() {
        assert_eq!(y.square().sum().predict().wait().expect("it succeeds"), 0.0, "{i}");
    }
}

#[test]
fn running_variance_of_nearly_equal_numbers_is_exact() {
    let x = Nd::from([[1e8_f32], [1e8 + 8.0], [1e8 + 16.0]]);
    let stats = RunningStats::new(1).momentum(1.0);
    let loss = (Weight::new(x).batch_norm_with(&stats, 0.0)).sum();
    loss.train(&Sgd::new(0.0)).wait().expect("it succeeds");
    // the mean is rounded
    assert!((stats.mean.value()[0] - 1e8 - 8.0).abs() <= 8.0, "{:?}", stats.mean.value());
    assert_eq!(stats.variance.value()[0], 64.0);
}

#[test]
fn mean_of_largest_numbers_does_not_overflow() {
    let x = Weight::new(Nd::<f32, Ix3>::full([2, 3, 4], 3e38));
    assert_eq!(x.mean_axis([0, 2]).predict().wait().expect("it succeeds"), Nd::full(3, 3e38));
    let near = |mean: f32| (mean / 3e38 - 1.0).abs() < 1e-6;
    assert!(near(x.mean().predict().wait().expect("it succeeds")));
    let large: Layer<Nd<f32, Ix1>> = Layer::constant(Nd::full(5000, 1.5e38));
    assert!(near((&large + &large).mean().predict().wait().expect("it succeeds")));
    let (value, _) = Do::predict((&large + &large).mean().value_and_gradient(&large)).wait().expect("it succeeds");
    assert!(near(value));
    let sums = Nd::from([[f32::INFINITY, 1.0], [f32::NAN, 1.0], [3e38, 3e38]]);
    let means = sums.mean_axis(1).predict().wait().expect("it succeeds");
    assert!(means[0] == f32::INFINITY && means[1].is_nan() && near(means[2]), "{means:?}");
}

/// Values and derivatives of rows with deviations that overflow, in units of `unit`, are those of the
/// same rows in units of 1.
fn check_large_deviations<A: Element + Into<f64>>(unit: f64) {
    type Op<A> = fn(&Layer<Nd<A, Ix2>>) -> Layer<Nd<A, Ix2>>;
    // with the power of the unit in the result
    let ops: [(&str, Op<A>, i32); 6] = [
        ("std", |x| x.std_keepdim(1, 1), 1),
        ("std of all", |x| x.std_keepdim(.., 0), 1),
        ("layer_norm", |x| x.layer_norm(1, 0.0), 0),
        ("layer_norm with eps", |x| x.layer_norm(2, 1e-5), 0),
        ("group_norm", |x| x.group_norm(1, 0.0), 0),
        ("batch_norm", |x| x.t().batch_norm(0.0).t(), 0),
    ];
    const ROWS: [[f64; 4]; 2] = [[1.75, -1.75, -1.75, -1.0], [1.5, 0.5, -1.75, 1.0]];
    for ((name, op, power), times) in ops.iter().flat_map(|op| [(op, 1), (op, 1000)]) {
        let tensor = |number: &dyn Fn(usize) -> f64| -> Nd<A, Ix2> {
            let numbers = (0..8 * times).map(|i| A::of(number(i))).collect();
            Nd::from_vec([2 * times, 4], numbers).expect("four elements a row")
        };
        let [large, small] = [unit, 1.0].map(|unit| {
            let x = Weight::new(tensor(&|i| unit * ROWS[i / 4 % 2][i % 4]));
            // small enough that sums of 8,000 products do not overflow
            let along = Layer::constant(tensor(&|i| unit * 2_f64.powi(-16) * (0.25 * (i % 7) as f64 - 0.5)));
            let y = op(&x.layer());
            let weights = Layer::constant(tensor(&|i| 0.5 * (i % 5) as f64 - 0.75));
            let loss = Nd::binary(Binary::Mul, &y, &weights).sum();
            let mut results = vec![(y.clone(), *power), (loss.gradient(&x), power - 1), (y.jvp(&x, &along), *power)];
            if *power == 1 {
                results.push((loss.hvp(&x, &along), 0));
            }
            let in_units = |(layer, power): (Layer<Nd<A, Ix2>>, i32)| -> Vec<f64> {
                let found = layer.predict().wait().expect("it succeeds");
                found.view().iter().map(|&x| x.into() * unit.powi(-power)).collect()
            };
            results.into_iter().map(in_units).collect::<Vec<_>>()
        });
        for (what, (large, small)) in ["value", "gradient", "tangent", "second"].iter().zip(large.iter().zip(&small)) {
            let most = small.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            let wrong = large.iter().zip(small).find(|(a, b)| a.is_nan() || (*a - *b).abs() > 4e-6 * most);
            assert!(wrong.is_none(), "{what} of {name}, {times}: {wrong:?}");
        }
    }
}

#[test]
fn spread_of_deviations_that_overflow_is_right_in_f32() {
    check_large_deviations::<f32>(2_f64.powi(127));
}

#[test]
fn spread_of_deviations_that_overflow_is_right_in_f64() {
    check_large_deviations::<f64>(2_f64.powi(1023));
}

#[test]
fn deviations_that_overflow_do_not_change_other_rows() {
    let rows = [[1.0_f32, 2.0, 4.0, -0.5], [3e38, -3e38, -3e38, 1.0], [0.25, 0.0, -8.0, 1.0]];
    let all = Weight::new(Nd::from(rows));
    type Op = fn(&Weight<Nd<f32, Ix2>>) -> Layer<Nd<f32, Ix2>>;
    let ops: [Op; 3] = [|x| x.layer_norm(1, 0.5), |x| x.std_keepdim(1, 0), |x| x.var_keepdim(1, 1)];
    for op in ops {
        let both = |x: &Weight<Nd<f32, Ix2>>| {
            Do::predict((op(x), op(x).square().sum().gradient(x))).wait().expect("it succeeds")
        };
        let (y, slope) = both(&all);
        assert!(y.view().iter().all(|y| !y.is_nan()), "{y}");
        for at in [0, 2] {
            let (one, slope_of_one) = both(&Weight::new(Nd::from([rows[at]])));
            assert_eq!((y.view().row(at), slope.view().row(at)), (one.view().row(0), slope_of_one.view().row(0)));
        }
    }
}

#[test]
fn running_variance_of_deviations_that_overflow_is_infinite() {
    let stats = RunningStats::new(1).momentum(1.0);
    let x = Weight::new(Nd::from([[3e38_f32], [-3e38], [-3e38]]));
    let y = x.batch_norm_with(&stats, 0.0);
    y.square().sum().train(&Sgd::new(0.0)).wait().expect("it succeeds");
    assert!(stats.variance.value()[0] == f32::INFINITY && (stats.mean.value()[0] / -1e38 - 1.0).abs() < 1e-6);
}
