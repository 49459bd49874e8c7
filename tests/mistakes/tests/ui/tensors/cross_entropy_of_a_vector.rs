use dl::prelude::*;

fn loss(logits: &NdLayer<Ix1>) -> Layer<f32> {
    logits.cross_entropy([0])
}

fn main() {}
