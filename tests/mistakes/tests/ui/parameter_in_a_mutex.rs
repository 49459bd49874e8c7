use dl::nn::Linear;
use dl::prelude::*;
use std::sync::Mutex;

#[differentiable]
fn served(x: &NdLayer, net: &Mutex<Linear>) -> NdLayer {
    let net = net.lock().unwrap();
    let y = net.of(x);
    if !y.amax() > 0.0 { y } else { net.of(y) }
}

fn main() {}
