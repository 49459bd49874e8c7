use dl::prelude::*;

fn product(x: Vec<f32>, w: &NdWeight) -> NdLayer<Ix1> {
    x.matmul(w)
}

fn other(w: &NdWeight) -> NdLayer<Ix1> {
    let x = [1.0, 2.0];
    x.matmul(w)
}

fn main() {}
