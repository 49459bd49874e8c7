//! Jacobians, Hessians and directional derivatives of tensors.

use dl_core::{Differentiable, Layer, Weight};
use dl_nd::{Nd, Table, ops::*};
use dl_optim::Sgd;
use ndarray::{Ix1, Ix2, IxDyn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn value<T: dl_core::Data>(layer: &Layer<T>) -> T {
    layer.predict().wait().unwrap_or_else(|error| panic!("{error}"))
}

/// Rosenbrock's function of neighbours, `Σ (1 − xᵢ)² + 100 (xᵢ₊₁ − xᵢ²)²`.
fn rosenbrock(x: &Layer<Nd<f64, Ix1>>) -> Layer<f64> {
    let (a, b) = (x.slice_axis(0, ..-1), x.slice_axis(0, 1..));
    ((1.0 - &a).square() + 100.0 * (b - a.square()).square()).sum()
}

#[test]
fn hessian_of_rosenbrock_matches_closed_form() {
    for point in [vec![-1.2, 1.0], vec![1.0, 1.0], vec![0.3, -0.7, 1.9], vec![2.5, 4.0, -3.0, 0.1]] {
        let n = point.len();
        let x = Weight::new(point.iter().copied().collect::<Nd<f64, Ix1>>());
        let y = rosenbrock(&x.layer());
        let hessian: Nd<f64, Ix2> = value(&y.hessian(&x));
        assert_eq!(hessian.shape(), [n, n]);
        for ((i, j), &ours) in hessian.view().indexed_iter() {
            let own = if i + 1 < n { 2.0 - 400.0 * (point[i + 1] - 3.0 * point[i] * point[i]) } else { 0.0 };
            let exact = match i.abs_diff(j) {
                0 => own + if i > 0 { 200.0 } else { 0.0 },
                1 => -400.0 * point[i.min(j)],
                _ => 0.0,
            };
            assert!((ours - exact).abs() <= 1e-12 * exact.abs().max(1.0), "{i}, {j}: {ours} should be {exact}");
        }
    }
}

#[test]
fn jacobian_of_wide_and_tall_maps_matches_gradients() {
    // y = tanh(A x) with a wide and a tall A: one Jacobian is computed by rows, one by columns
    for (rows, columns) in [(2, 5), (5, 2), (3, 3), (1, 4), (4, 1)] {
        let a = Nd::from(ndarray::Array2::from_shape_fn((rows, columns), |(i, j)| ((3 * i + 5 * j) as f64).sin()));
        let x = Weight::new((0..columns).map(|j| 0.3 * j as f64 - 0.5).collect::<Nd<f64, Ix1>>());
        let y = a.matmul(&x).tanh();
        let jacobian = value(&y.jacobian(&x));
        let slopes = value(&(1.0 - y.square()));
        for ((i, j), &ours) in jacobian.view().indexed_iter() {
            let exact = slopes.view()[i] * a.view()[[i, j]];
            assert!((ours - exact).abs() <= 1e-14, "{i}, {j}: {ours} should be {exact}");
        }
    }
}

#[test]
fn jacobian_shape_is_output_shape_then_input_shape() {
    let x = Weight::new(Nd::from([[1.0_f64, 2.0, 3.0], [4.0, 5.0, 6.0]]));
    let jacobian = value(&x.t().jacobian(&x));
    assert_eq!(jacobian.shape(), [3, 2, 2, 3]);
    for ((i, j, k, l), &d) in jacobian.view().indexed_iter() {
        assert_eq!(d, f64::from(i == l && j == k));
    }
    // numbers on either side
    let w = Weight::new(2.0_f64);
    assert_eq!(value(&(&x * &w.square()).jacobian(&w)), Nd::from([[4.0, 8.0, 12.0], [16.0, 20.0, 24.0]]));
    assert_eq!(value(&x.sum().jacobian(&x)), Nd::from([[1.0; 3]; 2]));
    assert_eq!(value(&w.square().hessian(&w)).shape(), [0_usize; 0]);
    assert_eq!(*value(&w.square().hessian(&w)).view().first().unwrap(), 2.0);
    // dynamic rank
    let open = x.to_dyn();
    let jacobian: Nd<f64, IxDyn> = value(&open.square().jacobian(&x));
    assert_eq!(jacobian.shape(), [2, 3, 2, 3]);
    // tensors without elements
    let empty = Weight::new(Nd::<f64, _>::full([0, 2], 1.0));
    assert_eq!(value(&empty.square().jacobian(&empty)).shape(), [0, 2, 0, 2]);
    assert_eq!(value(&empty.sum().hessian(&empty)).shape(), [0, 2, 0, 2]);
    // a variable that the function does not depend on
    assert_eq!(value(&w.square().hessian(&Weight::new(Nd::from([1.0_f64, 2.0])))), Nd::from([[0.0; 2]; 2]));
}

#[test]
fn loss_of_jacobian_trains() {
    // minimise (d x³/d x)² = 9 x⁴, which has the derivative 36 x³
    let x = Weight::new(Nd::from([1.0_f64, -2.0]));
    let penalty = (&x * &x * &x).jacobian(&x).square().sum();
    penalty.train(&Sgd::new(0.01)).wait().unwrap();
    let expected = [1.0 - 0.36, -2.0 + 0.36 * 8.0];
    for (ours, expected) in x.value().view().iter().zip(expected) {
        assert!((ours - expected).abs() < 1e-12);
    }
}

#[test]
fn jacobian_columns_share_values() {
    let count = Arc::new(AtomicUsize::new(0));
    let x = Weight::new(Nd::from([1.0_f64, 2.0, 3.0]));
    let (inner, counted) = (x.exp(), count.clone());
    let y = Layer::dynamic(move || {
        counted.fetch_add(1, Relaxed);
        let inner = inner.clone();
        async move { Ok(inner) }
    });
    value(&y.jacobian(&x));
    assert_eq!(count.load(Relaxed), 1);
}

#[test]
fn jvp_of_broadcast_has_shape_of_value() {
    let (row, column) = (Weight::new(Nd::from([[1.0_f64, 2.0, 3.0]])), Weight::new(Nd::from([[1.0], [10.0]])));
    let (along_row, along_column) =
        (Layer::constant(Nd::from([[1.0, 0.0, 0.0]])), Layer::constant(Nd::from([[0.0], [1.0]])));
    let sum = &row + &column;
    assert_eq!(value(&sum.jvp(&row, &along_row)), Nd::from([[1.0, 0.0, 0.0]; 2]));
    assert_eq!(value(&sum.jvp(&column, &along_column)), Nd::from([[0.0; 3], [1.0; 3]]));
    let both = sum.jvp(&(&row, &column), &(along_row, along_column));
    assert_eq!(value(&both), Nd::from([[1.0, 0.0, 0.0], [2.0, 1.0, 1.0]]));
    // a broadcast number
    let w = Weight::new(2.0_f64);
    assert_eq!(value(&(&row * &w).jvp(&w, &Layer::constant(1.0))), Nd::from([[1.0, 2.0, 3.0]]));
}

#[test]
fn jvp_with_direction_of_wrong_shape_returns_error() {
    let x = Weight::new(Nd::from([[1.0_f64, 2.0], [3.0, 4.0]]));
    let narrow = Layer::constant(Nd::from([[1.0_f64, 2.0]]));
    let y = x.square();
    let errors = [
        y.jvp(&x, &narrow).predict().wait().unwrap_err(),
        y.vjp(&x, &narrow).predict().wait().unwrap_err(),
        y.sum().hvp(&x, &narrow).predict().wait().unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_shape(), "{error}");
        let text = error.to_string();
        assert!(text.contains("[1, 2]") && text.contains("[2, 2]"), "{text}");
    }
}

#[test]
fn jvp_with_sparse_direction_of_table_matches_dense() {
    let table = Weight::new(Table::from(Nd::from([[1.0_f64, 2.0], [3.0, 4.0], [5.0, 6.0]])));
    let ids = Nd::from([2_usize, 0, 2]);
    let y = table.embedding(&ids).square();
    // the direction is the gradient of another loss: rows 0 and 1
    let direction = table.embedding(Nd::from([0_usize, 1])).sum().gradient(&table);
    let slope = value(&y.jvp(&table, &direction));
    assert_eq!(slope, Nd::from([[0.0, 0.0], [2.0, 4.0], [0.0, 0.0]]));
    let u = Nd::from([[1.0_f64, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let back = y.vjp(&table, &Layer::constant(u.clone()));
    let (forward, reverse) =
        (value(&(u * Layer::constant(slope)).sum()), value(&(back.dense() * direction.dense()).sum()));
    assert_eq!(forward, reverse);
}
