use dl::prelude::*;

fn sign(score: &NdLayer) -> f32 {
    if *score > *score { 1.0 } else { -1.0 }
}

fn main() {}
