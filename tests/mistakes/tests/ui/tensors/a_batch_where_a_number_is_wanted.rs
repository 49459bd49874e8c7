use dl::prelude::*;

fn loss(x: &NdLayer, w: &NdWeight) -> Layer<f32> {
    x.matmul(w).relu()
}

fn main() {}
