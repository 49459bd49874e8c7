use dl::prelude::*;

fn product(x: &NdLayer<Ix1>, w: &NdWeight) -> NdLayer {
    x.matmul(w)
}

fn main() {}
