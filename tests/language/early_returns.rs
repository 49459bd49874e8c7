use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn early(x: &Layer<f64>, mode: u8) -> Layer<f64> {
    let v = match mode {
        0 => return x * 10.0,
        1 if !x > 0.0 => return x * !x,
        2 => {
            let Some(v) = Some(!x).filter(|v| *v > 0.0) else { return -x };
            v
        }
        _ => loop {
            if !x < 100.0 {
                return x + if mode > 3 { return x.clone() } else { !x };
            }
        },
    };
    x * v
}

#[differentiable]
fn never(x: &Layer<f64>) -> Layer<f64> {
    let v = !x;
    panic!("{v}")
}

#[test]
fn early_returns_end_lazy_body() {
    let run = |x, mode| value(&early(&Layer::constant(x), mode));
    assert_eq!((run(2.0, 0), run(3.0, 1), run(-3.0, 2), run(3.0, 2)), (20.0, 9.0, 3.0, 9.0));
    assert_eq!((run(2.0, 3), run(2.0, 4)), (4.0, 2.0));
    assert!(never(&Layer::constant(1.0)).predict().wait().is_err());
}
