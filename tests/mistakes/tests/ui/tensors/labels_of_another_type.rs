use dl::prelude::*;

fn loss(logits: &NdLayer, labels: Nd<i64, Ix1>) -> Layer<f32> {
    logits.cross_entropy(labels)
}

fn main() {}
