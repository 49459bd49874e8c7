use dl::prelude::*;

fn both(a: &NdLayer<Ix1>, b: &NdLayer<Ix2>) -> NdLayer<Ix2> {
    stack(0, [a, b])
}

fn main() {}
