use dl::prelude::*;

fn masked(x: &NdLayer<Ix1>) -> NdLayer<Ix1> {
    x * x.greater(0.0)
}

fn main() {}
