use dl::prelude::*;

#[differentiable]
fn later(x: &Layer<f64>) -> Do<f64> {
    let x = x.clone();
    Do::from_fn(move || {
        let x = x.clone();
        async move { Ok(!x) }
    })
}

fn main() {}
