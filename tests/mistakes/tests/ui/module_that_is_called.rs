use dl::nn::Linear;
use dl::prelude::*;

fn layer(linear: &Linear, x: &NdLayer) -> NdLayer {
    linear.forward(x).relu()
}

fn called(linear: &Linear, x: &NdLayer) -> NdLayer {
    linear(x)
}

fn main() {}
