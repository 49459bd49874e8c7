use dl::prelude::*;

fn total(x: &NdLayer, axis: usize) -> NdLayer<Ix1> {
    x.sum_axis(axis)
}

fn main() {}
