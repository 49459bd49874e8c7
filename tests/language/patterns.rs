use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[derive(Clone)]
struct Point {
    x: Layer<f64>,
    y: (f64, [f64; 2]),
}

#[differentiable]
fn matched(Point { x, y: (a, [b, ..]) }: Point, (mut n, _): (usize, u8), rest: &[f64]) -> Layer<f64> {
    n += 1;
    let Point { x: again, .. } = Point { x: x.clone(), y: (a, [b, b]) };
    match (!x, rest) {
        (v @ 0.0..=1.0, _) => x * v,
        (v, [first, .., last]) if v < !again * 2.0 => again * *first * *last,
        (v, &[only] | &[only, _]) => x * only + v,
        (_, []) => x * n as f64,
        _ => x,
    }
}

#[test]
fn patterns_in_parameters_and_matches_bind() {
    let point = |x| Point { x: Layer::constant(x), y: (1.0, [2.0, 3.0]) };
    assert_eq!(value(&matched(point(0.5), (1, 0), &[])), 0.25);
    assert_eq!(value(&matched(point(3.0), (1, 0), &[2.0, 1.0, 4.0])), 24.0);
    assert_eq!(value(&matched(point(-3.0), (1, 0), &[2.0])), -9.0);
    assert_eq!(value(&matched(point(-3.0), (1, 0), &[])), -6.0);
}
