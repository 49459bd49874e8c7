use dl::prelude::*;

fn twice(x: impl NdExpression) -> NdLayer {
    x.layer() * 2.0
}

fn call(x: &NdLayer<Ix1>) -> NdLayer {
    twice(x)
}

fn main() {}
