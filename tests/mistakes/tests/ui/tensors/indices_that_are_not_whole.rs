use dl::prelude::*;

fn rows(x: &NdLayer, which: &NdLayer<Ix1>) -> NdLayer {
    x.index_select(0, which)
}

fn main() {}
