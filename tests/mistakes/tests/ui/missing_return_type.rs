use dl::prelude::*;

#[differentiable]
fn report(x: &Layer<f64>) {
    println!("{}", !x);
}

fn main() {}
