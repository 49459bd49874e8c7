use dl::prelude::*;

#[allow(unused_macros)]
macro_rules! twice {
    ($e:expr) => {
        $e * 2.0
    };
}

#[differentiable]
fn doubled(x: &Layer<f64>) -> Layer<f64> {
    x * twice!(!x)
}

fn main() {}
