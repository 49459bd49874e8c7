use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn searched(x: &Layer<f64>, limit: f64) -> Layer<f64> {
    let mut y = x.clone();
    let found = 'outer: loop {
        for i in 0.. {
            if i > 3 {
                continue 'outer;
            }
            y = y + x;
            if !y > limit {
                break 'outer y * i as f64;
            }
        }
    };
    let doubled = 'block: {
        if !found > 20.0 {
            break 'block found * 2.0;
        }
        found
    };
    doubled
}

#[test]
fn labelled_breaks_return_layers() {
    // y grows from 2 to 11 in ten iterations. i restarts at 0 after 3, so y is 11 at i = 1.
    assert_eq!(value(&searched(&Layer::constant(1.0), 10.0)), 11.0);
}
