use dl::prelude::*;

fn picked(x: &NdLayer) -> NdLayer {
    x.gather(1, [0, 1])
}

fn main() {}
