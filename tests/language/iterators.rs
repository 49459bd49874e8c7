use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

use std::collections::BTreeMap;

#[differentiable]
fn weighted(xs: &BTreeMap<String, Layer<f64>>, order: &[usize]) -> Layer<f64> {
    let mut sum = Layer::constant(0.0);
    for (name, x) in xs {
        sum = sum + x * !x * name.len() as f64;
    }
    for (i, n) in order.iter().enumerate().rev().filter(|(i, _)| !(*i == 1)) {
        sum = sum * *n as f64 + !sum * i as f64;
    }
    for window in order.windows(2).map(|w| w[0] * w[1]).take(!sum as usize) {
        sum = sum + window as f64;
    }
    sum
}

#[test]
fn extractions_in_iterator_loops_run_in_order() {
    let xs = BTreeMap::from([("a".to_owned(), Layer::constant(1.0)), ("bc".to_owned(), Layer::constant(2.0))]);
    // 1 + 8 = 9; · 4 + 9 · 2 = 54; · 2 = 108; + 6 + 12
    assert_eq!(value(&weighted(&xs, &[2, 3, 4])), 126.0);
}
