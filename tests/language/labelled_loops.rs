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
fn it_compiles_and_runs() {
    // y = 3 … 11 after ten rounds; i runs 0 … 3 anew: 11 is met at i = 1
    assert_eq!(value(&searched(&Layer::constant(1.0), 10.0)), 11.0);
}
