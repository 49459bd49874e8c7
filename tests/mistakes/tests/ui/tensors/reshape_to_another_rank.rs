use dl::prelude::*;

fn flat(x: &NdLayer) -> NdLayer<Ix1> {
    x.reshape([2, 2])
}

fn main() {}
