use dl::prelude::*;

fn total(x: &NdLayer<Ix1>) -> NdLayer<Ix0> {
    x.sum_axis([0, 1])
}

fn main() {}
