use dl::prelude::*;

fn product(x: &NdLayer<Ix1>, w: &NdWeight<Ix0>) -> NdLayer<Ix1> {
    x.matmul(w)
}

fn main() {}
