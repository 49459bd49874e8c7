use dl::prelude::*;

fn product(x: &NdLayer<Ix1>, w: &NdWeight<Ix3>) -> NdLayer<Ix2> {
    x.matmul(w)
}

fn main() {}
