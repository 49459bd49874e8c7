use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn shadowed(x: Layer<f64>) -> Layer<f64> {
    let v = !x;
    let x = x * v;
    let v = !x;
    let x = {
        let x = x + v;
        let v = !x;
        x * v
    };
    for x in [1.0, 2.0] {
        let _unused: f64 = x;
    }
    x + v
}

#[test]
fn shadowed_variables_keep_their_values() {
    // v = 2, x = 4, v = 4, x = 8 · 8
    assert_eq!(value(&shadowed(Layer::constant(2.0))), 68.0);
}

/// A type of the user's, which can be compared.
#[derive(Clone, PartialEq)]
enum Weight {
    Light,
}

/// Comparisons of names that are layers elsewhere, and results that are values by their syntax.
#[differentiable]
fn decided(x: &Layer<f64>, y: dl::Layer<f64>, weight: &Weight, chosen: &Do<Layer<f64>>) -> Layer<f64> {
    if weight == &Weight::Light && [1.0].iter().any(|x| x > &0.5) {
        let x = !x;
        if x > 1.0 && 2.0 <= x {
            return !chosen;
        }
        for y in [0.0, 1.0] {
            if y == x {
                let chosen = !chosen;
                return chosen;
            }
        }
    }
    match !y {
        y if y < 0.0 => Layer::constant(-y),
        _ => y,
    }
}

#[test]
fn comparison_of_shadowing_name_is_of_its_value() {
    let chosen = Do::now(Layer::constant(7.0));
    let decide = |x| value(&decided(&Layer::constant(x), Layer::constant(5.0), &Weight::Light, &chosen));
    assert_eq!([3.0, 1.0, 0.5].map(decide), [7.0, 7.0, 5.0]);
}
