use dl::prelude::*;

fn joined(a: &NdLayer, b: &NdLayer) -> NdLayer {
    concat([a, b], 1)
}

fn zeros() -> Nd<f32, Ix1> {
    Nd::zeros([3])
}

fn rows() -> Nd {
    Nd::from(vec![vec![1.0_f32, 2.0], vec![3.0, 4.0]])
}

fn main() {}
