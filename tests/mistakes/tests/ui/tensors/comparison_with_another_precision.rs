use dl::prelude::*;

fn mask(x: &NdLayer<Ix1>) -> Layer<Nd<bool, Ix1>> {
    x.greater(0.5_f64)
}

fn main() {}
