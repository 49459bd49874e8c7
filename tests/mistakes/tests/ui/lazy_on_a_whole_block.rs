use dl::prelude::*;

struct Net;

#[differentiable(lazy)]
impl Net {
    fn of(&self, x: &Layer<f64>) -> Layer<f64> {
        x.clone()
    }
}

fn main() {}
