use dl::prelude::*;

fn chosen(gate: &NdLayer<Ix1>, x: &NdLayer<Ix1>) -> NdLayer<Ix1> {
    where_(gate, x, 0.0)
}

fn main() {}
