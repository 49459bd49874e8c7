//! Hessian-vector products of a two-layer network against PyTorch's double backward
//! (`tests/reference/hvp.py`).

use dl::prelude::*;
use serde_json::Value;

type Params<W1, B1> = (W1, B1, W1, B1);
type Matrix = Nd<f64, Ix2>;
type Vector = Nd<f64, Ix1>;

fn numbers(of: &Value) -> (Vec<usize>, Vec<f64>) {
    let shape = of["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
    (shape, of["data"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect())
}

fn matrix(of: &Value) -> Matrix {
    let (shape, data) = numbers(of);
    dl::nd::ndarray::Array2::from_shape_vec([shape[0], shape[1]], data).unwrap().into()
}

fn vector(of: &Value) -> Vector {
    dl::nd::ndarray::Array1::from_vec(numbers(of).1).into()
}

fn params(of: &Value) -> Params<Matrix, Vector> {
    (matrix(&of[0]), vector(&of[1]), matrix(&of[2]), vector(&of[3]))
}

fn assert_close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1e-3_f64, |largest, x| largest.max(x.abs()));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-12 * largest, "{what}: {found} should be {expected}");
    }
}

type Derivatives = Params<NdLayer<Ix2, f64>, NdLayer<Ix1, f64>>;

fn check(layers: &Derivatives, expected: &Value, what: &str) {
    let (found, expected) = (Do::predict(layers.clone()).wait().unwrap(), params(expected));
    assert_close(&elements(&found.0), &elements(&expected.0), what);
    assert_close(&elements(&found.1), &elements(&expected.1), what);
    assert_close(&elements(&found.2), &elements(&expected.2), what);
    assert_close(&elements(&found.3), &elements(&expected.3), what);
}

fn elements<D: dl::nd::Rank>(x: &Nd<f64, D>) -> Vec<f64> {
    x.view().iter().copied().collect()
}

#[test]
fn hvp_matches_pytorch() {
    let cases: Value = serde_json::from_str(include_str!("../reference/hvp.json")).unwrap();
    for case in cases.as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let (w1, b1, w2, b2) = params(&case["weights"]);
        let net = (Weight::new(w1), Weight::new(b1), Weight::new(w2), Weight::new(b2));
        let direction = params(&case["direction"]);
        let direction = (
            Layer::constant(direction.0),
            Layer::constant(direction.1),
            Layer::constant(direction.2),
            Layer::constant(direction.3),
        );
        let labels: Vec<usize> =
            case["labels"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
        let before = matrix(&case["x"]).matmul(&net.0) + &net.1;
        let hidden = match name.split(',').next().unwrap() {
            "tanh" => before.tanh(),
            "gelu" => before.gelu(),
            "sigmoid" => before.sigmoid(),
            _ => before.softplus(),
        };
        let output = hidden.matmul(&net.2) + &net.3;
        let loss = if name.ends_with("squares") {
            let one_hot = dl::nd::one_hot::<f64>(labels, 3).unwrap();
            (output - one_hot).square().mean()
        } else {
            output.cross_entropy(labels)
        };
        assert_close(&[loss.predict().wait().unwrap()], &[case["loss"].as_f64().unwrap()], name);
        check(&loss.gradients(&net), &case["gradients"], &format!("{name}: gradients"));
        let hvp = loss.hvp(&net, &direction);
        check(&hvp, &case["hvp"], &format!("{name}: hvp"));
        // the derivative of the product along the same direction
        let along = [
            (&hvp.0 * &direction.0).sum(),
            (&hvp.1 * &direction.1).sum(),
            (&hvp.2 * &direction.2).sum(),
            (&hvp.3 * &direction.3).sum(),
        ];
        let third = along.into_iter().sum::<Layer<f64>>().gradients(&net);
        check(&third, &case["third"], &format!("{name}: third order"));
    }
}
