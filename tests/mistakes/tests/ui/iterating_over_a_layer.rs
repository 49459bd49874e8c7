use dl::prelude::*;

fn total(xs: &NdLayer<Ix1>) -> Layer<f32> {
    let mut sum = Layer::constant(0.0);
    for x in xs {
        sum = sum + x;
    }
    sum
}

fn main() {}
