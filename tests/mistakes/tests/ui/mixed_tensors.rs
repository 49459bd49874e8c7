use dl::prelude::*;

fn sum(x: &NdLayer<Ix2>, y: &NdLayer<Ix2, f64>) -> NdLayer<Ix2> {
    x + y
}

fn main() {}
